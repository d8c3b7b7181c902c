/* A function of a target that is hooked by a wrapper of the probe. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_HOOKS_H
#define ATTACH_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/catalogue.h"

/* One way to hook one thing. Rows with the same wrapper, up to a double underscore, are alternatives: the
 * first whose symbol exists and whose version fits is used. A C++ symbol names its signature; for C functions
 * the versions stand for it. */
struct hook {
    const char *wrapper; /* sonde_wrap_X and sonde_orig_X of the probe, without the prefix; unique over all
                            targets */
    const char *symbol;  /* in .dynsym or .symtab of any mapped module */
    /* [min, max) of the version that the target's kind compares with (0xMMmmpp); 0: any */
    uint32_t version_min, version_max;
    const char *gives; /* what cannot be seen without it; NULL when an alternative may do */
    bool split;        /* compilers may leave but a test of its arguments under its name: see patch_find() */
    uint8_t arguments; /* it has so many, whose registers alone hold something when it begins; 0: not said */
};

/* Are they alternatives? */
bool hook_same(const struct hook *a, const struct hook *b);

/* What cannot be seen without it, or without the last of its alternatives; "" where none says. */
const char *hook_gives(const struct hook *hook);

#endif
