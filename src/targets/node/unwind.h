/* Walks the stack of a thread that runs JavaScript in another process, from a copy of its stack and
 * registers: native frames, V8's builtins, compiled regular expressions and JavaScript, with names and source
 * positions. Nothing runs in the process and nothing in it is changed. x86-64, Node.js 16 to 26 without
 * compressed pointers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_UNWIND_H
#define TARGETS_NODE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/macro.h"
#include "base/problem.h"
#include "symbol/memory.h"
#include "unwind/native.h"
#include "targets/node/unwind_heap.h"
#include "targets/node/unwind_layout.h"

#define V8_FRAMES_MAX 384  /* that are kept */
#define V8_WALKED_MAX 4096 /* after which a walk ends */

enum v8_frame_kind {
    V8_NATIVE,  /* C++ and C */
    V8_JS,      /* a JavaScript function */
    V8_BUILTIN, /* part of V8: Array.prototype.map, a stub */
    V8_REGEXP,  /* compiled code of a regular expression */
    V8_ENTRY,   /* the border between native code and JavaScript */
};

enum v8_tier { V8_TIER_NONE, V8_INTERPRETED, V8_BASELINE, V8_OPTIMIZED };

/* How the line and column of a JavaScript frame are known. */
enum v8_position {
    V8_POSITION_NONE,
    V8_POSITION_FUNCTION, /* of the function's beginning */
    V8_POSITION_NEAR,     /* found by matching the bytecodes with the source: the nearest name at or before */
    V8_POSITION_EXACT,    /* from V8's own table */
};

struct v8_frame {
    enum v8_frame_kind kind;
    enum v8_tier tier;
    uint64_t pc, fp;
    bool call;          /* pc is a return address */
    bool guessed;       /* native, found by looking through the stack: code without unwind rules lies below */
    uint64_t function;  /* JSFunction */
    uint64_t context;   /* where its variables live, 0 when unknown */
    uint64_t bytecodes; /* BytecodeArray, 0 when the frame has none */
    int32_t bytecode_offset; /* into its bytes; -1 when unknown */
    uint64_t regexp;         /* JSRegExp, 0 when it was not found */

    /* Filled in by v8_name_frames(). Strings are owned by the stack; NULL when unknown. */
    char *name;
    char *script;
    uint32_t line, column; /* from 1; 0 when unknown */
    enum v8_position position;
    char *pattern, *flags; /* of a regular expression */
};

struct v8_stack {
    size_t count;
    size_t gap; /* frames[gap] did not call frames[gap - 1]: others lay between; 0: none is left out */
    size_t left_out;
    const char *truncated; /* why the walk ended before the outermost frame; NULL when it did not */
    struct v8_frame frames[V8_FRAMES_MAX]; /* the innermost first */
};

struct v8;

/* Attaches to nothing; reads the process's mappings and its V8's layout. -ENOENT when it runs no V8. */
int v8_open(pid_t pid, struct v8 **ret_v8, struct problem *problem);

/* The same over mappings that the caller keeps (and refreshes); native must outlive the object. */
int v8_open_native(struct native *native, struct v8 **ret_v8, struct problem *problem);
void v8_free(struct v8 *v8);
DEFINE_FREEP(struct v8, v8_free)

/* The mappings may have changed since: cheap enough to do before each walk. */
int v8_refresh(struct v8 *v8);

struct native *v8_native(struct v8 *v8);
const struct v8_layout *v8_layout(const struct v8 *v8);

/* For whoever names many frames: the heap is read through the pages (which must outlive it, and which the
 * caller forgets in time), and lines and columns are left out unless they are wanted. */
void v8_name_often(struct v8 *v8, struct memory_pages *pages, bool positions);

/* Walks. The heap objects that the frames name are looked at, but not read: call v8_name_frames() soon after.
 */
void v8_walk(struct v8 *v8, const struct user_regs_struct *registers, const struct stack_copy *stack,
             struct v8_stack *ret_stack);

/* Names every frame, with positions for JavaScript. */
void v8_name_frames(struct v8 *v8, struct v8_stack *stack);

/* Names one frame of V8 from the words *(fp-8), *(fp-16), *(fp-32), *(fp-40): appends it, and the functions
 * inlined into it, to the stack. */
void v8_name_words(struct v8 *v8, uint64_t pc, bool call, const uint64_t words[4], struct v8_stack *stack);

/* Of the function that such a frame is of, as long as it is the same one; 0: it cannot be told. */
uint64_t v8_words_identity(struct v8 *v8, const uint64_t words[4]);

/* The range of the builtins in the mapping, when it holds them. */
bool v8_builtins_in(struct v8 *v8, const struct mapping *mapping, uint64_t *ret_start, uint64_t *ret_end);

/* Looks for a regular expression among the words [from, to) of the stack: the one that C++ code called from
 * there is matching. Strings are owned by the caller. */
bool v8_find_pattern(struct v8 *v8, const struct stack_copy *stack, uint64_t from, uint64_t to,
                     char **ret_pattern, char **ret_flags);

/* Empties a stack, whose memory may hold anything; frames that it held are not released. */
static inline void v8_stack_init(struct v8_stack *stack)
{
    stack->count = stack->gap = stack->left_out = 0;
    stack->truncated = NULL;
}

/* Room for the next outer frame, not initialised. A full stack loses one of its middle for it: pointers to
 * frames are valid until the next call. */
struct v8_frame *v8_stack_push(struct v8_stack *stack);

/* Releases what the frames own. */
void v8_stack_done(struct v8_stack *stack);

#endif
