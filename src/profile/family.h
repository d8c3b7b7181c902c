/* Processes with their descendants, as they are now. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_FAMILY_H
#define PROFILE_FAMILY_H

#include <stddef.h>
#include <sys/types.h>

/* The given processes first, then their children, their children's children, ...; owned by the caller. NULL
 * when memory ran out. Without /proc: only what was given. */
pid_t *family_of(const pid_t *pids, size_t count, size_t *ret_count);

#endif
