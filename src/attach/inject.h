/* Brings the probe into a process that runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_INJECT_H
#define ATTACH_INJECT_H

#include "attach/hand_over.h"
#include "attach/hold.h"
#include "attach/target.h"

/* Our files of the probe: the plain one, and the one for loaders that give no static TLS to what is opened
 * later (musl). Each is read when it is needed first, and again when it has been replaced since. */
struct probe_file {
    struct elf *elf;   /* NULL: it has not been read */
    int sealed;        /* the same in a memfd that nobody can change */
    uint64_t stub;     /* of the probe (event/back.h); 0: it has none */
    uint64_t identity; /* by which it is known again */
};
struct probe_files {
    const char *path; /* of the plain one, the caller's */
    struct probe_file file[2];
};

/* Reads nothing yet. Release with probe_files_done(), which accepts zeros. */
struct probe_files probe_files_of(const char *path);
void probe_files_done(struct probe_files *files);

/* A probe that is loaded in a target: preloaded, or loaded by an earlier attachment. */
struct probe {
    const struct module *module;
    struct elf *file;      /* ours, of struct probe_files, to look for symbols in; NULL: of another build */
    uint64_t bias;         /* address in the process = address in the file + bias */
    uint64_t owner, pools; /* addresses of sonde_owner and sonde_pools; 0: they are not there yet */
    bool foreign;          /* it is no probe that we understand */
};

/* Ours among the probes of a target; it borrows from files, until they are used for the next process. -ENOENT
 * when it is not loaded. */
int inject_find_probe(struct target *target, struct probe_files *files, struct probe *ret_probe,
                      struct problem *problem);

/* The probe of that number in the target's plan, of whatever build. */
struct probe probe_at(const struct target *target, size_t number);

/* What loading needs, found while the process runs: its loader's functions, and our file in a sealed memfd.
 */
struct injector {
    uint64_t open_function, error_function;
    struct hand_over_calls calls;
    const struct probe_file *probe;
    size_t loaded;  /* probes that the process had (loaded_probes_count()) */
    bool sees_proc; /* a path in /proc leads to what it has been handed */
};

/* The injector for this process, which borrows from files as above. -ENOTSUP when the process has no loader
 * (it is statically linked). */
int injector_init(const struct target *target, struct probe_files *files, struct injector *ret_injector,
                  struct problem *problem);

/* Has the process the probes that it had when injector_init() looked? Otherwise another sonde has been there
 * since. To be asked when no other one can load any more (struct hold_first). */
bool inject_is_alone(const struct proc *proc, const struct injector *injector);

/* Loads the probe with the process's own dlopen, in the held main thread. The file is handed over in a memfd
 * of ours: the process's file system need not have it, and may be mounted noexec. Where the process sees no
 * /proc, by which a memfd is named, the file lies in its file system for the moment. */
int inject_load(struct hold *hold, const struct injector *injector, struct problem *problem);

/* Could the probe be loaded into this process? Looks, and changes nothing. Errors as injector_init() and
 * inject_load(). */
int inject_check(const struct target *target, struct probe_files *files, struct problem *problem);

/* Calls a function of the probe in the held main thread. */
int inject_call(struct hold *hold, const struct probe *probe, const char *function, const uint64_t *arguments,
                int count, uint64_t *ret_result, struct problem *problem);

#endif
