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
            double of_day, of_hour;
            day_scatter_split(&scatter, 0.75, &of_day, &of_hour);
            day += of_day / 100;
            hour += of_hour / 100;
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
    assert_true(below <= 8); /* 3 are expected */
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
    assert_true(prior.day_freedom > 2 && prior.day_freedom <= 8);
    make(&random, 0.02, 0.02, &levels);
    for (size_t i = 0; i < 3; i++)
        levels.level[i] += 0.25;
    assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &alone));
    assert_true(day_step_find(&levels, &prior, DAY - 1, &among));
    assert_true(among.p > 10 * alone.p);
    assert_true(prior.memory > 0);
    day_prior_learn(others, 3, &prior); /* three are no fleet */
    assert_true(prior.day_freedom == 0 && prior.hour_freedom == 0 && prior.memory == 0 && prior.tail == 0);
}

/* How long hours are alike is learnt of all of them. */
static void learns_how_long_hours_are_alike(void **state)
{
    static const double memories[] = {0.6, 0.75, 0.88};
    struct day_scatter others[60];
    struct day_levels levels;
    struct stats_random random;
    stats_random_init(&random, 13);
    for (size_t k = 0; k < 3; k++) {
        struct day_prior prior = NOTHING;
        for (size_t i = 0; i < 60; i++) {
            double now = 0, today = 0;
            make(&random, 0, 0, &levels);
            for (size_t h = DAY_LEVELS; h-- > 0;) {
                if (h % DAY == DAY - 1)
                    today = 0.06 * stats_random_normal(&random);
                now = memories[k] * now +
                      0.06 * sqrt(1 - memories[k] * memories[k]) * stats_random_normal(&random);
                levels.level[h] += now + today;
            }
            assert_true(day_scatter_learn(&levels, DAY - 1, &others[i]));
        }
        day_prior_learn(others, 60, &prior);
        assert_float_equal(prior.memory, memories[k], 0.08);
        assert_true(prior.same > 0.6);
    }
}

/* Hours that jump now and then, and come back little by little. */
static void make_jumping(struct stats_random *random, struct day_levels *levels)
{
    double left = 0;
    make(random, 0.03, 0.03, levels);
    for (size_t i = DAY_LEVELS; i-- > 0;) {
        left *= 0.75;
        if (stats_random_unit(random) < 0.004)
            left += (0.3 + 0.5 * stats_random_unit(random)) * (stats_random_unit(random) < 0.5 ? -1 : 1);
        levels->level[i] += left;
    }
}

/* Where hours jump, a jump alone is no evidence; that it stays is. */
static void a_jump_is_as_rare_as_among_others(void **state)
{
    struct day_scatter jumping[60], calm[60], with_incidents[60];
    struct day_prior rough = NOTHING, even = NOTHING, incidents = NOTHING;
    struct day_levels levels;
    struct stats_random random;
    stats_random_init(&random, 14);
    for (size_t i = 0; i < 60; i++) {
        make_jumping(&random, &levels);
        assert_true(day_scatter_learn(&levels, DAY - 1, &jumping[i]));
        make(&random, 0.03, 0.03, &levels);
        assert_true(day_scatter_learn(&levels, DAY - 1, &calm[i]));
        for (size_t h = DAY + 5; h + 5 < DAY_LEVELS; h++)
            if (stats_random_unit(&random) < 0.004) {
                levels.level[h] += 0.5;
                levels.level[++h] += 0.5;
            }
        assert_true(day_scatter_learn(&levels, DAY - 1, &with_incidents[i]));
    }
    day_prior_learn(with_incidents, 60, &incidents); /* which are worth an alarm each */
    day_prior_learn(jumping, 60, &rough);
    day_prior_learn(calm, 60, &even);
    double first = 1;
    for (size_t i = 0; i < 30; i++) {
        struct day_step step;
        make(&random, 0.03, 0.03, &levels);
        levels.level[0] += 0.6;
        assert_true(day_step_find(&levels, &even, DAY - 1, &step));
        assert_true(step.p < 1e-7);
        assert_true(day_step_find(&levels, &incidents, DAY - 1, &step));
        assert_true(step.p < 1e-6);
        assert_true(day_step_find(&levels, &rough, DAY - 1, &step));
        first = fmin(first, step.p);
        for (size_t k = 1; k < 5; k++)
            levels.level[k] += 0.6;
        assert_true(day_step_find(&levels, &rough, DAY - 1, &step));
        assert_true(step.p < 1e-7);
    }
    assert_true(first > 1e-6);
}

/* What was a short incident counts while it is, and no more once it is over. */
static void what_is_over_is_no_step(void **state)
{
    struct day_levels levels;
    struct day_step step;
    struct stats_random random;
    unsigned during = 0, after = 0;
    stats_random_init(&random, 15);
    for (size_t i = 0; i < 200; i++) {
        make(&random, 0.05, 0.05, &levels);
        levels.level[1] += 0.5;
        levels.level[2] += 0.5;
        assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &step));
        after += step.p < 1e-5;
        levels.level[0] += 0.5;
        assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &step));
        during += step.p < 1e-5;
    }
    assert_true(during > 150);
    assert_true(after <= 2);
}

/* A weekend is known from the weeks before: neither it nor its end is a step, nor does it hide one. */
static void a_weekend_is_no_step(void **state)
{
    struct stats_random random;
    stats_random_init(&random, 16);
    for (size_t ago = 0; ago < 2; ago++) { /* the newest day is of a weekend; the day before it was */
        unsigned false_ones = 0, found = 0;
        for (size_t i = 0; i < 200; i++) {
            struct day_levels levels;
            struct day_step step;
            make(&random, 0.05, 0.03, &levels);
            for (size_t h = 0; h < DAY_LEVELS; h++)
                levels.level[h] -= (h / DAY + 7 - ago) % 7 < 2 ? 0.4 : 0;
            assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &step));
            false_ones += step.p < 1e-4;
            for (size_t h = 0; h < 12; h++)
                levels.level[h] += 0.3;
            assert_true(day_step_find(&levels, &NOTHING, DAY - 1, &step));
            found += step.p < 1e-4;
        }
        assert_true(false_ones <= 2);
        assert_true(found > 150);
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(learns_days_and_hours),
                                       cmocka_unit_test(finds_the_hour_of_a_step),
                                       cmocka_unit_test(is_calibrated),
                                       cmocka_unit_test(learns_from_others),
                                       cmocka_unit_test(learns_when_days_begin),
                                       cmocka_unit_test(learns_how_long_hours_are_alike),
                                       cmocka_unit_test(a_jump_is_as_rare_as_among_others),
                                       cmocka_unit_test(what_is_over_is_no_step),
                                       cmocka_unit_test(a_weekend_is_no_step),
                                       cmocka_unit_test(says_nothing_of_too_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
