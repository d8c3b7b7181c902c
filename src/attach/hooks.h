/* Which function of which runtime is hooked by which wrapper of the probe: one table. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_HOOKS_H
#define ATTACH_HOOKS_H

#include <stddef.h>
#include <stdint.h>

enum runtime { RUNTIME_OTHER, RUNTIME_NODE, RUNTIME_REDIS }; /* as SONDE_ENUM_runtime */

/* One way to hook one thing. Rows with the same wrapper are alternatives: the first whose symbol exists and
 * whose version fits is used. A C++ symbol names its signature; for C functions the versions stand for it. */
struct hook {
    const char *wrapper; /* sonde_wrap_X and sonde_orig_X of the probe, without the prefix */
    const char *symbol;  /* in .dynsym or .symtab of any mapped module */
    enum runtime runtime;
    uint32_t version_min, version_max; /* Redis 0xMMmmpp, libuv for uv_ symbols, [min, max); 0: any */
    const char *gives;                 /* what cannot be seen without it; NULL when an alternative may do */
};

extern const struct hook HOOKS[];
extern const size_t HOOK_COUNT;

#endif
