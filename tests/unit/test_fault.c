/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, REGEXP = 1, JAVASCRIPT = 2, BUILTIN = SONDE_stall_cause_builtin, GC = 4 };

/* A turn on /slow that was looked into: count looks saw that place. */
static void look(struct feed *feed, uint64_t start_ns, uint64_t at, uint8_t cause, const char *function,
                 uint32_t line, const char *detail, const char *stack)
{
    FEED_TEXT(feed, function);
    FEED_TEXT(feed, "/srv/app.js");
    FEED_TEXT(feed, detail);
    FEED_TEXT(feed, stack);
    FEED(feed, stall_sample, 1, 1, at, 0, .since_ns = start_ns + US(1), .pid = API, .tid = API,
         .cause = cause, .line = line, .column = 9);
}

static void turn_begins(struct feed *feed, const char *path, uint64_t start_ns)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, start_ns + US(2), 0, .fd = 40, .generation = 1, .method = 1);
}

static void turn_ends(struct feed *feed, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, http_response, API, API, end_ns - US(9), 0, .fd = 40, .generation = 1, .status = 200,
         .header_bytes = 10);
    FEED(feed, stream_write, API, API, end_ns - US(8), 0, .fd = 40, .generation = 1, .bytes = 10);
    FEED(feed, node_callback, API, API, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = 5);
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = 40, .generation = 1, .events = 1);
    FEED(feed, uv_phase, API, API, end_ns + US(1), end_ns - start_ns + US(2), .phase = 4);
}

static void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_request(feed, API, 40, "/slow", MS(1), MS(2));
}

static void merges_the_same_place(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t at = MS(1000 * (i + 1));
        turn_begins(&feed, "/slow", at);
        for (uint64_t k = 0; k < 4; k++)
            look(&feed, at, at + MS(20 + 10 * k), REGEXP, "validate", 7, "/^(a+)+$/", "x");
        turn_ends(&feed, at, at + MS(100 + 10 * i));
    }
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    const struct finding *f = feed_finding(&feed, FINDING_blocking_regexp);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_int_equal(finding_get_evidence(f, "stalls_count")->count, 3);
    assert_int_equal(finding_get_evidence(f, "blocked_ns")->count, MS(330));
    assert_int_equal(finding_get_evidence(f, "worst_ns")->count, MS(120));
    assert_int_equal(finding_get_evidence(f, "samples_count")->count, 12);
    assert_int_equal(finding_get_evidence(f, "samples_agree_count")->count, 12);
    assert_string_equal(finding_get_evidence(f, "pattern")->text, "/^(a+)+$/");
    assert_string_equal(finding_get_evidence(f, "phase")->text, "poll");
    assert_string_equal(f->where.file, "/srv/app.js");
    assert_int_equal(f->where.line, 7);
    assert_string_equal(f->where.function, "validate");
    assert_int_equal(f->affected_count, 3);
    feed_done(&feed);
}

/* All samples of one stretch may fall into one call of the function that others saw at work itself; of
 * another one there may be none. What the same endpoint calls elsewhere is another fault. */
static void what_a_function_calls_is_part_of_it(void **state)
{
    for (int calls = 0; calls < 2; calls++) {
        struct feed feed;
        start(&feed);
        for (uint64_t i = 0; i < 5; i++) {
            uint64_t at = MS(1000 * (i + 1));
            turn_begins(&feed, "/slow", at);
            for (uint64_t k = 0; k < 4 && i < 4; k++)
                if (i < 3)
                    look(&feed, at, at + MS(20 + 10 * k), JAVASCRIPT, "outer", 3, "",
                         "handler (/srv/app.js:1:1);outer (/srv/app.js:3:9)");
                else
                    look(&feed, at, at + MS(20 + 10 * k), JAVASCRIPT, "inner", 9, "",
                         calls ? "handler (/srv/app.js:1:1);outer (/srv/app.js:4:9);inner (/srv/app.js:9:2)"
                               : "handler (/srv/app.js:1:1);inner (/srv/app.js:9:2)");
            turn_ends(&feed, at, at + MS(100));
        }
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
        assert_string_equal(f->where.function, "outer");
        assert_int_equal(finding_get_evidence(f, "stalls_count")->count, calls ? 5 : 3);
        assert_int_equal(feed.report.findings.count, calls ? 1 : 3);
        feed_done(&feed);
    }
}

/* The same the other way round: the few samples of one stretch have only the outer function in common. Within
 * a package that is the same work; the application's functions are told apart. */
static void what_calls_a_packages_function_is_part_of_it(void **state)
{
    for (int packaged = 0; packaged < 2; packaged++) {
        struct feed feed;
        const char *folder = packaged ? "node_modules/hash" : "app";
        char outer[100], inner[200];
        snprintf(outer, sizeof(outer), "next (/srv/%s/a.js:3:9)", folder);
        snprintf(inner, sizeof(inner), "%s;crypt (/srv/%s/a.js:9:2)", outer, folder);
        start(&feed);
        for (uint64_t i = 0; i < 4; i++) {
            uint64_t at = MS(1000 * (i + 1));
            turn_begins(&feed, "/slow", at);
            for (uint64_t k = 0; k < 4; k++)
                look(&feed, at, at + MS(20 + 10 * k), JAVASCRIPT, "", 3, "", i ? inner : outer);
            turn_ends(&feed, at, at + MS(100));
        }
        feed_finish(&feed);
        assert_int_equal(feed.report.findings.count, packaged ? 1 : 2);
        const struct finding *f = feed.report.findings.at[0];
        assert_string_equal(f->where.function, "crypt");
        assert_int_equal(finding_get_evidence(f, "stalls_count")->count, packaged ? 4 : 3);
        feed_done(&feed);
    }
}

/* Two places are two faults; of a loop's lines, the function is the place. */
static void tells_places_apart(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t at = MS(1000 * (i + 1));
        turn_begins(&feed, "/slow", at);
        for (uint64_t k = 0; k < 6; k++)
            look(&feed, at, at + MS(20 + 10 * k), JAVASCRIPT, i ? "hash" : "sum", (uint32_t)(10 + k % 3), "",
                 "x");
        turn_ends(&feed, at, at + MS(100));
    }
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 2);
    array_foreach (&feed.report.findings, f) {
        assert_int_equal((*f)->kind, FINDING_event_loop_blocked);
        assert_string_equal(finding_get_evidence(*f, "cause")->text, "javascript");
        assert_int_equal(finding_get_evidence(*f, "samples_agree_count")->count, 6);
    }
    feed_done(&feed);
}

/* Samples of native code that saw a leaf each have the function in common, and no leaf was in all of them. */
static void one_leaf_of_many_is_not_the_cause(void **state)
{
    static const char *const LEAVES[] = {"IC::Load", "memcpy", "StringTable::Find", "Map::Get"};
    for (int same = 0; same < 2; same++) {
        struct feed feed;
        start(&feed);
        turn_begins(&feed, "/slow", MS(1000));
        for (uint64_t k = 0; k < 4; k++)
            look(&feed, MS(1000), MS(1020 + 10 * k), SONDE_stall_cause_native, "render", 7,
                 LEAVES[same ? 1 : k], "render (/srv/app.js:7:9)");
        turn_ends(&feed, MS(1000), MS(1100));
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
        assert_string_equal(finding_get_evidence(f, "cause")->text, same ? "native" : "javascript");
        assert_true((finding_get_evidence(f, "called") != NULL) == same);
        assert_int_equal(finding_get_evidence(f, "samples_agree_count")->count, 4);
        feed_done(&feed);
    }
}

/* The thread was ready but had no CPU: information, and no fault of the program. */
static void load_explains(void **state)
{
    struct feed feed;
    start(&feed);
    FEED(&feed, thread_sched, 1, 1, MS(900), 0, .pid = API, .tid = API, .run_ns = 0, .wait_ns = 0);
    turn_begins(&feed, "/slow", MS(1000));
    turn_ends(&feed, MS(1000), MS(1200));
    FEED(&feed, thread_sched, 1, 1, MS(1300), 0, .pid = API, .tid = API, .run_ns = MS(20),
         .wait_ns = MS(180));
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    const struct finding *f = feed.report.findings.at[0];
    assert_int_equal(f->kind, FINDING_run_queue_wait);
    assert_int_equal(f->severity, SEVERITY_INFO);
    assert_true(finding_get_evidence(f, "waited_ns")->count >= MS(178));
    feed_done(&feed);
}

/* Half load, half fault: only the fault's half is charged. */
static void load_is_not_charged(void **state)
{
    struct feed feed;
    start(&feed);
    FEED(&feed, thread_sched, 1, 1, MS(900), 0, .pid = API, .tid = API, .run_ns = 0, .wait_ns = 0);
    turn_begins(&feed, "/slow", MS(1000));
    turn_ends(&feed, MS(1000), MS(1200));
    FEED(&feed, thread_sched, 1, 1, MS(1300), 0, .pid = API, .tid = API, .run_ns = MS(100),
         .wait_ns = MS(100));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_true(f->cost_ns > MS(99) && f->cost_ns < MS(101));
    assert_int_equal(f->severity, SEVERITY_WARNING);
    feed_done(&feed);
}

/* A hypervisor took the CPU away: no counter shows it, but the thread did not run. */
static void stolen_time_is_not_charged(void **state)
{
    struct feed feed;
    start(&feed);
    FEED(&feed, thread_sched, 1, 1, MS(900), 0, .pid = API, .tid = API, .run_ns = 0, .wait_ns = 0);
    turn_begins(&feed, "/slow", MS(1000));
    turn_ends(&feed, MS(1000), MS(1200));
    FEED(&feed, thread_sched, 1, 1, MS(1300), 0, .pid = API, .tid = API, .run_ns = MS(20), .wait_ns = MS(3));
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    assert_int_equal(feed.report.findings.at[0]->severity, SEVERITY_INFO);
    assert_true(feed.report.findings.at[0]->cost_ns >= MS(178));
    feed_done(&feed);

    /* A synchronous call does not run either, but it was seen to wait. */
    start(&feed);
    FEED(&feed, thread_sched, 1, 1, MS(900), 0, .pid = API, .tid = API, .run_ns = 0, .wait_ns = 0);
    turn_begins(&feed, "/slow", MS(1000));
    for (uint64_t k = 0; k < 4; k++)
        look(&feed, MS(1000), MS(1020 + 10 * k), 6, "execSync", 3, "poll", "x");
    turn_ends(&feed, MS(1000), MS(1200));
    FEED(&feed, thread_sched, 1, 1, MS(1300), 0, .pid = API, .tid = API, .run_ns = MS(20), .wait_ns = MS(3));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(finding_get_evidence(f, "cause")->text, "waiting");
    feed_done(&feed);
}

/* The lock's holder had no CPU: that is the load again. */
static void lock_of_a_starved_thread(void **state)
{
    for (int starved = 0; starved < 2; starved++) {
        struct feed feed;
        start(&feed);
        FEED(&feed, thread_sched, 1, 1, MS(900), 0, .pid = API, .tid = API + 1);
        FEED(&feed, thread_sched, 1, 1, MS(900), 0, .pid = API, .tid = API);
        turn_begins(&feed, "/slow", MS(1000));
        for (uint64_t k = 0; k < 4; k++)
            look(&feed, MS(1000), MS(1020 + 10 * k), 6, "submit", 3, "pthread_cond_signal", "x");
        turn_ends(&feed, MS(1000), MS(1150));
        FEED(&feed, thread_sched, 1, 1, MS(1160), 0, .pid = API, .tid = API, .run_ns = MS(5));
        FEED(&feed, thread_sched, 1, 1, MS(1160), 0, .pid = API, .tid = API + 1, .run_ns = MS(1),
             .wait_ns = starved ? MS(148) : 0);
        feed_finish(&feed);
        assert_int_equal(feed.report.findings.count, 1);
        assert_int_equal(feed.report.findings.at[0]->severity, starved ? SEVERITY_INFO : SEVERITY_WARNING);
        feed_done(&feed);
    }
}

/* An endpoint's first request may be slow once, and nobody is blamed for it; that it was warming up is said
 * only where looks saw that. A place that they agree on is a fault even then. */
static void warming_up_is_no_fault(void **state)
{
    struct feed feed;
    start(&feed);
    turn_begins(&feed, "/new", MS(1000));
    turn_ends(&feed, MS(1000), MS(1150));
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    assert_int_equal(feed.report.findings.at[0]->severity, SEVERITY_INFO);
    assert_null(strstr(feed.report.findings.at[0]->title, "warming up"));
    feed_done(&feed);

    start(&feed);
    turn_begins(&feed, "/new", MS(1000));
    for (uint64_t k = 0; k < 3; k++)
        look(&feed, MS(1000), MS(1020 + 10 * k), JAVASCRIPT, "loop", 3, "", "handler");
    turn_ends(&feed, MS(1000), MS(1150));
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.at[0]->severity, SEVERITY_WARNING);
    feed_done(&feed);

    /* Loading modules in a request is warming up, whatever its lines. */
    start(&feed);
    turn_begins(&feed, "/slow", MS(1000));
    for (uint64_t k = 0; k < 4; k++)
        look(&feed, MS(1000), MS(1020 + 10 * k), JAVASCRIPT, "require", (uint32_t)k, "",
             "(anonymous) (node:internal/modules/cjs/loader:1:2)");
    turn_ends(&feed, MS(1000), MS(1150));
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.at[0]->severity, SEVERITY_INFO);
    feed_done(&feed);
}

static void collections_are_a_cause_of_their_own(void **state)
{
    struct feed feed;
    start(&feed);
    turn_begins(&feed, "/slow", MS(1000));
    FEED(&feed, v8_gc, API, API, MS(1090), MS(80), .type = 4);
    turn_ends(&feed, MS(1000), MS(1100));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_string_equal(finding_get_evidence(f, "cause")->text, "gc");
    assert_int_equal(finding_get_evidence(f, "gc_ns")->count, MS(80));
    feed_done(&feed);
}

/* One of several stalls of a function was a collection: what it does the rest of the time is the cause. */
static void a_collection_among_others_is_no_cause(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 1; i <= 5; i++) {
        turn_begins(&feed, "/slow", MS(1000 * i));
        for (uint64_t k = 1; k <= 3; k++)
            look(&feed, MS(1000 * i), MS(1000 * i + 25 * k), i == 3 ? GC : JAVASCRIPT, "render", 12, "",
                 "handler (/srv/app.js:12:9)");
        if (i == 3)
            FEED(&feed, v8_gc, API, API, MS(1000 * i + 90), MS(80), .type = 4);
        turn_ends(&feed, MS(1000 * i), MS(1000 * i + 100));
    }
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_string_equal(finding_get_evidence(f, "cause")->text, "javascript");
    assert_int_equal(finding_get_evidence(f, "stalls_count")->count, 5);
    assert_int_equal(finding_get_evidence(f, "gc_ns")->count, MS(80));
    feed_done(&feed);
}

/* Of most stalls a little more than half is collections: one function. Where they are nearly all, a cause of
 * their own. */
static void collections_about_half_are_part_of_a_function(void **state)
{
    for (unsigned most = 0; most < 2; most++) {
        struct feed feed;
        start(&feed);
        for (uint64_t i = 1; i <= 5; i++) {
            turn_begins(&feed, "/slow", MS(1000 * i));
            for (uint64_t k = 1; k <= 3; k++)
                look(&feed, MS(1000 * i), MS(1000 * i + 25 * k), i == 3 ? JAVASCRIPT : GC, "render", 12, "",
                     "handler (/srv/app.js:12:9)");
            FEED(&feed, v8_gc, API, API, MS(1000 * i + 95), MS(i == 3 ? 40 : most ? 90 : 60), .type = 4);
            turn_ends(&feed, MS(1000 * i), MS(1000 * i + 100));
        }
        feed_finish(&feed);
        uint64_t stalls = 0;
        array_foreach (&feed.report.findings, f)
            if ((*f)->kind == FINDING_event_loop_blocked &&
                strcmp(finding_get_evidence(*f, "cause")->text, "javascript") == 0)
                stalls += finding_get_evidence(*f, "stalls_count")->count;
        assert_int_equal(stalls, most ? 1 : 5);
        feed_done(&feed);
    }
}

/* A program that ends itself does so inside a callback: that is no stall. */
static void ending_is_no_stall(void **state)
{
    struct feed feed;
    start(&feed);
    turn_begins(&feed, "/bye", MS(1000));
    look(&feed, MS(1000), MS(1030), 5, "", 0, "exit", "x");
    FEED(&feed, open_span, 1, 1, MS(1200), 0, .since_ns = MS(1000), .pid = API, .tid = API,
         .event = SONDE_EVENT_node_callback, .final = 1);
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 0);
    feed_done(&feed);
}

/* The recorder was killed too: only the looks tell of a callback that never ended. */
static void stuck_without_a_last_word(void **state)
{
    struct feed feed;
    start(&feed);
    turn_begins(&feed, "/stuck", MS(1000));
    for (uint64_t k = 0; k < 4; k++)
        look(&feed, MS(1000), MS(1020 + 500 * k), REGEXP, "validate", 7, "/^(a+)+$/", "x");
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_blocking_regexp);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_CRITICAL);
    assert_string_equal(finding_get_evidence(f, "ended")->text, "no");
    assert_string_equal(f->affected.at[0].path, "/stuck");
    assert_int_equal(feed_kept(&feed, "/stuck")->state, REQUEST_UNFINISHED);
    feed_done(&feed);
}

/* A callback on /slow that is open when the trace ends at MS(4000): its thread ran for ran_ns, after
 * which its counters did not change. is_read_at_end: the recorder read them once more before the end. */
static void open_at_the_end(struct feed *feed, uint64_t ran_ns, bool is_read_at_end, uint8_t cause,
                            const char *detail)
{
    uint64_t at = MS(1000), read_ns = at;
    start(feed);
    for (uint64_t ms = 900; ms <= 1000; ms += 10)
        FEED(feed, thread_sched, 1, 1, MS(ms), 0, .pid = API, .tid = API, .run_ns = MS(5000), .wait_ns = 0);
    turn_begins(feed, "/slow", at);
    for (uint64_t k = 1; k <= 6; k++) {
        look(feed, at, at + MS(20 * k), cause, "scan", 7, detail, "x");
        if (MS(20 * k) > ran_ns)
            continue;
        read_ns = at + MS(20 * k) + US(1);
        FEED(feed, thread_sched, 1, 1, read_ns, 0, .pid = API, .tid = API, .run_ns = MS(5000) + MS(20 * k));
    }
    if (at + ran_ns > read_ns)
        FEED(feed, thread_sched, 1, 1, at + ran_ns, 0, .pid = API, .tid = API, .run_ns = MS(5000) + ran_ns);
    for (uint64_t k = 0; k < 4; k++) /* what does not run stands where it stood */
        look(feed, at, MS(3000) + MS(200 * k), cause, "scan", 7, detail, "x");
    if (is_read_at_end)
        FEED(feed, thread_sched, 1, 1, MS(3999), 0, .pid = API, .tid = API, .run_ns = MS(5000) + ran_ns);
    FEED(feed, open_span, 1, 1, MS(4000), 0, .since_ns = at, .pid = API, .tid = API,
         .event = SONDE_EVENT_node_callback, .final = 1);
    feed_finish(feed);
}

/* The thread had no CPU when the trace ended, and a wait that has not ended has no record: what it did not
 * run for is not said to have kept the event loop, however often it was seen at one place. */
static void starved_at_the_end(void **state)
{
    struct feed feed;
    for (int told = 0; told < 2; told++) {
        open_at_the_end(&feed, MS(20), told, JAVASCRIPT, "");
        assert_null(feed_finding(&feed, FINDING_event_loop_blocked));
        feed_done(&feed);
    }
    /* What it did run for is said, and no more. */
    open_at_the_end(&feed, MS(1200), true, JAVASCRIPT, "");
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_CRITICAL);
    assert_string_equal(finding_get_evidence(f, "ended")->text, "no");
    assert_in_range(finding_get_evidence(f, "cpu_ns")->count, MS(1200), MS(1300));
    assert_in_range(f->cost_ns, MS(1200), MS(1300));
    assert_non_null(strstr(f->title, "for 1.20 s, not counting waits for a CPU, and had not returned"));
    feed_done(&feed);
    /* A call that it was seen to wait in needs no CPU. */
    open_at_the_end(&feed, MS(20), true, 6, "poll");
    f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_CRITICAL);
    assert_string_equal(finding_get_evidence(f, "cause")->text, "waiting");
    assert_int_equal(f->cost_ns, MS(3000));
    feed_done(&feed);
}

/* A worker waits for its next task inside a callback: samples of that are none of its work. */
static void a_workers_wait_is_not_its_work(void **state)
{
    enum { WORKER = API + 1 };
    struct feed feed;
    start(&feed);
    FEED(&feed, thread_sched, 1, 1, MS(990), 0, .pid = API, .tid = WORKER, .run_ns = MS(10), .wait_ns = 0);
    for (uint64_t k = 0; k < 9; k++) {
        bool waits = k % 3 > 0;
        FEED_TEXT(&feed, waits ? "waitForTask" : "task");
        FEED_TEXT(&feed, waits ? "/srv/node_modules/pool/worker.js" : "/srv/task.js");
        FEED_TEXT(&feed, waits ? "__futex_abstimed_wait_common" : "");
        FEED_TEXT(&feed, "");
        FEED(&feed, stall_sample, 1, 1, MS(1020 + 20 * k), 0, .since_ns = MS(1000) + US(1), .pid = API,
             .tid = WORKER,
             .cause = k % 3 == 1   ? 6
                      : k % 3 == 2 ? 5
                                   : JAVASCRIPT,
             .line = waits ? 156 : 7);
    }
    FEED(&feed, node_callback, API, WORKER, MS(3000), MS(2000), .async_id = 5);
    FEED(&feed, thread_sched, 1, 1, MS(3001), 0, .pid = API, .tid = WORKER, .run_ns = MS(1600), .wait_ns = 0);
    FEED(&feed, uv_phase, API, WORKER, MS(3001), MS(2001), .phase = 4);
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_non_null(strstr(f->title, "occupied a worker thread"));
    assert_string_equal(f->where.function, "task");
    assert_int_equal(f->where.line, 7);
    assert_int_equal(finding_get_evidence(f, "samples_count")->count, 3);
    feed_done(&feed);
}

/* Most samples stand in code whose callers are not seen; one saw what was called. */
static void assembler_code_is_part_of_what_was_called(void **state)
{
    struct feed feed;
    start(&feed);
    uint64_t at = MS(1000);
    turn_begins(&feed, "/slow", at);
    look(&feed, at, at + MS(20), BUILTIN, "digest", 7, "crypto hash",
         "digest (/srv/app.js:7:9);Hash;sha512_block");
    for (uint64_t k = 1; k < 4; k++) {
        for (unsigned i = 0; i < 4; i++)
            FEED_TEXT(&feed, i < 2 ? "" : "sha512_block");
        FEED(&feed, stall_sample, 1, 1, at + MS(20 + 20 * k), 0, .since_ns = at + US(1), .pid = API,
             .tid = API, .cause = SONDE_stall_cause_native);
    }
    turn_ends(&feed, at, at + MS(100));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_string_equal(finding_get_evidence(f, "called")->text, "crypto hash");
    assert_string_equal(f->where.function, "digest");
    feed_done(&feed);
}

/* Nobody looked into the second stall of /slow: it is counted with the one thing that is known to stall it.
 */
static void an_unseen_stall_joins_the_known_one(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t at = MS(1000 * (i + 1));
        turn_begins(&feed, "/slow", at);
        for (uint64_t k = 0; i == 0 && k < 4; k++)
            look(&feed, at, at + MS(20 + 10 * k), REGEXP, "validate", 7, "/^(a+)+$/", "x");
        turn_ends(&feed, at, at + MS(100));
    }
    feed_finish(&feed);
    assert_int_equal(feed.report.findings.count, 1);
    const struct finding *f = feed_finding(&feed, FINDING_blocking_regexp);
    assert_int_equal(finding_get_evidence(f, "stalls_count")->count, 2);
    assert_int_equal(finding_get_evidence(f, "blocked_ns")->count, MS(200));
    assert_int_equal(finding_get_evidence(f, "samples_count")->count, 4);
    feed_done(&feed);
}

static void encodes(struct feed *feed, uint64_t end_ns, uint64_t took_ns)
{
    FEED(feed, v8_encode, API, API, end_ns, took_ns, .bytes = 1000000, .what = SONDE_encoding_JSON_stringify);
}

/* Nor into the last of /slow: the one function that stalls it computes, or encodes. */
static void an_unseen_stall_joins_the_function(void **state)
{
    struct feed feed;
    start(&feed);
    for (uint64_t i = 0; i < 5; i++) {
        uint64_t at = MS(1000 * (i + 1));
        turn_begins(&feed, "/slow", at);
        for (uint64_t k = 0; i != 4 && k < 4; k++)
            look(&feed, at, at + MS(20 + 10 * k), i < 2 ? JAVASCRIPT : BUILTIN, "answer", 7,
                 i < 2 ? "" : "JSON.stringify", "");
        if (i == 2 || i == 3)
            encodes(&feed, at + MS(99), MS(98));
        turn_ends(&feed, at, at + MS(100));
    }
    feed_finish(&feed);
    uint64_t stalls = 0;
    array_foreach (&feed.report.findings, place)
        if (finding_get_evidence(*place, "stalls_count")) {
            assert_non_null((*place)->where.function);
            assert_string_equal((*place)->where.function, "answer");
            stalls += finding_get_evidence(*place, "stalls_count")->count;
        }
    assert_int_equal(stalls, 5);
    feed_done(&feed);
}

/* What was encoded for most of the time is not said of a function that samples saw at something else. */
static void encoding_is_where_it_was_seen(void **state)
{
    struct feed feed;
    start(&feed);
    uint64_t at = MS(1000);
    turn_begins(&feed, "/slow", at);
    for (uint64_t k = 0; k < 6; k++)
        look(&feed, at, at + MS(5 + 5 * k), JAVASCRIPT, "make", 3, "", "");
    for (uint64_t k = 0; k < 3; k++)
        look(&feed, at, at + MS(50 + 10 * k), BUILTIN, "answer", 7, "JSON.stringify", "");
    encodes(&feed, at + MS(99), MS(60));
    turn_ends(&feed, at, at + MS(100));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
    assert_non_null(f);
    assert_string_equal(f->where.function, "answer");
    assert_int_equal(f->where.line, 7);
    feed_done(&feed);
}

static void ran_out(struct feed *feed, uint64_t end_ns, uint64_t took_ns)
{
    FEED(feed, sched_switch, 1, 1, end_ns, took_ns, .runnable_ns = took_ns, .pid = API, .tid = API,
         .reason = SONDE_off_reason_preempted, .call = SONDE_SYSCALL_NONE, .fd = -1);
}

/* On a busy machine the only sample saw where the thread lost its CPU. Its accounts say that nearly all of
 * what it ran for was in a synchronous call: no function that the sample saw is named for that. */
static void accounts_decide_over_samples(void **state)
{
    for (int seen = 0; seen < 2; seen++) {
        struct feed feed;
        start(&feed);
        for (uint64_t i = 1; i <= 4; i++) {
            uint64_t at = MS(2000 * i);
            turn_begins(&feed, "/slow", at);
            ran_out(&feed, at + MS(300), MS(299));
            FEED(&feed, uv_run, API, API, at + MS(400), MS(95), .kind = 2);
            look(&feed, at, at + MS(500), JAVASCRIPT, "json", 20, "", "");
            if (seen)
                look(&feed, at, at + MS(510), 3, "handler", 17, "fs sync", "");
            ran_out(&feed, at + MS(590), MS(180));
            turn_ends(&feed, at, at + MS(600));
        }
        feed_finish(&feed);
        const struct finding *f = feed_finding(&feed, FINDING_event_loop_blocked);
        assert_non_null(f);
        assert_string_equal(finding_get_evidence(f, "cause")->text, "waiting");
        assert_int_equal(finding_get_evidence(f, "stalls_count")->count, 4);
        if (!seen) {
            assert_null(f->where.function);
            assert_null(strstr(f->detail, " samples"));
            assert_non_null(strstr(f->detail, "No sample saw where"));
        } else {
            assert_string_equal(f->where.function, "handler");
            assert_int_equal(f->where.line, 17);
        }
        feed_done(&feed);
    }
}

/* A collection of 60 ms within a stall of a second, of which the thread ran for 100 ms only: the looks say
 * what stalled it, not the collection, which waited for a CPU as everything else did. */
static void a_collection_that_waited_is_not_the_cause(void **state)
{
    struct feed feed;
    start(&feed);
    uint64_t at = MS(3000);
    for (uint64_t ms = 2900; ms < 3000; ms += 10)
        FEED(&feed, thread_sched, 1, 1, MS(ms), 0, .pid = API, .tid = API, .run_ns = MS(5000), .wait_ns = 0);
    turn_begins(&feed, "/slow", at);
    for (uint64_t k = 0; k < 90; k++) {
        look(&feed, at, at + MS(20 + 10 * k), REGEXP, "validate", 7, "/^(a+)+$/", "x");
        FEED(&feed, thread_sched, 1, 1, at + MS(20 + 10 * k), 0, .pid = API, .tid = API,
             .run_ns = MS(5000 + 1 * k), .wait_ns = MS(9 * k));
    }
    FEED(&feed, v8_gc, API, API, at + MS(950), MS(60), .type = 1);
    turn_ends(&feed, at, at + MS(1000));
    FEED(&feed, thread_sched, 1, 1, at + MS(1010), 0, .pid = API, .tid = API, .run_ns = MS(5100),
         .wait_ns = MS(900));
    feed_finish(&feed);
    assert_non_null(feed_finding(&feed, FINDING_blocking_regexp));
    assert_null(feed_finding(&feed, FINDING_event_loop_blocked));
    feed_done(&feed);
}

/* The thread slept in a futex: another one held a lock. */
static void waiting_for_a_lock(void **state)
{
    struct feed feed;
    start(&feed);
    uint64_t at = MS(1000);
    turn_begins(&feed, "/slow", at);
    for (uint64_t k = 0; k < 6; k++)
        look(&feed, at, at + MS(20 + 10 * k), 6, "take", 7, "__futex_abstimed_wait_common", "x");
    turn_ends(&feed, at, at + MS(120));
    feed_finish(&feed);
    const struct finding *f = feed_finding(&feed, FINDING_lock_wait);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(f->where.function, "take");
    assert_int_equal(finding_get_evidence(f, "blocked_ns")->count, MS(120));
    assert_null(feed_finding(&feed, FINDING_event_loop_blocked));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unseen_stall_joins_the_known_one),
        cmocka_unit_test(an_unseen_stall_joins_the_function),
        cmocka_unit_test(encoding_is_where_it_was_seen),
        cmocka_unit_test(accounts_decide_over_samples),
        cmocka_unit_test(a_workers_wait_is_not_its_work),
        cmocka_unit_test(a_collection_that_waited_is_not_the_cause),
        cmocka_unit_test(waiting_for_a_lock),
        cmocka_unit_test(what_a_function_calls_is_part_of_it),
        cmocka_unit_test(what_calls_a_packages_function_is_part_of_it),
        cmocka_unit_test(merges_the_same_place),
        cmocka_unit_test(tells_places_apart),
        cmocka_unit_test(one_leaf_of_many_is_not_the_cause),
        cmocka_unit_test(load_explains),
        cmocka_unit_test(load_is_not_charged),
        cmocka_unit_test(stolen_time_is_not_charged),
        cmocka_unit_test(lock_of_a_starved_thread),
        cmocka_unit_test(warming_up_is_no_fault),
        cmocka_unit_test(collections_are_a_cause_of_their_own),
        cmocka_unit_test(a_collection_among_others_is_no_cause),
        cmocka_unit_test(collections_about_half_are_part_of_a_function),
        cmocka_unit_test(ending_is_no_stall),
        cmocka_unit_test(assembler_code_is_part_of_what_was_called),
        cmocka_unit_test(stuck_without_a_last_word),
        cmocka_unit_test(starved_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
