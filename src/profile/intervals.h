/* How certain a profile's shares are: an interval of 95 % for each function, in the profile, so that
 * everything that prints or writes it can say so. src/steer/certainty.h computes them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_INTERVALS_H
#define PROFILE_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/* Shares of the whole weight, of the function itself and with what it calls. */
struct profile_interval {
    double self, self_low, self_high;
    double total, total_low, total_high;
};

struct profile_intervals {
    struct map index; /* profile_function_key() -> place in list */
    ARRAY(struct profile_interval) list;
    const char *basis; /* what they rest on, for people */
};

/* 0 or -ENOMEM. */
int profile_intervals_add(struct profile *profile, uint32_t frame, const struct profile_interval *interval);

/* Of the function of this frame; NULL when nothing is known. */
const struct profile_interval *profile_interval_of(const struct profile *profile, uint32_t frame);

/* Gives to, a copy of from with other places (profile_by_service()), the intervals of from. 0 or -ENOMEM. */
int profile_intervals_copy(struct profile *to, const struct profile *from);

/* The profile has none afterwards. */
void profile_intervals_end(struct profile *profile);

#endif
