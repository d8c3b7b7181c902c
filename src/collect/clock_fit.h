/* TSC ticks to CLOCK_MONOTONIC nanoseconds: a line through anchors, taken anew every second, without jumps.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_CLOCK_FIT_H
#define COLLECT_CLOCK_FIT_H

#include <stdint.h>

struct clock_line {
    uint64_t ticks, ns; /* a point of the line */
    double ns_per_tick;
};

struct clock_fit {
    struct clock_line now, before; /* ticks before now.ticks belong to the line of before */
    uint64_t first_ticks, first_ns;
    double error_ns_worst; /* distance of a new anchor from the line so far */
};

/* Takes the first anchors; needs a few milliseconds to learn the slope. */
void clock_fit_init(struct clock_fit *fit);

/* Takes an anchor; call about once a second. */
void clock_fit_anchor(struct clock_fit *fit);

uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks);

/* A duration. */
uint64_t clock_fit_duration_ns(const struct clock_fit *fit, uint64_t ticks);

#endif
