/* What a sample of a thread found, from the outermost frame to the innermost, in the terms of the one who
 * wrote the application: its own functions where it has source maps in the file that was written, and what
 * they called by its public name (readFileSync, JSON.stringify) rather than by the leaf in libc or a library.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_STACK_H
#define MODEL_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/event.h"

struct analysis;

enum { STACK_FRAMES_MAX = 24 };

/* Strings are interned; equal ones have equal addresses. */
struct stack_frame {
    const char *function, *script;
    uint32_t line, column;
};

struct look_stack {
    uint32_t count; /* of the application's own frames, the outermost first; of more the innermost are kept */
    bool loading;   /* modules were loaded, or code was compiled */
    bool exiting;   /* the program had asked to end, and was at it */
    bool packaged;  /* it has no frames but those of packages (node_modules): these are its own then */
    const char
        *called; /* what the innermost of the frames called that is not the application's; NULL: nothing */
    struct stack_frame frames[];
};

/* The stack of a stall:sample, owned by the analysis; equal texts give equal addresses. NULL: there is none.
 */
const struct look_stack *stack_of(struct analysis *a, const struct event *e);

/* A place in generated code becomes the original's; others stay. */
void stack_map_place(struct analysis *a, const char **script, uint32_t *line, uint32_t *column);

void stacks_free(struct analysis *a);

#endif
