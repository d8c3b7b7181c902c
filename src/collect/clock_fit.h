/* TSC ticks to CLOCK_MONOTONIC nanoseconds: a line through anchors, often at first and then every second,
 * without jumps. Ticks keep the time they were given once, so that what lies in a span does so however long
 * it lasts.
 *
 * A suspend or a migration to another host can set the counter forward or back against the clock. Then a new
 * epoch begins: new lines from there on. Ticks from before it keep their times, and none is later than its
 * beginning. After a step back only the last line of the epoch before is kept; ticks that both epochs have
 * had are taken for the new one's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_CLOCK_FIT_H
#define COLLECT_CLOCK_FIT_H

#include <stdbool.h>
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
    uint64_t jumps;
    bool went_back;           /* the counter, once at least */
    struct clock_line before; /* the last line of the epoch before that, which ended at ... */
    uint64_t before_end_ns;
};

/* Takes the first anchors; needs a few milliseconds to learn the slope. */
void clock_fit_init(struct clock_fit *fit);

/* Is it time for an anchor? At intervals that double from 10 ms to a second. */
bool clock_fit_is_due(const struct clock_fit *fit, uint64_t now_ns);

/* Takes an anchor; call when clock_fit_is_due() and when clock_fit_is_off(). Returns how far the counter has
 * jumped ahead of the clock, in ns (negative: it fell behind), or 0 when it is where it was expected. */
int64_t clock_fit_anchor(struct clock_fit *fit);

/* Does the counter seem to have jumped? Cheap; before anything that is drained is given a time. */
bool clock_fit_is_off(const struct clock_fit *fit);

uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks);

/* The duration of a span that ends at end_ticks and lasts ticks: its two times apart. */
uint64_t clock_fit_duration_ns(const struct clock_fit *fit, uint64_t end_ticks, uint64_t ticks);

/* As the newest anchor has it. */
double clock_fit_ticks_per_ns(const struct clock_fit *fit);

#endif
