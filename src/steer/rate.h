/* How often to sample, decided at the end of each window of some ten seconds: more often when what is hot
 * changes, less often while it does not (Atys, section 5.2, algorithm 1: frequency dynamic adjustment).
 *
 * Where the paper has a threshold of divergence that the user sets, this one computes it from the number of
 * samples, for a rate of false triggers that the user sets: a divergence of n samples from m of the same
 * distribution is, times 8 / (1/n + 1/m), chi-squared with cells - 1 degrees of freedom. A program's samples
 * are no independent draws; how much more they vary is learnt from the windows, for each function and each
 * length of comparison (the design effect of surveys: Rao and Scott, Annals of Statistics 12, 1984; with
 * Huber's bounded scale, so that real changes do not hide themselves). Before that is learnt, the halves of
 * each window tell how many samples come in runs (rate_half()).
 *
 * Each window is compared with the one before it, and the last 1, 3, 9, 27 and 81 windows with the reference
 * of the regime that they belong to: all windows since what was hot last changed, and those of former times
 * when it was the same. So a slow drift is seen, too, and what was sampled at high rates serves the low ones.
 *
 * What changes all the time would be sampled at the highest rate all the time. So there is a budget: what was
 * saved at low rates is spent at high ones, and when it is spent, the budget's own rate is the highest. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_RATE_H
#define STEER_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "steer/divergence.h"

struct rate_options {
    unsigned top;          /* functions that are compared (k); the others are one cell */
    double lambda;         /* the rate is divided by it when something changed, multiplied when nothing did */
    unsigned quiet;        /* after so many windows without a change (c) */
    double theta;          /* a fixed threshold in nats; 0: by the number of samples */
    double false_per_hour; /* then: this many false triggers */
    double window_s;       /* length of a window in seconds */
    double first;          /* samples a second of the first windows, unless the user says otherwise */
    double least, most;    /* samples a second */
    double budget;         /* over long times, on average: this share of those at the highest rate; 0: all */
    bool previous_only;    /* as the paper: no regimes, only the window before */
};

/* What we recommend; and the paper's values, for its two loads (theta 0.5 or 0.05). */
extern const struct rate_options RATE_USUAL, RATE_PAPER, RATE_PAPER_FINE;

/* By name: "usual", "paper", "paper-fine". NULL: there is none. */
const struct rate_options *rate_preset(const char *name);

enum { RATE_REGIMES = 16 };

struct rate_decision {
    double divergence, theta; /* from the window before, and what it had to exceed */
    double excess;            /* the largest statistic of all comparisons over its threshold; > 1: a change */
    unsigned length;          /* of that comparison, in windows; 0: with the window before */
    uint64_t key;             /* the function that it was found in; 0: in all together */
    bool changed;
    bool known;        /* the regime that began was seen before */
    size_t regime;     /* of this window: below RATE_REGIMES */
    bool fresh;        /* that number begins anew: what was pooled under it is another's */
    double dispersion; /* learnt: variance of windows over that of independent samples */
    double next;       /* samples a second from now on */
};

struct rate;

/* first: samples a second of the first window; brought between least and most. -ENOMEM. */
int rate_new(const struct rate_options *options, double first, struct rate **ret_rate);
void rate_free(struct rate *rate);
DEFINE_FREEP(struct rate, rate_free)

/* The window so far, when about half of its time is over. Need not be called; changes in the first windows
 * are seen sooner then, and samples that come in long runs are no changes. 0 or -ENOMEM. */
int rate_half(struct rate *rate, const struct distribution *so_far);
int rate_half_profile(struct rate *rate, const struct profile *so_far);

/* A window has ended. 0 or -ENOMEM. */
int rate_window(struct rate *rate, const struct distribution *window, struct rate_decision *ret_decision);

/* The regime's windows pooled; its number of windows (0: there is none of this number). */
const struct distribution *rate_regime(const struct rate *rate, size_t regime, size_t *ret_windows);

#endif
