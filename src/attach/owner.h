/* Whose hooks are in a process: one sonde's at a time. It is written in the probe's memory, and read and
 * written by sondes alone, each while it holds the main thread: ptrace has one tracer at a time, so two that
 * come together do not both find it free. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_OWNER_H
#define ATTACH_OWNER_H

#include "attach/inject.h"

/* Makes us the owner, unless a sonde that lives is: -EALREADY then, with its process id in words. Whoever has
 * ended, also when another process has its process id by now, is none. Called before anything else is changed
 * in the process. waits: the process waits for us in the probe's constructor; then a debugger or strace may
 * hold it. -ESTALE when the probe was being loaded as the target was opened: open it again once its main
 * thread can be held. Other errors as of hold_one(). */
int owner_claim(struct target *target, const struct probe *probe, bool waits, struct problem *problem);

/* Gives it up if it is ours. */
void owner_release(struct target *target, const struct probe *probe);

#endif
