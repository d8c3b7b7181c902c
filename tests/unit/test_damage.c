/* The analysis of traces that are not whole: recorded from the middle of requests on, cut off, with events
 * lost, with hooks or threads missing. From the golden trace tests/golden/faults (a service with a
 * backtracking expression, a loop in plain JavaScript, hashes that fill the thread pool, and a peer that
 * answers late) parts are taken away: what is left may say less, but nothing that the whole does not say. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "trace/trace.h"

#include "feed.h"

struct golden {
    ARRAY(struct event) events;
    struct analysis *analysis;
    struct report report;
    struct trace *trace; /* open as long as the events are: their classes are its own */
};
static struct golden golden;

static struct report *analyse(bool (*keeps)(const struct event *e, size_t number, const void *context),
                              const void *context, struct analysis **ret_analysis, struct report *report)
{
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.breakdown = true;
    assert_int_equal(analysis_new(&options, ret_analysis), 0);
    for (size_t i = 0; i < golden.events.count; i++)
        if (!keeps || keeps(&golden.events.at[i], i, context))
            assert_int_equal(analysis_event(*ret_analysis, &golden.events.at[i]), 0);
    assert_int_equal(analysis_finish(*ret_analysis), 0);
    assert_int_equal(analysis_report(*ret_analysis, report), 0);
    return report;
}

/* Events are lent by the reader: these are copies. */
static void keep_event(const struct event *e)
{
    enum { VALUES = 64 };
    struct value *values = calloc(VALUES, sizeof(*values));
    struct event copy = *e;
    assert_non_null(values);
    for (unsigned i = 0; i < VALUES; i++) {
        if (!(e->present >> i & 1))
            continue;
        values[i] = e->values[i];
        bool text = e->id != SONDE_EVENT_none && e->id < SONDE_EVENT_COUNT &&
                    i < event_catalogue[e->id].field_count &&
                    event_catalogue[e->id].fields[i].type == FIELD_TYPE_str;
        if (text)
            values[i].s = strndup(e->values[i].s, e->values[i].length);
    }
    copy.values = values;
    assert_int_equal(array_add(&golden.events, copy), 0);
}

static int read_golden(void **state)
{
    struct problem problem = {0};
    const struct event *event;
    if (trace_open(SOURCE_ROOT "/tests/golden/faults", NULL, &problem, &golden.trace) < 0)
        fail_msg("%s", problem.what);
    while (trace_next(golden.trace, &event) > 0)
        if (event->id != SONDE_EVENT_none && event->id < SONDE_EVENT_COUNT)
            keep_event(event);
    analyse(NULL, NULL, &golden.analysis, &golden.report);
    return 0;
}

static int free_golden(void **state)
{
    trace_close(golden.trace);
    array_foreach (&golden.events, e) {
        for (unsigned i = 0; i < event_catalogue[e->id].field_count; i++)
            if (event_catalogue[e->id].fields[i].type == FIELD_TYPE_str)
                free((char *)(uintptr_t)e->values[i].s);
        free((void *)(uintptr_t)e->values);
    }
    array_done(&golden.events);
    report_done(&golden.report);
    analysis_free(golden.analysis);
    return 0;
}

/* ---- what may be said ---- */

static bool same_or_unknown(const char *said, const char *truth)
{
    return !said || (truth && strcmp(said, truth) == 0);
}

static bool is_stall(const struct finding *f)
{
    return f->kind == FINDING_event_loop_blocked || f->kind == FINDING_blocking_regexp;
}

static bool follows_from(const struct finding *f, const struct finding *truth)
{
    const struct finding_evidence *cause = finding_get_evidence(f, "cause");
    bool unseen = cause && strcmp(cause->text, "unknown") == 0;
    bool same_kind = f->kind == truth->kind || (unseen && is_stall(f) && is_stall(truth));
    return same_kind && same_or_unknown(f->where.function, truth->where.function) &&
           same_or_unknown(f->where.file, truth->where.file);
}

static void assert_nothing_wrong(const char *what, double how, const struct report *report,
                                 const struct analysis *analysis)
{
    array_foreach (&report->findings, f) {
        if ((*f)->severity == SEVERITY_INFO)
            continue;
        bool known = false;
        array_foreach (&golden.report.findings, truth)
            known |= (*truth)->severity > SEVERITY_INFO && follows_from(*f, *truth);
        if (!known)
            fail_msg("%s %g: %s: %s", what, how, finding_kinds[(*f)->kind].name, (*f)->title);
    }
    assert_true(analysis_counts(analysis)->requests <= analysis_counts(golden.analysis)->requests);
}

static void check(const char *what, double how, bool (*keeps)(const struct event *, size_t, const void *),
                  const void *context)
{
    struct analysis *analysis;
    struct report report = {0};
    analyse(keeps, context, &analysis, &report);
    assert_nothing_wrong(what, how, &report, analysis);
    report_done(&report);
    analysis_free(analysis);
}

/* ---- the tests ---- */

static void the_whole_says_what_was_planted(void **state)
{
    static const enum finding_kind KINDS[] = {FINDING_blocking_regexp, FINDING_event_loop_blocked,
                                              FINDING_thread_pool_starved, FINDING_slow_peer};
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++) {
        unsigned count = 0;
        array_foreach (&golden.report.findings, f)
            count += (*f)->kind == KINDS[i] && (*f)->severity > SEVERITY_INFO;
        assert_int_equal(count, 1);
    }
    unsigned loud = 0;
    array_foreach (&golden.report.findings, f)
        loud += (*f)->severity > SEVERITY_INFO;
    assert_int_equal(loud, ARRAY_SIZE(KINDS));
}

struct window {
    uint64_t from_ns, to_ns;
};

static bool in_window(const struct event *e, size_t number, const void *context)
{
    const struct window *w = context;
    return e->time_ns >= w->from_ns && e->time_ns < w->to_ns;
}

enum { CUTS = 60 };

static void recorded_from_the_middle_on(void **state)
{
    uint64_t first_ns = golden.events.at[0].time_ns,
             last_ns = golden.events.at[golden.events.count - 1].time_ns;
    for (uint64_t i = 0; i <= CUTS; i++) {
        struct window w = {first_ns + (last_ns - first_ns) * i / CUTS, UINT64_MAX};
        check("begins at", (double)i / CUTS, in_window, &w);
    }
}

static void cut_off(void **state)
{
    uint64_t first_ns = golden.events.at[0].time_ns,
             last_ns = golden.events.at[golden.events.count - 1].time_ns;
    for (uint64_t i = 0; i <= CUTS; i++) {
        struct window w = {0, first_ns + (last_ns - first_ns) * i / CUTS};
        check("ends at", (double)i / CUTS, in_window, &w);
    }
}

/* xorshift: which events are lost. */
static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static bool not_lost(const struct event *e, size_t number, const void *context)
{
    const uint8_t *lost = context;
    bool told = e->id == SONDE_EVENT_process_start || e->id == SONDE_EVENT_probe_name;
    return told || !lost[number];
}

static void events_lost_here_and_there(void **state)
{
    static const double SHARES[] = {0.001, 0.01, 0.05, 0.2, 0.5};
    uint8_t *lost = calloc(golden.events.count, 1);
    uint64_t random = 88172645463325252ull;
    assert_non_null(lost);
    for (size_t s = 0; s < ARRAY_SIZE(SHARES); s++)
        for (int round = 0; round < 12; round++) {
            for (size_t i = 0; i < golden.events.count; i++)
                lost[i] = (double)(next_random(&random) >> 11) / 9007199254740992.0 < SHARES[s];
            check("lost", SHARES[s], not_lost, lost);
        }
    free(lost);
}

/* A full ring loses what comes in a row. */
static void events_lost_in_bursts(void **state)
{
    uint8_t *lost = calloc(golden.events.count, 1);
    uint64_t random = 2463534242ull;
    assert_non_null(lost);
    for (int round = 0; round < 80; round++) {
        memset(lost, 0, golden.events.count);
        for (uint64_t burst = 1 + next_random(&random) % 8; burst; burst--) {
            size_t at = next_random(&random) % golden.events.count,
                   length = 1 + next_random(&random) % (golden.events.count / 20);
            for (size_t i = at; i < MIN(at + length, golden.events.count); i++)
                lost[i] = 1;
        }
        check("burst", round, not_lost, lost);
    }
    free(lost);
}

static bool not_of_class(const struct event *e, size_t number, const void *context)
{
    return e->id != *(const uint16_t *)context;
}

/* A Node of which one hook could not be set: as if there were no such event. */
static void hooks_missing(void **state)
{
    for (uint16_t id = 1; id < SONDE_EVENT_COUNT; id++)
        check(event_catalogue[id].name, 0, not_of_class, &id);
}

static bool not_of_thread(const struct event *e, size_t number, const void *context)
{
    return e->tid != *(const int64_t *)context;
}

static void threads_missing(void **state)
{
    struct map threads = {0};
    array_foreach (&golden.events, e)
        assert_non_null(map_put(&threads, (uint64_t)e->tid, NULL));
    map_foreach (&threads, slot) {
        int64_t tid = (int64_t)slot->key;
        check("without thread", (double)tid, not_of_thread, &tid);
    }
    map_done(&threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_says_what_was_planted),
        cmocka_unit_test(recorded_from_the_middle_on),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(events_lost_here_and_there),
        cmocka_unit_test(events_lost_in_bursts),
        cmocka_unit_test(hooks_missing),
        cmocka_unit_test(threads_missing),
    };
    return cmocka_run_group_tests(tests, read_golden, free_golden);
}
