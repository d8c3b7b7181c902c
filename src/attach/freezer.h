/* Is a process frozen: by a cgroup's freezer (docker pause, systemctl freeze)? It reaches no stop then, and
 * makes no progress in a call, until it is thawed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_FREEZER_H
#define ATTACH_FREEZER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/problem.h"

/* False also where its cgroup cannot be seen. */
bool freezer_holds(pid_t pid);

/* -EBUSY, with what to do about it, when it is frozen; else 0. */
int freezer_check(pid_t pid, struct problem *problem);

#endif
