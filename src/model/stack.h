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
struct process;

enum { STACK_FRAMES_MAX = 24 };

/* Strings are interned; equal ones have equal addresses. */
struct stack_frame {
    const char *function, *script;
    uint32_t line, column;
};

/* Who wrote a frame's function, from the one farthest from the application to the application itself. */
enum frame_origin { OF_NATIVE, OF_RUNTIME, OF_PACKAGE, OF_APPLICATION };

/* What a runtime knows about the frames of its stacks (struct analyzer). */
struct frame_reading {
    const char *scheme; /* what the names of the runtime's own scripts begin with */
    enum frame_origin (*origin)(const struct stack_frame *frame);
    bool (*loading)(const struct stack_frame *frame); /* it loads a module, or compiles */
    bool (*exiting)(const struct stack_frame *frame); /* it ends the program */
    /* What people call it, interned or constant; NULL: it has no name that says something to them. */
    const char *(*public_name)(struct analysis *a, const struct stack_frame *frame);
};

struct look_stack {
    uint32_t count; /* of the application's own frames, the outermost first; of more the innermost are kept */
    uint32_t gap;   /* so many of them lie outside of frames that were left out; 0: none was */
    bool loading;   /* modules were loaded, or code was compiled */
    bool exiting;   /* the program had asked to end, and was at it */
    bool packaged;  /* it has no frames but those of packages (node_modules): these are its own then */
    bool by_package;  /* a package's function called them, and was not called by one of them itself */
    const char *leaf; /* the innermost frame, if it is native code; NULL: it is not */
    const char
        *called; /* what the innermost of the frames called that is not the application's; NULL: nothing */
    struct stack_frame frames[];
};

/* The stack of a stall:sample of the process, owned by the analysis; equal texts of one runtime give equal
 * addresses. NULL: there is none, or nobody can read it. */
const struct look_stack *stack_of(struct analysis *a, const struct process *process, const struct event *e);

/* Is the script the runtime's own? false for NULL. */
bool stack_is_internal(const struct analysis *a, const struct process *process, const char *script);

/* A place in generated code becomes the original's; others stay. */
void stack_map_place(struct analysis *a, const char **script, uint32_t *line, uint32_t *column);

void stacks_free(struct analysis *a);

#endif
