/* What a worker found out about a process by parsing its files and its memory (plan_worker.h), as plain data.
 * The worker is assumed to be taken over by what it parses, so what it says is read here with suspicion: each
 * number in range (plan_decode()), each address in a mapping of the kind and of the module that it claims
 * (plan_check()). What it can still choose within that are functions and offsets of its own target. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_PLAN_H
#define ATTACH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/problem.h"
#include "event/config.h"
#include "symbol/modules.h"

enum {
    PATCH_BYTES_MAX = 32, /* of a function's beginning */
    MOVED_BYTES_MAX = 64, /* what they become elsewhere */
    MOVED_FIELDS_MAX = 8,
    KEPT_BYTES_MAX = 8,         /* of the first instruction, where it stays */
    UNDONE_BYTES_MAX = 1 << 20, /* of the stack */
    PLAN_HOOKS_MAX = 128,
    PLAN_MODULES_MAX = 16,
    PLAN_PROBES_MAX = 16,
    PLAN_MISSING_MAX = 40,
    PLAN_NAME_BYTES = 64,
    PLAN_SCRIPT_BYTES = 2048,
    PLAN_SERVICE_BYTES = 16,
};

/* The beginning of a function, to be put elsewhere: code, and the distances in it that depend on where. */
struct moved_field {
    uint64_t to;  /* the address that is meant */
    uint8_t at;   /* of its four bytes */
    uint8_t from; /* of where the distance counts from */
};
struct moved {
    struct moved_field fields[MOVED_FIELDS_MAX];
    uint8_t code[MOVED_BYTES_MAX];
    uint8_t field_count, size;
    uint8_t replaced; /* bytes of the function, with those kept */
    uint8_t kept;     /* bytes of the first instruction, which stays where it is, before the jump; 0: none */
    uint32_t undone;  /* bytes of the stack that it took, to be given back before anything else runs */
};

enum plan_verdict {
    PLAN_PASSED,  /* an alternative serves, or the program's version does in another way what it did */
    PLAN_REFUSED, /* for the reason `why` */
    PLAN_HOOKED,
    PLAN_VERDICTS
};

/* A function of the target's kind. address 0: the program has none. */
struct plan_hook {
    uint64_t address;
    struct moved moved;            /* of PLAN_HOOKED */
    uint8_t code[PATCH_BYTES_MAX]; /* as in the file */
    uint8_t code_size, compared;   /* of these the function's own, which must stand so in memory */
    uint8_t hook, module, verdict; /* numbers in the kind's hooks, in plan.modules; enum plan_verdict */
    char why[360];
};

/* A file with functions that are hooked: where its segments lie in the process. */
struct plan_module {
    uint64_t start; /* as struct module's, which it names */
    uint64_t image_start, image_end;
};

/* A probe that is loaded. */
struct plan_probe {
    uint64_t start;        /* of its module */
    uint64_t owner, pools; /* addresses of sonde_owner and sonde_pools; 0: they are not there yet */
    char build_id[48];
    uint8_t foreign; /* it is no probe that we understand: its owner is of another size */
};

/* Functions of the C library and the loader; 0 when absent. */
struct plan_library {
    uint64_t open, error, system_call, map, unmap;
    uint64_t is_glibc; /* 1 or 0 */
};

struct plan_missing {
    uint8_t of_copies; /* a function of which the compiler has made copies; 0: fields of structures */
    char what[128], why[400], remedy[160];
};

/* What is there in any case, and on its way between processes: followed by the arrays, in this order. */
struct plan_head {
    uint32_t kind; /* index in TARGET_KINDS, plus 1; 0: none */
    uint32_t versions[4];
    uint32_t modules, hooks, probes, missing; /* how many */
    char build_id[48];                        /* of the first module; "" */
    char name[PLAN_NAME_BYTES];               /* what people call the program; "": its kind says */
    char script[PLAN_SCRIPT_BYTES];           /* that an interpreter runs; "": none */
    char service[PLAN_SERVICE_BYTES];         /* struct target_names; "": none */
    struct plan_library library;
    struct sonde_config config;
};

struct plan {
    struct plan_head head;
    ARRAY(struct plan_module) modules;
    ARRAY(struct plan_hook) hooks;
    ARRAY(struct plan_probe) probes;
    ARRAY(struct plan_missing) missing;
};

/* Zero-initialise to use. */
void plan_done(struct plan *plan);

/* A piece of work, with the text of the process's maps behind it. */
struct plan_work {
    uint64_t program; /* inode of the executable */
    uint32_t whole;   /* 0: what it is, the C library's functions and probes, but nothing to be hooked */
    uint32_t context; /* enum sonde_context: what is wanted at most */
};

/* As bytes: malloc'ed, at most BROKER_BYTES_MAX. 0 or -ENOMEM. */
int plan_encode(const struct plan *plan, void **ret_bytes, size_t *ret_length);

/* The other way: -EPROTO when a number is out of range. Texts end, and are printable. */
int plan_decode(const void *bytes, size_t length, struct plan *ret_plan);

/* Does every address lie where it says? -EPROTO, with the problem in words, when one does not, and -ESTALE
 * when it is one of a loaded probe: the mappings may have been read while a loader was making them. modules
 * are those of the same text of maps. */
int plan_check(const struct plan *plan, const struct modules *modules, struct problem *problem);

/* Whether size bytes lie in one mapping of code of a module's file (NULL: of any). */
bool plan_is_code(const struct modules *modules, const struct module *module, uint64_t address, size_t size);

/* Whether size bytes lie in memory of a module that is for data: mapped from its file, or behind that. */
bool plan_is_data(const struct modules *modules, const struct module *module, uint64_t address, size_t size);

#endif
