/* Known answers: a shape of one hump has the information of its mean, one of two humps has more; shifts are
 * found where they were made; Chernoff's bound of shapes for which it is known. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/shape.h"

#include <math.h>
#include <string.h>

#include "test.h"

#define NEAR(got, want, within) assert_true(fabs((got) - (want)) <= (within))

enum { CENTRE = RESIDUAL_BINS / 2 };

/* A share of 1 in all, in these bins to equal parts. */
static void make(struct residuals *r, const int *bins, size_t count)
{
    memset(r, 0, sizeof(*r));
    for (size_t i = 0; i < count; i++)
        r->share[bins[i]] += 1;
    residuals_normalise(r);
}

static void make_normal(struct residuals *r, double deviation)
{
    memset(r, 0, sizeof(*r));
    for (int i = 0; i < RESIDUAL_BINS; i++)
        r->share[i] = exp(-0.5 * pow((i - CENTRE) * RESIDUAL_STEP / deviation, 2));
    residuals_normalise(r);
}

/* So many requests, shifted by bins. */
static void count_shifted(const struct residuals *r, double n, int bins, double *counts)
{
    for (int i = 0; i < RESIDUAL_BINS; i++)
        counts[i] = i - bins >= 0 && i - bins < RESIDUAL_BINS ? n * r->share[i - bins] : 0;
}

static void densities_sum_up(void **state)
{
    static struct residuals r;
    static struct shape shape;
    double sum = 0;
    make(&r, (const int[]){CENTRE, CENTRE + 40}, 2);
    shape_of(&r, 0.2, &shape);
    for (int i = 0; i < RESIDUAL_BINS; i++)
        sum += exp(shape.log_density[i]);
    NEAR(sum, 1, 1e-9);
    NEAR(exp(shape.log_density[0]), 0.02 / RESIDUAL_BINS, 1e-12); /* anywhere, by chance */
    NEAR(shape.log_density[CENTRE], shape.log_density[CENTRE + 40], 1e-9);
}

/* Fisher's information of a normal distribution about its place is 1 / variance; of two humps far apart it is
 * that of one, which is 101 times what a mean of both uses. */
static void information(void **state)
{
    static struct residuals r;
    static struct shape shape;
    make(&r, (const int[]){CENTRE}, 1);
    shape_of(&r, 0.5, &shape);
    NEAR(shape.information, 0.97, 0.03);
    make(&r, (const int[]){CENTRE, CENTRE + 100}, 2);
    NEAR(r.variance, 6.25, 1e-9);
    shape_of(&r, 0.25, &shape);
    NEAR(shape.information, 101 * 0.96, 4);
}

static void shifts(void **state)
{
    static struct residuals r;
    static struct shape shape;
    static double counts[RESIDUAL_BINS];
    make(&r, (const int[]){CENTRE, CENTRE, CENTRE + 40}, 3);
    shape_of(&r, 0.1, &shape);
    for (int bins = -60; bins <= 60; bins += 12) {
        count_shifted(&r, 30, bins, counts);
        NEAR(shape_shift(&shape, counts), bins * RESIDUAL_STEP, 1e-9);
    }
    count_shifted(&r, 30, 200, counts); /* beyond what is looked for: some shift in reach */
    assert_true(fabs(shape_shift(&shape, counts)) <= 60 * RESIDUAL_STEP + 1e-9);
    memset(counts, 0, sizeof(counts)); /* no request at all is not shifted */
    NEAR(shape_shift(&shape, counts), 0, 0);
}

/* Requests of a normal shape that are shifted: what a test of their mean says, of many or few. */
static void normal_deviates(void **state)
{
    static struct residuals r;
    static struct shape shape;
    static double counts[RESIDUAL_BINS];
    make_normal(&r, 0.5);
    shape_of(&r, 0.05, &shape);
    count_shifted(&r, 100, 5, counts);
    double deviate = shape_deviate(&shape, &r, counts, 100, 0.25);
    NEAR(deviate, sqrt(100) * 0.25 / 0.5, 0.25);
    count_shifted(&r, 400, 5, counts);
    NEAR(shape_deviate(&shape, &r, counts, 400, 0.25), 2 * deviate, 1e-6);
}

/* Where residuals are all equal, the bound grows with the weight, to the largest that is tried (8). */
static void largest_weight(void **state)
{
    static struct residuals r;
    static struct shape shape;
    static double counts[RESIDUAL_BINS];
    make(&r, (const int[]){CENTRE}, 1);
    shape_of(&r, 0.3, &shape);
    count_shifted(&r, 7, 10, counts);
    double ratio = shape.log_density[CENTRE] - shape.log_density[CENTRE + 10];
    assert_true(ratio > 1);
    NEAR(shape_deviate(&shape, &r, counts, 7, 0.5), sqrt(2 * 7 * 8 * 2 * ratio), 1e-6);
}

static void nothing_unlikely(void **state)
{
    static struct residuals r;
    static struct shape shape;
    static double counts[RESIDUAL_BINS];
    make_normal(&r, 0.5);
    shape_of(&r, 0.1, &shape);
    count_shifted(&r, 50, 0, counts);
    NEAR(shape_deviate(&shape, &r, counts, 50, 0.5), 0, 1e-9); /* as by chance */
    NEAR(shape_deviate(&shape, &r, counts, 50, 0), 0, 0);      /* no shift is asked for */
    count_shifted(&r, 50, -10, counts);
    NEAR(shape_deviate(&shape, &r, counts, 50, 0.5), 0, 0); /* the other way */
    memset(counts, 0, sizeof(counts));
    NEAR(shape_deviate(&shape, &r, counts, 0, 0.5), 0, 0); /* no request */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(densities_sum_up), cmocka_unit_test(information),
        cmocka_unit_test(shifts),           cmocka_unit_test(normal_deviates),
        cmocka_unit_test(largest_weight),   cmocka_unit_test(nothing_unlikely)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
