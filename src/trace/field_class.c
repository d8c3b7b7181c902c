/* What fields are made of: see metadata.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/metadata.h"

struct field_class *field_class_new(struct metadata *metadata, enum field_kind kind)
{
    if (metadata->class_count >= METADATA_MAX_CLASSES || metadata->arena.held_bytes > METADATA_MAX_MEMORY)
        return NULL;
    struct field_class *c = arena_alloc(&metadata->arena, sizeof(*c));
    if (!c)
        return NULL;
    metadata->class_count++;
    c->kind = (uint8_t)kind;
    c->base = 10;
    c->align = 1;
    c->saved = -1;
    return c;
}

struct field_class *field_class_copy(struct metadata *metadata, const struct field_class *class, int depth)
{
    if (depth > 4 * METADATA_MAX_DEPTH)
        return NULL;
    struct field_class *c = field_class_new(metadata, (enum field_kind) class->kind);
    if (!c)
        return NULL;
    *c = *class;
    if (!class->member_count)
        return c;
    c->members = arena_alloc(&metadata->arena, class->member_count * sizeof(*c->members));
    if (!c->members)
        return NULL;
    for (uint32_t i = 0; i < class->member_count; i++) {
        c->members[i] = class->members[i];
        c->members[i].class = field_class_copy(metadata, class->members[i].class, depth + 1);
        if (!c->members[i].class)
            return NULL;
    }
    return c;
}

uint32_t field_class_align(const struct field_class *class)
{
    uint32_t align = class->align;
    if (class->kind == KIND_STRUCT || class->kind == KIND_ARRAY)
        for (uint32_t i = 0; i < class->member_count; i++)
            align = MAX(align, field_class_align(class->members[i].class));
    return align;
}
