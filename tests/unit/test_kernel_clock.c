/* The scheduler's clock stands for CLOCK_MONOTONIC: which sources it may do so for, and how both are
 * compared. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/kernel_clock.h"

#include "base/clock.h"
#include "base/macro.h"
#include "collect/kernel_clock.h"
#include "test.h"

static const uint64_t START = 1000 * NS_PER_S, GAP_NS = 100000;

static void sources_that_go_like_the_schedulers_clock(void **state)
{
    assert_true(kernel_clock_source_agrees("tsc"));
    assert_true(kernel_clock_source_agrees("kvm-clock"));
    assert_false(kernel_clock_source_agrees("hpet"));
    assert_false(kernel_clock_source_agrees("acpi_pm"));
    assert_false(kernel_clock_source_agrees("tsc-early"));
    assert_false(kernel_clock_source_agrees(""));
}

/* Of one CPU: the queue's clock is ahead of CLOCK_MONOTONIC by ahead_ns, which drift_ppm is added to, and was
 * read stale_ns before CLOCK_MONOTONIC is. Returns by how much the time that is told is ahead of that at
 * which the queue's clock was read. */
static int64_t told_ahead(struct sonde_kernel_clock *c, uint64_t monotonic_ns, int64_t ahead_ns,
                          int64_t drift_ppm, uint64_t stale_ns)
{
    int64_t drifted_ns = (int64_t)(monotonic_ns - START) / 1000000 * drift_ppm;
    uint64_t clock = monotonic_ns + (uint64_t)(ahead_ns + drifted_ns);
    if (sonde_clock_is_due(c, clock))
        sonde_clock_compare(c, clock, monotonic_ns + stale_ns);
    return (int64_t)(clock + c->offset - monotonic_ns);
}

/* The greatest such error of a second's switches, of which one in some is stale. */
static int64_t worst_ahead(struct sonde_kernel_clock *c, int64_t ahead_ns, int64_t drift_ppm, unsigned one_of)
{
    int64_t worst_ns = INT64_MIN;
    for (uint64_t i = 0; i < NS_PER_S / GAP_NS; i++) {
        int64_t error_ns = told_ahead(c, START + i * GAP_NS, ahead_ns, drift_ppm, i % one_of ? 100 : 40000);
        worst_ns = i > 100 ? MAX(worst_ns, error_ns) : worst_ns;
    }
    return worst_ns;
}

static void either_clock_may_be_ahead_and_either_be_the_faster(void **state)
{
    for (int64_t ahead_ns = -2000000; ahead_ns <= 2000000; ahead_ns += 500000)
        for (int64_t drift_ppm = -400; drift_ppm <= 400; drift_ppm += 100) {
            struct sonde_kernel_clock c = {0};
            int64_t worst_ns = worst_ahead(&c, ahead_ns, drift_ppm, 3);
            assert_true(worst_ns < 1000);
            assert_true(worst_ns > -1000);
        }
}

/* A virtual CPU that does not run for a while between the two readings, of all moments at the first one. */
static void a_bad_first_comparison_is_forgotten(void **state)
{
    for (int64_t ahead_ns = -3000000; ahead_ns <= 3000000; ahead_ns += 1000000) {
        struct sonde_kernel_clock c = {0};
        assert_int_equal(told_ahead(&c, START, ahead_ns, 0, 2000000), 2000000);
        assert_int_equal(told_ahead(&c, START + GAP_NS, ahead_ns, 0, 100), 100);
        assert_int_equal(told_ahead(&c, START + 2 * NS_PER_MS, ahead_ns, 0, 2000000), 100);
        assert_int_equal(told_ahead(&c, START + 2 * NS_PER_MS + GAP_NS, ahead_ns, 0, 90), 90);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_that_go_like_the_schedulers_clock),
        cmocka_unit_test(either_clock_may_be_ahead_and_either_be_the_faster),
        cmocka_unit_test(a_bad_first_comparison_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
