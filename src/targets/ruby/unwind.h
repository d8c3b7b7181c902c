/* CRuby 3.1 read from outside: where its threads keep their control frames, and what instruction sequences
 * (methods, blocks, files) are called. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_RUBY_UNWIND_H
#define TARGETS_RUBY_UNWIND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/native.h"
#include "unwind/sampler.h"

struct ruby {
    struct sampler_ruby frames;
    uint64_t execute[2]; /* address range of the function that runs control frames, up to one that ends it */
};

/* -ENOENT when the process runs no Ruby, -ENOTSUP for other versions, and where Ruby is no library. */
int ruby_find(struct native *native, struct ruby *ret_ruby);

/* Whether the C function that runs it was called for this frame, by the frame's flags (its third word). */
bool ruby_is_outermost(uint64_t flags);

struct ruby_function {
    char name[256];
    char file[512];
    uint32_t line; /* where it begins */
};

/* What the instruction sequence at an address is called. identity: as it was when the address was sampled
 * (sampler_python_identity()); 0: not known, then what lies there now is taken for it. -ESTALE when another
 * one lies there by now, -EFAULT when it cannot be read, -EINVAL when it is none. */
int ruby_function(const struct ruby *ruby, pid_t pid, uint64_t sequence, uint64_t identity,
                  struct ruby_function *ret_function);

#endif
