/* What a Redis server says of itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/remote.h"

#include <string.h>

#include "test.h"

/* Takes an answer of the protocol. */
static void take(struct redis_remote *remote, enum redis_question question, const char *answer)
{
    struct resp *resp;
    redisReply *reply;
    assert_int_equal(resp_new(&resp), 0);
    assert_int_equal(resp_feed(resp, answer, strlen(answer)), 0);
    assert_int_equal(resp_next(resp, &reply), 1);
    assert_int_equal(redis_remote_take(remote, question, reply), 0);
    freeReplyObject(reply);
    resp_free(resp);
}

static void take_info(struct redis_remote *remote, const char *lines)
{
    char answer[1024];
    snprintf(answer, sizeof(answer), "$%zu\r\n%s\r\n", strlen(lines), lines);
    take(remote, REDIS_ASK_INFO, answer);
}

static void commands_are_counted_between_two_readings(void **state)
{
    struct redis_remote before = {0}, now = {0}, anew = {0};
    take_info(&before,
              "# Server\r\nrun_id:a\r\ncmdstat_get:calls=10,usec=100,usec_per_call=10.00,rejected_calls=1,"
              "failed_calls=0\r\n");
    take_info(
        &now,
        "run_id:a\r\nused_memory:12\r\nempty:\r\nno colon\r\ncmdstat_get:calls=15,usec=160,rejected_calls=2,"
        "failed_calls=1\r\ncmdstat_config|set:calls=1,usec=7\r\n");
    take_info(&anew, "run_id:b\r\ncmdstat_get:calls=15,usec=160\r\n");
    assert_int_equal(redis_remote_number(&now, "used_memory"), 12);
    assert_string_equal(redis_remote_text(&now, "empty"), "");
    assert_int_equal(now.info.count, 3);
    assert_true(redis_remote_subtract(&now, &before));
    assert_false(redis_remote_subtract(&anew, &before));
    assert_int_equal(now.commands.at[0].calls, 5);
    assert_int_equal(now.commands.at[0].time_us, 60);
    assert_int_equal(now.commands.at[0].refused, 1);
    assert_int_equal(now.commands.at[0].failed, 1);
    assert_string_equal(now.commands.at[1].name, "config|set");
    assert_int_equal(now.commands.at[1].calls, 1);
    assert_int_equal(anew.commands.at[0].calls, 15);
    redis_remote_done(&before);
    redis_remote_done(&now);
    redis_remote_done(&anew);
}

static void slow_commands_have_no_arguments(void **state)
{
    struct redis_remote remote = {0};
    take(&remote, REDIS_ASK_SLOWLOG,
         "*3\r\n*6\r\n:3\r\n:1795404494\r\n:125000\r\n*2\r\n$4\r\nkeys\r\n$6\r\nsecret\r\n$9\r\n1.2.3.4:"
         "5\r\n$0\r\n\r\n"
         "*4\r\n:2\r\n:1795404494\r\n:9\r\n*1\r\n$4\r\nPING\r\n*1\r\n:1\r\n");
    assert_int_equal(remote.slow.count, 2);
    assert_string_equal(remote.slow.at[0].command, "KEYS");
    assert_string_equal(remote.slow.at[0].client, "1.2.3.4:5");
    assert_string_equal(remote.slow.at[1].client, "");
    assert_int_equal(remote.slow.at[0].took_us, 125000);
    redis_remote_done(&remote);
}

static void slots_of_nodes_are_counted(void **state)
{
    struct redis_remote remote = {0};
    take(&remote, REDIS_ASK_NODES,
         "$99\r\ne7d1 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-5460 12000 [93-<-77fe] 9-3 x "
         "70000\nshort line\n\r\n");
    assert_int_equal(remote.nodes.count, 1);
    assert_int_equal(remote.nodes.at[0].slots, 5462);
    assert_string_equal(remote.nodes.at[0].flags, "myself,master");
    redis_remote_done(&remote);
}

static void what_is_refused_is_told(void **state)
{
    struct redis_remote before = {0}, now = {0};
    struct report report = {0};
    take_info(&now, "redis_mode:sentinel\r\n");
    take(&now, REDIS_ASK_SLOWLOG, "-NOPERM this user has no permissions\r\n");
    take(&now, REDIS_ASK_LATENCY, "-ERR unknown command\r\n");
    take(&now, REDIS_ASK_NODES, "$-1\r\n");
    assert_int_equal(redis_remote_report(&now, &before, "redis", &report), 0);
    assert_int_equal(report.findings.count, 0);
    assert_int_equal(report.missing.count, 4);
    assert_string_equal(report.missing.at[0].remedy, "ACL SETUSER with +slowlog|get allows it.");
    assert_null(report.missing.at[1].remedy);
    assert_true(redis_remote_is_sentinel(&now));
    report_done(&report);
    redis_remote_done(&now);
}

static void evictions_and_forks_are_found(void **state)
{
    struct redis_remote before = {0}, now = {.at_ns = 2000000000};
    struct report report = {0};
    take_info(&before, "evicted_keys:10\r\n");
    take_info(&now, "evicted_keys:1010\r\nlatest_fork_usec:10000\r\nused_memory:5\r\n");
    assert_int_equal(redis_remote_report(&now, &before, "redis", &report), 0);
    assert_int_equal(report.findings.count, 2);
    assert_string_equal(finding_kinds[report.findings.at[0]->kind].name, "redis-eviction-storm");
    assert_int_equal(finding_get_evidence(report.findings.at[0], "evicted_count")->count, 1000);
    assert_int_equal(finding_get_evidence(report.findings.at[1], "worst_ns")->count, 10000000);
    report_done(&report);
    redis_remote_done(&before);
    redis_remote_done(&now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_counted_between_two_readings),
        cmocka_unit_test(slow_commands_have_no_arguments),
        cmocka_unit_test(slots_of_nodes_are_counted),
        cmocka_unit_test(what_is_refused_is_told),
        cmocka_unit_test(evictions_and_forks_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
