/* Steps of an hourly level: what is learnt of days and hours, and what others add to it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/day_steps.h"

#include <math.h>

#include "diagnose/stats.h"
#include "test.h"

enum { DAY = 24 };

static const struct day_prior NOTHING = {.day_least = 1e-4, .hour_least = 1e-4};

/* Days and hours that wander; the newest hour is the last of its day. */
static void make(struct stats_random *random, double day, double hour, struct day_levels *levels)
{
    double today = 0, now = 0;
    for (size_t i = DAY_LEVELS; i-- > 0;) {
        if (i % DAY == DAY - 1)
            today = day * stats_random_normal(random);
        now = 0.75 * now + hour * sqrt(1 - 0.75 * 0.75) * stats_random_normal(random);
        levels->known[i] = true;
        levels->level[i] = 3 + sin((double)(i % DAY)) + today + now + 0.02 * stats_random_normal(random);
        levels->error[i] = 0.02;
    }
}

static void learns_days_and_hours(void **state)
{
    const double plans[][2] = {{0.1, 0.05}, {0.05, 0.1}, {0.03, 0.02}};
    struct stats_random random;
    stats_random_init(&random, 7);
    for (size_t k = 0; k < 3; k++) {
        double day = 0, hour = 0;
        for (int i = 0; i < 100; i++) {
            struct day_levels levels;
            struct day_scatter scatter;
            make(&random, plans[k][0], plans[k][1], &levels);
            assert_true(day_scatter_learn(&levels, DAY - 1, &scatter));
            day += scatter.day / 100;
            hour += scatter.hour / 100;
        }
        assert_float_equal(sqrt(day) / plans[k][0], 1, 0.3);
        assert_float_equal(sqrt(hour) / plans[k][1], 1, 0.3);
    }
}

static void finds_the_hour_of_a_step(void **state)
{
    struct stats_random random;
    unsigned exact = 0;
    stats_random_init(&random, 8);
    for (size_t since = 1; since <= 20; since++) {
        struct day_levels levels;
        struct day_step step;
        make(&random, 0.05, 0.03, &levels);
        for (size_t i = 0; i < since; i++)
            levels.level[i] += 0.4;
        assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &step));
        exact += step.hours == since;
        assert_true(step.p < 1e-4);
        assert_float_equal(step.growth, 0.4, 0.25);
    }
    assert_true(exact >= 16);
}

/* The share of ordinary hours below a probability is about that. */
static void is_calibrated(void **state)
{
    struct stats_random random;
    unsigned below = 0, days = 3000;
    stats_random_init(&random, 9);
    for (unsigned i = 0; i < days; i++) {
        struct day_levels levels;
        struct day_step step;
        make(&random, 0.06, 0.06, &levels);
        assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &step));
        below += step.p < 0.001;
    }
    assert_true(below <= 24); /* the best of a day's steps; one alone would be 3 */
}

/* Who has been quiet by luck is not taken at its word where others are not quiet. */
static void learns_from_others(void **state)
{
    struct day_scatter others[40];
    struct day_prior prior = NOTHING;
    struct day_levels levels;
    struct day_step alone, among;
    struct stats_random random;
    stats_random_init(&random, 10);
    for (size_t i = 0; i < 40; i++) {
        make(&random, 0.1, 0.1, &levels);
        assert_true(day_scatter_learn(&levels, DAY - 1, &others[i]));
    }
    day_prior_learn(others, 40, &prior);
    assert_float_equal(sqrt(prior.day), 0.1, 0.04);
    assert_float_equal(sqrt(prior.hour), 0.1, 0.04);
    assert_true(prior.freedom > 2 && prior.freedom <= 8);
    make(&random, 0.02, 0.02, &levels);
    for (size_t i = 0; i < 3; i++)
        levels.level[i] += 0.25;
    assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &alone));
    assert_true(day_step_find(&levels, &prior, DAY - 1, &among));
    assert_true(among.p > 10 * alone.p);
    prior.freedom = 1;
    day_prior_learn(others, 3, &prior); /* three are no fleet */
    assert_true(prior.freedom == 0);
}

/* Days that begin at another hour than UTC's are known by what changes then. */
static void learns_when_days_begin(void **state)
{
    struct day_scatter others[20];
    struct day_levels levels;
    struct stats_random random;
    struct day_prior prior = NOTHING;
    for (size_t newest = 0; newest < DAY; newest += 5) {
        stats_random_init(&random, 12);
        for (size_t i = 0; i < 20; i++) {
            make(&random, 0.1, 0.03, &levels);
            assert_true(day_scatter_learn(&levels, newest, &others[i]));
        }
        day_prior_learn(others, 20, &prior);
        assert_int_equal(prior.begins, (newest + 1) % DAY);
    }
}

static void says_nothing_of_too_little(void **state)
{
    struct day_levels levels;
    struct day_step step;
    struct day_scatter scatter;
    struct stats_random random;
    stats_random_init(&random, 11);
    make(&random, 0.05, 0.05, &levels);
    for (size_t i = DAY; i < DAY_LEVELS; i++)
        levels.known[i] = i < DAY + DAY / 2;
    assert_false(day_scatter_learn(&levels, DAY - 1, &scatter));
    assert_false(day_step_find(&levels, &NOTHING, DAY - 1, &step));
    make(&random, 0.05, 0.05, &levels);
    levels.known[0] = false;
    assert_false(day_step_find(&levels, &NOTHING, DAY - 1, &step));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_days_and_hours),  cmocka_unit_test(finds_the_hour_of_a_step),
        cmocka_unit_test(is_calibrated),          cmocka_unit_test(learns_from_others),
        cmocka_unit_test(learns_when_days_begin), cmocka_unit_test(says_nothing_of_too_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
