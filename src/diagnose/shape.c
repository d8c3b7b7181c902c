/* See shape.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/shape.h"

#include <math.h>

#include "base/macro.h"

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

double shape_deviate(const struct shape *shape, const struct residuals *chance, const double *counts,
                     double n, double shift)
{
    long bins = lround(shift / RESIDUAL_STEP);
    double seen = 0, usual = 0, low = 0, high = WEIGHT_MAX, best = 0;
    for (long i = 0; i < RESIDUAL_BINS; i++) {
        seen += counts[i] / n * log_ratio(shape, i, bins);
        usual += chance->share[i] * log_ratio(shape, i, bins);
    }
    if (seen <= usual)
        return 0;
    for (int step = 0; step < 40; step++) {
        double a = low + 0.382 * (high - low), b = low + 0.618 * (high - low);
        double at_a = a * seen - cumulant(shape, chance, bins, a);
        double at_b = b * seen - cumulant(shape, chance, bins, b);
        best = fmax(best, fmax(at_a, at_b));
        if (at_a < at_b)
            low = a;
        else
            high = b;
    }
    return sqrt(2 * n * best);
}

double shape_shift(const struct shape *shape, const double *counts)
{
    double best = -INFINITY;
    long at = 0;
    for (long shift = -SHIFT_MAX; shift <= SHIFT_MAX; shift++) {
        double likelihood = 0;
        for (long i = 0; i < RESIDUAL_BINS; i++)
            likelihood += counts[i] > 0 ? counts[i] * at_bin(shape, i - shift) : 0;
        if (likelihood > best) {
            best = likelihood;
            at = shift;
        }
    }
    return (double)at * RESIDUAL_STEP;
}
