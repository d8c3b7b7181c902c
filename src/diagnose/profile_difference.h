/* Which functions cost more in one profile than in another, how much, and how certain that is.
 *
 * Two runs do different amounts of work, and a function that became slower makes the shares of all others
 * smaller. Functions are therefore compared by the ratio of their weights to what most functions' ratio is
 * (the median of ratios: Anders and Huber, Differential expression analysis for sequence count data, 2010,
 * section 3.1); where there are too few for that, to the ratio of the sums.
 *
 * Samples are no independent draws. How a function's share varies between stretches of a profile (windows.h),
 * or between processes, gives its error as that of a ratio estimate, moderated by those of other functions;
 * where a profile has neither, its samples are taken to be worth a quarter of their number. The functions
 * themselves then show whether that is right: most are unchanged, and scatter about the median by what two
 * runs differ by (an empirical null: Efron, Large-scale simultaneous hypothesis testing, 2004). Where they
 * scatter by more, runs differ by more than stretches do (where code and data lie, what else runs), and each
 * function has that in addition; where by less, all errors are smaller by that factor. Interrupts are left
 * out of both. Verdicts are Holm's over all functions at 5 %: with nothing changed, 95 % of comparisons name
 * no function.
 *
 * Where several earlier runs are known, as long as the one that is judged, they say for each function how
 * much a whole run of it varies. Few runs say little of one function, so that its variance is moderated by
 * those of the functions that weigh about as much (Smyth, Linear models and empirical Bayes methods for
 * assessing differential expression in microarray experiments, 2004, section 3; the prior follows the weight
 * as in Law et al., voom, 2014). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_PROFILE_DIFFERENCE_H
#define DIAGNOSE_PROFILE_DIFFERENCE_H

#include "base/array.h"
#include "profile/profile.h"

enum difference_verdict {
    DIFFERENCE_NOISE,
    DIFFERENCE_SLOWER,
    DIFFERENCE_FASTER,
    DIFFERENCE_UNKNOWN, /* too few samples to say anything */
    DIFFERENCE_MACHINE, /* mostly interrupts: what else the machine did, whoever was interrupted */
};

/* "noise", "slower", "faster", "too few samples", "interrupts" */
const char *difference_verdict_name(enum difference_verdict verdict);

/* Of a function's weight, itself or with what it calls. */
struct difference {
    double before, after; /* shares of the whole */
    double ratio;         /* after / before, relative to most functions; 1: no change. 0: unknown */
    double low, high;     /* of 95 %; infinite when it was not there before */
    double growth, growth_low, growth_high; /* of the share, relative to most functions; of 95 % */
    double p;                               /* two-sided, of this function alone */
    enum difference_verdict verdict;
};

struct function_difference {
    const char *name, *place; /* of the profiles, which have to stay */
    struct difference self, total;
};

struct profile_differences {
    ARRAY(struct function_difference) functions; /* those with a verdict first, then by change of share */
    double scale;                                /* what most functions' weights were multiplied by */
    bool by_median;                              /* it is that; else the ratio of the sums */
    double run_deviation;                        /* relative, of whole runs, beyond that within a run */
    double error_scale; /* what errors within runs were multiplied by: below 1, functions scatter by less */
    const char *basis;  /* what errors rest on, for people */
    double before_samples, after_samples;
};

/* 0 or -ENOMEM. */
int profile_differences(const struct profile *before, const struct profile *after,
                        struct profile_differences *ret_differences);
/* The same with a run after against several before it: before's windows (windows.h, 6 to 16) hold one run
 * each, of the same length as after, which needs none. level: the share of comparisons that name a function
 * although nothing changed. */
int profile_differences_of_runs(const struct profile *before, const struct profile *after, double level,
                                struct profile_differences *ret_differences);
void profile_differences_done(struct profile_differences *differences);

#endif
