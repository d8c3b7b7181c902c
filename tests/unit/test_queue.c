/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_feed.h"

enum { GET = 1, KEYS = 2, WHO = 5 };

static void command(struct redis_feed *feed, uint64_t client, uint32_t name, uint64_t end_ns,
                    uint64_t took_ns)
{
    REDIS_FEED(feed, redis_command, SERVER, MAIN, end_ns, took_ns, .client_id = client, .name = name,
               .bytes = 10, .argument_count = 2);
}

static void serve(struct redis_feed *feed, uint64_t client, uint64_t at_ns)
{
    command(feed, client, GET, at_ns + US(2), US(1));
    REDIS_FEED(feed, redis_read_query, SERVER, MAIN, at_ns + US(3), US(3), .client_id = client);
}

static void iteration(struct redis_feed *feed, uint64_t start_ns, uint64_t end_ns, int ready)
{
    REDIS_FEED(feed, redis_loop_phase, SERVER, MAIN, end_ns, end_ns - start_ns, .ready = ready, .phase = 2);
}

static void known(struct redis_feed *feed, uint64_t client, uint64_t at_ns)
{
    REDIS_FEED(feed, net_connection, SERVER, MAIN, at_ns, 0, .key = client, .fd = (int)client, .family = 2,
               .peer_high = 0, .peer_low = 0x0000ffff7f000001ull, .peer_port = (uint16_t)(1000 + client));
    REDIS_FEED(feed, redis_write_reply, SERVER, MAIN, at_ns + US(1), US(1), .client_id = client);
}

/* KEYS of client 1 runs from 100 to 200 ms. In its own iteration client 2 comes after it; in the next one 3
 * and 4; 4 had got its last reply at 150 ms. 5 was executed just before and
 * waits for its reply, 6 comes an iteration later. */
static void who_waited(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    redis_feed_name(&feed, GET, "get");
    redis_feed_name(&feed, KEYS, "keys");
    for (uint64_t client = 1; client <= 6; client++)
        known(&feed, client, MS(client));
    serve(&feed, WHO, MS(99));
    REDIS_FEED(&feed, redis_write_reply, SERVER, MAIN, MS(150), US(1), .client_id = 4);
    command(&feed, 1, KEYS, MS(200), MS(100));
    REDIS_FEED(&feed, redis_read_query, SERVER, MAIN, MS(200) + US(1), MS(100) + US(1), .client_id = 1);
    serve(&feed, 2, MS(200) + US(10));
    iteration(&feed, MS(98), MS(200) + US(20), 3);
    serve(&feed, 3, MS(201));
    serve(&feed, 4, MS(202));
    serve(&feed, 3, MS(203)); /* once a client */
    iteration(&feed, MS(201), MS(204), 2);
    serve(&feed, 6, MS(205));
    iteration(&feed, MS(205), MS(206), 1);
    const struct report *report = redis_feed_finish(&feed);
    const struct redis_server *server = redis_feed_server(&feed);
    assert_int_equal(server->queue.slow.count, 1);
    const struct redis_slow *slow = server->queue.slow.at;
    assert_int_equal(slow->waiters, 4);
    assert_int_equal(slow->longest_ns, MS(100));
    assert_int_equal(slow->waited_ns, MS(350));
    assert_int_equal(report->findings.count, 1);
    assert_int_equal(report->findings.at[0]->kind, FINDING_slow_command);
    assert_int_equal(report->findings.at[0]->severity, SEVERITY_WARNING);
    assert_int_equal(finding_get_evidence(report->findings.at[0], "waiting_clients_count")->count, 4);
    assert_non_null(strstr(report->findings.at[0]->title, "KEYS ran for 100"));
    redis_feed_done(&feed);
}

/* A read begins where the one before it ended, and the first where the wait did: whose request is read next
 * has waited to the end of KEYS, for its client's whole read, and no less. */
static void a_read_that_follows_at_once_waited(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    redis_feed_name(&feed, GET, "get");
    redis_feed_name(&feed, KEYS, "keys");
    known(&feed, 1, MS(1));
    known(&feed, 2, MS(2));
    iteration(&feed, MS(3), MS(4), 1); /* which thread the loop's is */
    command(&feed, 1, KEYS, MS(200), MS(100));
    REDIS_FEED(&feed, redis_read_query, SERVER, MAIN, MS(200), MS(102), .client_id = 1);
    command(&feed, 2, GET, MS(200) + US(2), US(1));
    REDIS_FEED(&feed, redis_read_query, SERVER, MAIN, MS(200) + US(2), US(2), .client_id = 2);
    iteration(&feed, MS(98), MS(200) + US(2), 2);
    redis_feed_finish(&feed);
    const struct redis_server *server = redis_feed_server(&feed);
    assert_int_equal(server->queue.slow.at[0].waiters, 1);
    assert_int_equal(server->queue.slow.at[0].waited_ns, MS(100));
    assert_int_equal(server->turn.waits.count, 2);
    assert_int_equal(server->turn.waits.time_ns, MS(102));
    redis_feed_done(&feed);
}

static void nobody_waited(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    redis_feed_name(&feed, KEYS, "keys");
    command(&feed, 1, KEYS, MS(200), MS(100));
    iteration(&feed, MS(98), MS(201), 1);
    const struct report *report = redis_feed_finish(&feed);
    assert_int_equal(report->findings.count, 1);
    assert_int_equal(report->findings.at[0]->severity, SEVERITY_INFO);
    assert_int_equal(redis_feed_server(&feed)->queue.slow.at[0].waiters, 0);
    redis_feed_done(&feed);
}

/* Client 2 is executed at 90 ms in the iteration in which KEYS runs from 100 to 200 ms: its reply goes out
 * after that. 3 blocks, 4 was answered in the iteration before. */
static void whose_reply_waited(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    redis_feed_name(&feed, GET, "get");
    redis_feed_name(&feed, KEYS, "keys");
    for (uint64_t client = 1; client <= 4; client++)
        known(&feed, client, MS(client));
    serve(&feed, 4, MS(80));
    iteration(&feed, MS(80), MS(81), 1);
    REDIS_FEED(&feed, redis_write_reply, SERVER, MAIN, MS(82), US(1), .client_id = 4);
    serve(&feed, 2, MS(90));
    REDIS_FEED(&feed, redis_block, SERVER, MAIN, MS(91), 0, .client_id = 3, .name = GET, .begins = 1);
    command(&feed, 3, GET, MS(91) + US(1), US(2));
    command(&feed, 1, KEYS, MS(200), MS(100));
    iteration(&feed, MS(90), MS(200) + US(20), 3);
    iteration(&feed, MS(201), MS(202), 0);
    redis_feed_finish(&feed);
    const struct redis_slow *slow = redis_feed_server(&feed)->queue.slow.at;
    assert_int_equal(slow->waiters, 1);
    assert_int_equal(slow->longest_ns, MS(100));
    redis_feed_done(&feed);
}

/* The server forks for 20 ms in BGSAVE: that is told, and not that BGSAVE took as long. */
static void a_fork_is_no_slow_command(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    redis_feed_name(&feed, GET, "get");
    redis_feed_name(&feed, KEYS, "bgsave");
    known(&feed, 1, MS(1));
    known(&feed, 2, MS(2));
    REDIS_FEED(&feed, redis_fork, SERVER, MAIN, MS(121), MS(20), .child = 99, .purpose = 1,
               .used_memory = 5000000);
    command(&feed, 1, KEYS, MS(122), MS(22));
    iteration(&feed, MS(99), MS(123), 1);
    serve(&feed, 2, MS(124));
    iteration(&feed, MS(124), MS(125), 1);
    const struct report *report = redis_feed_finish(&feed);
    assert_int_equal(report->findings.count, 1);
    const struct finding *f = report->findings.at[0];
    assert_int_equal(f->kind, FINDING_redis_fork_stall);
    assert_int_equal(finding_get_evidence(f, "waiting_clients_count")->count, 1);
    assert_int_equal(finding_get_evidence(f, "memory_bytes")->count, 5000000);
    redis_feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waited),
        cmocka_unit_test(whose_reply_waited),
        cmocka_unit_test(a_fork_is_no_slow_command),
        cmocka_unit_test(a_read_that_follows_at_once_waited),
        cmocka_unit_test(nobody_waited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
