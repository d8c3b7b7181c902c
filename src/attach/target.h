/* A program to be traced, seen from outside: what runtime it is, where its functions are, what its structures
 * look like. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_TARGET_H
#define ATTACH_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/kind.h"
#include "attach/plan.h"
#include "attach/unnamed.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/problem.h"
#include "base/proc.h"
#include "symbol/elf.h"
#include "symbol/modules.h"

/* Something that cannot be seen in this process, and why. Strings live as long as the target. */
struct missing {
    const char *what, *why, *remedy;
};

/* A file that can be searched for symbols. */
struct target_module {
    const struct module *module;
    struct elf *elf;
    const struct named_functions *unnamed; /* functions that have no symbol, but were found */
    const struct named_functions *copies;  /* that a compiler made of others */
};

struct broker;

struct target {
    struct proc *proc; /* shared */
    pid_t pid;
    const struct target_kind *kind; /* NULL: none that sonde knows */
    uint32_t versions[4];           /* 0: unknown; what they are the versions of is the kind's business */
    struct modules modules;
    ARRAY(struct target_module) code; /* in the worker that parses files (plan_worker.h); else empty: */
    struct plan plan;                 /* what it said, checked */
    ARRAY(struct missing) missing;
    struct arena arena;
    int memory; /* /proc/PID/mem; -1: it is read through symbol/memory.h */
};

/* How much is to be found out: what it is, or what is needed to hook it as well. */
enum target_depth { TARGET_KIND, TARGET_WHOLE };

/* Looks at a process; kind is NULL when it is none that sonde knows (no error). plans: the broker of
 * plan_worker, whose worker parses the files; context: what is wanted at most. Free with target_free().
 * -ESRCH, -EACCES, ..., and -EPROTO when the worker says what cannot be, with the problem in words; -ESTALE
 * when it says so of a probe, which another sonde may be loading: open it again. */
int target_open(struct proc *proc, struct broker *plans, enum target_depth depth, enum sonde_context context,
                struct target **ret_target, struct problem *problem);
void target_free(struct target *target);
DEFINE_FREEP(struct target, target_free)

/* What was found out about a program holds for a process that it has forked, as long as that executes the
 * same program: no file is opened again (inherit.c). proc is shared, memory (its /proc/PID/mem) taken on
 * success; NULL and -1: only what is known is kept, for children to come. -ENOMEM. */
int target_inherit(const struct target *parent, struct proc *proc, int memory, struct target **ret_target);

/* A symbol in any module: its address in the process, and which module. -ENOENT. */
int target_find(struct target *target, const char *symbol, uint64_t *ret_address,
                struct elf_symbol *ret_symbol, const struct target_module **ret_module);

/* Memory of the process. Writing works on read-only and executable pages. 0 or -EFAULT, -EIO, -EACCES. */
int target_read(struct target *target, uint64_t address, void *buffer, size_t size);
int target_write(struct target *target, uint64_t address, const void *data, size_t size);

/* Notes what cannot be seen. Texts are copied. */
void target_miss(struct target *target, const char *what, const char *why, const char *remedy);

/* "Redis 7.2.4": a name and a version of three parts, 0xMMmmpp. */
void target_say_version(char *buffer, size_t size, const char *name, uint32_t version);

/* The constant that a function returns at once (mov $N, %eax; ret), 0 when it does something else. */
uint32_t target_constant(struct target *target, const char *function);

/* The address of a function in the process, 0 when it has none of that name. */
uint64_t target_address(struct target *target, const char *function);

/* What the probe is to know of its structures and functions (TARGET_WHOLE); what is not known is noted as
 * missing. */
void target_layout(struct target *target, struct sonde_config *ret_config);

/* Of the plan only what detaching needs is kept. */
void target_forget_plan(struct target *target);

#endif
