/* Calls that are none of them slow and take long together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed_services.h"

enum { CLIENT = 30, DATABASE = 8, ASKED = 40, CONTEXT = 5 };

/* Two requests that ask ASKED times, each call of 3 ms. together: all at once, at the beginning. */
static void requests(struct feed *feed, bool together, bool starved)
{
    start(feed);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t at = MS(1000 * (i + 1));
        FEED_TEXT(feed, "/list");
        FEED(feed, http_request, API, API, at, 0, .fd = CLIENT, .generation = 1, .method = 1,
             .context = CONTEXT + i);
        for (uint32_t k = 0; k < (together ? ASKED : 1); k++)
            FEED(feed, stream_write, API, API, at + US(10 + k), 0, .fd = DATABASE, .generation = 1,
                 .bytes = 60, .context = CONTEXT + i);
        end_turn(feed, API, CLIENT, at - US(50), at + US(100));
        for (uint32_t k = 1; k <= ASKED; k++) {
            uint64_t answered = at + MS(3) * k;
            bool last = k == ASKED;
            if (starved)
                FEED(feed, sched_switch, 1, 1, answered - US(100), MS(2) + US(800), .pid = API, .tid = API,
                     .runnable_ns = MS(2) + US(800), .reason = SONDE_off_reason_preempted);
            if (!last && !together)
                FEED(feed, stream_write, API, API, answered + US(10), 0, .fd = DATABASE, .generation = 1,
                     .bytes = 60, .context = CONTEXT + i);
            else if (last)
                answer(feed, API, CLIENT, answered + US(10));
            FEED(feed, node_callback, API, API, answered + US(20), US(15), .async_id = 7);
            FEED(feed, stream_io, API, API, answered + US(30), US(40), .fd = DATABASE, .generation = 1,
                 .events = 1);
        }
    }
    feed_finish(feed);
}

static void one_after_another(void **state)
{
    struct feed feed;
    requests(&feed, false, false);
    const struct finding *f = feed_finding(&feed, FINDING_many_calls);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(finding_get_evidence(f, "endpoint")->text, "GET /list");
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:3306");
    assert_int_equal(finding_get_evidence(f, "requests_count")->count, 2);
    assert_int_equal(finding_get_evidence(f, "calls_count")->count, 2 * ASKED);
    assert_int_equal(finding_get_evidence(f, "most_count")->count, ASKED);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, MS(2 * 3 * ASKED) * 9 / 10,
                    MS(2 * 3 * ASKED));
    feed_done(&feed);
}

static void not_when_sent_at_once_or_without_a_cpu(void **state)
{
    struct feed feed;
    requests(&feed, true, false);
    assert_null(feed_finding(&feed, FINDING_many_calls));
    feed_done(&feed);
    requests(&feed, false, true);
    assert_null(feed_finding(&feed, FINDING_many_calls));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_another),
                                       cmocka_unit_test(not_when_sent_at_once_or_without_a_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
