/* Idle waits: those of a thread that has nothing to do until work comes, as an event loop between two events
 * or a worker of a pool between two tasks. Most of a server's time off the CPU is of this kind, and waits for
 * a lock, a disk or another program drown in it.
 *
 * A wait is idle only if a table of functions says so; all others are taken to be waits for something. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_IDLE_H
#define PROFILE_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

struct profile;

/* What is known of the frames of one profile. All zero is a valid one that knows nothing yet. */
struct idle_frames {
    ARRAY(uint8_t) roles; /* by frame */
    uint32_t serial;      /* of the profile */
};

/* Whether a thread with this stack, of frames of the profile with the innermost first, waits for work.
 * Without memory to know: false. */
bool idle_wait(struct idle_frames *known, const struct profile *profile, const uint32_t *frames,
               size_t count);

void idle_done(struct idle_frames *known);

#endif
