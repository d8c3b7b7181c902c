/* The probes that are loaded in a process, as its memory has them: an earlier sonde may have loaded another
 * build, whose file is not ours, and which stays where it is until the process ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_LOADED_H
#define ATTACH_LOADED_H

#include "attach/target.h"

#define PROBE_NAME "libsonde-probe.so"

/* Adds all of them to the plan; one that cannot be read is left out. In a worker. */
int loaded_probes_read(struct target *target, struct plan *plan);

/* How many mappings of probes' code there are: in modules that were read, and in the process now. */
size_t loaded_probes_count(const struct modules *modules);
size_t loaded_probes_count_now(const struct proc *proc);

#endif
