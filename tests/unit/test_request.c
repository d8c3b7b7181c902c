/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

static void routes_fold_identifiers(void **state)
{
    static const struct {
        const char *path, *route;
    } CASES[] = {
        {"/", "/"},
        {"", ""},
        {"/users/42", "/users/:id"},
        {"/users/42/orders/7", "/users/:id/orders/:id"},
        {"/v1/users", "/v1/users"},
        {"/item/123e4567-e89b-12d3-a456-426614174000", "/item/:id"},
        {"/blob/deadbeef00112233", "/blob/:id"},
        {"/deadbeef", "/deadbeef"},
        {"/a//9/", "/a//:id/"},
        {"/session/V1StGXR8Z5jdHi6BmyT9x", "/session/:id"},
        {"/internationalisation-of-things", "/internationalisation-of-things"},
        {"/2024-report", "/2024-report"},
        {"/user/m5umv3qa0ja", "/user/:id"},
        {"/paste/x7_k2-p9QQ4r", "/paste/:id"},
        {"/oauth2callback", "/oauth2callback"},
        {"/h264to265", "/h264to265"},
        {"/s3/base64utf8", "/s3/base64utf8"},
    };
    struct feed feed;
    feed_init(&feed);
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
        assert_string_equal(route_of(feed.analysis, CASES[i].path), CASES[i].route);
    char deep[2000];
    memset(deep, '/', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    assert_true(strlen(route_of(feed.analysis, deep)) < 256);
    feed_done(&feed);
}

/* What might be a name of the program's is somebody's beside identifiers that tell by themselves. */
static void tokens_beside_identifiers(void **state)
{
    static const char *const PATHS[] = {"/add/1001", "/add/1002",       "/add/1003",     "/add/1004",
                                        "/add/1005", "/add/rpzkevc8tn", "/add/settings", "/job/rpzkevc8tn"};
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, 10, 1, "api", US(1));
    for (size_t i = 0; i < ARRAY_SIZE(PATHS); i++)
        feed_request(&feed, 10, 5, PATHS[i], MS(10 * (i + 1)), MS(10 * (i + 1)) + US(100));
    feed_finish(&feed);
    size_t count, ids = 0;
    const struct endpoint *list = analysis_endpoints(feed.analysis, &count);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++)
        ids += strcmp(list[i].route, "/add/:id") == 0 ? list[i].count : 0;
    assert_int_equal(ids, 6);
    feed_done(&feed);
}

static void keeps_the_slowest(void **state)
{
    struct feed feed;
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.keep_slowest = 2;
    options.keep_per_endpoint = 1;
    feed_init_with(&feed, options);
    feed_process(&feed, 10, 1, "api", US(1));
    for (uint64_t i = 1; i <= 30; i++) {
        uint64_t at = MS(10 * i);
        char path[32];
        snprintf(path, sizeof(path), i % 10 == 5 ? "/rare/%d" : "/common/%d", (int)i);
        /* 30, 27, 24, ... are slow in this order: 29 the slowest of them */
        feed_request(&feed, 10, 5, path, at, at + (i % 10 == 5 ? US(100) : US(200 + i * 7 % 31)));
    }
    feed_finish(&feed);
    size_t count;
    const struct request *const *kept = analysis_requests(feed.analysis, &count);
    assert_int_equal(count, 3); /* two of all, one of the rare endpoint; the common one's is among the two */
    assert_true(request_latency_ns(kept[0]) >= request_latency_ns(kept[1]));
    assert_string_equal(kept[0]->path, "/common/22"); /* 22 * 7 % 31 = 30 */
    assert_memory_equal(kept[2]->path, "/rare/", 6);
    feed_done(&feed);
}

static void only_what_is_asked_for(void **state)
{
    for (int by_name = 0; by_name < 2; by_name++) {
        struct feed feed;
        struct analyze_options options = ANALYZE_DEFAULTS;
        if (by_name)
            options.request = "10-2";
        else
            options.path = "/b";
        feed_init_with(&feed, options);
        feed_request(&feed, 10, 5, "/a", MS(1), MS(9));
        feed_request(&feed, 10, 5, "/b", MS(10), MS(11));
        feed_request(&feed, 10, 5, "/c", MS(20), MS(29));
        feed_finish(&feed);
        size_t count;
        const struct request *const *kept = analysis_requests(feed.analysis, &count);
        assert_int_equal(count, 1);
        assert_string_equal(kept[0]->path, "/b");
        assert_string_equal(kept[0]->name, "10-2");
        feed_done(&feed);
    }
}

static void endpoints_have_their_figures(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_process(&feed, 10, 1, "api", US(1));
    for (uint64_t i = 0; i < 100; i++)
        feed_request(&feed, 10, 5, "/users/1", MS(10 + i * 2), MS(10 + i * 2) + US(100 + i));
    FEED_TEXT(&feed, "/users/2");
    FEED(&feed, http_request, 10, 10, MS(900), 0, .fd = 5, .generation = 1, .method = 1);
    FEED(&feed, loss, 1, 1, MS(950), 0, .count = 0);
    feed_finish(&feed);
    size_t count;
    const struct endpoint *e = analysis_endpoints(feed.analysis, &count);
    assert_int_equal(count, 1);
    assert_int_equal(e->count, 100);
    assert_int_equal(e->unfinished, 1);
    assert_int_equal(e->worst_ns, MS(50));
    /* feed_request(): the request is parsed 10 us after start and answered 19 us before the end */
    double p50 = sketch_quantile(&e->latency, 0.5);
    assert_true(p50 > 118e3 && p50 < 122e3);
    feed_done(&feed);
}

/* More spans than are kept are counted. */
static void spans_are_limited(void **state)
{
    struct feed feed;
    feed_init(&feed);
    FEED_TEXT(&feed, "/many");
    FEED(&feed, http_request, 10, 10, MS(1), 0, .fd = 5, .generation = 1, .method = 1);
    for (uint64_t i = 0; i < 3000; i++)
        FEED(&feed, v8_gc, 10, 10, MS(1) + US(10 + i * 2), US(1), .type = 1);
    FEED(&feed, node_callback, 10, 10, MS(20), MS(20) - US(900), .async_id = 3);
    FEED(&feed, stream_io, 10, 10, MS(21), MS(21) - US(890), .fd = 5, .generation = 1, .events = 1);
    feed_finish(&feed);
    const struct request *many = feed_kept(&feed, "/many");
    assert_int_equal(many->spans.count, REQUEST_SPANS_MAX);
    assert_int_equal(many->spans_left_out, 3000 + 2 - REQUEST_SPANS_MAX);
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_fold_identifiers),
        cmocka_unit_test(tokens_beside_identifiers),
        cmocka_unit_test(keeps_the_slowest),
        cmocka_unit_test(only_what_is_asked_for),
        cmocka_unit_test(endpoints_have_their_figures),
        cmocka_unit_test(spans_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
