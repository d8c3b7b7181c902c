/* What a look saw, in the application's terms: own frames, source maps aside, public names of what they
 * called; and the place that several looks have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, JAVASCRIPT = 2, COLLECTS = 4 };

static unsigned cause_of(const char *stack, unsigned otherwise)
{
    const char *leaf = strrchr(stack, ';');
    return leaf && strcmp(leaf, ";match") == 0    ? SONDE_stall_cause_regexp
           : leaf && strcmp(leaf, ";memcpy") == 0 ? SONDE_stall_cause_native
                                                  : otherwise;
}

static void look(struct feed *feed, uint64_t since, uint64_t at, const char *stack, unsigned cause)
{
    FEED_TEXT(feed, "leaf");
    FEED_TEXT(feed, "/app/leaf.js");
    FEED_TEXT(feed, "");
    FEED_TEXT(feed, stack);
    FEED(feed, stall_sample, 1, 1, at, 0, .since_ns = since, .pid = API, .tid = API, .line = 1, .column = 1,
         .cause = cause_of(stack, cause));
}

/* Stalls of 200 ms in which these stacks were seen, with that cause; encodes_ns: for how long JSON.stringify
 * ran. */
static const struct finding *stall_of(struct feed *feed, const char *const *stacks, size_t count,
                                      unsigned cause, uint64_t encodes_ns)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    for (uint64_t round = 1; round < 3; round++) { /* the first request may be slow once */
        uint64_t at = MS(1000 * round);
        FEED_TEXT(feed, "/x");
        FEED(feed, http_request, API, API, at + US(10), 0, .fd = 7, .generation = 1, .method = 1);
        for (size_t i = 0; i < count; i++)
            look(feed, at + US(20), at + MS(20 * (i + 1)), stacks[i], cause);
        if (encodes_ns)
            FEED(feed, v8_encode, API, API, at + MS(198), encodes_ns, .bytes = 1000000,
                 .what = SONDE_encoding_JSON_stringify);
        FEED(feed, http_response, API, API, at + MS(199), 0, .fd = 7, .generation = 1, .status = 200,
             .header_bytes = 100, .content_length = 50);
        FEED(feed, stream_write, API, API, at + MS(199), 0, .fd = 7, .generation = 1, .bytes = 150);
        FEED(feed, node_callback, API, API, at + MS(200), MS(200) - US(20), .async_id = 9);
        FEED(feed, stream_io, API, API, at + MS(200) + US(10), MS(200), .fd = 7, .generation = 1,
             .events = 1);
        FEED(feed, uv_phase, API, API, at + MS(201), MS(201), .phase = 4);
    }
    feed_finish(feed);
    return feed_finding(feed, FINDING_event_loop_blocked);
}

static const struct finding *stall(struct feed *feed, const char *const *stacks, size_t count)
{
    return stall_of(feed, stacks, count, JAVASCRIPT, 0);
}

#define ROUTER "node::Start;emit (node:events:1:2);handle (/app/node_modules/express/router.js:9:9)"

static void what_was_called_has_its_public_name(void **state)
{
    static const struct {
        const char *inner, *called;
    } CASES[] = {
        {"readFileSync (node:fs:4:5);tryReadSync (node:fs:1:1);uv_fs_read;read", "readFileSync"},
        {"syncBufferWrapper (node:zlib:4:5);zlibBufferSync (node:zlib:1:1);deflate",
         "a synchronous function of zlib (gzipSync, inflateSync, ...)"},
        {"v8::internal::Builtin_JsonStringify;memcpy", "JSON.stringify"},
        {"hrtimeBigInt (node:internal/process/per_thread:91:11);node::process::BindingData::FastBigInt;"
         "uv__hrtime;__vdso_clock_gettime",
         "the clock (process.hrtime, performance.now)"},
        {"get (/app/node_modules/libsql/index.js:1:1);sqlite3_step;pcache1Fetch", "get of libsql"},
        {"all (/app/node_modules/@org/db/a.js:1:1);x", "all of @org/db"},
        {"Statement::JS_get(v8::FunctionCallbackInfo);sqlite3_step", "Statement.get"}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        char stack[512];
        const char *stacks[4] = {stack, stack, stack, stack};
        snprintf(stack, sizeof(stack), ROUTER ";handler (/app/my (old) folder/x.js:12:3);%s", CASES[i].inner);
        struct feed feed;
        const struct finding *f = stall(&feed, stacks, 4);
        assert_non_null(f);
        assert_string_equal(f->where.function, "handler");
        assert_string_equal(f->where.file, "/app/my (old) folder/x.js");
        assert_int_equal(f->where.line, 12);
        assert_string_equal(finding_get_evidence(f, "called")->text, CASES[i].called);
        feed_done(&feed);
    }
}

/* A function of the application's own that all looks are in is the place; several things that one does are
 * its variants. */
static void the_place_is_what_looks_have_in_common(void **state)
{
    static const char *const ONE[] = {ROUTER ";handler (/app/x.js:1:1);work (/app/y.js:7:1)",
                                      ROUTER ";handler (/app/x.js:1:1);work (/app/y.js:8:1)",
                                      ROUTER ";handler (/app/x.js:1:1);work (/app/y.js:8:1);Date.now",
                                      ROUTER ";handler (/app/x.js:2:1)"};
    static const char *const TWO[] = {ROUTER ";handler (/app/x.js:1:1);make (/app/y.js:7:1)",
                                      ROUTER ";handler (/app/x.js:1:1);make (/app/y.js:8:1)",
                                      ROUTER ";handler (/app/x.js:2:1);v8::internal::Builtin_JsonStringify",
                                      ROUTER ";handler (/app/x.js:2:1);v8::internal::Builtin_JsonStringify",
                                      ROUTER ";handler (/app/x.js:2:1);v8::internal::Builtin_JsonStringify"};
    struct feed feed;
    const struct finding *f = stall(&feed, ONE, ARRAY_SIZE(ONE));
    assert_string_equal(f->where.function, "work");
    assert_int_equal(f->where.line, 8);
    feed_done(&feed);
    f = stall(&feed, TWO, ARRAY_SIZE(TWO));
    assert_string_equal(f->where.function, "handler");
    assert_string_equal(f->where.file, "/app/x.js");
    assert_int_equal(f->where.line, 2);
    assert_string_equal(finding_get_evidence(f, "variants")->text, "JSON.stringify 60 %, make 40 %");
    feed_done(&feed);
}

/* Functions on both sides of frames that were left out did not call one another: the outer one is the place,
 * and what it called is said only where it is known. */
static void nothing_is_said_of_what_was_left_out(void **state)
{
#define DEEP ROUTER ";handler (/app/x.js:1:1)"
    static const struct {
        const char *stacks[4], *called, *variants;
    } CASES[] = {
        {{DEEP ";...;get names (/app/node_modules/deep/a.js:1:1);LoadIC",
          DEEP ";...;get names (/app/node_modules/deep/a.js:1:1)",
          DEEP ";...;optimize (/app/node_modules/deep/a.js:2:2)",
          DEEP ";...;v8::internal::Builtin_JsonStringify"},
         NULL,
         NULL},
        {{DEEP ";compile (/app/node_modules/deep/a.js:9:9);...;get names (/app/node_modules/deep/a.js:1:1)",
          DEEP ";compile (/app/node_modules/deep/a.js:9:9);...;LoadIC",
          DEEP ";compile (/app/node_modules/deep/a.js:9:9)", DEEP ";..."},
         "compile of deep",
         "compile of deep 75 %"},
        {{DEEP ";make (/app/y.js:7:1)", DEEP ";...;leaf (/app/y.js:8:1)",
          DEEP ";v8::internal::Builtin_JsonStringify", DEEP ";v8::internal::Builtin_JsonStringify"},
         NULL,
         "JSON.stringify 50 %, make 25 %"}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct feed feed;
        const struct finding *f = stall(&feed, CASES[i].stacks, ARRAY_SIZE(CASES[i].stacks));
        const struct finding_evidence *called = finding_get_evidence(f, "called"),
                                      *variants = finding_get_evidence(f, "variants");
        assert_string_equal(f->where.function, "handler");
        assert_string_equal(called ? called->text : "", CASES[i].called ? CASES[i].called : "");
        assert_string_equal(variants ? variants->text : "", CASES[i].variants ? CASES[i].variants : "");
        feed_done(&feed);
    }
}

/* Looks that saw a regular expression, of which other looks at the same callback saw other things. */
static void short_matches_are_a_part_of_what_a_function_does(void **state)
{
    enum { ALL = 8, OTHERS = 3 };
    for (int matches = ALL / 2; matches <= ALL / 2 + 1; matches++) { /* half, and more than half */
        const char *stacks[ALL];
        for (int i = 0; i < ALL; i++)
            stacks[i] = i < matches       ? ROUTER ";render (/app/x.js:2:1);escape (/app/y.js:7:1);match"
                        : i % OTHERS == 0 ? ROUTER ";render (/app/x.js:2:1)"
                        : i % OTHERS == 1 ? ROUTER ";render (/app/x.js:2:1);row (/app/y.js:3:1)"
                                          : ROUTER ";render (/app/x.js:2:1);memcpy";
        struct feed feed;
        const struct finding *f = stall(&feed, stacks, ALL);
        assert_true((f == NULL) == (matches > ALL / 2));
        assert_true((feed_finding(&feed, FINDING_blocking_regexp) != NULL) == (matches > ALL / 2));
        if (f)
            assert_string_equal(f->where.function, "render");
        feed_done(&feed);
    }
}

/* What a function hands to sort() has no name and is a part of it; what that calls by name is not. */
static void functions_without_a_name_are_part_of_the_one_around(void **state)
{
    static const char *const PART[] = {ROUTER ";sortAll (/app/x.js:6:1);sort;(anonymous) (/app/x.js:6:30)",
                                       ROUTER ";sortAll (/app/x.js:6:1);sort;(anonymous) (/app/x.js:6:30)",
                                       ROUTER ";sortAll (/app/x.js:6:1);sort;(anonymous) (/app/x.js:6:40)",
                                       ROUTER ";sortAll (/app/x.js:5:1)"};
    static const char *const NAMED[] = {
        ROUTER ";list (/app/x.js:1:1);(anonymous) (/app/x.js:2:1);heavy (/app/y.js:9:1)",
        ROUTER ";list (/app/x.js:1:1);(anonymous) (/app/x.js:2:1);heavy (/app/y.js:9:1)",
        ROUTER ";list (/app/x.js:1:1);(anonymous) (/app/x.js:2:1);heavy (/app/y.js:9:1)"};
    struct feed feed;
    const struct finding *f = stall(&feed, PART, ARRAY_SIZE(PART));
    assert_string_equal(f->where.function, "sortAll");
    assert_int_equal(f->where.line, 6);
    assert_int_equal(finding_get_evidence(f, "samples_agree_count")->count, 8);
    feed_done(&feed);
    f = stall(&feed, NAMED, ARRAY_SIZE(NAMED));
    assert_string_equal(f->where.function, "heavy");
    assert_int_equal(f->where.line, 9);
    feed_done(&feed);
}

/* A function without a name that is given to a helper of the application's own is no part of the helper,
 * wherever that is in the file: what it does is written in it. Nor is one that was written elsewhere. */
static void what_a_helper_is_given_is_no_part_of_it(void **state)
{
    static const struct {
        const char *frames;
        uint32_t line;
    } CASES[] = {
        {"(anonymous) (/app/x.js:18:5);send (/app/x.js:13:5);(anonymous) (/app/x.js:20:9)", 20},
        {"page (/app/x.js:18:5);send (/app/x.js:93:5);(anonymous) (/app/x.js:20:9)", 20},
        {"page (/app/x.js:18:5);send (/app/y.js:13:5);(anonymous) (/app/x.js:20:9);map;(anonymous) "
         "(/app/x.js:20:70)",
         20},
        {"page (/app/x.js:18:5);send (/app/x.js:13:5);map;(anonymous) (/app/x.js:13:9);send2 (/app/x.js:9:5)",
         9},
        {"page (/app/x.js:18:5);forEach;(anonymous) (/app/x.js:18:30);map;(anonymous) (/app/x.js:19:2)", 18},
        {"page (/app/x.js:18:5);(anonymous) (/app/x.js:3:5)", 3}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        char stack[512];
        const char *stacks[4] = {stack, stack, stack, stack};
        snprintf(stack, sizeof(stack), ROUTER ";%s;text (/app/node_modules/pdf/pdf.js:1:1)", CASES[i].frames);
        struct feed feed;
        const struct finding *f = stall(&feed, stacks, 4);
        assert_string_equal(f->where.file, "/app/x.js");
        assert_int_equal(f->where.line, CASES[i].line);
        assert_string_equal(finding_get_evidence(f, "called")->text, "text of pdf");
        feed_done(&feed);
    }
}

/* Its account says that it encoded for most of the time, and all samples saw collections: most of them in
 * what was made before, some below the encoding. It is called where the latter saw it. */
static void a_collection_within_an_encoding_shows_its_place(void **state)
{
    static const char *const STACKS[] = {
        ROUTER ";handler (/app/x.js:1:1);make (/app/y.js:7:1);v8::internal::Heap::CollectGarbage",
        ROUTER ";handler (/app/x.js:1:1);make (/app/y.js:7:1);v8::internal::Heap::CollectGarbage",
        ROUTER ";handler (/app/x.js:1:1);make (/app/y.js:7:1);v8::internal::Heap::CollectGarbage",
        ROUTER ";handler (/app/x.js:1:1);make (/app/y.js:7:1);v8::internal::Heap::CollectGarbage",
        ROUTER ";handler (/app/x.js:1:1);make (/app/y.js:7:1);v8::internal::Heap::CollectGarbage",
        ROUTER ";handler (/app/x.js:2:1);v8::internal::Builtin_JsonStringify;v8::internal::Heap::Scavenge",
        ROUTER ";handler (/app/x.js:2:1);v8::internal::Builtin_JsonStringify;v8::internal::Heap::Scavenge"};
    struct feed feed;
    const struct finding *f = stall_of(&feed, STACKS, ARRAY_SIZE(STACKS), COLLECTS, MS(130));
    assert_non_null(f);
    assert_string_equal(finding_get_evidence(f, "called")->text, "JSON.stringify");
    assert_string_equal(f->where.function, "handler");
    assert_int_equal(f->where.line, 2);
    feed_done(&feed);
}

/* Where there is nothing but packages, theirs are the frames. */
static void packages_without_an_application(void **state)
{
    static const char *const STACKS[] = {ROUTER ";spin (/app/node_modules/red/a.js:3:1)",
                                         ROUTER ";spin (/app/node_modules/red/a.js:3:1)",
                                         ROUTER ";spin (/app/node_modules/red/a.js:3:1)"};
    struct feed feed;
    const struct finding *f = stall(&feed, STACKS, ARRAY_SIZE(STACKS));
    assert_string_equal(f->where.function, "spin");
    feed_done(&feed);
}

/* Requests that are served in four callbacks of 20 ms each, and what is seen in these: at first in those of
 * the first one, then in those of the others. */
static const struct finding *pieces(struct feed *feed, unsigned count, const char *first, const char *others)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = MS(1000 * (i + 1));
        FEED_TEXT(feed, "/x");
        FEED(feed, http_request, API, API, at + US(10), 0, .fd = 7, .generation = 1, .method = 1);
        for (unsigned k = 0; k < 4; k++, at += MS(21)) {
            const char *stack = i ? others : first;
            if (stack)
                look(feed, at + US(20), at + MS(10), stack, JAVASCRIPT);
            if (k == 3) {
                FEED(feed, http_response, API, API, at + MS(19), 0, .fd = 7, .generation = 1, .status = 200,
                     .header_bytes = 100, .content_length = 50);
                FEED(feed, stream_write, API, API, at + MS(19), 0, .fd = 7, .generation = 1, .bytes = 150);
            }
            FEED(feed, node_callback, API, API, at + MS(20), MS(20) - US(20), .async_id = 9);
            FEED(feed, stream_io, API, API, at + MS(20) + US(10), MS(20), .fd = 7, .generation = 1,
                 .events = 1);
        }
    }
    feed_finish(feed);
    return feed_finding(feed, FINDING_event_loop_blocked);
}

/* The first request of an endpoint counts when it was seen to do what the others do. */
static void a_first_request_in_short_callbacks_counts_when_it_is_warm(void **state)
{
    static const char GRIND[] = "node::Start;emit (node:events:1:2);grind (/app/a.js:3:1)";
    struct feed feed;
    const struct finding *f = pieces(&feed, 3, GRIND, GRIND);
    assert_non_null(f);
    assert_string_equal(f->where.function, "grind");
    assert_int_equal(f->affected_count, 3);
    feed_done(&feed);
    f = pieces(&feed, 3, NULL, GRIND);
    assert_int_equal(f->affected_count, 2);
    feed_done(&feed);
    f = pieces(&feed, 3, "node::Start;require (node:internal/modules/cjs/loader:1:2);grind (/app/a.js:3:1)",
               GRIND);
    assert_int_equal(f->affected_count, 2);
    feed_done(&feed);
    assert_null(pieces(&feed, 1, GRIND, GRIND));
    feed_done(&feed);
}

/* A request that is served in what an addon's operations call when they end, in no callback of Node's: each
 * begins the next one. */
static const struct finding *operations(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    for (unsigned i = 0; i < 3; i++) {
        uint64_t at = MS(1000 * (i + 1));
        FEED_TEXT(feed, "/x");
        FEED(feed, http_request, API, API, at + US(10), 0, .fd = 7, .generation = 1, .method = 1);
        FEED(feed, uv_submit, API, API, at + US(20), 0, .request = 1, .kind = 3);
        FEED(feed, node_callback, API, API, at + US(30), US(25), .async_id = 9);
        FEED(feed, stream_io, API, API, at + US(40), US(40), .fd = 7, .generation = 1, .events = 1);
        for (unsigned k = 1; k <= 4; k++) {
            at += MS(25);
            if (k < 4)
                FEED(feed, uv_submit, API, API, at + US(20), 0, .request = k + 1, .kind = 3);
            look(feed, at + US(20), at + MS(10), "node::Start;grind (/app/a.js:3:1)", JAVASCRIPT);
            if (k == 4) {
                FEED(feed, http_response, API, API, at + MS(19), 0, .fd = 7, .generation = 1, .status = 200,
                     .header_bytes = 100, .content_length = 50);
                FEED(feed, stream_write, API, API, at + MS(19), 0, .fd = 7, .generation = 1, .bytes = 150);
            }
            FEED(feed, uv_done, API, API, at + MS(20), MS(20), .request = k, .kind = 3);
        }
    }
    feed_finish(feed);
    return feed_finding(feed, FINDING_event_loop_blocked);
}

static void what_operations_call_is_their_requests(void **state)
{
    struct feed feed;
    const struct finding *f = operations(&feed);
    assert_non_null(f);
    assert_string_equal(f->where.function, "grind");
    assert_int_equal(f->affected_count, 3);
    assert_in_range(finding_get_evidence(f, "blocked_ns")->count, MS(3 * 60), MS(3 * 81));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_called_has_its_public_name),
        cmocka_unit_test(the_place_is_what_looks_have_in_common),
        cmocka_unit_test(nothing_is_said_of_what_was_left_out),
        cmocka_unit_test(short_matches_are_a_part_of_what_a_function_does),
        cmocka_unit_test(functions_without_a_name_are_part_of_the_one_around),
        cmocka_unit_test(what_a_helper_is_given_is_no_part_of_it),
        cmocka_unit_test(a_collection_within_an_encoding_shows_its_place),
        cmocka_unit_test(packages_without_an_application),
        cmocka_unit_test(a_first_request_in_short_callbacks_counts_when_it_is_warm),
        cmocka_unit_test(what_operations_call_is_their_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
