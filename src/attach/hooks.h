/* Which function of which runtime is hooked by which wrapper of the probe: one table. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_HOOKS_H
#define ATTACH_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/catalogue.h"

enum runtime {
    RUNTIME_OTHER = SONDE_runtime_other,
    RUNTIME_NODE = SONDE_runtime_node,
    RUNTIME_REDIS = SONDE_runtime_redis,
};

/* One way to hook one thing. Rows with the same wrapper, up to a double underscore, are alternatives: the
 * first whose symbol exists and whose version fits is used. A C++ symbol names its signature; for C functions
 * the versions stand for it. */
struct hook {
    const char *wrapper; /* sonde_wrap_X and sonde_orig_X of the probe, without the prefix */
    const char *symbol;  /* in .dynsym or .symtab of any mapped module */
    enum runtime runtime;
    /* [min, max) of Redis (0xMMmmpp), of V8 for its symbols, of libuv for uv_ symbols; 0: any */
    uint32_t version_min, version_max;
    const char *gives; /* what cannot be seen without it; NULL when an alternative may do */
    bool split;        /* compilers may leave but a test of its arguments under its name: see patch_find() */
};

extern const struct hook HOOKS[];
extern const size_t HOOK_COUNT;

/* Are they alternatives? */
bool hook_same(const struct hook *a, const struct hook *b);

/* What cannot be seen without it, or without the last of its alternatives; "" where none says. */
const char *hook_gives(const struct hook *hook);

#endif
