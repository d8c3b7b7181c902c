/* See errors.h. Given all errors of a stratum and both sides' requests, the newer side's errors are
 * hypergeometric (Mantel and Haenszel, JNCI 1959); over strata their sum is taken as binomial where there are
 * few, else as normal. Dispersion: Pearson's statistic of hosts within their side over its degrees of freedom
 * (McCullagh and Nelder, Generalized Linear Models, 4.5), shrunk towards 1. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/errors.h"

#include <math.h>

#include "base/macro.h"
#include "diagnose/stats.h"

#define PRIOR_FREEDOM 4
#define EXACT_MAX     2000 /* errors, up to which the binomial distribution is summed */

struct side {
    double requests, errors, expected;
};

static double find_dispersion(const struct match *match, const struct side *sides)
{
    double sum = PRIOR_FREEDOM, freedom = PRIOR_FREEDOM;
    size_t hosts[2] = {0};
    array_foreach (&match->errors, e) {
        const struct side *side = &sides[e->newer];
        double rate = side->requests > 0 ? side->errors / side->requests : 0;
        double expected = side->expected > 0 ? e->expected * side->errors / side->expected : 0;
        double variance = fmax(expected * (1 - rate), 0.5);
        sum += (e->errors - expected) * (e->errors - expected) / variance;
        hosts[e->newer]++;
    }
    for (int s = 0; s < 2; s++)
        freedom += hosts[s] > 1 ? (double)hosts[s] - 1 : 0;
    return fmax(sum / freedom, 1);
}

/* P(X >= at least) of n trials. */
static double binomial_above(double n, double share, double at_least)
{
    double sum = 0;
    if (at_least <= 0 || share >= 1)
        return 1;
    if (share <= 0)
        return 0;
    for (double k = at_least; k <= n; k++)
        sum +=
            exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(share) + (n - k) * log1p(-share));
    return fmin(sum, 1);
}

/* Likelihood ratios of several odds to even ones, mixed. */
static double e_value_of(double errors_newer, double errors, double share, double dispersion)
{
    static const double odds[] = {1.5, 3, 10};
    double sum = 0;
    for (size_t i = 0; i < ARRAY_SIZE(odds); i++) {
        double exponent = errors_newer * log(odds[i]) - errors * log(share * odds[i] + 1 - share);
        sum += exp(fmin(exponent / dispersion, 600)) / (double)ARRAY_SIZE(odds);
    }
    return sum;
}

void errors_test(const struct match *match, struct error_result *ret_result)
{
    struct side sides[2] = {0};
    struct error_result r = {
        .p = 1, .adjusted_p = 1, .ratio = 1, .high = INFINITY, .e_value = 1, .dispersion = 1};
    array_foreach (&match->errors, e) {
        sides[e->newer].requests += e->requests;
        sides[e->newer].errors += e->errors;
        sides[e->newer].expected += e->expected;
    }
    double errors = sides[0].errors + sides[1].errors;
    if (sides[0].requests > 0 && sides[1].requests > 0) {
        r.errors_older = sides[0].errors;
        r.errors_newer = sides[1].errors;
        r.rate_older = sides[0].errors / sides[0].requests;
        r.rate_newer = sides[1].errors / sides[1].requests;
        r.dispersion = find_dispersion(match, sides);
        r.ratio = (sides[1].errors + 0.5) / (sides[1].requests + 1) * (sides[0].requests + 1) /
                  (sides[0].errors + 0.5);
        double reach =
            1.96 * sqrt(r.dispersion * (1 / (sides[0].errors + 0.5) + 1 / (sides[1].errors + 0.5)));
        r.low = r.ratio * exp(-reach);
        r.high = r.ratio * exp(reach);
    }
    if (errors > 0 && sides[1].expected > 0) {
        double share = sides[1].expected / errors, spread = sqrt(match->error_variance * r.dispersion);
        r.e_value = e_value_of(sides[1].errors, errors, share, r.dispersion);
        if (errors <= EXACT_MAX || spread <= 0)
            r.p = binomial_above(floor(errors / r.dispersion), share, ceil(sides[1].errors / r.dispersion));
        else
            r.p = stats_normal_above((sides[1].errors - 0.5 - sides[1].expected) / spread);
    }
    *ret_result = r;
}
