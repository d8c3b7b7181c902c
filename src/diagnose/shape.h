/* A shift of requests whose latency has a known shape. Where the shape is not one hump, as with a cache that
 * hits or misses, a mean says little of a shift, and where each request lies says much: between the humps,
 * where hardly any lay before. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SHAPE_H
#define DIAGNOSE_SHAPE_H

#include "diagnose/residuals.h"

struct shape {
    double log_density[RESIDUAL_BINS];
    double information; /* of a request about a shift, as a multiple of what the mean uses of it (Fisher) */
};

/* Smoothed by a normal kernel of this standard deviation. */
void shape_of(const struct residuals *r, double smoothing, struct shape *ret_shape);

/* The standard normal deviate as unlikely as these n requests' likelihood ratio of that shift to none, when
 * each is one of the residuals by chance (Chernoff's bound). counts: by bin of a residual. */
double shape_deviate(const struct shape *shape, const struct residuals *chance, const double *counts,
                     double n, double shift);

/* The most likely shift; 0 of no requests. counts as above. */
double shape_shift(const struct shape *shape, const double *counts);

#endif
