/* The rate that a limit on sampling's own CPU time allows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/cost.h"

#include <math.h>

#include "test.h"

static const struct cost_options USUAL = {.limit = 0.003, .least_hz = 1, .most_hz = 20};

/* Windows of ten seconds, in which each sample a second costs each_s, and looking alone fixed_s a second. */
static void run(struct cost *c, int windows, double fixed_s, double each_s)
{
    for (int i = 0; i < windows; i++)
        cost_count(c, 10, 10 * (fixed_s + each_s * cost_hz(c)));
}

static void cheap_sampling_keeps_its_rate(void **state)
{
    (void)state;
    struct cost c;
    cost_begin(&c, &USUAL, 0);
    assert_int_equal(cost_hz(&c), 20);
    run(&c, 100, 0.0001, 0.0001);
    assert_int_equal(cost_hz(&c), 20);
    assert_true(c.spent_s < USUAL.limit * c.elapsed_s);
    assert_true(c.lowest_hz == 20 && c.mean_hz == 20);
}

static void dear_sampling_costs_what_it_may(void **state)
{
    (void)state;
    struct cost c;
    cost_begin(&c, &USUAL, 0);
    run(&c, 6 * 60 * 8, 0.0002, 0.0006); /* 20 Hz would cost four times as much */
    assert_true(fabs(c.spent_s / c.elapsed_s / USUAL.limit - 1) < 0.03);
    assert_true(c.mean_hz > 4 && c.mean_hz < 5.5);
    assert_true(c.highest_hz == 20); /* as it began */
}

static void a_dear_beginning_is_made_up_for(void **state)
{
    (void)state;
    struct cost c;
    cost_begin(&c, &USUAL, 2);  /* more than what may be saved */
    run(&c, 2, 0.0001, 0.0004); /* and that is far above the limit at 20 Hz */
    assert_true(cost_hz(&c) < 20 && cost_hz(&c) >= 5);
    run(&c, 6 * 60, 0.0001, 0.0004);
    assert_true(fabs(c.spent_s / (USUAL.limit * c.elapsed_s) - 1) < 0.05);

    cost_begin(&c, &USUAL, 1);
    run(&c, 10, 0.0001, 0.0001); /* samples are cheap */
    assert_true(cost_hz(&c) >= 8 && cost_hz(&c) < 20);
    run(&c, 6 * 20, 0.0001, 0.0001);
    assert_int_equal(cost_hz(&c), 20);
}

static void the_rate_comes_back_when_sampling_gets_cheap(void **state)
{
    (void)state;
    struct cost c;
    cost_begin(&c, &USUAL, 0);
    run(&c, 360, 0.0002, 0.001);
    assert_true(cost_hz(&c) <= 3);
    run(&c, 60, 0.0001, 0.0001);
    assert_int_equal(cost_hz(&c), 20);
}

static void the_least_rate_is_kept_whatever_it_costs(void **state)
{
    (void)state;
    struct cost c;
    cost_begin(&c, &USUAL, 0);
    run(&c, 360, 0.01, 0.001);
    assert_int_equal(cost_hz(&c), 1);
    run(&c, 60, 0, 0);
    assert_int_equal(cost_hz(&c), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_sampling_keeps_its_rate),
        cmocka_unit_test(dear_sampling_costs_what_it_may),
        cmocka_unit_test(a_dear_beginning_is_made_up_for),
        cmocka_unit_test(the_rate_comes_back_when_sampling_gets_cheap),
        cmocka_unit_test(the_least_rate_is_kept_whatever_it_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
