/* See residuals.h. The bound is n times the largest of t x - K(t), where K is the logarithm of the residuals'
 * moment-generating function about their mean. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/residuals.h"

#include <math.h>

#include "base/macro.h"

#define T_MAX 80.0

static double residual_at(size_t bin)
{
    return ((double)bin + 0.5 - RESIDUAL_BINS / 2.0) * RESIDUAL_STEP;
}

void residuals_add(struct residuals *to, const struct sketch *sketch, double level, double times)
{
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    for (unsigned bin = first; bin < end; bin++) {
        uint64_t n = sketch_bin_count(sketch, (uint16_t)bin);
        if (!n)
            continue;
        double x = log(fmax(sketch_bin_middle((uint16_t)bin), 1)) - level;
        size_t at = (size_t)fmin(fmax(x / RESIDUAL_STEP + RESIDUAL_BINS / 2.0, 0), RESIDUAL_BINS - 1);
        to->share[at] += times * (double)n;
    }
}

void residuals_normalise(struct residuals *r)
{
    double n = 0;
    r->mean = r->variance = 0;
    for (size_t i = 0; i < RESIDUAL_BINS; i++)
        n += r->share[i];
    for (size_t i = 0; i < RESIDUAL_BINS; i++) {
        r->share[i] /= n;
        r->mean += r->share[i] * residual_at(i);
    }
    for (size_t i = 0; i < RESIDUAL_BINS; i++)
        r->variance += r->share[i] * (residual_at(i) - r->mean) * (residual_at(i) - r->mean);
}

static double cumulant(const struct residuals *r, double t)
{
    double sum = 0;
    for (size_t i = 0; i < RESIDUAL_BINS; i++)
        if (r->share[i] > 0)
            sum += r->share[i] * exp(t * (residual_at(i) - r->mean));
    return log(sum);
}

/* t x - K(t) is concave: golden section. */
double residuals_deviate(const struct residuals *r, double n, double x)
{
    double low = 0, high = fmin(4 * x / fmax(r->variance, 1e-6), T_MAX), best = 0;
    if (!(x > 0))
        return 0;
    for (int step = 0; step < 40; step++) {
        double a = low + 0.382 * (high - low), b = low + 0.618 * (high - low);
        double at_a = a * x - cumulant(r, a), at_b = b * x - cumulant(r, b);
        best = fmax(best, fmax(at_a, at_b));
        if (at_a < at_b)
            low = a;
        else
            high = b;
    }
    return sqrt(2 * n * best);
}
