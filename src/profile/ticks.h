/* The perf events that make a sampler look, one for each processor. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_TICKS_H
#define PROFILE_TICKS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/sampler.h"

struct bpf_program;

/* Zero-initialise to use. */
struct ticks {
    int *events;
    size_t count;
    uint64_t period_ns; /* on average; 0: no clock that ticks */
    uint64_t started_ns, redrawn_ns;
};

/* The average period of the options' event in ns; 0 when it is no clock that ticks. */
uint64_t ticks_period(const struct sampler_options *options);

/* Opens the options' event on each processor and has it run the program; a clock's first ticks come early.
 * now_ns: CLOCK_MONOTONIC. A negative errno, with what was refused in words; what was opened stays so. */
int ticks_open(struct ticks *ticks, const struct sampler_options *options, const struct bpf_program *program,
               uint64_t now_ns, const char **ret_what);

/* To be called often: gives clocks another period now and then. */
void ticks_redraw(struct ticks *ticks, uint64_t now_ns);

void ticks_close(struct ticks *ticks);

#endif
