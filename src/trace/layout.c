/* Compiles field classes into programs; see layout.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "event/event.h"
#include "trace/layout_compiler.h"

/* ---- emitting ---- */

static struct op *emit(struct compiler *c, enum op_code code)
{
    struct op op = {.code = (uint8_t)code};
    return array_add(&c->ops, op) < 0 ? NULL : &c->ops.at[c->ops.count - 1];
}

static uint32_t leaf_slot(struct compiler *c)
{
    uint32_t leaf = c->next_leaf++;
    return c->slot_of_leaf ? c->slot_of_leaf[leaf] : leaf;
}

static void close_group(struct compiler *c)
{
    if (c->group < 0)
        return;
    c->ops.at[c->group].b = c->group_bits;
    c->phase = (c->phase + c->group_bits) & (c->align - 1);
    c->group = -1;
}

/* The position is known to be a multiple of bits. */
static bool known_aligned(const struct compiler *c, uint32_t bits)
{
    return c->align >= bits && (c->phase & (bits - 1)) == 0;
}

static void forget_position(struct compiler *c)
{
    c->align = 1;
    c->phase = 0;
}

/* Applies pending alignment on its own. */
static int flush_align(struct compiler *c, uint32_t extra)
{
    uint32_t want = MAX(c->pending, extra);
    close_group(c);
    c->pending = 1;
    if (want <= 1 || known_aligned(c, want))
        return 0;
    struct op *op = emit(c, OP_ALIGN);
    if (!op)
        return out_of_memory(c);
    op->a = want;
    c->align = want;
    c->phase = 0;
    return 0;
}

/* Room for a field of so many bits in the open group or a new one; *ret_bit is its offset in the group, or -1
 * when not even the bit within the byte is known. */
static int place(struct compiler *c, uint64_t bits, uint32_t align, int64_t *ret_bit)
{
    uint32_t want = MAX(c->pending, align);
    if (c->group >= 0 && want <= c->align) {
        uint32_t here = (c->phase + c->group_bits) & (c->align - 1);
        uint32_t padding = (0u - here) & (want - 1);
        if (c->group_bits + padding + bits < 1u << 24) {
            c->pending = 1;
            *ret_bit = c->group_bits + padding;
            c->group_bits += padding + (uint32_t)bits;
            return 0;
        }
    }
    close_group(c);
    bool aligned = known_aligned(c, want);
    if (!(aligned && known_aligned(c, 8)) && want < 8) {
        *ret_bit = -1;
        return 0;
    }
    c->pending = 1;
    struct op *op = emit(c, OP_GROUP);
    if (!op)
        return out_of_memory(c);
    op->a = aligned ? 1 : want;
    if (!aligned) {
        c->align = want;
        c->phase = 0;
    }
    c->group = (int64_t)c->ops.count - 1;
    c->group_bits = (uint32_t)bits;
    *ret_bit = 0;
    return 0;
}

static int emit_after(struct compiler *c, const struct field_class *fc, uint32_t slot)
{
    if (fc->saved > 0) {
        struct op *op = emit(c, OP_SAVE);
        if (!op)
            return out_of_memory(c);
        op->slot = slot;
        op->a = (uint32_t)fc->saved;
    }
    for (uint32_t role = 0; role < ROLE_COUNT; role++) {
        if (!(fc->roles & 1u << role) || (fc->kind != KIND_INTEGER && fc->kind != KIND_VARINT))
            continue;
        struct op *op = emit(c, role == ROLE_CLOCK ? OP_CLOCK : OP_ROLE);
        if (!op)
            return out_of_memory(c);
        op->slot = slot;
        op->a = role;
        op->bits = fc->kind == KIND_VARINT ? 0 : (uint8_t)fc->bits; /* 0: as many as it had */
    }
    return 0;
}

/* The plain load of a byte-aligned scalar, or OP_END when there is none. */
static enum op_code plain_load(const struct field_class *fc)
{
    bool big = fc->order == ORDER_BIG, s = fc->is_signed;
    if (fc->reversed)
        return OP_END;
    if (fc->kind == KIND_REAL)
        return fc->bits == 32   ? (big ? OP_F32_SWAP : OP_F32)
               : fc->bits == 64 ? (big ? OP_F64_SWAP : OP_F64)
                                : OP_END;
    switch (fc->bits) {
    case 8:
        return s ? OP_I8 : OP_U8;
    case 16:
        return big ? (s ? OP_I16_SWAP : OP_U16_SWAP) : s ? OP_I16 : OP_U16;
    case 32:
        return big ? (s ? OP_I32_SWAP : OP_U32_SWAP) : s ? OP_I32 : OP_U32;
    case 64:
        return big ? OP_U64_SWAP : OP_U64;
    default:
        return OP_END;
    }
}

static int emit_scalar(struct compiler *c, const struct field_class *fc)
{
    int64_t bit;
    int r = place(c, fc->bits, fc->align, &bit);
    if (r < 0)
        return r;
    uint32_t slot = leaf_slot(c);
    enum op_code load = bit >= 0 && bit % 8 == 0 ? plain_load(fc) : OP_END;
    struct op *op = emit(c, load != OP_END ? load : bit >= 0 ? OP_GROUP_BITS : OP_BITS);
    if (!op)
        return out_of_memory(c);
    op->slot = slot;
    op->bits = (uint8_t)fc->bits;
    op->flags = (uint8_t)((fc->is_signed ? OP_SIGNED : 0) | (fc->order == ORDER_BIG ? OP_BIG : 0) |
                          (fc->kind == KIND_REAL ? OP_REAL : 0) | (fc->reversed ? OP_REVERSED : 0));
    if (load != OP_END) {
        op->a = (uint32_t)(bit / 8);
    } else if (bit >= 0) {
        op->a = (uint32_t)bit;
    } else {
        op->a = MAX(c->pending, fc->align);
        c->pending = 1;
        forget_position(c);
    }
    return emit_after(c, fc, slot);
}

/* Strings, texts and blobs that are not part of a group. */
static int emit_bytes(struct compiler *c, const struct field_class *fc, enum op_code code, uint32_t align)
{
    int r = flush_align(c, MAX(align, 8u));
    if (r < 0)
        return r;
    uint32_t slot = leaf_slot(c);
    struct op *op = emit(c, code);
    if (!op)
        return out_of_memory(c);
    op->slot = slot;
    op->encoding = fc->encoding;
    op->a = fc->target ? (uint32_t)fc->target->saved : REGISTER_NONE;
    if (!fc->target)
        op->wide = fc->length;
    c->align = 8;
    c->phase = 0;
    return 0;
}

/* Static texts and blobs join the group: comm[16] costs one load. */
static int emit_text(struct compiler *c, const struct field_class *fc, uint32_t align)
{
    bool blob = fc->kind == KIND_BLOB;
    int64_t bit = -1;
    if (!fc->target && fc->length < 1u << 16 && fc->encoding <= ENCODING_UTF8) {
        int r = place(c, fc->length * 8, MAX(align, 8u), &bit);
        if (r < 0)
            return r;
    }
    if (bit < 0) {
        return emit_bytes(c, fc, blob ? OP_BLOB : OP_TEXT, align);
    }
    uint32_t slot = leaf_slot(c);
    struct op *op = emit(c, blob ? OP_GROUP_BLOB : OP_GROUP_TEXT);
    if (!op)
        return out_of_memory(c);
    op->slot = slot;
    op->a = (uint32_t)(bit / 8);
    op->b = (uint32_t)fc->length;
    return 0;
}

static int emit_class(struct compiler *c, const struct field_class *fc);

static int emit_array(struct compiler *c, const struct field_class *fc)
{
    const struct field_class *element = fc->members[0].class;
    uint32_t align = MAX(fc->align, field_class_align(element));
    if (fc->is_text)
        return emit_text(c, fc, align);
    int r = flush_align(c, align);
    if (r < 0)
        return r;
    bool scalar = (element->kind == KIND_INTEGER || element->kind == KIND_REAL) && element->saved <= 0 &&
                  !element->roles && element->align <= element->bits && element->align >= 8;
    enum op_code load = scalar ? plain_load(element) : OP_END;
    uint32_t slot = leaf_slot(c);
    size_t at = c->ops.count;
    struct op *op = emit(c, load != OP_END ? OP_ARRAY_PLAIN : OP_ARRAY);
    if (!op)
        return out_of_memory(c);
    op->slot = slot;
    op->a = fc->target ? (uint32_t)fc->target->saved : REGISTER_NONE;
    op->bits = (uint8_t)element->bits;
    if (load != OP_END) {
        op->b = load;
        op->wide = fc->length;
        /* Elements keep byte alignment, whatever their number. */
        if (known_aligned(c, 8)) {
            c->align = 8;
            c->phase = 0;
        }
        return 0;
    }
    /* The length of a static array follows in an operation of its own, since jump takes the wide place. */
    struct op *length = emit(c, OP_END);
    if (!length)
        return out_of_memory(c);
    length->wide = fc->length;
    struct compiler inner = {
        .meta = c->meta, .problem = c->problem, .align = 1, .pending = 1, .group = -1, .depth = c->depth + 1};
    inner.ops.at = c->ops.at;
    inner.ops.count = c->ops.count;
    inner.ops.capacity = c->ops.capacity;
    r = emit_class(&inner, element);
    if (r >= 0)
        r = flush_align(&inner, 1);
    if (r >= 0 && !emit(&inner, OP_END))
        r = out_of_memory(c);
    c->ops.at = inner.ops.at;
    c->ops.count = inner.ops.count;
    c->ops.capacity = inner.ops.capacity;
    if (r < 0)
        return r;
    c->ops.at[at].b = inner.next_leaf;
    c->ops.at[at].jump = (int64_t)(c->ops.count - at);
    bool bytes = known_aligned(c, 8) && inner.align >= 8 && (inner.phase & 7) == 0;
    c->align = bytes ? 8 : 1;
    c->phase = 0;
    return 0;
}

/* Variants and optionals: a table of ranges, the options' programs one after the other. */
static int emit_choice(struct compiler *c, const struct field_class *fc)
{
    bool optional = fc->kind == KIND_OPTIONAL;
    int r = flush_align(c, fc->align);
    if (r < 0)
        return r;
    struct variant_table *table = arena_alloc(&c->meta->arena, sizeof(*table));
    uint32_t ranges = optional ? MAX(fc->range_count, 1u) : 0;
    for (uint32_t i = 0; !optional && i < fc->member_count; i++)
        ranges += fc->members[i].range_count;
    size_t at = c->ops.count;
    struct op *op = emit(c, OP_VARIANT);
    if (!op || !table ||
        !(table->ranges = arena_alloc(&c->meta->arena, (ranges + 1) * sizeof(*table->ranges))))
        return out_of_memory(c);
    op->a = (uint32_t)fc->target->saved;
    op->extra = table;
    table->is_signed = fc->target->is_signed;
    table->optional = optional;
    table->slot = c->next_leaf; /* leaves here; turned into slots below */
    ARRAY(size_t) jumps = {0};
    bool bytes = true;
    uint32_t start_align = c->align, start_phase = c->phase;
    for (uint32_t i = 0; r >= 0 && i < fc->member_count; i++) {
        const struct field_range *list = optional ? fc->ranges : fc->members[i].ranges;
        uint32_t n = optional ? fc->range_count : fc->members[i].range_count;
        for (uint32_t j = 0; j < n; j++)
            table->ranges[table->count++] =
                (struct variant_range){.range = list[j], .jump = (int64_t)(c->ops.count - at)};
        if (optional && !n) /* a boolean selector: anything but zero */
            table->ranges[table->count++] = (struct variant_range){.range = {.low = 1, .high = UINT64_MAX},
                                                                   .jump = (int64_t)(c->ops.count - at)};
        c->align = start_align;
        c->phase = start_phase;
        c->pending = 1;
        r = emit_class(c, fc->members[i].class);
        if (r >= 0)
            r = flush_align(c, 1);
        bytes = bytes && known_aligned(c, 8);
        if (r >= 0 && (array_add(&jumps, c->ops.count) < 0 || !emit(c, OP_JUMP)))
            r = out_of_memory(c);
    }
    for (size_t i = 0; r >= 0 && i < jumps.count; i++)
        c->ops.at[jumps.at[i]].jump = (int64_t)(c->ops.count - jumps.at[i]);
    array_done(&jumps);
    table->end = (int64_t)(c->ops.count - at);
    table->slot_count = c->next_leaf - table->slot;
    if (c->slot_of_leaf) /* a catalogue event; its slots keep the leaves' order where they are optional */
        table->slot = c->slot_of_leaf[table->slot];
    bytes = bytes && (!optional || (start_align >= 8 && (start_phase & 7) == 0));
    c->align = bytes ? 8 : 1;
    c->phase = 0;
    return r;
}

static int emit_class(struct compiler *c, const struct field_class *fc)
{
    if (c->depth > METADATA_MAX_DEPTH * 2)
        return problem_set(c->problem, -EINVAL, "%s: arrays nested too deep", c->meta->path);
    switch (fc->kind) {
    case KIND_INTEGER:
    case KIND_REAL:
        return emit_scalar(c, fc);
    case KIND_VARINT: {
        uint32_t slot = c->slot_of_leaf ? c->slot_of_leaf[c->next_leaf] : c->next_leaf;
        int r = emit_bytes(c, fc, OP_VARINT, fc->align);
        if (r < 0)
            return r;
        c->ops.at[c->ops.count - 1].flags = fc->is_signed ? OP_SIGNED : 0;
        return emit_after(c, fc, slot);
    }
    case KIND_STRING:
        return emit_bytes(c, fc, OP_STRING, fc->align);
    case KIND_TEXT:
    case KIND_BLOB:
        return emit_text(c, fc, fc->align);
    case KIND_STRUCT:
        c->pending = MAX(c->pending, field_class_align(fc));
        for (uint32_t i = 0; i < fc->member_count; i++) {
            int r = emit_class(c, fc->members[i].class);
            if (r < 0)
                return r;
        }
        return 0;
    case KIND_ARRAY:
        return emit_array(c, fc);
    default:
        return emit_choice(c, fc);
    }
}

/* ---- programs ---- */

static void compiler_done(struct compiler *c)
{
    array_done(&c->ops);
    array_done(&c->leaves);
}

static int take_program(struct compiler *c, struct program **ret_program)
{
    struct program *p = arena_alloc(&c->meta->arena, sizeof(*p));
    struct op *ops = p && emit(c, OP_END) ? arena_alloc(&c->meta->arena, c->ops.count * sizeof(*ops)) : NULL;
    if (!ops)
        return out_of_memory(c);
    memcpy(ops, c->ops.at, c->ops.count * sizeof(*ops));
    p->ops = ops;
    p->op_count = (uint32_t)c->ops.count;
    *ret_program = p;
    return 0;
}

static int take_fields(struct compiler *c, struct trace_field **ret_fields, uint32_t *ret_count)
{
    struct trace_field *fields = arena_alloc(&c->meta->arena, (c->leaves.count + 1) * sizeof(*fields));
    if (!fields)
        return out_of_memory(c);
    for (size_t i = 0; i < c->leaves.count; i++)
        fields[i] = c->leaves.at[i].field;
    *ret_fields = fields;
    *ret_count = (uint32_t)c->leaves.count;
    return 0;
}

/* One scope on its own: packet header, packet context, event header. */
static int compile_scope(struct compiler *c, const struct field_class *fc, struct program **ret_program,
                         struct trace_field **ret_fields, uint32_t *ret_count)
{
    c->align = c->pending = 1;
    c->group = -1;
    int r = 0;
    struct program *program;
    if (fc)
        r = layout_flatten(c, fc, "", SCOPE_PACKET_CONTEXT, false, 0);
    if (r >= 0 && fc)
        r = emit_class(c, fc);
    if (r >= 0)
        r = flush_align(c, 1);
    if (r >= 0)
        r = take_program(c, &program);
    if (r >= 0 && ret_fields)
        r = take_fields(c, ret_fields, ret_count);
    if (r >= 0) {
        program->slot_count = (uint32_t)c->leaves.count;
        *ret_program = program;
    }
    compiler_done(c);
    return r;
}

static int32_t find_slot(const struct trace_field *fields, uint32_t count, const char *name,
                         const char *other)
{
    for (uint32_t i = 0; i < count; i++)
        if ((fields[i].type == TYPE_UNSIGNED || fields[i].type == TYPE_SIGNED) &&
            fields[i].scope != SCOPE_PAYLOAD &&
            (strcmp(fields[i].name, name) == 0 || (other && strcmp(fields[i].name, other) == 0)))
            return (int32_t)i;
    return -1;
}

static bool same_kind(enum field_type wanted, enum trace_type found)
{
    bool number = found == TYPE_UNSIGNED || found == TYPE_SIGNED || found == TYPE_BOOLEAN;
    return wanted == FIELD_TYPE_str ? found == TYPE_STRING : number;
}

static void catalogue_field(const struct event_field *from, struct trace_field *to)
{
    bool is_signed = from->type == FIELD_TYPE_i32 || from->type == FIELD_TYPE_i64;
    *to = (struct trace_field){.name = from->name,
                               .type = from->type == FIELD_TYPE_str ? TYPE_STRING
                                       : is_signed                  ? TYPE_SIGNED
                                                                    : TYPE_UNSIGNED,
                               .base = 10};
}

/* Slots: the catalogue's fields first, then the others in their order. Leaves inside variants stay together,
 * behind the catalogue's. */
static int assign_slots(struct compiler *c, struct event_class *class, uint32_t **ret_map)
{
    uint32_t known = class->id == EVENT_FOREIGN ? 0 : event_catalogue[class->id].field_count;
    const struct event_field *wanted = known ? event_catalogue[class->id].fields : NULL;
    uint32_t leaves = (uint32_t)c->leaves.count, next = known;
    uint32_t *map = arena_alloc(&c->meta->arena, (leaves + 1) * sizeof(*map));
    struct trace_field *fields = arena_alloc(&c->meta->arena, (known + leaves + 1) * sizeof(*fields));
    if (!map || !fields)
        return out_of_memory(c);
    bool *taken = arena_alloc(&c->meta->arena, known + 1);
    if (!taken)
        return out_of_memory(c);
    for (uint32_t i = 0; i < known; i++)
        catalogue_field(&wanted[i], &fields[i]);
    for (uint32_t i = 0; i < leaves; i++) {
        const struct leaf *leaf = &c->leaves.at[i];
        uint32_t slot = known;
        for (slot = 0; slot < known; slot++)
            if (!leaf->optional && leaf->field.scope == SCOPE_PAYLOAD && !taken[slot] &&
                strcmp(wanted[slot].name, leaf->field.name) == 0 &&
                same_kind(wanted[slot].type, leaf->field.type))
                break;
        if (slot == known)
            slot = next++;
        else
            taken[slot] = true;
        map[i] = slot;
        fields[slot] = leaf->field;
    }
    for (uint32_t i = 0; i < known; i++) {
        struct op *op = taken[i] ? NULL : emit(c, OP_ABSENT);
        if (!taken[i] && !op)
            return out_of_memory(c);
        if (op) {
            op->slot = i;
            op->a = 1;
        }
    }
    class->fields = fields;
    class->field_count = next;
    *ret_map = map;
    return 0;
}

static uint64_t always_present(const struct compiler *c, const uint32_t *map, bool *ret_irregular)
{
    uint64_t present = 0;
    for (size_t i = 0; i < c->leaves.count; i++) {
        if (c->leaves.at[i].optional)
            *ret_irregular = true;
        if (map[i] < 64)
            present |= 1ull << map[i];
    }
    return present;
}

static int compile_event(struct compiler *c, struct stream_meta *s, struct event_meta *e)
{
    const struct field_class *parts[] = {s->event_context, e->context, e->payload};
    static const enum field_scope SCOPES[] = {SCOPE_COMMON_CONTEXT, SCOPE_CONTEXT, SCOPE_PAYLOAD};
    struct event_class *class = arena_alloc(&c->meta->arena, sizeof(*class));
    if (!class)
        return out_of_memory(c);
    enum sonde_event_id id = event_by_name(e->name);
    *class = (struct event_class){.name = e->name,
                                  .id = id == SONDE_EVENT_none ? EVENT_FOREIGN : (uint16_t)id,
                                  .log_level = (int16_t)e->log_level,
                                  .packet_field_count = s->packet_field_count,
                                  .packet_fields = s->packet_fields,
                                  .reader = e};
    c->align = c->pending = 1;
    c->group = -1;
    int r = 0;
    uint32_t *map = NULL;
    for (int i = 0; i < 3 && r >= 0; i++)
        if (parts[i])
            r = layout_flatten(c, parts[i], "", SCOPES[i], false, 0);
    if (r >= 0)
        r = assign_slots(c, class, &map);
    c->slot_of_leaf = map;
    for (int i = 0; i < 3 && r >= 0; i++)
        if (parts[i])
            r = emit_class(c, parts[i]);
    if (r >= 0)
        r = flush_align(c, 1);
    if (r >= 0)
        r = take_program(c, &e->program);
    if (r >= 0) {
        e->program->slot_count = class->field_count;
        e->program->present = always_present(c, map, &e->program->irregular);
        e->public = class;
        e->slots = map;
        e->pid_slot = find_slot(class->fields, class->field_count, "vpid", "pid");
        e->tid_slot = find_slot(class->fields, class->field_count, "vtid", "tid");
    }
    return r;
}

/* ---- shapes of event headers ---- */

/* A little-endian unsigned integer of one of these widths on a byte boundary (or of odd width packed behind
 * others). */
static bool is_plain(const struct field_class *c, uint32_t bits, uint32_t align)
{
    return c->kind == KIND_INTEGER && c->bits == bits && c->align == align && !c->is_signed && !c->reversed &&
           (c->order == ORDER_LITTLE || bits == 8);
}

static bool has_roles(const struct field_class *c, uint16_t roles)
{
    return c->roles == roles;
}

static const uint16_t ID_ROLE = 1u << ROLE_EVENT_ID, CLOCK_ROLE = 1u << ROLE_CLOCK;

/* LTTng's: enum id { compact, extended } and a variant of both. */
static bool is_lttng_header(const struct field_class *h, uint32_t id_bits, uint32_t time_bits,
                            uint64_t escape)
{
    uint32_t align = id_bits % 8 ? 1 : 8;
    if (h->member_count != 2)
        return false;
    const struct field_class *id = h->members[0].class, *v = h->members[1].class;
    if (!is_plain(id, id_bits, align) || !has_roles(id, ID_ROLE) || id->uses != 1 ||
        v->kind != KIND_VARIANT || v->target != id || v->member_count != 2 || v->align != 1)
        return false;
    const struct field_member *a = &v->members[0], *b = &v->members[1];
    if (a->range_count != 1 || a->ranges[0].low != 0 || a->ranges[0].high != escape - 1 ||
        b->range_count != 1 || b->ranges[0].low != escape || b->ranges[0].high != escape ||
        a->class->kind != KIND_STRUCT || b->class->kind != KIND_STRUCT || a->class->member_count != 1 ||
        b->class->member_count != 2 || field_class_align(a->class) != align ||
        field_class_align(b->class) != 8)
        return false;
    const struct field_class *time = a->class->members[0].class, *long_id = b->class->members[0].class,
                             *long_time = b->class->members[1].class;
    return is_plain(time, time_bits, align) && has_roles(time, CLOCK_ROLE) && is_plain(long_id, 32, 8) &&
           has_roles(long_id, ID_ROLE) && is_plain(long_time, 64, 8) && has_roles(long_time, CLOCK_ROLE) &&
           !time->uses && !long_id->uses && !long_time->uses;
}

static void find_shape(const struct field_class *h, struct program *p)
{
    if (!h || field_class_align(h) != 8)
        return;
    if (is_lttng_header(h, 5, 27, 31)) {
        p->shape = SHAPE_COMPACT;
    } else if (is_lttng_header(h, 16, 32, 65535)) {
        p->shape = SHAPE_LARGE;
    } else if (h->member_count == 2) {
        const struct field_class *id = h->members[0].class, *time = h->members[1].class;
        bool id_ok = is_plain(id, 8, 8) || is_plain(id, 16, 8) || is_plain(id, 32, 8) || is_plain(id, 64, 8);
        bool time_ok = is_plain(time, 32, 8) || is_plain(time, 64, 8);
        if (!id_ok || !time_ok || !has_roles(id, ID_ROLE) || !has_roles(time, CLOCK_ROLE) || id->uses ||
            time->uses)
            return;
        p->shape = SHAPE_FIXED;
        p->id_bytes = (uint8_t)(id->bits / 8);
        p->time_bytes = (uint8_t)(time->bits / 8);
        p->header_bits = (uint16_t)(id->bits + time->bits);
    }
}

static int compile_stream(struct metadata *m, struct stream_meta *s, struct problem *problem)
{
    struct compiler c = {.meta = m, .problem = problem};
    int r =
        compile_scope(&c, s->packet_context, &s->packet_program, &s->packet_fields, &s->packet_field_count);
    if (r < 0)
        return r;
    s->packet_pid_slot = find_slot(s->packet_fields, s->packet_field_count, "pid", "vpid");
    s->packet_tid_slot = find_slot(s->packet_fields, s->packet_field_count, "tid", "vtid");
    s->packet_cpu_slot = find_slot(s->packet_fields, s->packet_field_count, "cpu_id", NULL);
    c = (struct compiler){.meta = m, .problem = problem};
    r = compile_scope(&c, s->event_header, &s->header_program, NULL, NULL);
    if (r >= 0)
        find_shape(s->event_header, s->header_program);
    for (struct event_meta *e = s->events; r >= 0 && e; e = e->next) {
        c = (struct compiler){.meta = m, .problem = problem};
        r = compile_event(&c, s, e);
        compiler_done(&c);
    }
    return r;
}

int layout_compile(struct metadata *metadata, struct problem *problem)
{
    struct compiler c = {.meta = metadata, .problem = problem};
    int r = compile_scope(&c, metadata->packet_header, &metadata->header_program, NULL, NULL);
    for (struct stream_meta *s = metadata->streams; r >= 0 && s; s = s->next)
        r = compile_stream(metadata, s, problem);
    return r;
}
