/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/clock_fit.h"

#include <x86intrin.h>

#include "base/clock.h"
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
    uint64_t start = fit.now.ticks, ticks = 3000000;
    int64_t difference = (int64_t)(clock_fit_ns(&fit, start + ticks) - clock_fit_ns(&fit, start)) -
                         (int64_t)clock_fit_duration_ns(&fit, ticks);
    assert_in_range(difference + 2, 0, 4);
    assert_int_equal(clock_fit_duration_ns(&fit, 0), 0);
}

/* A record made before the newest anchor is converted by the line it was made under. */
static void old_ticks_keep_their_time(void **state)
{
    struct clock_fit fit;
    clock_fit_init(&fit);
    clock_fit_anchor(&fit);
    uint64_t ticks = __rdtsc(), ns = clock_fit_ns(&fit, ticks);
    clock_fit_anchor(&fit);
    assert_int_equal(clock_fit_ns(&fit, ticks), ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(follows_the_clock),
                                       cmocka_unit_test(durations_are_differences),
                                       cmocka_unit_test(old_ticks_keep_their_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
