/* What to set for a service, found out by profiling it once (Atys, section 5.3: the initialization stage):
 * how far threads can be pruned for an acceptable error, and how often what is hot changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_TUNING_H
#define STEER_TUNING_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

enum { TUNING_STEPS = 11 };

/* One share of the threads' weight that could be kept. */
struct tuning_step {
    double percent;
    double time_ns;       /* to merge the pruned profile into another and write it as pprof */
    double bytes;         /* of that pprof */
    double error_percent; /* MAPE of the own weights of the top 50 functions */
};

struct tuning {
    struct tuning_step steps[TUNING_STEPS]; /* from 50 % up to 100 % */
    /* T(p) = slope * p + offset, in ns, least squares; and MAPE(p) = scale * log(1 + rate * (100 - p)), which
     * is the paper's form with no error where nothing is pruned. Errors of the fits: the mean absolute one,
     * in per cent of the mean time, and in points of MAPE. */
    double slope, offset, time_fit_error;
    double scale, rate, error_fit_error;
    double fitted_percent; /* the smallest share whose MAPE is acceptable, by the fit */
    double percent; /* what is recommended: neither the fit nor what was measured says that it errs more */
};

/* acceptable: in per cent. Times are of this thread, the least of three. 0 or -ENOMEM. */
int tuning_measure(const struct profile *profile, double acceptable, struct tuning *ret_tuning);

/* The period of a sequence, in its steps: the lag of the largest autocorrelation, which must be above what
 * chance gives (Bartlett's two standard errors, for as many lags); 0: there is none. */
size_t tuning_period(const double *values, size_t count);

#endif
