/* See residuals.h. The bound is n times the largest of t x - K(t), where K is the logarithm of the residuals'
 * moment-generating function about their mean. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/residuals.h"

#include <math.h>

#include "base/macro.h"
#include "diagnose/stats.h"

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

struct chernoff {
    const struct residuals *residuals;
    double x;
};

/* Concave. */
static double exponent(const void *context, double t)
{
    const struct chernoff *c = context;
    return t * c->x - cumulant(c->residuals, t);
}

double residuals_deviate(const struct residuals *r, double n, double x)
{
    const struct chernoff of = {r, x};
    if (!(x > 0))
        return 0;
    double most = stats_maximum(exponent, &of, 0, fmin(4 * x / fmax(r->variance, 1e-6), T_MAX));
    return sqrt(2 * n * fmax(most, 0));
}
