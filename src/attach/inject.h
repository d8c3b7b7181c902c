/* Brings the probe into a process that runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_INJECT_H
#define ATTACH_INJECT_H

#include "attach/hold.h"
#include "attach/target.h"

/* The probe among the modules of a target: preloaded, or loaded by an earlier attachment. probe_path is our
 * copy of it. The caller frees ret_probe->elf. -ENOENT when it is not loaded. */
int inject_find_probe(struct target *target, const char *probe_path, struct target_module *ret_probe,
                      struct problem *problem);

/* Loads the probe with the process's own dlopen, in the held main thread. The file is handed over in a memfd:
 * the process's file system need not have it, and may be mounted noexec. */
int inject_load(struct hold *hold, const struct modules *modules, const char *probe_path,
                struct problem *problem);

/* Calls a function of the probe in the held main thread. */
int inject_call(struct hold *hold, const struct target_module *probe, const char *function,
                const uint64_t *arguments, int count, uint64_t *ret_result, struct problem *problem);

#endif
