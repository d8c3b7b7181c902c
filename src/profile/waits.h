/* A wait of a thread as the sampler's kernel half sends it: how much of it passed until something woke the
 * thread, how much then until it had a CPU, and who woke it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_WAITS_H
#define PROFILE_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/kernel_names.h"
#include "profile/profile.h"
#include "unwind/sampler.h"

/* The frame of the time in which a thread could have run and had no CPU. */
#define WAITS_READY "[waiting for a CPU]"

/* Counts a part of a sample's weight at a node, also in windows and kept samples. */
void waits_count_at(struct profile *profile, const struct sampler_sample *sample, uint32_t node,
                    uint64_t count, uint64_t weight);

/* How much of a wait passed after the thread had been woken, in ns; 0 if that is hardly more than switching
 * takes. */
uint64_t waits_ready(const struct sampler_sample *sample);

/* The frame that says who ended a wait. ret_thread: which thread it was; 0: a timer or an interrupt. */
uint32_t waits_waker_frame(struct kernel_names *names, struct profile *profile,
                           const struct sampler_waker *waker, uint32_t *ret_thread);

/* Counts what passed after the thread was woken. How much passed before, in ns, is for the caller to count; 0
 * when that is idle time. */
uint64_t waits_count_ready(struct profile *profile, const struct sampler_sample *sample, uint32_t node,
                           bool idle);

/* Counts a wait: below the node, the stack that waited, what passed until the thread was woken, unless that
 * is idle time (idle.h); below a frame of its own what passed then. names: the innermost frame of the former
 * says who woke it; NULL: it does not. waker: NULL when it is not known. */
void waits_count(struct profile *profile, const struct sampler_sample *sample, uint32_t node, bool idle,
                 const struct sampler_waker *waker, struct kernel_names *names);

#endif
