/* What requests take beyond a prediction, in logarithms: how it is distributed, and so how likely chance
 * makes a mean of few of them as large as it is. Long tails count, as they do not in a normal approximation.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_RESIDUALS_H
#define DIAGNOSE_RESIDUALS_H

#include "span/sketch.h"

/* From -24 to 24: of any durations. */
#define RESIDUAL_BINS 960
#define RESIDUAL_STEP 0.05

struct residuals {
    double share[RESIDUAL_BINS]; /* counts until they are normalised */
    double mean, variance;       /* from then on */
};

/* Counts a sketch's requests, each at its logarithm less `level`; times -1 to take them back. */
void residuals_add(struct residuals *to, const struct sketch *sketch, double level, double times);

/* Counts become shares. */
void residuals_normalise(struct residuals *r);

/* The standard normal deviate as unlikely as a mean of n residuals that lies x above theirs: Chernoff's
 * bound, so rather too small than too large. 0 where x is not above 0. */
double residuals_deviate(const struct residuals *r, double n, double x);

#endif
