/* Who ends the waits of threads, and who had ended the wait that a waker itself was in before that: the chain
 * of wake-ups behind a wait, with the stack of each.
 *
 * A wake-up belongs to a wait if it happened during the wait. So a chain goes on from a waker to who woke
 * that one only if the waker was woken while the thread that it woke later waited already; what happened
 * before is no reason for this wait. It says who woke whom, in time: not that the waker could not have done
 * without. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_WAKERS_H
#define PROFILE_WAKERS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "profile/woken.h"
#include "unwind/sampler.h"

struct wakers;

/* 0 or -ENOMEM. */
int wakers_new(struct wakers **ret_wakers);
void wakers_free(struct wakers *wakers);
DEFINE_FREEP(struct wakers, wakers_free)

/* A wake-up of a chain. */
struct wakers_link {
    uint32_t by;    /* the frame that says who */
    uint32_t stack; /* 0: not known */
    uint64_t woke_ns;
};

/* The first ended the wait, the second the waker's own, ... */
struct wakers_chain {
    size_t count;
    struct wakers_link links[WOKEN_LINKS];
};

/* A thread (head) is about to wake another one (its weight): at this stack, frames of the profile, the
 * innermost first. Records come in the order of their times. */
void wakers_woke(struct wakers *wakers, const struct profile *profile, const struct sampler_sample *head,
                 const uint32_t *frames, size_t count);

/* A wait is over; by: the frame that says who ended it, thread: which one that was, 0 for a timer or an
 * interrupt. What comes back is good until the next call of wakers_woke(). */
struct wakers_chain wakers_ended(struct wakers *wakers, const struct profile *profile,
                                 const struct sampler_sample *wait, uint32_t by, uint32_t thread);

/* Below a node of the profile, the stack that waited: for each link who it was, and its stack, the innermost
 * frame first. The last node. */
uint32_t wakers_below(const struct wakers *wakers, struct profile *profile, uint32_t node,
                      const struct wakers_chain *chain);

#endif
