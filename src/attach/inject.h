/* Brings the probe into a process that runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_INJECT_H
#define ATTACH_INJECT_H

#include "attach/hand_over.h"
#include "attach/hold.h"
#include "attach/target.h"

/* A probe that is loaded in a target: preloaded, or loaded by an earlier attachment. */
struct probe {
    const struct module *module;
    struct elf *file;      /* our copy of it, to look for symbols in; NULL: it is of another build */
    uint64_t bias;         /* address in the process = address in the file + bias */
    uint64_t owner, pools; /* addresses of sonde_owner and sonde_pools; 0: they are not there yet */
    bool foreign;          /* it is no probe that we understand */
};

/* Ours among the probes of a target. probe_path is our copy of it. -ENOENT when it is not loaded. */
int inject_find_probe(struct target *target, const char *probe_path, struct probe *ret_probe,
                      struct problem *problem);
void probe_done(struct probe *probe);

/* The probe of that number in the target's plan, of whatever build. */
struct probe probe_at(const struct target *target, size_t number);

/* What loading needs, found while the process runs: its loader's functions, and our file in a sealed memfd.
 */
struct injector {
    uint64_t open_function, error_function;
    struct hand_over_calls calls;
    int probe;
    uint64_t stub;  /* of the probe, from where it is loaded on (event/back.h); 0: it has none */
    size_t loaded;  /* probes that the process had (loaded_probes_count()) */
    bool sees_proc; /* a path in /proc leads to what it has been handed */
};

/* Reads the probe for this process. Release with injector_done(). -ENOTSUP when the process has no loader (it
 * is statically linked). */
int injector_init(const struct target *target, const char *probe_path, struct injector *ret_injector,
                  struct problem *problem);
void injector_done(struct injector *injector);

/* Has the process the probes that it had when injector_init() looked? Otherwise another sonde has been there
 * since. To be asked when no other one can load any more (struct hold_first). */
bool inject_is_alone(const struct proc *proc, const struct injector *injector);

/* Loads the probe with the process's own dlopen, in the held main thread. The file is handed over in a memfd
 * of ours: the process's file system need not have it, and may be mounted noexec. Where the process sees no
 * /proc, by which a memfd is named, the file lies in its file system for the moment. */
int inject_load(struct hold *hold, const struct injector *injector, struct problem *problem);

/* Could the probe be loaded into this process? Looks, and changes nothing. Errors as injector_init() and
 * inject_load(). */
int inject_check(const struct target *target, const char *probe_path, struct problem *problem);

/* Calls a function of the probe in the held main thread. */
int inject_call(struct hold *hold, const struct probe *probe, const char *function, const uint64_t *arguments,
                int count, uint64_t *ret_result, struct problem *problem);

#endif
