/* SPDX-License-Identifier: Apache-2.0 */
#include "model/breakdown.h"

#include <math.h>

#include "feed.h"

enum { API = 10, POOL_THREAD = 11, KIND_READ = 3 };

static void start(struct feed *feed)
{
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.breakdown = true;
    feed_init_with(feed, options);
    feed_process(feed, API, 1, "api", US(1));
}

/* GET /file at `at`: a read that waits 2 ms in the queue, runs 5 ms and is noticed 1 ms later; then it is
 * answered: 10 ms in all, of which the callbacks take 1 ms each. */
static void read_file(struct feed *feed, int32_t fd, uint64_t key, uint64_t at)
{
    FEED_TEXT(feed, "/file");
    FEED(feed, http_request, API, API, at, 0, .fd = fd, .generation = 1, .method = 1);
    FEED(feed, node_async_init, API, API, at + US(500), 0, .async_id = 5000 + key);
    FEED(feed, uv_submit, API, API, at + MS(1), 0, .request = key, .kind = KIND_READ, .fd = -1);
    FEED(feed, node_callback, API, API, at + MS(1), MS(1), .async_id = 1000 + (uint64_t)fd);
    FEED(feed, stream_io, API, API, at + MS(1), MS(1), .fd = fd, .generation = 1, .events = 1);
    FEED(feed, uv_run, API, POOL_THREAD, at + MS(8), MS(5), .request = key, .kind = KIND_READ);
    FEED(feed, http_response, API, API, at + MS(10) - US(2), 0, .fd = fd, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 50);
    FEED(feed, stream_write, API, API, at + MS(10), 0, .fd = fd, .generation = 1, .bytes = 150);
    FEED(feed, node_callback, API, API, at + MS(10), MS(1), .async_id = 5000 + key);
    FEED(feed, uv_done, API, API, at + MS(10), MS(1), .request = key, .kind = KIND_READ);
}

static double sum_of(const struct blocks *blocks)
{
    double sum = 0;
    for (size_t i = 0; i < BREAKDOWN_BLOCKS; i++)
        sum += blocks->sum[i];
    return sum;
}

static const struct part *find_part(const struct breakdown_endpoint *e, const char *name)
{
    array_foreach (&e->parts, part)
        if (strcmp(part->name, name) == 0)
            return part;
    fail_msg("no part %s", name);
    return NULL;
}

static void parts_add_up(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 0; i < 20; i++)
        read_file(&feed, 20, i + 1, MS(100 * (i + 1)));
    feed_finish(&feed);
    const struct breakdown *b = analysis_breakdown(feed.analysis);
    assert_int_equal(b->endpoints.count, 1);
    const struct breakdown_endpoint *e = &b->endpoints.at[0];
    assert_string_equal(e->route, "/file");
    assert_int_equal(e->count, 20);
    double parts = 0;
    array_foreach (&e->parts, part)
        parts += sum_of(&part->time_ns);
    assert_true(fabs(parts - sum_of(&e->latency_ns)) < 1);
    assert_true(fabs(sum_of(&e->latency_ns) - 20.0 * MS(10)) < MS(1));
    assert_true(fabs(sum_of(&find_part(e, "fs_read: waits for a pool thread")->time_ns) - 20.0 * MS(2)) < 1);
    assert_true(fabs(sum_of(&find_part(e, "fs_read: at work")->time_ns) - 20.0 * MS(5)) < 1);
    assert_true(
        fabs(sum_of(&find_part(e, "fs_read: done, waits for the event loop")->time_ns) - 20.0 * MS(1)) < 1);
    assert_int_equal(find_part(e, "fs_read: at work")->requests, 20);
    assert_int_equal(b->operations.count, 1);
    assert_string_equal(b->operations.at[0].name, "fs_read");
    assert_int_equal(b->operations.at[0].attl.count, 20);
    feed_done(&feed);
}

/* However long the trace is, there are no more blocks, and nothing of the sums is lost. */
static void blocks_are_put_together(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 0; i < 3000; i++)
        read_file(&feed, 20, i + 1, MS(100 * (i + 1)));
    feed_finish(&feed);
    const struct breakdown *b = analysis_breakdown(feed.analysis);
    const struct breakdown_endpoint *e = &b->endpoints.at[0];
    assert_true(b->halvings > 0);
    assert_true(fabs(sum_of(&e->requests) - 3000) < 0.5);
    double error;
    unsigned blocks;
    double mean = blocks_mean(b, &e->latency_ns, &e->requests, &error, &blocks);
    assert_true(fabs(mean - MS(10)) < US(10));
    assert_true(blocks > BREAKDOWN_BLOCKS / 2 && blocks <= BREAKDOWN_BLOCKS);
    assert_true(error < US(10)); /* they are all alike */
    feed_done(&feed);
}

/* Known answer: four blocks of one request with 1, 2, 3, 4: mean 2.5, standard error sqrt(5/3)/2. */
static void error_of_the_mean(void **state)
{
    struct breakdown b = {.block_ns = 1};
    struct blocks sums = {.sum = {1, 2, 3, 4}}, counts = {.sum = {1, 1, 1, 1}};
    double error;
    unsigned blocks;
    assert_true(fabs(blocks_mean(&b, &sums, &counts, &error, &blocks) - 2.5) < 1e-9);
    assert_int_equal(blocks, 4);
    assert_true(fabs(error - sqrt(5.0 / 3) / 2) < 1e-9);
    struct blocks none = {0};
    assert_true(blocks_mean(&b, &none, &none, &error, &blocks) == 0.0);
    assert_int_equal(blocks, 0);
}

static void nothing_without_the_option(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, API, 1, "api", US(1));
    read_file(&feed, 20, 1, MS(1));
    feed_finish(&feed);
    assert_null(analysis_breakdown(feed.analysis));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(blocks_are_put_together),
        cmocka_unit_test(error_of_the_mean),
        cmocka_unit_test(nothing_without_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
