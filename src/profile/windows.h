/* How a profile's weights are spread over its time: for each frame what it took itself, and with what it
 * calls, in at most WINDOWS stretches of equal length. Samples of one stretch are alike, so that only the
 * differences between stretches say how certain a share is (profile_difference.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_WINDOWS_H
#define PROFILE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile/profile.h"

enum { WINDOWS = 16 };

struct window_weights {
    float self[WINDOWS], total[WINDOWS]; /* in the profile's unit */
};

/* What is known of a process or a thread beyond its samples. All but `known` may be 0: unknown. */
struct profile_instance {
    uint64_t from_ns, until_ns; /* when it began and ended, CLOCK_MONOTONIC */
    uint64_t job;               /* the same for processes that do the same work (instance.h) */
    pid_t parent;
    bool known; /* it was asked for */
};

struct profile_windows {
    uint64_t start_ns, width_ns;         /* CLOCK_MONOTONIC; 0 before the first sample */
    uint32_t used;                       /* windows up to the last sample */
    ARRAY(struct window_weights) frames; /* by the frame's id, as far as there are any */
    ARRAY(uint32_t) counted;             /* by frame: the last sample that it was counted for */
    uint32_t sample;
    ARRAY(struct profile_instance) instances; /* by the frame of a process or thread */
};

/* Has the profile keep windows from now on. 0 or -ENOMEM. */
int profile_windows_begin(struct profile *profile);

/* Adds a sample at the node; nothing when the profile keeps none. */
void profile_windows_add(struct profile *profile, uint32_t node, uint64_t weight, uint64_t time_ns);

/* The same, in a window (below WINDOWS) of the caller's choice. */
void profile_windows_add_at(struct profile *profile, uint32_t node, uint64_t weight, uint32_t window);

/* The frame's weights, made when they are new; NULL when memory ran out. */
struct window_weights *profile_windows_of(struct profile *profile, uint32_t frame);

/* The instance of a process's or thread's frame, all zeros when it is new. NULL when the profile keeps no
 * windows, or memory ran out. */
struct profile_instance *profile_windows_instance(struct profile *profile, uint32_t frame);

/* The profile has none afterwards. */
void profile_windows_end(struct profile *profile);

#endif
