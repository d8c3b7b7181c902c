/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_feed.h"

#include "targets/redis/window.h"

enum { GET = 1, SET = 2, CLIENT = 7 };

static void start(struct redis_feed *feed)
{
    redis_feed_init(feed);
    feed->model->options.windows = true;
    redis_feed_name(feed, GET, "get");
    redis_feed_name(feed, SET, "set");
}

static void command(struct redis_feed *feed, uint32_t name, uint64_t end_ns, uint64_t took_ns)
{
    REDIS_FEED(feed, redis_command, SERVER, MAIN, end_ns, took_ns, .client_id = CLIENT, .fd = 9, .name = name,
               .bytes = 10);
}

static void read_query(struct redis_feed *feed, uint64_t client, uint64_t end_ns)
{
    REDIS_FEED(feed, redis_read_query, SERVER, MAIN, end_ns, US(1), .client_id = client,
               .fd = (int32_t)client, .bytes = 30, .wire_bytes = 30);
}

static void iteration(struct redis_feed *feed, uint64_t end_ns, uint64_t took_ns, int32_t ready)
{
    REDIS_FEED(feed, redis_loop_phase, SERVER, MAIN, end_ns, took_ns, .phase = 1, .ready = ready);
}

/* Each window has what came since the one before it, and its own quantiles. */
static void windows_are_differences(void **state)
{
    struct redis_feed feed;
    struct redis_window first, second, third;
    start(&feed);
    iteration(&feed, US(50), US(10), 1); /* the loop's thread is known */
    command(&feed, GET, MS(1), US(10));
    command(&feed, GET, MS(2), US(30));
    command(&feed, SET, MS(3), US(500));
    assert_int_equal(redis_window_take(redis_feed_server(&feed), 0, MS(4), &first), 0);
    command(&feed, GET, MS(5), MS(2));
    read_query(&feed, CLIENT, MS(6));
    assert_int_equal(redis_window_take(redis_feed_server(&feed), MS(4), MS(8), &second), 0);
    assert_int_equal(redis_window_take(redis_feed_server(&feed), MS(8), MS(12), &third), 0);
    assert_int_equal(first.commands.count, 2);
    assert_string_equal(first.commands.at[0].name, "set"); /* most time first */
    assert_int_equal(first.commands.at[1].calls, 2);
    assert_int_equal(first.commands.at[1].worst_ns, US(30));
    assert_int_equal(first.commands.at[1].argument_bytes, 20);
    assert_int_equal(first.counts.commands, 3);
    assert_int_equal(first.counts.iterations, 1);
    assert_int_equal(first.connections, 1);
    assert_int_equal(second.commands.count, 1);
    assert_int_equal(second.commands.at[0].calls, 1);
    assert_int_equal(second.commands.at[0].worst_ns, MS(2));
    assert_true(second.commands.at[0].p50_ns > US(1900)); /* the quick ones before are not in it */
    assert_int_equal(second.counts.in_bytes, 30);
    assert_int_equal(second.counts.iterations, 0);
    assert_int_equal(third.commands.count, 0);
    assert_int_equal(third.counts.commands, 0);
    assert_int_equal(third.connections, 1);
    json_t *object = redis_window_json(&second);
    assert_int_equal(json_integer_value(json_object_get(object, "commands_count")), 1);
    assert_int_equal(json_array_size(json_object_get(object, "commands")), 1);
    json_decref(object);
    redis_window_done(&first);
    redis_window_done(&second);
    redis_window_done(&third);
    redis_feed_done(&feed);
}

/* Requests that were ready at the same time wait for those before them; what is read before the poll, by
 * I/O threads, waits for none of them. */
static void waits_of_one_iteration(void **state)
{
    struct redis_feed feed;
    struct redis_window window;
    start(&feed);
    iteration(&feed, US(50), US(10), 1);
    read_query(&feed, 3, US(80)); /* in what is done before the poll */
    REDIS_FEED(&feed, redis_loop_phase, SERVER, MAIN, US(90), US(20), .phase = 0);
    read_query(&feed, 4, US(101)); /* each takes 1 us: the first began at once */
    read_query(&feed, 5, US(111));
    read_query(&feed, 6, US(131));
    iteration(&feed, US(140), US(40), 3);
    assert_int_equal(redis_window_take(redis_feed_server(&feed), 0, US(200), &window), 0);
    assert_int_equal(window.requests, 3);
    assert_int_equal((uint64_t)window.wait_worst_ns / 1000, 30);
    assert_int_equal((uint64_t)window.ready_most, 3);
    redis_window_done(&window);
    redis_feed_done(&feed);
}

/* Two additions prove nothing when events came too late to be read in order. */
static void missed_events_prove_nothing(void **state)
{
    for (unsigned missed = 0; missed < 2; missed++) {
        struct redis_feed feed;
        start(&feed);
        for (unsigned n = 1; n <= 2; n++)
            REDIS_FEED(&feed, redis_pending_io, SERVER, MAIN, MS(n), 0, .client_id = CLIENT, .fd = 9,
                       .added = 1);
        if (missed)
            redis_model_missed(feed.model, 3);
        const struct report *report = redis_feed_finish(&feed);
        assert_int_equal(report->findings.count, missed ? 0 : 1);
        assert_int_equal(redis_feed_server(&feed)->lost, missed ? 3 : 0);
        redis_feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_differences),
        cmocka_unit_test(waits_of_one_iteration),
        cmocka_unit_test(missed_events_prove_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
