/* How certain the shares of a profile's functions are, and whether that is what was asked for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_CERTAINTY_H
#define STEER_CERTAINTY_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/intervals.h"

/* Gives the profile intervals of 95 % for all its functions (and takes those it had). The variance is that
 * between blocks (profile/blocks.h); where a function has few samples, it is drawn towards what most
 * functions have. Intervals are Wilson's for as many independent samples as the variance is worth, with
 * Student's t in place of the normal quantile (Korn and Graubard, Survey Methodology 24, 1998, do so with
 * Clopper and Pearson's). Without blocks four samples are taken for one independent one. 0 or -ENOMEM. */
int certainty_measure(struct profile *profile);

/* Wilson's interval of a share (0 to 1) of n independent samples (more than 0), t standard errors to each
 * side. */
void certainty_wilson(double share, double n, double t, double *ret_low, double *ret_high);

/* "5%@1%": every function that takes 1 % or more, itself or with what it calls, is to be known to 5 % of its
 * share. */
struct certainty_target {
    double error, above; /* 0.05, 0.01 */
};

/* Reads "ERROR%@ABOVE%" or "ERROR%" (above 1 %). -EINVAL. */
int certainty_target_read(const char *text, struct certainty_target *ret_target);

struct certainty_reached {
    bool reached;
    size_t functions, unknown; /* that take so much; of them not known well enough */
    double worst;        /* half the interval over the share, of the least known; 0: there is no function */
    uint32_t frame;      /* that function */
    bool worst_is_total; /* with what it calls */
    double times; /* as many samples (or as much time) as there are now would do it, if it goes on so */
};

/* The profile must have intervals: without them nothing is reached. */
struct certainty_reached certainty_check(const struct profile *profile,
                                         const struct certainty_target *target);

#endif
