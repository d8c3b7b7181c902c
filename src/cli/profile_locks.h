/* What `sonde profile --event lock` says: locks, who waits for them, and who holds them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_LOCKS_H
#define CLI_PROFILE_LOCKS_H

#include <jansson.h>

#include "profile/locks.h"

/* Prints the locks, and apart from them the conditions, the longest waits first: at most top places of each.
 * An exit status. */
int profile_locks_print(const struct locks *locks, const struct profile *profile, unsigned top);

/* Says of which processes locks are not seen, and what helps: to stderr. */
void profile_locks_print_hidden(const struct locks *locks, const struct profile *profile);

/* Adds "locks", "conditions" and "not_seen" to the object. 0 or -ENOMEM. */
int profile_locks_add_json(const struct locks *locks, const struct profile *profile, unsigned top,
                           json_t *to);

#endif
