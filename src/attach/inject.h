/* Brings the probe into a process that runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_INJECT_H
#define ATTACH_INJECT_H

#include "attach/hand_over.h"
#include "attach/hold.h"
#include "attach/target.h"

/* Our probe among the modules of a target: preloaded, or loaded by an earlier attachment. probe_path is our
 * copy of it; one of another build (loaded.h) is not ours. The caller frees ret_probe->elf. -ENOENT when it
 * is not loaded. */
int inject_find_probe(struct target *target, const char *probe_path, struct target_module *ret_probe,
                      struct problem *problem);

/* What loading needs, found while the process runs: its loader's functions, and our file in a sealed memfd.
 */
struct injector {
    uint64_t open_function, error_function;
    struct hand_over_calls calls;
    int probe;
    size_t loaded; /* probes that the process had (loaded_probes_count()) */
};

/* Reads the probe for this process and finds dlopen in it. Release with injector_done(). -ENOTSUP when the
 * process has no loader (it is statically linked). */
int injector_init(const struct modules *modules, const char *probe_path, struct injector *ret_injector,
                  struct problem *problem);
void injector_done(struct injector *injector);

/* Loads the probe with the process's own dlopen, in the held main thread. The file is handed over in a memfd
 * of ours: the process's file system need not have it, and may be mounted noexec. Where the process sees no
 * /proc, by which a memfd is named, the file lies in its file system for the moment. */
int inject_load(struct hold *hold, const struct modules *modules, const struct injector *injector,
                struct problem *problem);

/* Could the probe be loaded into this process? Looks, and changes nothing. Errors as injector_init() and
 * inject_load(). */
int inject_check(const struct modules *modules, const char *probe_path, struct problem *problem);

/* Calls a function of the probe in the held main thread. */
int inject_call(struct hold *hold, const struct target_module *probe, const char *function,
                const uint64_t *arguments, int count, uint64_t *ret_result, struct problem *problem);

#endif
