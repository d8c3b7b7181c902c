/* When a thread's short callbacks are looked into (watch.c): callbacks that are none of them long may take
 * long together. A look falls on a tick, so that most see what takes most time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_GLANCE_H
#define COLLECT_GLANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Of a thread; zeroed at first. */
struct glance {
    bool running;     /* since the last tick */
    double load;      /* of the time in which it had a CPU or wanted none, the share that it ran, of late */
    uint64_t read_ns; /* when that was read, and the thread's times then: */
    uint64_t run_ns, wait_ns; /* on a CPU, and waiting for one */
    uint64_t paid_ns;         /* until then it would take to make up for the looks so far, at one each time */
};

/* A tick. run_ns, wait_ns: for how long the thread has had a CPU, and has waited for one, since it began. */
void glance_weigh(struct glance *glance, uint64_t run_ns, uint64_t wait_ns, uint64_t now_ns);
/* Whether the thread, in a callback since since_ns, is to be looked into at this tick; counted then. */
bool glance_is_due(struct glance *glance, uint64_t since_ns, uint64_t now_ns);

#endif
