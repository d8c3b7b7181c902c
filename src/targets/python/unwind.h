/* CPython 3.9 to 3.13 read from outside: where a process keeps its threads' frames, and what code objects are
 * called. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_PYTHON_UNWIND_H
#define TARGETS_PYTHON_UNWIND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/native.h"
#include "unwind/sampler.h"

struct python {
    int minor; /* 3.minor */
    struct sampler_python frames;
    uint64_t evaluate[4][2]; /* address ranges of the interpreter's function and its split-off parts */
    int evaluate_count;
};

/* -ENOENT when the process runs no CPython, -ENOTSUP for other versions. */
int python_find(struct native *native, struct python *ret_python);

/* Is the address in the interpreter's loop? */
bool python_is_evaluate(const struct python *python, uint64_t pc);

/* What a frame's third word says about the C call it belongs to. */
enum python_mark {
    PYTHON_INSIDE,    /* called by the Python frame below it without a new C call */
    PYTHON_OUTERMOST, /* the C call began with this frame */
    PYTHON_BORDER,    /* no frame of the program: marks that the C call began with the frame before */
};
enum python_mark python_mark(const struct python *python, uint64_t word);

struct python_function {
    char name[256];
    char file[512];
    uint32_t line; /* where the function begins */
};

/* What the code object at an address is called. identity: as it was when the address was sampled
 * (sampler_python_identity()); 0: not known, then what lies there now is taken for it. -ESTALE when another
 * one lies there by now, -EFAULT when it cannot be read, -EINVAL when it is none. */
int python_function(const struct python *python, pid_t pid, uint64_t code, uint64_t identity,
                    struct python_function *ret_function);

#endif
