/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "targets/node/loop.h"

enum { API = 10 };

static const json_t *series(const json_t *loops, const char *name)
{
    return json_object_get(json_object_get(json_array_get(loops, 0), "bins"), name);
}

static uint64_t total(const json_t *array)
{
    uint64_t sum = 0;
    size_t i;
    json_t *value;
    json_array_foreach (array, i, value)
        sum += (uint64_t)json_integer_value(value);
    return sum;
}

static void turns_fill_the_bins_they_lie_in(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED(&feed, stream_io, API, API, MS(10), MS(1), .fd = 5, .generation = 1);
    FEED(&feed, stream_io, API, API, MS(400), MS(300), .fd = 5, .generation = 1);
    feed_finish(&feed);
    json_t *loops = analysis_loops_json(feed.analysis);
    const json_t *active = series(loops, "active_ns");
    assert_int_equal(total(series(loops, "turns_count")), 2);
    assert_int_equal(json_integer_value(json_array_get(active, 1)), MS(100));
    assert_int_equal(json_integer_value(json_array_get(active, 2)), MS(100));
    json_decref(loops);
    feed_done(&feed);
}

/* A damaged trace may hold any time: the last bin ends beyond what 64 bits hold. */
static void a_turn_at_the_end_of_time_ends(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED(&feed, stream_io, API, API, MS(10), MS(1), .fd = 5, .generation = 1);
    FEED(&feed, stream_io, API, API, INT64_MAX - 1, MS(300), .fd = 5, .generation = 1);
    FEED(&feed, stream_io, API, API, UINT64_MAX - 1, INT64_MAX, .fd = 5, .generation = 1);
    feed_finish(&feed);
    json_t *loops = analysis_loops_json(feed.analysis);
    assert_true(total(series(loops, "turns_count")) >= 2);
    json_decref(loops);
    feed_done(&feed);
}

/* What is read from a socket is dealt with inside the poll phase: 300 ms of it are a tick of 300 ms, and two
 * callbacks of one tick belong to that. */
static void the_longest_tick_holds_what_the_poll_phase_ran(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED(&feed, uv_phase, API, API, MS(10), MS(5), .phase = 4, .timeout_ms = 5);
    FEED(&feed, stream_io, API, API, MS(240), MS(200), .fd = 5, .generation = 1);
    FEED(&feed, stream_io, API, API, MS(340), MS(100), .fd = 6, .generation = 1);
    FEED(&feed, uv_phase, API, API, MS(340), MS(320), .phase = 4, .timeout_ms = 400);
    FEED(&feed, stream_io, API, API, MS(600), MS(150), .fd = 5, .generation = 1);
    FEED(&feed, uv_phase, API, API, MS(600), MS(200), .phase = 4, .timeout_ms = 400);
    feed_finish(&feed);
    json_t *loops = analysis_loops_json(feed.analysis);
    const json_t *loop = json_array_get(loops, 0);
    assert_int_equal(json_integer_value(json_object_get(loop, "longest_tick_ns")), MS(300));
    json_decref(loops);
    feed_done(&feed);
}

/* The poll was to end after 5 ms and took 45: a timer was 40 ms late. */
static void polls_tell_ticks_and_late_timers(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED(&feed, uv_phase, API, API, MS(10), MS(5), .phase = 4, .timeout_ms = 5);
    FEED(&feed, uv_phase, API, API, MS(75), MS(45), .phase = 4, .timeout_ms = 5);
    FEED(&feed, uv_phase, API, API, MS(95), MS(1), .phase = 4, .timeout_ms = -1);
    feed_finish(&feed);
    json_t *loops = analysis_loops_json(feed.analysis);
    const json_t *loop = json_array_get(loops, 0);
    assert_int_equal(json_integer_value(json_object_get(loop, "ticks_count")), 3);
    assert_int_equal(json_integer_value(json_object_get(loop, "late_timers_count")), 1);
    assert_int_equal(json_integer_value(json_object_get(loop, "worst_timer_late_ns")), MS(40));
    assert_int_equal(json_integer_value(json_object_get(loop, "longest_tick_ns")), MS(20));
    json_decref(loops);
    feed_done(&feed);
}

/* Two operations at once: one waits 100 ms for a thread, runs for 50 and is taken 250 ms later, the other
 * runs at once; and three callbacks are ready in one poll. */
static void queues_are_told_with_their_lengths(void **state)
{
    enum { POOL = 11 };
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    FEED(&feed, uv_phase, API, API, MS(10), MS(5), .phase = 4);
    FEED(&feed, uv_submit, API, API, MS(10), 0, .request = 1, .fd = -1, .kind = 64);
    FEED(&feed, uv_submit, API, API, MS(10), 0, .request = 2, .fd = -1, .kind = 64);
    FEED(&feed, uv_run, API, POOL, MS(110), MS(100), .request = 1, .kind = 64);
    FEED(&feed, uv_run, API, POOL, MS(160), MS(50), .request = 2, .kind = 64);
    FEED(&feed, uv_done, API, API, MS(410), 0, .request = 1, .kind = 64);
    FEED(&feed, uv_done, API, API, MS(410), 0, .request = 2, .kind = 64);
    FEED(&feed, stream_io, API, API, MS(420), MS(1), .fd = 5, .generation = 1);
    FEED(&feed, uv_phase, API, API, MS(420), MS(400), .phase = 4);
    feed_finish(&feed);
    json_t *loops = analysis_loops_json(feed.analysis);
    const json_t *queues = json_object_get(json_array_get(loops, 0), "queues");
    static const struct {
        const char *name;
        uint64_t value;
    } EXPECTED[] = {{"callbacks_count", 3},       {"ready_most_count", 3},
                    {"pool_most_count", 2},       {"pool_queued_ns", MS(100)},
                    {"pool_running_ns", MS(150)}, {"pool_done_ns", MS(300 + 250)}};
    for (size_t i = 0; i < ARRAY_SIZE(EXPECTED); i++)
        assert_int_equal(json_integer_value(json_object_get(queues, EXPECTED[i].name)), EXPECTED[i].value);
    assert_int_equal(total(series(loops, "pool_queued_ns")), MS(100));
    assert_int_equal(total(series(loops, "pool_done_ns")), MS(550));
    assert_int_equal(json_integer_value(json_array_get(series(loops, "pool_most_count"), 0)), 2);
    assert_int_equal(json_integer_value(json_array_get(series(loops, "ready_most_count"), 4)), 3);
    json_decref(loops);
    feed_done(&feed);
}

/* However long the trace, the bins are as many, and nothing is lost. */
static void bins_double_when_the_trace_grows(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    for (unsigned i = 1; i <= 3600; i++)
        FEED(&feed, stream_io, API, API, MS(1000 * (uint64_t)i), MS(2), .fd = 5, .generation = 1);
    feed_finish(&feed);
    json_t *loops = analysis_loops_json(feed.analysis);
    assert_int_equal(total(series(loops, "turns_count")), 3600);
    assert_int_equal(total(series(loops, "active_ns")), 3600 * MS(2) - MS(2)); /* it began in the first */
    assert_true(json_array_size(series(loops, "turns_count")) <= LOOP_BINS);
    json_decref(loops);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_fill_the_bins_they_lie_in),
        cmocka_unit_test(a_turn_at_the_end_of_time_ends),
        cmocka_unit_test(the_longest_tick_holds_what_the_poll_phase_ran),
        cmocka_unit_test(polls_tell_ticks_and_late_timers),
        cmocka_unit_test(queues_are_told_with_their_lengths),
        cmocka_unit_test(bins_double_when_the_trace_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
