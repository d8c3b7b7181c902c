/* When a level that is measured every hour went up within the last day. An hour differs from the same hour of
 * other days for three reasons that are not worth an alarm: whole days are slower or faster than others, some
 * hours in succession are, and a few requests say little. How large the first two are is learnt from the days
 * before, of the operation itself and, as that is little, of all others. A step is then looked for with the
 * hours' covariance (generalised least squares): of hours in succession that are all a little slower, each
 * says less than the first, but together they say more; and the hours before the step say what kind of day it
 * is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_DAY_STEPS_H
#define DIAGNOSE_DAY_STEPS_H

#include <stdbool.h>
#include <stddef.h>

enum { DAY_HOURS = 24, DAY_LEVELS = 22 * DAY_HOURS }; /* three weeks, and a day more */

/* By how many hours ago, the newest first. */
struct day_levels {
    bool known[DAY_LEVELS];
    double level[DAY_LEVELS], error[DAY_LEVELS]; /* error: the standard error of a level */
};

/* Variances beside those errors: between days, and between hours of a day; days 0: not known. */
struct day_scatter {
    double day, hour;
    double freedom;
    float jumps[DAY_HOURS]; /* by hour of the day in UTC: of the change since the hour before, in all 1 */
};

/* What the other operations say of one more. Zero where nothing is known of them. */
struct day_prior {
    double day, hour; /* variances, in the middle */
    double freedom;   /* how many degrees of freedom that is worth */
    double day_least, hour_least;
    size_t begins; /* at which hour in UTC another day begins: most change then */
};

/* Since when, by how much, and by what chance that is seen where nothing is. */
struct day_step {
    size_t hours; /* since the step, 1: only the newest */
    double growth, growth_error, p;
};

/* of_day: hour of the newest one in UTC. False where there are too few hours. */
bool day_scatter_learn(const struct day_levels *levels, size_t of_day, struct day_scatter *ret_scatter);

/* Of the scatters of many operations; sorts them. */
void day_prior_learn(struct day_scatter *scatters, size_t count, struct day_prior *prior);

/* of_day: the newest hour's, in UTC, where days begin. False where it, or the days before it, are not known.
 */
bool day_step_find(const struct day_levels *levels, const struct day_prior *prior, size_t of_day,
                   struct day_step *ret_step);

#endif
