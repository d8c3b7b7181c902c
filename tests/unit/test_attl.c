/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "model/attl.h"

enum { APP = 10, FS_READ = 3, SCAVENGE = 1 };

static void read_file(struct feed *feed, uint64_t at, uint64_t run_ns, uint64_t attl_ns)
{
    FEED(feed, uv_submit, APP, APP, at, 0, .request = 99, .kind = FS_READ);
    FEED(feed, uv_run, APP, APP + 1, at + US(5) + run_ns, run_ns, .request = 99, .kind = FS_READ);
    FEED(feed, uv_done, APP, APP, at + attl_ns + US(20), US(20), .request = 99, .kind = FS_READ);
}

/* A program without requests has operations, too. */
static void the_distribution_of_each_kind_is_told(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, APP, 1, "app", US(1));
    for (unsigned i = 0; i < 50; i++)
        read_file(&feed, MS(10 * (i + 1)), US(30), US(50));
    FEED(&feed, v8_gc, APP, APP, MS(604), MS(3), .type = SCAVENGE);
    FEED(&feed, v8_gc, APP, APP, MS(704), MS(3), .type = SCAVENGE);
    feed_finish(&feed);
    json_t *operations = analysis_operations_json(feed.analysis);
    assert_int_equal(json_array_size(operations), 1);
    const json_t *read = json_array_get(operations, 0);
    assert_string_equal(json_string_value(json_object_get(read, "name")), "fs_read");
    assert_int_equal(json_integer_value(json_object_get(read, "count")), 50);
    json_int_t middle = json_integer_value(json_object_get(read, "attl_p50_ns"));
    assert_true(middle > 49000 && middle < 51000);
    assert_int_equal(json_integer_value(json_object_get(read, "gc_hits_count")), 0);
    json_decref(operations);
    feed_done(&feed);
}

/* The one that a collection hit stands out: 5 ms against 50 us. */
static void an_unusual_one_stands_out(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, APP, 1, "app", US(1));
    for (unsigned i = 0; i < 50; i++)
        read_file(&feed, MS(10 * (i + 1)), US(30), US(50));
    FEED_TEXT(&feed, "/file");
    FEED(&feed, http_request, APP, APP, MS(700), 0, .fd = 7, .generation = 1, .method = 1);
    FEED(&feed, uv_submit, APP, APP, MS(700) + US(10), 0, .request = 99, .kind = FS_READ);
    FEED(&feed, node_callback, APP, APP, MS(700) + US(90), US(95), .async_id = 4);
    FEED(&feed, stream_io, APP, APP, MS(700) + US(91), US(99), .fd = 7, .generation = 1, .events = 1);
    FEED(&feed, uv_run, APP, APP + 1, MS(700) + US(150), US(30), .request = 99, .kind = FS_READ);
    FEED(&feed, v8_gc, APP, APP, MS(705), MS(4), .type = SCAVENGE);
    FEED(&feed, uv_done, APP, APP, MS(705) + US(100), US(50), .request = 99, .kind = FS_READ);
    feed_finish(&feed);
    const struct vspan *span = feed_span(feed_kept(&feed, "/file"), VSPAN_pool);
    assert_true(span->unusual > 90 && span->unusual < 110);
    assert_int_equal(span->gc_ns, MS(4));
    json_t *operations = analysis_operations_json(feed.analysis);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(operations, 0), "gc_hits_count")), 1);
    json_decref(operations);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distribution_of_each_kind_is_told),
        cmocka_unit_test(an_unusual_one_stands_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
