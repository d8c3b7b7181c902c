/* Chosen functions: spans with what they did in them, promises that are settled later, and why one was not
 * seen. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "targets/node/function.h"

enum { API = 10, OUTER = 1, INNER = 2, CONTEXT = 7 };

static void begin(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_name(feed, API, OUTER, "shop.js:checkout", US(2));
    feed_name(feed, API, INNER, "shop.js:total", US(3));
    feed_connection(feed, API, 7, 1, 0x70, 80, 5000, US(4));
}

/* A request in one callback from 100 to 900 us: checkout from 200 to 600 calls total from 300 to 400 and
 * reads a file synchronously from 450 to 500; it threw when asked to. call: its promise. */
static void request(struct feed *feed, uint32_t call, uint8_t threw)
{
    FEED_TEXT(feed, "/orders");
    FEED(feed, http_request, API, API, US(110), 0, .fd = 7, .generation = 1, .method = 1, .context = CONTEXT);
    FEED(feed, js_function, API, API, US(400), US(100), .name = INNER, .context = CONTEXT);
    FEED(feed, uv_run, API, API, US(500), US(50), .request = 0x99, .kind = 3);
    FEED(feed, js_function, API, API, US(600), US(400), .name = OUTER, .context = CONTEXT, .call = call,
         .threw = threw);
    FEED(feed, node_callback, API, API, US(900), US(800), .async_id = 5);
    FEED(feed, stream_io, API, API, US(910), US(820), .fd = 7, .generation = 1, .events = 1);
}

static void answer(struct feed *feed, uint64_t at_ns)
{
    FEED(feed, http_response, API, API, at_ns, 0, .fd = 7, .generation = 1, .status = 200,
         .content_length = 0, .header_bytes = 80);
    FEED(feed, stream_write, API, API, at_ns + US(1), 0, .bytes = 80, .result = 80, .fd = 7, .generation = 1,
         .context = CONTEXT);
    FEED(feed, node_callback, API, API, at_ns + US(10), US(50), .async_id = 6);
    FEED(feed, stream_io, API, API, at_ns + US(20), US(80), .fd = 7, .generation = 1, .events = 1);
}

static const struct vspan *span_named(const struct request *r, const char *name)
{
    array_foreach (&r->spans, span)
        if (span->name && strcmp(span->name, name) == 0)
            return span;
    fail_msg("no span %s", name);
    return NULL;
}

static const struct request *only_request(struct feed *feed)
{
    size_t count;
    const struct request *const *all = analysis_requests(feed->analysis, &count);
    assert_int_equal(count, 1);
    return all[0];
}

static uint64_t number(const json_t *functions, size_t index, const char *key)
{
    const json_t *value = json_object_get(json_array_get(functions, index), key);
    assert_non_null(value);
    return (uint64_t)json_integer_value(value);
}

static void what_a_call_did_stands_below_it(void **state)
{
    struct feed feed;
    begin(&feed);
    request(&feed, 0, 1);
    answer(&feed, MS(2));
    feed_finish(&feed);
    const struct request *r = only_request(&feed);
    const struct vspan *outer = span_named(r, "shop.js:checkout"), *inner = span_named(r, "shop.js:total");
    assert_int_equal(outer->kind, VSPAN_function);
    assert_int_equal(outer->known, KNOWN_PROVED);
    assert_int_equal(outer->start_ns, US(200));
    assert_int_equal(outer->end_ns, US(600));
    assert_string_equal(outer->detail, "it threw");
    assert_ptr_equal(&r->spans.at[inner->parent], outer);
    assert_ptr_equal(&r->spans.at[span_named(r, "fs_read")->parent], outer);
    json_t *functions = analysis_functions_json(feed.analysis);
    assert_int_equal(json_array_size(functions), 2);
    assert_int_equal(number(functions, 0, "self_ns"), US(100));
    assert_int_equal(number(functions, 1, "count"), 1);
    assert_int_equal(number(functions, 1, "threw_count"), 1);
    assert_int_equal(number(functions, 1, "total_ns"), US(400));
    assert_int_equal(number(functions, 1, "self_ns"), US(300)); /* without total */
    json_decref(functions);
    feed_done(&feed);
}

/* outcome: of the promise, told at 1.5 ms; 255: never. Returns the span of checkout; feed is to be ended. */
static const struct vspan *promised(struct feed *feed, uint8_t outcome)
{
    begin(feed);
    request(feed, 9, 0);
    if (outcome != 255) {
        FEED(feed, js_settled, API, API, US(1500), 0, .call = 9, .outcome = outcome);
        FEED(feed, node_callback, API, API, US(1510), US(50), .async_id = 8);
        FEED(feed, js_settled, API, API, US(1520), 0, .call = 10,
             .outcome = 0); /* of no call that was seen */
        FEED(feed, uv_phase, API, API, US(1530), US(90), .phase = 4);
    }
    answer(feed, MS(2));
    feed_finish(feed);
    return span_named(only_request(feed), "shop.js:checkout");
}

static void a_call_lasts_until_its_promise_is_settled(void **state)
{
    static const struct {
        uint8_t outcome;
        uint64_t end_ns;
        const char *count;
        bool timed;
    } CASES[] = {{0, US(1500), "count", true},
                 {1, US(1500), "rejected_count", true},
                 {2, US(600), "not_awaited_count", false},
                 {255, 0, "pending_count", false}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct feed feed;
        const struct vspan *span = promised(&feed, CASES[i].outcome);
        assert_int_equal(span->end_ns, CASES[i].end_ns);
        assert_int_equal(span->work_end_ns, US(600));
        json_t *functions = analysis_functions_json(feed.analysis);
        assert_int_equal(number(functions, 1, CASES[i].count), 1);
        assert_int_equal(json_object_get(json_array_get(functions, 1), "p50_ns") != NULL, CASES[i].timed);
        if (CASES[i].timed)
            assert_int_equal(number(functions, 1, "total_ns"), US(1300));
        assert_int_equal(number(functions, 1, "self_ns"), US(300));
        json_decref(functions);
        feed_done(&feed);
    }
}

static void chosen(struct feed *feed, uint64_t at_ns, uint8_t kind, const char *text)
{
    FEED_TEXT(feed, text);
    FEED(feed, js_chosen, API, API, at_ns, 0, .places = kind == 0, .state = kind);
}

static void what_was_not_seen_is_told_with_the_reason(void **state)
{
    struct feed feed;
    begin(&feed);
    chosen(&feed, US(10), 1, "chekout\nshop.js:checkout");
    chosen(&feed, US(11), 0, "checkout\nshop.js:checkout");
    chosen(&feed, US(12), 0, "idle\nshop.js:idle");
    chosen(&feed, US(13), 2, "hot\nshop.js:hot");
    chosen(&feed, US(14), 3, "Cart\nshop.js:Cart is a class");
    chosen(&feed, US(15), 1, "checkout\n"); /* a worker has no such module */
    chosen(&feed, US(16), 1, "");           /* damaged: nothing was asked for */
    request(&feed, 0, 0);
    const struct report *report = feed_finish(&feed);
    static const char *const EXPECTED[][2] = {{"the function chekout", "looks like it: shop.js:checkout"},
                                              {"the function idle", "no call came through"},
                                              {"the function hot", "so often"},
                                              {"the function Cart", "shop.js:Cart is a class"}};
    assert_int_equal(report->missing.count, ARRAY_SIZE(EXPECTED));
    for (size_t i = 0; i < ARRAY_SIZE(EXPECTED); i++) {
        assert_string_equal(report->missing.at[i].what, EXPECTED[i][0]);
        assert_non_null(strstr(report->missing.at[i].why, EXPECTED[i][1]));
    }
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_call_did_stands_below_it),
        cmocka_unit_test(a_call_lasts_until_its_promise_is_settled),
        cmocka_unit_test(what_was_not_seen_is_told_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
