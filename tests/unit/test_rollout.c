/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/rollout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

struct told {
    unsigned firing, resolved, failures; /* failures: how many attempts are to fail */
};

static int tell(void *context, const struct alert *alert)
{
    struct told *told = context;
    if (told->failures) {
        told->failures--;
        return -ECONNREFUSED;
    }
    told->firing += alert->state == ALERT_FIRING;
    told->resolved += alert->state == ALERT_RESOLVED;
    return 0;
}

/* A request of that version, which is a trace of one span. */
static void send_request(struct rollout *rollout, unsigned number, unsigned version, unsigned took_us)
{
    char body[1024];
    unsigned long long start_ns = 1000000000000000000ull + number * 10000000ull;
    snprintf(body, sizeof(body),
             "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
             "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"agent\"}},"
             "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"%u\"}},"
             "{\"key\":\"host.name\",\"value\":{\"stringValue\":\"host%u\"}}]},"
             "\"scopeSpans\":[{\"spans\":[{\"traceId\":\"%032x\",\"spanId\":\"%016x\",\"kind\":2,"
             "\"name\":\"GET /work\",\"startTimeUnixNano\":\"%llu\",\"endTimeUnixNano\":\"%llu\"}]}]}]}",
             version, number / 2 % 4, number + 1, number + 1, start_ns, start_ns + took_us * 1000ull);
    struct http_request request = {.method = "POST",
                                   .path = "/v1/traces",
                                   .content_type = "application/json",
                                   .content_encoding = "",
                                   .authorization = "",
                                   .body = body,
                                   .length = strlen(body)};
    struct http_response response = {.status = 200};
    assert_true(rollout_handle(rollout, &request, &response));
    assert_int_equal(response.status, 200);
    free(response.body);
}

static void send_requests(struct rollout *rollout, unsigned count, unsigned slower_us)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned version = 1 + i % 2;
        send_request(rollout, i, version, 1000 + i * 7919 % 200 + (version == 2 ? slower_us : 0));
    }
}

static struct rollout *start(const struct judge_settings *judge, struct told *told)
{
    const struct rollout_settings settings = {.judge = judge, .idle_ns = 1, .tell = tell, .context = told};
    struct problem problem = {0};
    struct rollout *rollout = NULL;
    assert_int_equal(rollout_new(&settings, &rollout, &problem), 0);
    return rollout;
}

static void compare(struct rollout *rollout)
{
    struct report report = {0};
    assert_int_equal(rollout_compare(rollout, true, &report), 0);
    report_done(&report);
}

static const struct judge_settings JUDGE = {
    .service = "agent", .sequential = true, .regress.false_discovery_rate = 0.01};

/* It is told once, however often it is compared, and again when that failed. */
static void a_slower_version_is_told_once(void **state)
{
    struct told told = {.failures = 1};
    struct rollout *rollout = start(&JUDGE, &told);
    send_requests(rollout, 1000, 1000);
    compare(rollout);
    assert_true(rollout_is_slower(rollout));
    assert_int_equal(told.firing, 0); /* that failed */
    compare(rollout);
    compare(rollout);
    assert_int_equal(told.firing, 1);
    assert_false(rollout_tell(rollout));
    assert_int_equal(rollout_outcome(rollout), OUTCOME_SLOWER);
    rollout_free(rollout);
}

static void an_equal_version_is_not(void **state)
{
    struct told told = {0};
    struct rollout *rollout = start(&JUDGE, &told);
    send_requests(rollout, 1000, 0);
    compare(rollout);
    assert_false(rollout_is_slower(rollout));
    assert_int_equal(told.firing, 0);
    rollout_free(rollout);
}

static void a_journal_that_is_not_there(void **state)
{
    const struct rollout_settings settings = {.judge = &JUDGE, .journal = "/nowhere/at/all", .tell = tell};
    struct problem problem = {0};
    struct rollout *rollout = NULL;
    assert_int_equal(rollout_new(&settings, &rollout, &problem), -ENOENT);
    assert_null(rollout);
    assert_non_null(strstr(problem.what, "/nowhere/at/all"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slower_version_is_told_once),
        cmocka_unit_test(an_equal_version_is_not),
        cmocka_unit_test(a_journal_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
