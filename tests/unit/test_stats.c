/* Known answers: tables of the normal and t distributions, and small samples worked by hand or by R. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/stats.h"

#include <math.h>

#include "test.h"

#define NEAR(got, want, within) assert_true(fabs((got) - (want)) <= (within))

static void distributions(void **state)
{
    NEAR(stats_normal_above(1.959964), 0.025, 1e-6);
    NEAR(stats_normal_above(-1), 0.8413447, 1e-6);
    NEAR(stats_student_above(2.228139, 10), 0.025, 1e-6);
    NEAR(stats_student_above(-12.7062, 1), 0.975, 1e-6);
    NEAR(stats_student_above(3.169273, 10), 0.005, 1e-6);
    NEAR(stats_student_above(1.96, 1e6), stats_normal_above(1.96), 1e-5);
    NEAR(stats_chi_square_above(18.307038, 10), 0.05, 1e-7);
    NEAR(stats_chi_square_above(3.940299, 10), 0.95, 1e-7);
    NEAR(stats_chi_square_above(39.0, 10), 2.53e-5, 2e-7);
    NEAR(stats_chi_square_above(3.841459, 1), 0.05, 1e-7);
    NEAR(stats_f_above(4.964603, 1, 10), 0.05, 1e-7);
    NEAR(stats_f_above(2.977, 10, 10), 0.05, 1e-3);
    NEAR(stats_f_above(1.8307038, 10, INFINITY), 0.05, 1e-7);
    NEAR(stats_f_quantile(0.05, 1, 10), 4.964603, 1e-5);
    NEAR(stats_student_quantile(0.025, 10), 2.228139, 1e-5);
}

static void welch(void **state)
{
    /* t.test(b, a, alternative = "greater"): t = 1.9811 on 5.8987 degrees of freedom, p = 0.0478 */
    const double a[] = {10, 12, 11, 13}, b[] = {14, 11, 16, 15, 12};
    struct welch w = stats_welch(a, 4, b, 5);
    NEAR(w.difference, 2.1, 1e-9);
    NEAR(w.error, sqrt(1.6666667 / 4 + 4.3 / 5), 1e-6);
    NEAR(w.freedom, 6.712, 0.01);
    NEAR(w.p, stats_student_above(w.difference / w.error, w.freedom), 1e-12);
    assert_true(w.p > 0.03 && w.p < 0.06);
    const double d[] = {1, 2, 3};
    w = stats_paired(d, 3);
    NEAR(w.p, stats_student_above(2 / (1 / sqrt(3)), 2), 1e-12);
    NEAR(stats_welch(a, 1, b, 5).p, 1, 0);
}

static void ranks(void **state)
{
    const double a[] = {1, 2, 3, 4, 5}, b[] = {6, 7, 8, 9, 10};
    /* U = 25, mean 12.5, variance 22.9167, with continuity correction z = 2.5067 */
    NEAR(stats_mann_whitney(a, 5, b, 5), stats_normal_above(2.5067), 1e-4);
    NEAR(stats_mann_whitney(a, 5, a, 5), stats_normal_above(-0.5 / sqrt(22.7778)), 1e-3);
}

static void false_discoveries(void **state)
{
    const double p[] = {0.01, 0.04, 0.03, 0.005, 0.55};
    bool rejected[5];
    double adjusted[5];
    assert_int_equal(stats_benjamini_hochberg(p, 5, 0.05, rejected, adjusted), 4);
    NEAR(adjusted[3], 0.025, 1e-12);
    NEAR(adjusted[0], 0.025, 1e-12);
    NEAR(adjusted[2], 0.05, 1e-12);
    NEAR(adjusted[1], 0.05, 1e-12);
    assert_false(rejected[4]);
}

static void change_points(void **state)
{
    struct stats_random random;
    double values[60];
    size_t points[8];
    stats_random_init(&random, 7);
    for (int i = 0; i < 60; i++)
        values[i] = stats_random_normal(&random) * 0.1 + (i >= 20 ? 1 : 0) + (i >= 45 ? 2 : 0);
    assert_int_equal(stats_change_points(values, 60, 5, 0.01, 199, 1, points, 8), 2);
    assert_int_equal(points[0], 20);
    assert_int_equal(points[1], 45);
    for (int i = 0; i < 60; i++)
        values[i] = stats_random_normal(&random);
    values[30] = 50; /* one spike is no new regime */
    assert_int_equal(stats_change_points(values, 60, 5, 0.01, 199, 1, points, 8), 0);
}

/* Sequences without a change: as many false ones as the level says. */
static void change_points_keep_their_level(void **state)
{
    struct stats_random random;
    double values[40];
    size_t points[4], found = 0;
    stats_random_init(&random, 9);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 40; i++)
            values[i] = stats_random_normal(&random);
        found += stats_change_points(values, 40, 5, 0.05, 99, (uint64_t)round, points, 4) > 0;
    }
    assert_true(found >= 2 && found <= 20);
}

static void random_numbers(void **state)
{
    struct stats_random random;
    double mean, variance;
    static double values[20000];
    stats_random_init(&random, 1);
    for (int i = 0; i < 20000; i++)
        values[i] = (double)stats_random_poisson(&random, 4);
    stats_moments(values, 20000, &mean, &variance);
    NEAR(mean, 4, 0.06);
    NEAR(variance, 4, 0.2);
    NEAR(stats_median(values, 20000), 4, 0);
}

struct parabola {
    double top;
    unsigned calls;
};

static double parabola(const void *context, double x)
{
    struct parabola *p = *(struct parabola *const *)context;
    p->calls++;
    return 3 - (x - p->top) * (x - p->top);
}

static double entropy(const void *context, double x)
{
    return -x * log(x); /* NaN at 0 */
}

/* Within the range, at either end, beyond it, and of a range that is one place. */
static void maximum(void **state)
{
    struct parabola p = {.top = 0.3}, *at = &p;
    NEAR(stats_maximum(parabola, &at, 0, 8), 3, 1e-12);
    assert_true(p.calls <= 44); /* one for each step */
    p.top = 0;
    NEAR(stats_maximum(parabola, &at, 0, 8), 3, 0);
    p.top = 8;
    NEAR(stats_maximum(parabola, &at, 0, 8), 3, 0);
    p.top = 9;
    NEAR(stats_maximum(parabola, &at, 0, 8), 2, 0);
    p.top = 2;
    NEAR(stats_maximum(parabola, &at, 1, 1), 2, 0);
    NEAR(stats_maximum(entropy, NULL, 0, 1), exp(-1), 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distributions),  cmocka_unit_test(welch),
        cmocka_unit_test(ranks),          cmocka_unit_test(false_discoveries),
        cmocka_unit_test(change_points),  cmocka_unit_test(change_points_keep_their_level),
        cmocka_unit_test(random_numbers), cmocka_unit_test(maximum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
