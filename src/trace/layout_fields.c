/* The fields that an event's classes hold, flattened: structures, arrays and variants become leaves with
 * paths as names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/layout_compiler.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* "_name" is how CTF 1.8 writers protect names that are keywords. */
static const char *shown_name(const struct metadata *m, const char *name)
{
    return m->version == 1 && name[0] == '_' ? name + 1 : name;
}

static const char *join(struct compiler *c, const char *a, const char *b)
{
    if (!a[0])
        return arena_strdup(&c->meta->arena, b);
    size_t na = strlen(a), nb = strlen(b);
    char *s = arena_alloc(&c->meta->arena, na + nb + 2);
    if (s) {
        memcpy(s, a, na);
        s[na] = '.';
        memcpy(s + na + 1, b, nb + 1);
    }
    return s;
}

static enum trace_type leaf_type(const struct field_class *fc)
{
    switch (fc->kind) {
    case KIND_INTEGER:
    case KIND_VARINT:
        return fc->is_boolean  ? TYPE_BOOLEAN
               : fc->is_bitmap ? TYPE_BITMAP
               : fc->is_signed ? TYPE_SIGNED
                               : TYPE_UNSIGNED;
    case KIND_REAL:
        return TYPE_REAL;
    case KIND_BLOB:
        return TYPE_BLOB;
    case KIND_ARRAY:
        return fc->is_text ? TYPE_STRING : TYPE_ARRAY;
    default:
        return TYPE_STRING;
    }
}

/* The fields of one element, in a list of their own. */
static int flatten_elements(struct compiler *c, const struct field_class *fc, enum field_scope scope,
                            struct trace_field *field, int depth)
{
    struct compiler inner = {.meta = c->meta, .problem = c->problem};
    int r = layout_flatten(&inner, fc->members[0].class, "", scope, false, depth + 1);
    if (r >= 0 && inner.leaves.count) {
        struct trace_field *elements = arena_alloc(&c->meta->arena, inner.leaves.count * sizeof(*elements));
        if (!elements)
            r = out_of_memory(c);
        for (size_t i = 0; elements && i < inner.leaves.count; i++)
            elements[i] = inner.leaves.at[i].field;
        field->elements = elements;
        field->element_count = (uint32_t)inner.leaves.count;
    }
    array_done(&inner.leaves);
    return r;
}

struct place {
    const char *name, *own_name;
    const struct trace_parent *parent;
};

/* The parent of its members; NULL, which none that is nested has, at the top. */
static int enter(struct compiler *c, const struct place *at, const struct trace_parent **ret_parent)
{
    *ret_parent = NULL;
    if (!at->name[0])
        return 0;
    struct trace_parent *parent = arena_alloc(&c->meta->arena, sizeof(*parent));
    if (!parent)
        return out_of_memory(c);
    *parent = (struct trace_parent){at->own_name, at->parent, at->parent ? at->parent->depth + 1 : 0};
    *ret_parent = parent;
    return 0;
}

static int flatten(struct compiler *c, const struct field_class *fc, const struct place *at,
                   enum field_scope scope, bool optional, int depth)
{
    int r = 0;
    if (fc->kind == KIND_OPTIONAL)
        return flatten(c, fc->members[0].class, at, scope, true, depth + 1);
    if (fc->kind == KIND_STRUCT || fc->kind == KIND_VARIANT) {
        const struct trace_parent *parent;
        r = enter(c, at, &parent);
        for (uint32_t i = 0; r >= 0 && i < fc->member_count; i++) {
            char number[16];
            const char *own = fc->members[i].name;
            if (!own) {
                snprintf(number, sizeof(number), "%u", i);
                own = number;
            }
            if (c->meta->arena.held_bytes > METADATA_MAX_MEMORY)
                return out_of_memory(c);
            struct place member = {.name = join(c, at->name, shown_name(c->meta, own)), .parent = parent};
            if (member.name)
                member.own_name = member.name + (at->name[0] ? strlen(at->name) + 1 : 0);
            r = member.name ? flatten(c, fc->members[i].class, &member, scope,
                                      optional || fc->kind == KIND_VARIANT, depth + 1)
                            : out_of_memory(c);
        }
        return r;
    }
    if (c->meta->arena.held_bytes > METADATA_MAX_MEMORY)
        return problem_set(c->problem, -E2BIG, "%s: metadata that needs more than %u MB", c->meta->path,
                           METADATA_MAX_MEMORY >> 20);
    if (c->leaves.count >= METADATA_MAX_SLOTS)
        return problem_set(c->problem, -E2BIG, "%s: an event of more than %d fields", c->meta->path,
                           METADATA_MAX_SLOTS);
    struct leaf leaf = {.optional = optional,
                        .field = {.name = at->name,
                                  .own_name = at->own_name,
                                  .parent = at->parent,
                                  .type = leaf_type(fc),
                                  .scope = scope,
                                  .base = fc->base,
                                  .bits = (uint8_t)fc->bits,
                                  .label_count = fc->label_count,
                                  .labels = fc->labels}};
    if (leaf.field.type == TYPE_ARRAY)
        r = flatten_elements(c, fc, scope, &leaf.field, depth);
    if (r >= 0 && array_add(&c->leaves, leaf) < 0)
        r = out_of_memory(c);
    return r;
}

int layout_flatten(struct compiler *c, const struct field_class *fc, const char *name, enum field_scope scope,
                   bool optional, int depth)
{
    return flatten(c, fc, &(struct place){.name = name, .own_name = name}, scope, optional, depth);
}
