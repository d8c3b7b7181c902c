/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "targets/node/loop.h"

enum { API = 10, SCAVENGE = 1, MAJOR = 4 };
#define MB(n) ((uint64_t)(n) << 20)

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
}

static void collect(struct feed *feed, uint64_t end_ns, uint64_t took_ns, uint8_t type, uint64_t heap)
{
    FEED(feed, v8_gc, API, API, end_ns, took_ns, .type = type, .heap_before = heap + MB(1),
         .heap_after = heap);
}

/* A callback of took_ns that ends shortly after end_ns. */
static void turn(struct feed *feed, uint64_t end_ns, uint64_t took_ns)
{
    FEED(feed, node_callback, API, API, end_ns + US(1), took_ns + US(2), .async_id = 5);
    FEED(feed, stream_io, API, API, end_ns + US(2), took_ns + US(4), .fd = 5, .generation = 1, .events = 1);
}

static const struct finding *find(const struct report *report, enum finding_kind kind)
{
    array_foreach (&report->findings, f)
        if ((*f)->kind == kind)
            return *f;
    return NULL;
}

/* A major collection every so often that leaves what heap_of() says, and a request between each two. */
static struct report *majors_every(struct feed *feed, unsigned ms, unsigned count,
                                   uint64_t (*heap_of)(unsigned))
{
    start(feed);
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = MS(ms * (i + 1));
        collect(feed, at, MS(5), MAJOR, heap_of(i));
        turn(feed, at, MS(6));
        feed_request(feed, API, 7, "/x", at + MS(ms / 10), at + MS(ms / 10 + 1));
    }
    return feed_finish(feed);
}

static struct report *majors(struct feed *feed, unsigned count, uint64_t (*heap_of)(unsigned))
{
    return majors_every(feed, 1000, count, heap_of);
}

static uint64_t linear(unsigned i)
{
    return MB(10 + 5 * i);
}

static uint64_t filling_up(unsigned i)
{
    return MB(10 + 5 * (i < 4 ? i : 4));
}

static uint64_t doubling(unsigned i)
{
    return MB(30) << (2 * i);
}

static uint64_t sawtooth(unsigned i)
{
    return MB(10 + 20 * (i % 3));
}

static uint64_t small(unsigned i)
{
    return MB(10) + i * 200000;
}

static void growth_is_a_leak(void **state)
{
    struct feed feed;
    const struct finding *f = find(majors(&feed, 12, linear), FINDING_memory_leak_suspected);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "heap_first_bytes")->count,
                     MB(15)); /* the first that requests can have to do with */
    assert_int_equal(finding_get_evidence(f, "heap_last_bytes")->count, MB(65));
    assert_int_equal(finding_get_evidence(f, "tigc_ns")->count, MS(5));
    assert_int_equal(finding_get_evidence(f, "tbgc_ns")->count, MS(995));
    assert_int_equal(f->severity, SEVERITY_WARNING);
    feed_done(&feed);
}

static void two_collections_far_apart_tell_when_the_growth_is_large(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 30; i++) {
        collect(&feed, MS(100 * (i + 1)), MS(5), i % 14 == 13 ? MAJOR : SCAVENGE, MB(5 + 8 * i));
        turn(&feed, MS(100 * (i + 1)), MS(6));
        feed_request(&feed, API, 7, "/x", MS(100 * (i + 1) + 20), MS(100 * (i + 1) + 21));
    }
    assert_non_null(find(feed_finish(&feed), FINDING_memory_leak_suspected));
    feed_done(&feed);
}

/* A program that builds something large collects several times in a row. */
static void growth_within_a_second_is_none(void **state)
{
    struct feed feed;
    assert_null(find(majors_every(&feed, 80, 12, linear), FINDING_memory_leak_suspected));
    feed_done(&feed);
}

/* Three are judged as few, five as many: what would be a leak, were it spread over time, is none in a row. */
static void three_and_five_collections_within_a_second_tell_nothing(void **state)
{
    static const unsigned counts[] = {3, 5};
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct feed feed;
        assert_non_null(find(majors_every(&feed, 3000, counts[i], doubling), FINDING_memory_leak_suspected));
        feed_done(&feed);
        assert_null(
            find(majors_every(&feed, 900 / counts[i], counts[i], doubling), FINDING_memory_leak_suspected));
        feed_done(&feed);
    }
}

static void a_cache_that_fills_up_is_none(void **state)
{
    struct feed feed;
    assert_int_equal(majors(&feed, 12, filling_up)->findings.count, 0);
    feed_done(&feed);
}

static void a_sawtooth_is_none(void **state)
{
    struct feed feed;
    assert_int_equal(majors(&feed, 12, sawtooth)->findings.count, 0);
    feed_done(&feed);
}

static void small_growth_is_none(void **state)
{
    struct feed feed;
    assert_int_equal(majors(&feed, 20, small)->findings.count, 0);
    feed_done(&feed);
}

/* One major collection a second; the process has least memory after each, by then it has garbage. */
static struct report *outside(struct feed *feed, unsigned count, uint64_t (*memory_of)(unsigned))
{
    start(feed);
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = MS(1000 * (i + 1));
        collect(feed, at, MS(5), MAJOR, MB(10));
        turn(feed, at, MS(6));
        FEED(feed, process_memory, 1, 1, at + MS(50), 0, .pid = API, .anonymous_bytes = memory_of(i));
        feed_request(feed, API, 7, "/x", at + MS(100), at + MS(101));
        FEED(feed, process_memory, 1, 1, at + MS(900), 0, .pid = API,
             .anonymous_bytes = memory_of(i) + MB(60));
    }
    return feed_finish(feed);
}

/* A request builds something large, and more of it each time: V8 keeps the pages of a heap that was so large,
 * although a major collection leaves nothing in it. */
static void pages_of_a_heap_that_was_large_are_none(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 6; i++) {
        uint64_t at = MS(1000 * (i + 1)), most = MB(20 + 30 * i);
        FEED(&feed, v8_gc, API, API, at, MS(5), .type = MAJOR, .heap_before = most, .heap_after = MB(14));
        turn(&feed, at, MS(6));
        FEED(&feed, process_memory, 1, 1, at + MS(50), 0, .pid = API,
             .anonymous_bytes = MB(25) + most + most / 2);
        feed_request(&feed, API, 7, "/x", at + MS(100), at + MS(101));
    }
    assert_null(find(feed_finish(&feed), FINDING_memory_leak_suspected));
    feed_done(&feed);
}

static uint64_t buffers_kept(unsigned i)
{
    return MB(60 + 20 * i);
}

static uint64_t buffers_dropped(unsigned i)
{
    return MB(60 + 40 * (i < 2 ? i : 2) + i % 2);
}

static void growth_outside_of_the_heap_is_a_leak(void **state)
{
    struct feed feed;
    const struct finding *f = find(outside(&feed, 8, buffers_kept), FINDING_memory_leak_suspected);
    assert_non_null(f);
    assert_int_equal(finding_get_evidence(f, "memory_first_bytes")->count, MB(80));
    assert_int_equal(finding_get_evidence(f, "memory_last_bytes")->count, MB(200));
    assert_non_null(strstr(f->title, "outside of the heap"));
    feed_done(&feed);
}

static uint64_t warming_up(unsigned i)
{
    return MB(91 + 58 * i);
}

/* The first of these is not read, since no request came before it. */
static void few_collections_say_nothing_of_memory(void **state)
{
    for (unsigned count = 4; count <= 7; count++) {
        struct feed feed;
        const struct finding *f = find(outside(&feed, count, warming_up), FINDING_memory_leak_suspected);
        assert_int_equal(f != NULL, count >= 6);
        feed_done(&feed);
    }
}

static uint64_t levels_off(unsigned i)
{
    return MB(60 + 40 * (i < 7 ? i : 7)) + i * 100000;
}

/* It grew beyond the middle, but no more at the end. */
static void memory_that_has_found_its_size_is_none(void **state)
{
    struct feed feed;
    assert_null(find(outside(&feed, 10, levels_off), FINDING_memory_leak_suspected));
    feed_done(&feed);
}

/* What objects hold outside of the heap: before a collection every two seconds, and least after it. */
struct held {
    uint64_t before, after;
};

/* The first majors of so many collections are major ones. The process' memory is not told. */
static const struct finding *held_outside(struct feed *feed, unsigned majors, unsigned count,
                                          struct held (*held_of)(unsigned))
{
    start(feed);
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = MS(2000 * (i + 1));
        FEED(feed, v8_gc, API, API, at, MS(5), .type = i < majors ? MAJOR : SCAVENGE, .heap_before = MB(11),
             .heap_after = MB(10), .external = held_of(i).before);
        turn(feed, at, MS(6));
        feed_request(feed, API, 7, "/x", at + MS(10), at + MS(11));
        FEED(feed, v8_gc, API, API, at + MS(500), MS(1), .type = SCAVENGE, .heap_before = MB(11),
             .heap_after = MB(10), .external = held_of(i).after);
        turn(feed, at + MS(500), MS(2));
    }
    return find(feed_finish(feed), FINDING_memory_leak_suspected);
}

static struct held all_kept(unsigned i)
{
    return (struct held){MB(9 + 30 * i * i), MB(8 + 30 * i * i)};
}

/* The first collection is not read, since no request came before it. */
static void buffers_that_are_counted_need_three_collections(void **state)
{
    for (unsigned count = 3; count <= 9; count++) {
        struct feed feed;
        const struct finding *f = held_outside(&feed, count, count, all_kept);
        assert_int_equal(f != NULL, count >= 4);
        if (f) {
            assert_int_equal(finding_get_evidence(f, "memory_first_bytes")->count, MB(8 + 30));
            assert_int_equal(finding_get_evidence(f, "memory_last_bytes")->count,
                             MB(8 + 30 * (count - 1) * (count - 1)));
            assert_non_null(strstr(f->title, "outside of the heap (Buffers) grew"));
        }
        feed_done(&feed);
    }
}

/* As many are there at a time as requests are served. */
static struct held load_rises(unsigned i)
{
    return (struct held){MB(8 + 64 * i + 200), MB(8 + 64 * i)};
}

static struct held cache_fills(unsigned i)
{
    return (struct held){MB(8 + 64 * (i < 3 ? i : 3) + 64), MB(8 + 64 * (i < 3 ? i : 3))};
}

static struct held all_dropped(unsigned i)
{
    return (struct held){MB(8 + 64), MB(8 + i)};
}

static struct held large_but_steady(unsigned i)
{
    return (struct held){MB(404 + 40 * i), MB(400 + 40 * i)};
}

static struct held found_a_size(unsigned i)
{
    return (struct held){levels_off(i) + MB(1), levels_off(i)};
}

static void buffers_that_find_an_owner_for_a_while_are_none(void **state)
{
    struct feed feed;
    for (unsigned count = 4; count <= 9; count++) {
        assert_null(held_outside(&feed, count, count + 1, load_rises));
        feed_done(&feed);
        assert_int_equal(held_outside(&feed, count, count + 1, cache_fills) != NULL, count == 4);
        feed_done(&feed);
        assert_null(held_outside(&feed, count, count + 1, all_dropped));
        feed_done(&feed);
    }
    assert_null(held_outside(&feed, 4, 5, large_but_steady));
    feed_done(&feed);
    assert_null(held_outside(&feed, 10, 11, found_a_size));
    feed_done(&feed);
    assert_null(held_outside(&feed, 4, 12, cache_fills)); /* full for longer than it took to fill */
    feed_done(&feed);
}

static uint64_t once(unsigned i)
{
    return MB(4) + i * 100000 + (i == 11 ? MB(20) : 0);
}

static uint64_t found_its_size(unsigned i)
{
    return MB(10 + 10 * (i < 7 ? i : 7)) + i * 100000;
}

static void one_step_is_none(void **state)
{
    struct feed feed;
    assert_int_equal(majors(&feed, 12, once)->findings.count, 0);
    feed_done(&feed);
    assert_int_equal(majors(&feed, 12, found_its_size)->findings.count, 0);
    feed_done(&feed);
}

static void buffers_that_are_dropped_are_none(void **state)
{
    struct feed feed;
    assert_int_equal(outside(&feed, 8, buffers_dropped)->findings.count, 0);
    feed_done(&feed);
}

/* Without a request after it, what was loaded is what is there. */
static void data_that_is_loaded_is_none(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 3; i++) {
        collect(&feed, MS(100 * (i + 1)), MS(5), MAJOR, doubling(i));
        turn(&feed, MS(100 * (i + 1)), MS(6));
    }
    turn(&feed, MS(5000), MS(1));
    assert_int_equal(feed_finish(&feed)->findings.count, 0);
    feed_done(&feed);
}

/* Nor is it with requests that begin when most of it is there. */
static void what_is_loaded_before_requests_is_none(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 6; i++) {
        collect(&feed, MS(100 * (i + 1)), MS(5), MAJOR, i < 4 ? MB(20 + 15 * i) : MB(50 + 5 * i));
        turn(&feed, MS(100 * (i + 1)), MS(6));
        if (i >= 3)
            feed_request(&feed, API, 7, "/x", MS(100 * (i + 1) + 20), MS(100 * (i + 1) + 21));
    }
    assert_null(find(feed_finish(&feed), FINDING_memory_leak_suspected));
    feed_done(&feed);
}

/* A request of 40 ms in one callback, gc_ns of it in a collection. */
static void request_with_collection(struct feed *feed, uint64_t at, uint64_t gc_ns)
{
    FEED_TEXT(feed, "/x");
    FEED(feed, http_request, API, API, at + US(10), 0, .fd = 7, .generation = 1, .method = 1);
    collect(feed, at + MS(1) + gc_ns, gc_ns, SCAVENGE, MB(10));
    FEED(feed, http_response, API, API, at + MS(39), 0, .fd = 7, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 50);
    FEED(feed, stream_write, API, API, at + MS(39), 0, .fd = 7, .generation = 1, .bytes = 150);
    turn(feed, at + MS(40), MS(40));
}

static void collections_that_requests_wait_for_are_pressure(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 20; i++)
        request_with_collection(&feed, MS(100 + 60 * i), MS(30));
    const struct report *report = feed_finish(&feed);
    const struct finding *f = find(report, FINDING_gc_pressure);
    assert_non_null(f);
    assert_int_equal(report->findings.count, 1);
    assert_int_equal(f->affected_count, 20);
    assert_int_equal(f->cost_ns, MS(600));
    assert_int_equal(finding_get_evidence(f, "gc_ns")->count, MS(600));
    feed_done(&feed);
}

static void few_collections_are_none(void **state)
{
    struct feed feed;
    start(&feed);
    for (unsigned i = 0; i < 200; i++)
        request_with_collection(&feed, MS(100 + 60 * i), MS(2));
    assert_int_equal(feed_finish(&feed)->findings.count, 0);
    feed_done(&feed);
}

/* A collection is charged to the operation that it hit. */
static void operations_know_the_collections_in_them(void **state)
{
    struct feed feed;
    start(&feed);
    FEED_TEXT(&feed, "/file");
    FEED(&feed, http_request, API, API, MS(1), 0, .fd = 7, .generation = 1, .method = 1);
    FEED(&feed, uv_submit, API, API, MS(2), 0, .request = 99, .kind = 3);
    FEED(&feed, node_callback, API, API, MS(3), MS(2), .async_id = 4);
    FEED(&feed, stream_io, API, API, MS(3) + 1, MS(2), .fd = 7, .generation = 1, .events = 1);
    FEED(&feed, uv_run, API, API + 1, MS(4), MS(1), .request = 99, .kind = 3);
    collect(&feed, MS(9), MS(4), SCAVENGE, MB(10));
    turn(&feed, MS(9), MS(5));
    FEED(&feed, uv_done, API, API, MS(11), MS(1), .request = 99, .kind = 3);
    feed_finish(&feed);
    const struct vspan *span = feed_span(feed_kept(&feed, "/file"), VSPAN_pool);
    assert_int_equal(span->gc_ns, MS(4));
    feed_done(&feed);
}

static void loops_are_told_over_time(void **state)
{
    struct feed feed;
    majors(&feed, 12, linear);
    json_t *loops = analysis_loops_json(feed.analysis);
    assert_int_equal(json_array_size(loops), 1);
    const json_t *loop = json_array_get(loops, 0), *bins = json_object_get(loop, "bins");
    const json_t *gc = json_object_get(loop, "gc");
    assert_int_equal(json_integer_value(json_object_get(gc, "major_count")), 12);
    assert_int_equal(json_array_size(json_object_get(gc, "majors")), 12);
    json_int_t sum = 0;
    size_t i;
    json_t *value;
    json_array_foreach (json_object_get(bins, "gc_ns"), i, value)
        sum += json_integer_value(value);
    assert_int_equal(sum, 12 * MS(5));
    assert_int_equal(json_array_size(json_object_get(bins, "heap_bytes")),
                     json_array_size(json_object_get(bins, "active_ns")));
    json_decref(loops);
    feed_done(&feed);
}

/* 1,280 promises, of every 128th it is known that three were freed: about 896 are still there. Fewer tell
 * nothing. */
static void promises_are_told_with_how_many_are_left(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, 10, 1, "api", US(1));
    FEED(&feed, v8_gc, 10, 10, MS(10), MS(1), .heap_before = 2000, .heap_after = 1000, .type = 1);
    const struct thread *thread = thread_get(feed.analysis, process_get(feed.analysis, 10), 10);
    json_t *gc = gc_json(thread);
    assert_true(json_is_null(json_object_get(gc, "promises")));
    json_decref(gc);
    static const struct {
        uint32_t created, sampled, collected;
        json_int_t alive;
    } CASES[] = {{500, 3, 0, -1}, {1280, 10, 3, 896}, {1280, 10, 11, -1}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        FEED(&feed, js_promises, 10, 10, MS(11 + i), 0, .created = CASES[i].created,
             .sampled = CASES[i].sampled, .collected = CASES[i].collected);
        gc = gc_json(thread);
        const json_t *promises = json_object_get(gc, "promises"),
                     *alive = json_object_get(promises, "alive_count");
        assert_int_equal(json_integer_value(json_object_get(promises, "created_count")), CASES[i].created);
        assert_int_equal(json_is_integer(alive) ? json_integer_value(alive) : -1, CASES[i].alive);
        json_decref(gc);
    }
    feed_finish(&feed);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_is_a_leak),
        cmocka_unit_test(two_collections_far_apart_tell_when_the_growth_is_large),
        cmocka_unit_test(growth_within_a_second_is_none),
        cmocka_unit_test(three_and_five_collections_within_a_second_tell_nothing),
        cmocka_unit_test(a_cache_that_fills_up_is_none),
        cmocka_unit_test(a_sawtooth_is_none),
        cmocka_unit_test(small_growth_is_none),
        cmocka_unit_test(growth_outside_of_the_heap_is_a_leak),
        cmocka_unit_test(few_collections_say_nothing_of_memory),
        cmocka_unit_test(memory_that_has_found_its_size_is_none),
        cmocka_unit_test(buffers_that_are_counted_need_three_collections),
        cmocka_unit_test(buffers_that_find_an_owner_for_a_while_are_none),
        cmocka_unit_test(pages_of_a_heap_that_was_large_are_none),
        cmocka_unit_test(buffers_that_are_dropped_are_none),
        cmocka_unit_test(one_step_is_none),
        cmocka_unit_test(data_that_is_loaded_is_none),
        cmocka_unit_test(what_is_loaded_before_requests_is_none),
        cmocka_unit_test(collections_that_requests_wait_for_are_pressure),
        cmocka_unit_test(few_collections_are_none),
        cmocka_unit_test(operations_know_the_collections_in_them),
        cmocka_unit_test(loops_are_told_over_time),
        cmocka_unit_test(promises_are_told_with_how_many_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
