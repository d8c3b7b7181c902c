/* See shape.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/shape.h"

#include <math.h>

#include "base/macro.h"
#include "diagnose/stats.h"

#define ANYWHERE   0.02 /* share of requests that may take any time, so that no single one decides */
#define KERNEL     4    /* standard deviations, beyond which a kernel is cut off */
#define SHIFT_MAX  60   /* bins, either way: a factor of 20 */
#define WEIGHT_MAX 8.0

static double at_bin(const struct shape *shape, long bin)
{
    return shape->log_density[bin < 0 ? 0 : bin >= RESIDUAL_BINS ? RESIDUAL_BINS - 1 : bin];
}

static void smooth(const struct residuals *r, double smoothing, double *density)
{
    long reach = (long)(KERNEL * smoothing / RESIDUAL_STEP) + 1;
    double sum = 0;
    for (long k = -reach; k <= reach; k++)
        sum += exp(-0.5 * pow((double)k * RESIDUAL_STEP / smoothing, 2));
    for (long i = 0; i < RESIDUAL_BINS; i++)
        density[i] = ANYWHERE / RESIDUAL_BINS;
    for (long i = 0; i < RESIDUAL_BINS; i++)
        for (long k = -reach; r->share[i] > 0 && k <= reach; k++)
            if (i + k >= 0 && i + k < RESIDUAL_BINS)
                density[i + k] += (1 - ANYWHERE) * r->share[i] *
                                  exp(-0.5 * pow((double)k * RESIDUAL_STEP / smoothing, 2)) / sum;
}

void shape_of(const struct residuals *r, double smoothing, struct shape *ret_shape)
{
    double density[RESIDUAL_BINS], information = 0;
    smooth(r, smoothing, density);
    for (size_t i = 0; i < RESIDUAL_BINS; i++)
        ret_shape->log_density[i] = log(density[i]);
    for (long i = 1; i + 1 < RESIDUAL_BINS; i++) {
        double slope = (at_bin(ret_shape, i + 1) - at_bin(ret_shape, i - 1)) / (2 * RESIDUAL_STEP);
        information += density[i] * slope * slope;
    }
    ret_shape->information = information * (r->variance + smoothing * smoothing);
}

/* Of a request in a bin: log likelihood with the shift, less that without. */
static double log_ratio(const struct shape *shape, long bin, long shift)
{
    return at_bin(shape, bin - shift) - at_bin(shape, bin);
}

static double cumulant(const struct shape *shape, const struct residuals *chance, long shift, double weight)
{
    double sum = 0;
    for (long i = 0; i < RESIDUAL_BINS; i++)
        if (chance->share[i] > 0)
            sum += chance->share[i] * exp(weight * log_ratio(shape, i, shift));
    return log(sum);
}

struct chernoff {
    const struct shape *shape;
    const struct residuals *chance;
    long shift;  /* bins */
    double seen; /* mean log ratio of the requests */
};

/* Concave. */
static double exponent(const void *context, double weight)
{
    const struct chernoff *c = context;
    return weight * c->seen - cumulant(c->shape, c->chance, c->shift, weight);
}

double shape_deviate(const struct shape *shape, const struct residuals *chance, const double *counts,
                     double n, double shift)
{
    struct chernoff of = {shape, chance, lround(shift / RESIDUAL_STEP), 0};
    double usual = 0;
    for (long i = 0; i < RESIDUAL_BINS; i++) {
        of.seen += counts[i] / n * log_ratio(shape, i, of.shift);
        usual += chance->share[i] * log_ratio(shape, i, of.shift);
    }
    if (!(of.seen > usual))
        return 0;
    return sqrt(2 * n * fmax(stats_maximum(exponent, &of, 0, WEIGHT_MAX), 0));
}

static double likelihood(const struct shape *shape, const double *counts, long shift)
{
    double sum = 0;
    for (long i = 0; i < RESIDUAL_BINS; i++)
        sum += counts[i] > 0 ? counts[i] * at_bin(shape, i - shift) : 0;
    return sum;
}

double shape_shift(const struct shape *shape, const double *counts)
{
    double best = likelihood(shape, counts, 0);
    long at = 0;
    for (long shift = -SHIFT_MAX; shift <= SHIFT_MAX; shift++) {
        double likely = likelihood(shape, counts, shift);
        if (likely > best) {
            best = likely;
            at = shift;
        }
    }
    return (double)at * RESIDUAL_STEP;
}
