/* What a compiler of field classes keeps: layout.c makes programs, layout_fields.c finds the fields that they
 * fill. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_LAYOUT_COMPILER_H
#define TRACE_LAYOUT_COMPILER_H

#include <errno.h>

#include "base/array.h"
#include "base/problem.h"
#include "trace/layout.h"

/* A field of the event before it has a slot. */
struct leaf {
    struct trace_field field;
    bool optional; /* inside a variant or optional */
};

struct compiler {
    struct metadata *meta;
    struct problem *problem;
    ARRAY(struct op) ops;
    ARRAY(struct leaf) leaves;
    const uint32_t *slot_of_leaf; /* NULL: the same number */
    uint32_t next_leaf;           /* while emitting */
    /* What is known of the position: it is phase modulo align (bits). */
    uint32_t align, phase;
    uint32_t pending; /* alignment asked for and not yet applied */
    int64_t group;    /* index of the open OP_GROUP, or -1 */
    uint32_t group_bits;
    int depth;
};

static inline int out_of_memory(const struct compiler *c)
{
    return problem_set(c->problem, -ENOMEM, "%s: not enough memory", c->meta->path);
}

/* Adds the leaves of a field class to c->leaves: each named by its path ("a.b"), elements of arrays included.
 * 0 or a negative errno. */
int layout_flatten(struct compiler *c, const struct field_class *fc, const char *name, enum field_scope scope,
                   bool optional, int depth);

#endif
