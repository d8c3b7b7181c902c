/* Which processes took the most CPU time so far: those that a sampler meets first. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_BUSIEST_H
#define PROFILE_BUSIEST_H

#include <stddef.h>
#include <sys/types.h>

/* At most `most` processes that took any, the busiest first, without the caller's own; owned by the caller.
 * NULL when memory ran out. */
pid_t *busiest_processes(size_t most, size_t *ret_count);

#endif
