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

/* A code object as it was when it was read: another one may come to lie at the same address, and its name
 * where the former name lay. All 0: it could not be read. */
struct python_code {
    uint64_t name, file;                 /* addresses of strings */
    uint64_t name_text[2], file_text[2]; /* length and hash, as the strings say; -1: not computed yet */
    int64_t first_line;
};

/* Reads so many code objects, of which the addresses are in words[0], words[stride], ... */
void python_codes(const struct python *python, pid_t pid, const uint64_t *words, size_t stride, size_t count,
                  struct python_code *ret_codes);

/* What a code object is called. -EINVAL when it is none. */
int python_function(const struct python *python, pid_t pid, const struct python_code *code,
                    struct python_function *ret_function);

#endif
