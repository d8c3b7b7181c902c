/* The time at a switch of a CPU, off the clock of its scheduler's queue (bpf/queues.h), which the scheduler
 * has just read: to read CLOCK_MONOTONIC there took a third of what a program runs for. The two clocks drift
 * apart by less than one part in SONDE_DRIFT_ONE_OF; they are compared every SONDE_COMPARE_NS, on each CPU,
 * since whether all queues have one clock depends on the machine. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef EVENT_KERNEL_CLOCK_H
#define EVENT_KERNEL_CLOCK_H

enum {
    SONDE_COMPARE_NS = 1000000,
    SONDE_FORGET_NS = 100000000,
    SONDE_DRIFT_ONE_OF = 2048,
    SONDE_COMPARISONS = 4
};

/* Of a CPU. */
struct sonde_kernel_clock {
    unsigned long long offset;   /* CLOCK_MONOTONIC less the queue's clock, modulo 2^64 */
    unsigned long long compared; /* when that was found out last, by the queue's clock */
    long long beyond;            /* the least of the comparisons since, as far as they were beyond offset */
    unsigned long long comparisons;
};

static inline int sonde_clock_is_due(const struct sonde_kernel_clock *c, unsigned long long clock)
{
    return clock - c->compared >= SONDE_COMPARE_NS;
}

/* now: CLOCK_MONOTONIC, read after the queue's clock stood at clock. What is beyond the offset that is known
 * has two reasons: the queue's clock is older, by what the scheduler has done since, which is sometimes much;
 * or the clocks have drifted apart. The least of some comparisons counts, and no more than they can drift. */
static inline void sonde_clock_compare(struct sonde_kernel_clock *c, unsigned long long clock,
                                       unsigned long long now)
{
    unsigned long long passed = clock - c->compared;
    long long beyond = (long long)(now - clock - c->offset);
    int forgotten = passed >= SONDE_FORGET_NS;
    if (beyond > 0 && !forgotten) {
        if (!c->comparisons || beyond < c->beyond)
            c->beyond = beyond;
        if (++c->comparisons < SONDE_COMPARISONS)
            return;
        beyond = (long long)(passed / SONDE_DRIFT_ONE_OF);
        if (beyond > c->beyond)
            beyond = c->beyond;
    }
    c->offset += (unsigned long long)beyond;
    c->compared = forgotten ? clock - SONDE_COMPARE_NS : clock; /* once more at the next switch */
    c->comparisons = 0;
}

#endif
