/* TSC ticks to CLOCK_MONOTONIC nanoseconds: a line through anchors, taken anew every second, without jumps.
 * Ticks keep the time they were given once, so that what lies in a span does so however long it lasts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_CLOCK_FIT_H
#define COLLECT_CLOCK_FIT_H

#include <stddef.h>
#include <stdint.h>

/* Of so many seconds; what is older goes by the oldest. */
#define CLOCK_LINES 4096

struct clock_line {
    uint64_t ticks, ns; /* a point of the line */
    double ns_per_tick;
};

struct clock_fit {
    struct clock_line lines[CLOCK_LINES]; /* a ring; line i holds from its ticks to those of the next */
    size_t count;                         /* of lines ever; the newest is the last */
    uint64_t first_ticks, first_ns;
    double error_ns_worst; /* distance of a new anchor from the line so far */
};

/* Takes the first anchors; needs a few milliseconds to learn the slope. */
void clock_fit_init(struct clock_fit *fit);

/* Takes an anchor; call about once a second. */
void clock_fit_anchor(struct clock_fit *fit);

uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks);

/* The duration of a span that ends at end_ticks and lasts ticks: its two times apart. */
uint64_t clock_fit_duration_ns(const struct clock_fit *fit, uint64_t end_ticks, uint64_t ticks);

/* As the newest anchor has it. */
double clock_fit_ticks_per_ns(const struct clock_fit *fit);

#endif
