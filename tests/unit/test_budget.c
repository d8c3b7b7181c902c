/* The budget: when tracing is too dear, and what goes first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/budget.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "test.h"

static void budgets_are_read(void **state)
{
    (void)state;
    struct budget_limits limits;
    assert_int_equal(budget_parse("5,128", &limits, NULL), 0);
    assert_int_equal((int)(limits.cpu_share * 1e6), 50000);
    assert_int_equal(limits.memory_bytes, 128 << 20);
    assert_int_equal(budget_parse("0.25", &limits, NULL), 0);
    assert_int_equal((int)(limits.cpu_share * 1e6), 2500);
    assert_int_equal(limits.memory_bytes, BUDGET_DEFAULTS.memory_bytes);
    assert_int_equal(limits.disk_bytes, 0);
    assert_int_equal(budget_parse("5,128,1000", &limits, NULL), 0);
    assert_int_equal(limits.memory_bytes, 128 << 20);
    assert_int_equal(limits.disk_bytes, 1000 << 20);
    static const char *const WRONG[] = {"",    "x",      "0",       "-1",        "101",
                                        "5,",  "5,0",    "5,x",     "5,128x",    "5;128",
                                        "nan", "5,128,", "5,128,0", "5,128,1,1", "5,,1"};
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        struct problem problem = {0};
        assert_int_equal(budget_parse(WRONG[i], &limits, &problem), -EINVAL);
        assert_true(problem.what[0]);
    }
}

/* A second in which tracing takes this many ms of CPU time in all. */
static bool second(struct budget *b, struct budget_sample *now, uint64_t ms)
{
    now->time_ns += NS_PER_S;
    now->probe_ns += ms * NS_PER_MS / 4;
    now->kernel_ns += ms * NS_PER_MS / 4;
    now->collector_ns += ms * NS_PER_MS / 2;
    return budget_add(b, now);
}

static void a_recording_that_is_too_large_is_too_much_at_once(void **state)
{
    (void)state;
    struct budget b = {.limits = {.cpu_share = 0.05, .memory_bytes = 1 << 20}, .processors = 2};
    struct budget_sample now = {.disk_bytes = 11 << 20};
    assert_false(second(&b, &now, 0)); /* there is no limit */
    b.limits.disk_bytes = 10 << 20;
    assert_true(second(&b, &now, 0));
    assert_true(budget_disk_is_full(&b, &now));
    now.disk_bytes = 10 << 20;
    assert_false(second(&b, &now, 0));
    assert_false(budget_disk_is_full(&b, &now));
}

static void five_seconds_above_it_are_too_much(void **state)
{
    (void)state;
    struct budget b = {.limits = BUDGET_DEFAULTS, .processors = 2}; /* 100 ms a second */
    struct budget_sample now = {.time_ns = 77};
    assert_false(budget_add(&b, &now));
    for (int i = 0; i < 4; i++)
        assert_false(second(&b, &now, 120));
    assert_true(second(&b, &now, 120));
    assert_true(b.share > 0.059 && b.share < 0.061);
    for (int i = 0; i < 4; i++) /* judged anew */
        assert_false(second(&b, &now, 120));
    assert_true(second(&b, &now, 120));
}

static void what_is_below_it_goes_on_for_ever(void **state)
{
    (void)state;
    struct budget b = {.limits = BUDGET_DEFAULTS, .processors = 2};
    struct budget_sample now = {0};
    for (int i = 0; i < 1000; i++)
        assert_false(second(&b, &now, i % 5 ? 70 : 180)); /* 92 on average, peaks above */
}

static void four_times_as_much_is_noticed_sooner(void **state)
{
    (void)state;
    struct budget b = {.limits = BUDGET_DEFAULTS, .processors = 2};
    struct budget_sample now = {0};
    assert_false(budget_add(&b, &now));
    assert_false(second(&b, &now, 900));
    assert_true(second(&b, &now, 900));
}

/* On a host with many CPUs a thread that has no time left is a small part of them. */
static void sonde_has_one_cpu(void **state)
{
    (void)state;
    struct budget b = {.limits = BUDGET_DEFAULTS, .processors = 64};
    struct budget_sample now = {0};
    for (int i = 0; i < 20; i++)
        assert_false(second(&b, &now, 1700)); /* 850 ms of them its own */
    for (int i = 0; i < 2; i++)
        assert_false(second(&b, &now, 1900));
    assert_true(second(&b, &now, 1900)); /* 910 on average */
    assert_true(b.own_share > BUDGET_OWN_SHARE && b.share < b.limits.cpu_share);
}

static void memory_counts_at_once(void **state)
{
    (void)state;
    struct budget b = {.limits = BUDGET_DEFAULTS, .processors = 2};
    struct budget_sample now = {.memory_bytes = 100 << 20};
    assert_false(budget_add(&b, &now));
    now.memory_bytes = 129 << 20;
    assert_true(second(&b, &now, 1));
}

static void the_dearest_goes_first(void **state)
{
    (void)state;
    const double costs[] = {5, 0, 9, 7};
    assert_int_equal(budget_dearest(costs, 4, 0xf), 2);
    assert_int_equal(budget_dearest(costs, 4, 0xb), 3);
    assert_int_equal(budget_dearest(costs, 4, 0x3), 0);
    assert_int_equal(budget_dearest(costs, 4, 0x2), -1); /* costs nothing: of no use */
    assert_int_equal(budget_dearest(costs, 4, 0), -1);
}

static void a_record_costs_something(void **state)
{
    (void)state;
    assert_true(budget_record_ns() > 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_are_read),
        cmocka_unit_test(a_recording_that_is_too_large_is_too_much_at_once),
        cmocka_unit_test(five_seconds_above_it_are_too_much),
        cmocka_unit_test(what_is_below_it_goes_on_for_ever),
        cmocka_unit_test(four_times_as_much_is_noticed_sooner),
        cmocka_unit_test(sonde_has_one_cpu),
        cmocka_unit_test(memory_counts_at_once),
        cmocka_unit_test(the_dearest_goes_first),
        cmocka_unit_test(a_record_costs_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
