/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/clock_fit.h"

#include <x86intrin.h>

#include "base/clock.h"
#include "base/macro.h"
#include "test.h"

/* Times never go back, over anchors too, and a reading lies between two of the clock's own. */
static void follows_the_clock(void **state)
{
    struct clock_fit fit;
    clock_fit_init(&fit);
    uint64_t last = 0;
    for (int i = 0; i < 2000; i++) {
        if (i % 100 == 99)
            clock_fit_anchor(&fit);
        uint64_t before = clock_monotonic_ns(), ticks = __rdtsc(), after = clock_monotonic_ns();
        uint64_t ns = clock_fit_ns(&fit, ticks);
        assert_true(ns >= last);
        last = ns;
        assert_true(ns + 20000 > before && ns < after + 20000);
    }
}

static void durations_are_differences(void **state)
{
    struct clock_fit fit;
    clock_fit_init(&fit);
    uint64_t start = fit.first_ticks, ticks = 3000000;
    for (int i = 0; i < 3; i++) {
        uint64_t from = clock_fit_ns(&fit, start), to = clock_fit_ns(&fit, start + ticks);
        assert_int_equal(clock_fit_duration_ns(&fit, start + ticks, ticks), to - from);
        clock_fit_anchor(&fit); /* the span began under another line than it ended */
        ticks = __rdtsc() - start;
    }
    assert_int_equal(clock_fit_duration_ns(&fit, start, 0), 0);
}

/* Converted by the line they were made under, however many have come since, and in order. */
static void old_ticks_keep_their_time(void **state)
{
    enum { ANCHORS = CLOCK_LINES - 2, KEPT = 100 };
    struct clock_fit fit;
    uint64_t ticks[KEPT], ns[KEPT];
    clock_fit_init(&fit);
    for (int i = 0; i < ANCHORS; i++) {
        clock_fit_anchor(&fit);
        if (i < KEPT) {
            ticks[i] = __rdtsc();
            ns[i] = clock_fit_ns(&fit, ticks[i]);
        }
    }
    for (int i = 0; i < KEPT; i++) {
        assert_int_equal(clock_fit_ns(&fit, ticks[i]), ns[i]);
        assert_true(i == 0 || ns[i] >= ns[i - 1]);
    }
    for (int i = 0; i < KEPT; i++) /* the ring is full: the first are forgotten, and no more than that */
        clock_fit_anchor(&fit);
    assert_in_range(clock_fit_ns(&fit, ticks[0]), ns[0] - NS_PER_MS, ns[0] + NS_PER_MS);
}

/* The counter against the lines so far: as if it had been set forward (or back). */
static void set_counter(struct clock_fit *fit, int64_t ticks)
{
    for (size_t i = 0; i < MIN(fit->count, (size_t)CLOCK_LINES); i++)
        fit->lines[i].ticks -= (uint64_t)ticks;
    fit->first_ticks -= (uint64_t)ticks;
}

static void assert_follows(const struct clock_fit *fit)
{
    uint64_t before = clock_monotonic_ns(), ticks = __rdtsc(), after = clock_monotonic_ns();
    uint64_t ns = clock_fit_ns(fit, ticks);
    assert_true(ns + 20000 > before && ns < after + 20000);
}

/* On a busy machine a long time may pass between the two readings of one look. */
static bool is_off(const struct clock_fit *fit)
{
    enum { LOOKS = 20 };
    bool off = true;
    for (int i = 0; i < LOOKS && off; i++)
        off = clock_fit_is_off(fit);
    return off;
}

/* What lay before the jump keeps its time, in order; what comes after it has the clock's, at once. */
static void a_jump_begins_an_epoch(void **state)
{
    static const double SECONDS[] = {7, 3600 * 24, -5, -3600};
    for (size_t i = 0; i < ARRAY_SIZE(SECONDS); i++) {
        struct clock_fit fit;
        clock_fit_init(&fit);
        assert_int_equal(clock_fit_anchor(&fit), 0);
        assert_false(is_off(&fit));
        double jump = SECONDS[i] * (double)NS_PER_S * clock_fit_ticks_per_ns(&fit);
        uint64_t ticks = __rdtsc(), ns = clock_fit_ns(&fit, ticks);
        set_counter(&fit, (int64_t)jump);
        ticks -= (uint64_t)(int64_t)jump; /* of a record that is still in its ring */
        assert_true(clock_fit_is_off(&fit));
        int64_t jumped = clock_fit_anchor(&fit);
        double expected = SECONDS[i] * (double)NS_PER_S;
        assert_true((double)jumped > expected - 1e6 && (double)jumped < expected + 1e6);
        assert_int_equal(fit.jumps, 1);
        assert_false(is_off(&fit));
        assert_follows(&fit);
        assert_in_range(clock_fit_ns(&fit, ticks), ns - 1000, ns + 1000);
        assert_true(clock_fit_ns(&fit, ticks) < clock_fit_ns(&fit, __rdtsc()));
        /* A span that began before it, and ends now, does not last longer than the clock says. */
        uint64_t end = __rdtsc(), duration_ns = clock_fit_duration_ns(&fit, end, end - ticks);
        assert_true(duration_ns < clock_monotonic_ns() - ns + NS_PER_MS);
        for (int k = 0; k < 3; k++)
            assert_int_equal(clock_fit_anchor(&fit), 0);
        assert_follows(&fit);
    }
}

static bool is_due_after(struct clock_fit *fit, uint64_t ms)
{
    return clock_fit_is_due(fit, fit->lines[(fit->count - 1) % CLOCK_LINES].ns + ms * NS_PER_MS);
}

/* The first anchors come soon: five milliseconds give a slope that is microseconds off after a second. */
static void anchors_grow_apart(void **state)
{
    struct clock_fit fit;
    clock_fit_init(&fit);
    assert_false(is_due_after(&fit, 9));
    assert_true(is_due_after(&fit, 10));
    const unsigned BASES_MS[] = {10, 50, 400, 1000, 100000};
    for (size_t i = 0; i < ARRAY_SIZE(BASES_MS); i++) {
        unsigned interval_ms = MIN(BASES_MS[i], 1000u);
        fit.lines[fit.count++] = (struct clock_line){0, fit.first_ns + BASES_MS[i] * NS_PER_MS, 1};
        assert_false(is_due_after(&fit, interval_ms - 1));
        assert_true(is_due_after(&fit, interval_ms));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_clock), cmocka_unit_test(durations_are_differences),
        cmocka_unit_test(old_ticks_keep_their_time), cmocka_unit_test(a_jump_begins_an_epoch),
        cmocka_unit_test(anchors_grow_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
