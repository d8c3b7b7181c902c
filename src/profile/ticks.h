/* The perf events that make a sampler look, one for each CPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_TICKS_H
#define PROFILE_TICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/sampler.h"

struct bpf_program;

/* Zero-initialise to use. */
struct ticks {
    int *events; /* each runs the program */
    size_t count;
    uint64_t period_ns; /* on average; 0: no clock that ticks */
    uint64_t started_ns, redrawn_ns;
    uint64_t settled_ns; /* when each CPU had a tick of the present period; 0: it had */
};

/* The average period of the options' event in ns; 0 when it is no clock that ticks. */
uint64_t ticks_period(const struct sampler_options *options);

/* Opens the options' event on each CPU, to run the program; nothing ticks yet. A negative errno, with what
 * was refused in words; what was opened stays so. */
int ticks_open(struct ticks *ticks, const struct sampler_options *options, const struct bpf_program *program,
               const char **ret_what);

/* From now on it ticks, which takes no right; a clock's first ticks come early. now_ns: CLOCK_MONOTONIC. */
void ticks_start(struct ticks *ticks, uint64_t now_ns);

/* The longest time between two ticks that is no gap. */
uint64_t ticks_limit(uint64_t period_ns);

/* Changes a clock's period from now on. */
void ticks_set_period(struct ticks *ticks, uint64_t period_ns, uint64_t now_ns);

/* To be called often: gives clocks another period now and then. True: all CPUs are past a change of the
 * period, which was not yet so before. */
bool ticks_redraw(struct ticks *ticks, uint64_t now_ns);

void ticks_close(struct ticks *ticks);

#endif
