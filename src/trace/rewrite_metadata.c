/* See rewrite_metadata.h. Field classes are written as they were read, with simpler sizes; what only CTF 2
 * has becomes what CTF 1.8 has: an optional a sequence of at most one element, a blob an array of bytes, a
 * boolean an integer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/rewrite_metadata.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"

struct writer {
    struct text *out;
    const struct metadata *meta;
    struct problem *problem;
    ARRAY(const struct field_class *)
    variants; /* CTF 2: variants, whose selectors need the options as labels */
};

static const char *const PREFIXES[ROOT_COUNT] = {
    [ROOT_PACKET_CONTEXT] = "stream.packet.context.",
    [ROOT_COMMON_CONTEXT] = "stream.event.context.",
    [ROOT_CONTEXT] = "event.context.",
    [ROOT_PAYLOAD] = "event.fields.",
};

bool rewrite_keeps(const struct metadata *meta, const struct field_member *member)
{
    const uint16_t own = 1u << ROLE_CLOCK | 1u << ROLE_TIME_END | 1u << ROLE_PACKET_SIZE |
                         1u << ROLE_CONTENT_SIZE | 1u << ROLE_DISCARDED | 1u << ROLE_SEQUENCE_NUMBER;
    return !(member->class->roles & own) || member->class->uses;
}

static void add_string(struct text *out, const char *s)
{
    text_add(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_addf(out, "\\%c", c);
        else if (c < ' ' || c >= 0x7f)
            text_addf(out, "\\x%02x", c);
        else
            text_add_bytes(out, s, 1);
    }
    text_add(out, "\"");
}

/* Names of CTF 2 may be anything; an underscore in front protects them and is taken away by readers. */
static void add_name(struct writer *w, const char *name)
{
    if (w->meta->version == 1) {
        text_add(w->out, name);
        return;
    }
    text_add(w->out, "_");
    for (; *name; name++)
        text_add_bytes(w->out, isalnum((unsigned char)*name) ? name : "_", 1);
}

static int add_location(struct writer *w, const struct field_class *c)
{
    const struct field_location *l = &c->location;
    if (l->root == ROOT_PACKET_HEADER || l->root == ROOT_EVENT_HEADER)
        return problem_set(w->problem, -ENOTSUP,
                           "field '%.60s': its length or selector is in a header, which is written anew",
                           c->own_name ? c->own_name : "");
    text_add(w->out, l->root == ROOT_NONE ? "" : PREFIXES[l->root]);
    bool any = false;
    for (uint32_t i = 0; i < l->count; i++) {
        if (!l->names[i])
            continue;
        text_add(w->out, any ? "." : "");
        add_name(w, l->names[i]);
        any = true;
    }
    return 0;
}

static void add_integer(struct writer *w, const struct field_class *c, bool text)
{
    text_addf(w->out, "integer { size = %u; align = 8; signed = %s; base = %u;%s }", rewrite_width(c) * 8,
              c->is_signed ? "true" : "false", c->base, text ? " encoding = UTF8;" : "");
}

static void add_label(struct writer *w, const struct field_class *c, const char *name,
                      const struct field_range *r, bool *first)
{
    text_add(w->out, *first ? " " : ", ");
    *first = false;
    add_string(w->out, name);
    if (c->is_signed)
        text_addf(w->out, " = %" PRId64 " ... %" PRId64, r->low_signed, r->high_signed);
    else
        text_addf(w->out, " = %" PRIu64 " ... %" PRIu64, r->low, r->high);
}

static bool is_word(const char *s)
{
    static const char *const KEYWORDS[] = {
        "align",   "callsite", "char",    "clock",          "const",  "double",   "enum",
        "env",     "event",    "float",   "floating_point", "int",    "integer",  "long",
        "short",   "signed",   "stream",  "string",         "struct", "trace",    "typealias",
        "typedef", "unsigned", "variant", "void",           "_Bool",  "_Complex", "_Imaginary"};
    if (!isalpha((unsigned char)s[0]))
        return false;
    for (const char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(KEYWORDS); i++)
        if (strcmp(s, KEYWORDS[i]) == 0)
            return false;
    return true;
}

static bool has_label(const struct field_class *c, const char *name)
{
    for (uint32_t i = 0; i < c->label_count; i++)
        if (strcmp(c->labels[i].name, name) == 0)
            return true;
    return false;
}

/* The name of an option of CTF 2, which must be a label of the selector: the option's own name when it is one
 * already and no word of the language, else protected. */
static void option_name(const struct field_class *variant, uint32_t option, char *buffer, size_t size)
{
    const char *own = variant->members[option].name;
    char number[16];
    if (!own) {
        snprintf(number, sizeof(number), "%u", option);
        own = number;
    }
    bool plain = is_word(own) && has_label(variant->target, own);
    size_t n = (size_t)snprintf(buffer, size, "%s%s", plain ? "" : "_", own);
    for (size_t i = 0; i < n && i < size - 1; i++)
        if (!isalnum((unsigned char)buffer[i]))
            buffer[i] = '_';
}

static void add_option_labels(struct writer *w, const struct field_class *c, bool *first)
{
    char name[256];
    for (size_t i = 0; i < w->variants.count; i++) {
        const struct field_class *v = w->variants.at[i];
        for (uint32_t o = 0; v->target == c && o < v->member_count; o++) {
            option_name(v, o, name, sizeof(name));
            for (uint32_t r = 0; !has_label(c, name) && r < v->members[o].range_count; r++)
                add_label(w, c, name, &v->members[o].ranges[r], first);
        }
    }
}

static void add_enum(struct writer *w, const struct field_class *c)
{
    bool first = true;
    text_add(w->out, "enum : ");
    add_integer(w, c, false);
    text_add(w->out, " {");
    for (uint32_t i = 0; i < c->label_count; i++) {
        struct field_range r = {.low = c->labels[i].low, .high = c->labels[i].high};
        add_label(w, c, c->labels[i].name, &r, &first);
    }
    add_option_labels(w, c, &first);
    text_add(w->out, " }");
}

static bool is_selector(const struct writer *w, const struct field_class *c)
{
    for (size_t i = 0; i < w->variants.count; i++)
        if (w->variants.at[i]->target == c)
            return true;
    return false;
}

static int add_member(struct writer *w, const struct field_class *c, const char *name, uint32_t number);
static int add_options(struct writer *w, const struct field_class *c);

static int add_members(struct writer *w, const struct field_class *c)
{
    int r = 0;
    for (uint32_t i = 0; r >= 0 && i < c->member_count; i++)
        r = add_member(w, c->members[i].class, c->members[i].name, i);
    return r;
}

/* The type itself, without what stands behind the name. */
static int add_type(struct writer *w, const struct field_class *c, bool text)
{
    int r = 0;
    switch (c->kind) {
    case KIND_INTEGER:
    case KIND_VARINT:
        if ((c->is_enum && !c->is_bitmap && c->label_count) || is_selector(w, c))
            add_enum(w, c);
        else
            add_integer(w, c, text);
        return 0;
    case KIND_REAL:
        text_addf(w->out, "floating_point { exp_dig = %d; mant_dig = %d; align = 8; }",
                  c->bits == 32 ? 8 : 11, c->bits == 32 ? 24 : 53);
        return 0;
    case KIND_STRING:
    case KIND_TEXT:
        text_add(w->out, "string");
        return 0;
    case KIND_BLOB:
        text_add(w->out, "integer { size = 8; align = 8; signed = false; base = 16; }");
        return 0;
    case KIND_STRUCT:
        text_add(w->out, "struct { ");
        r = add_members(w, c);
        text_add(w->out, "}");
        return r;
    case KIND_VARIANT:
        text_add(w->out, "variant <");
        r = add_location(w, c);
        text_add(w->out, "> { ");
        if (r >= 0)
            r = add_options(w, c);
        text_add(w->out, "}");
        return r;
    default:
        return add_type(w, c->members[0].class, c->kind == KIND_ARRAY && c->is_text);
    }
}

/* [LENGTH] for arrays, blobs and optionals, from the outside to the inside. */
static int add_dimensions(struct writer *w, const struct field_class *c, const char *name)
{
    for (; c->kind == KIND_ARRAY || c->kind == KIND_BLOB || c->kind == KIND_OPTIONAL;
         c = c->members[0].class) {
        text_add(w->out, "[");
        if (c->kind == KIND_OPTIONAL)
            text_addf(w->out, "_%s_present", name);
        else if (!c->dynamic)
            text_addf(w->out, "%" PRIu64, c->length);
        else if (add_location(w, c) < 0)
            return -ENOTSUP;
        text_add(w->out, "]");
        if (c->kind == KIND_BLOB)
            break;
    }
    return 0;
}

/* identifier is as it is written. */
static int add_named(struct writer *w, const struct field_class *c, const char *identifier)
{
    if (c->kind == KIND_OPTIONAL)
        text_addf(w->out, "integer { size = 8; align = 8; signed = false; } _%s_present; ", identifier);
    int r = add_type(w, c, false);
    text_addf(w->out, " %s", identifier);
    if (r >= 0)
        r = add_dimensions(w, c, identifier);
    text_add(w->out, "; ");
    return r;
}

static int add_options(struct writer *w, const struct field_class *c)
{
    char name[256];
    int r = 0;
    if (w->meta->version == 1)
        return add_members(w, c);
    for (uint32_t i = 0; r >= 0 && i < c->member_count; i++) {
        option_name(c, i, name, sizeof(name));
        r = add_named(w, c->members[i].class, name);
    }
    return r;
}

static int add_member(struct writer *w, const struct field_class *c, const char *name, uint32_t number)
{
    char own[24];
    if (!name) {
        snprintf(own, sizeof(own), "%u", number);
        name = own;
    }
    char protected[256];
    size_t n = (size_t)snprintf(protected, sizeof(protected), "%s%s", w->meta->version == 1 ? "" : "_", name);
    for (size_t i = 0; w->meta->version == 2 && i < n && i < sizeof(protected) - 1; i++)
        if (!isalnum((unsigned char)protected[i]))
    protected[i] = '_';
    return add_named(w, c, protected);
}

static int find_variants(struct writer *w, const struct field_class *c)
{
    if (!c)
        return 0;
    if (c->kind == KIND_VARIANT && w->meta->version == 2 && array_add(&w->variants, c) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->member_count; i++)
        if (find_variants(w, c->members[i].class) < 0)
            return -ENOMEM;
    return 0;
}

static int add_scope(struct writer *w, const char *key, const struct field_class *c)
{
    if (!c)
        return 0;
    text_addf(w->out, "\t%s := ", key);
    int r = add_type(w, c, false);
    text_add(w->out, ";\n");
    return r;
}

static int add_stream(struct writer *w, const struct stream_meta *s)
{
    static const char U64[] = "integer { size = 64; align = 8; signed = false; }";
    static const char STAMP[] =
        "integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; }";
    int r = 0;
    text_addf(w->out, "stream {\n\tid = %" PRIu64 ";\n\tpacket.context := struct { ", s->id);
    text_addf(w->out,
              "%s timestamp_begin; %s timestamp_end; %s content_size; %s packet_size; %s events_discarded; ",
              STAMP, STAMP, U64, U64, U64);
    if (s->counts_packets)
        text_addf(w->out, "%s packet_seq_num; ", U64);
    for (uint32_t i = 0; r >= 0 && s->packet_context && i < s->packet_context->member_count; i++)
        if (rewrite_keeps(w->meta, &s->packet_context->members[i]))
            r = add_member(w, s->packet_context->members[i].class, s->packet_context->members[i].name, i);
    text_addf(w->out,
              "};\n\tevent.header := struct { integer { size = 32; align = 8; signed = false; } id; %s "
              "timestamp; };\n",
              STAMP);
    if (r >= 0)
        r = add_scope(w, "event.context", s->event_context);
    text_add(w->out, "};\n\n");
    for (const struct event_meta *e = s->events; r >= 0 && e; e = e->next) {
        text_add(w->out, "event {\n\tname = ");
        add_string(w->out, e->name);
        text_addf(w->out, ";\n\tid = %" PRIu64 ";\n\tstream_id = %" PRIu64 ";\n", e->id, s->id);
        if (e->log_level >= 0)
            text_addf(w->out, "\tloglevel = %d;\n", e->log_level);
        if ((r = add_scope(w, "context", e->context)) >= 0)
            r = add_scope(w, "fields", e->payload);
        text_add(w->out, "};\n\n");
    }
    return r;
}

static int find_all_variants(struct writer *w)
{
    for (const struct stream_meta *s = w->meta->streams; s; s = s->next) {
        if (find_variants(w, s->packet_context) < 0 || find_variants(w, s->event_context) < 0)
            return -ENOMEM;
        for (const struct event_meta *e = s->events; e; e = e->next)
            if (find_variants(w, e->context) < 0 || find_variants(w, e->payload) < 0)
                return -ENOMEM;
    }
    return 0;
}

int rewrite_metadata(struct text *out, const struct metadata *meta, int64_t offset_ns,
                     struct problem *problem)
{
    struct writer w = {.out = out, .meta = meta, .problem = problem};
    int r = find_all_variants(&w);
    text_add(out, "/* CTF 1.8 */\n\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n\tpacket.header "
                  ":= struct { "
                  "integer { size = 32; align = 8; signed = false; base = 16; } magic; "
                  "integer { size = 64; align = 8; signed = false; } stream_id; };\n};\n\n");
    if (meta->environment)
        text_add(out, "env {\n");
    for (const struct environment *e = meta->environment; e; e = e->next) {
        text_addf(out, "\t%s = ", e->name);
        if (e->string)
            add_string(out, e->string);
        else
            text_addf(out, "%" PRId64, e->integer);
        text_add(out, ";\n");
    }
    text_add(out, meta->environment ? "};\n\n" : "");
    text_addf(out,
              "clock {\n\tname = monotonic;\n\tfreq = 1000000000;\n\toffset_s = %" PRId64
              ";\n\toffset = %" PRId64 ";\n};\n\n",
              offset_ns / 1000000000, offset_ns % 1000000000);
    for (const struct stream_meta *s = meta->streams; r >= 0 && s; s = s->next)
        r = add_stream(&w, s);
    array_done(&w.variants);
    return r < 0 ? r : out->failed ? -ENOMEM : 0;
}
