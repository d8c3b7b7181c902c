/* Is a process frozen: by a cgroup's freezer (docker pause, systemctl freeze)? It reaches no stop then, and
 * makes no progress in a call, until it is thawed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_FREEZER_H
#define ATTACH_FREEZER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/problem.h"
#include "base/proc.h"

/* False also where its cgroup cannot be seen. */
bool freezer_holds(const struct proc *proc);

/* -EBUSY, with what to do about it, when it is frozen; else 0. */
int freezer_check(const struct proc *proc, struct problem *problem);

#endif
