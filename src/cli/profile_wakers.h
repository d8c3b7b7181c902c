/* What `sonde profile --wakers=stacks` says: who ended which waits, and who had woken those. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_WAKERS_H
#define CLI_PROFILE_WAKERS_H

#include <jansson.h>

#include "profile/business.h"
#include "profile/profile.h"

/* Prints the waits, the longest first: at most top of them. An exit status. */
int profile_wakers_print(const struct profile *profile, const struct business_rules *rules, unsigned top);

/* Adds "waits" to the object. 0 or -ENOMEM. */
int profile_wakers_add_json(const struct profile *profile, const struct business_rules *rules, unsigned top,
                            json_t *to);

#endif
