/* A program to be traced, seen from outside: what runtime it is, where its functions are, what its structures
 * look like. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_TARGET_H
#define ATTACH_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/kind.h"
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

struct target_file {
    uint64_t key; /* modules_file_key() */
    struct elf *elf;
};

/* Files that were opened once: a host runs many processes of one build, and indexing its symbols takes a
 * while. It must outlive the targets that were opened with it. Zero-initialise to use. */
struct target_cache {
    ARRAY(struct target_file) files;
};

void target_cache_done(struct target_cache *cache);

struct target_module {
    const struct module *module;
    struct elf *elf;
    struct unnamed unnamed; /* functions that have no symbol, but were found */
};

struct target {
    struct proc *proc; /* shared */
    pid_t pid;
    const struct target_kind *kind; /* NULL: none that sonde knows */
    uint32_t versions[4];           /* 0: unknown; what they are the versions of is the kind's business */
    struct modules modules;
    ARRAY(struct target_module) code; /* the modules that can be searched for symbols */
    ARRAY(struct missing) missing;
    struct arena arena;
    int memory; /* /proc/PID/mem, or -1 */
};

/* Looks at a process; kind is NULL when it is none that sonde knows (no error). Free with target_free().
 * -ESRCH, -EACCES, ... with the problem in words. */
int target_open(struct proc *proc, struct target_cache *cache, struct target **ret_target,
                struct problem *problem);
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

/* Fills in what can be found out about its structures and functions; notes what not. context is what is
 * wanted at most. */
void target_layout(struct target *target, enum sonde_context context, struct sonde_config *ret_config);

#endif
