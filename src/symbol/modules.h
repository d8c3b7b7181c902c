/* What a process has mapped: the files whose code it can run, where they lie, and how to open the very file
 * that is mapped (also in another mount namespace, also when it was deleted or replaced since). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_MODULES_H
#define SYMBOL_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/array.h"
#include "base/macro.h"
#include "base/problem.h"
#include "base/proc.h"
#include "symbol/elf.h"

/* One line of /proc/PID/maps. */
struct mapping {
    uint64_t start, end; /* [start, end) */
    uint64_t offset;     /* of start in the file */
    uint32_t module;     /* index in modules.list, or UINT32_MAX for anonymous memory */
    uint64_t load_bias;  /* address in the process = address in the file + load_bias; valid when has_bias */
    bool readable, writable, executable, shared;
    bool has_bias; /* executable, of an ELF file that could be opened */
};

/* All mappings of one file (same device and inode). */
struct module {
    char *path;      /* as the process sees it, without " (deleted)"; "[vdso]" for the vDSO */
    uint64_t device; /* as stat's st_dev */
    uint64_t inode;
    uint64_t start, end;   /* from its first mapping to the end of its last */
    uint64_t first_offset; /* file offset of the first mapping */
    uint64_t load_bias;    /* that of its first executable mapping; V8 maps some of its code a second time */
    bool has_bias;         /* set for every executable module that is an ELF file which could be opened */
    bool executable;       /* some mapping can be executed */
    bool deleted;
};

struct modules {
    pid_t pid;
    struct proc *proc;      /* the process, shared with who read them by a handle; otherwise NULL, and */
    uint64_t started_ticks; /* its start (proc_text.h), by which it is known again; 0 when it had ended */
    uint64_t program;       /* inode of the executable, where the caller knows it; 0: it is looked for */
    ARRAY(struct module) list;
    ARRAY(struct mapping) mappings; /* all of them, by address */
};

/* Reads /proc/PID/maps; the load biases of executable modules are found through their files. Released with
 * modules_done(). -ESRCH when there is no such process, -EACCES when it may not be looked into. */
int modules_read(struct proc *proc, struct modules *ret_modules, struct problem *problem);

/* The same from the text of its maps. opens: load biases are looked for; otherwise no file is opened, and all
 * that is read is the text. -ENOMEM. */
int modules_parse(struct proc *proc, const char *maps, size_t length, bool opens, struct modules *ret_modules,
                  struct problem *problem);

/* Where the module's executable mappings lie: their load biases, from its file. */
void modules_place(struct modules *modules, struct module *module, const struct elf *elf);

/* That the text cannot be had, in words; returns error. */
int modules_refused(pid_t pid, int error, struct problem *problem);

/* The same for who does not hold the process, now or later: files that are opened later are looked for in the
 * process that has the number then, if it is the same one. */
int modules_read_pid(pid_t pid, struct modules *ret_modules, struct problem *problem);

/* The same of code alone, without load biases: no file is opened (modules_place()), and mappings that are not
 * executable may be missing, as are the vsyscall page, which belongs to no process, and modules without code.
 * By a handle, and for who does not hold the process. */
int modules_list(struct proc *proc, struct modules *ret_modules, struct problem *problem);
int modules_list_pid(pid_t pid, struct modules *ret_modules, struct problem *problem);
void modules_done(struct modules *modules);

/* The same mappings, in another process (shared; NULL: in none) that was forked from the first. -ENOMEM. */
int modules_copy(const struct modules *from, struct proc *proc, struct modules *ret_modules);

/* One executable mapping, as the kernel announced it when it was made. */
struct mapping_note {
    uint64_t start, end, offset; /* as in struct mapping */
    uint64_t device, inode;      /* 0: anonymous memory */
    const char *path;
};

/* The same from announced mappings, for a process that ended before its own could be read. Later notes cover
 * what earlier ones mapped there. opens: as modules_parse(). */
int modules_from_notes(pid_t pid, const struct mapping_note *notes, size_t count, bool opens,
                       struct modules *ret_modules);

/* The module that an address of the process belongs to, or NULL; ret_mapping (may be NULL) gets its mapping.
 */
const struct module *modules_at(const struct modules *modules, uint64_t address,
                                const struct mapping **ret_mapping);

/* The mapping that holds the address, or NULL. */
const struct mapping *modules_mapping_at(const struct modules *modules, uint64_t address);

/* The module whose path ends in suffix after a '/' or whose base name starts with prefix; NULL when none. */
const struct module *modules_named(const struct modules *modules, const char *prefix);

/* The executable itself (what /proc/PID/exe is), or NULL. */
const struct module *modules_main(const struct modules *modules);

/* Is it the vDSO of a 64-bit program? The kernel has one for all, so that ours is read. */
bool modules_is_own_vdso(const struct module *module);

/* Opens the file behind a module: through /proc/PID/map_files where that is allowed, otherwise by its path
 * below /proc/PID/root, or below our own root when the process is gone, as long as the inode is still the
 * mapped one. The vDSO is copied from the process, or is our own. -ESTALE when the path names another file by
 * now. */
int modules_open(const struct modules *modules, const struct module *module, struct elf **ret_elf,
                 struct problem *problem);

/* An identity that stays the same while the file does, for caches: hash of device, inode, size and change
 * time of what modules_open() would open. 0 when that is not possible. */
uint64_t modules_file_key(const struct modules *modules, const struct module *module);

#endif
