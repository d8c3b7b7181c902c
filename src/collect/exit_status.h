/* How a process that need not be our child ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_EXIT_STATUS_H
#define COLLECT_EXIT_STATUS_H

#include "base/proc.h"

/* The wait status of a process that has ended (proc_has_ended()), or -1 where the kernel does not say.
 * Before its parent has waited for it /proc has it, for whoever may trace it; afterwards the pidfd has it,
 * since Linux 6.15. */
int exit_status_of(const struct proc *proc);

#endif
