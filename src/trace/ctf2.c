/* The parser of CTF 2 metadata: a JSON text sequence (RFC 7464) of fragments. Follows CTF2-SPEC-2.0, and
 * accepts the names that its drafts used (enumeration classes of their own, locations as arrays, clocks by
 * name). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trace/metadata.h"

struct parser {
    struct metadata *meta;
    struct problem *problem;
    json_t *aliases;  /* name -> field class */
    unsigned line;    /* of the fragment */
    const char *type; /* of the fragment */
    struct event_meta **events_end;
};

static int fail(struct parser *p, const char *format, ...) _printf_(2, 3);
static int fail(struct parser *p, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    return problem_set(p->problem, -EINVAL, "%s:%u: %s: %s", p->meta->path, p->line, p->type, message);
}

static int no_memory(struct parser *p)
{
    if (p->meta->class_count >= METADATA_MAX_CLASSES)
        return fail(p, "more than %u field classes", METADATA_MAX_CLASSES);
    return problem_set(p->problem, -ENOMEM, "%s: not enough memory", p->meta->path);
}

/* ---- properties ---- */

/* An integer from low to high; *ret_value is untouched when the property is absent. Negative numbers stand
 * for unsigned ones above INT64_MAX nowhere: JSON integers here are at most 2^63 - 1. */
static int get_unsigned(struct parser *p, json_t *from, const char *key, uint64_t low, uint64_t high,
                        uint64_t *ret_value)
{
    json_t *v = json_object_get(from, key);
    if (!v)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) < low ||
        (uint64_t)json_integer_value(v) > high)
        return fail(p, "expected an integer from %llu to %llu as '%s'", (unsigned long long)low,
                    (unsigned long long)high, key);
    *ret_value = (uint64_t)json_integer_value(v);
    return 1;
}

static int get_string(struct parser *p, json_t *from, const char *key, const char **ret_value)
{
    json_t *v = json_object_get(from, key);
    if (!v)
        return 0;
    if (!json_is_string(v))
        return fail(p, "expected a string as '%s'", key);
    *ret_value = arena_strdup(&p->meta->arena, json_string_value(v));
    return *ret_value ? 1 : no_memory(p);
}

static int get_alignment(struct parser *p, json_t *from, const char *key, uint32_t *ret_align)
{
    uint64_t align = *ret_align;
    int r = get_unsigned(p, from, key, 1, 1u << 20, &align);
    if (r >= 0 && (align & (align - 1)))
        return fail(p, "expected a power of two as '%s'", key);
    *ret_align = (uint32_t)align;
    return r;
}

static int get_uuid(struct parser *p, json_t *from, uint8_t ret_uuid[16], bool *ret_has)
{
    json_t *v = json_object_get(from, "uuid");
    if (!v)
        return 0;
    if (!json_is_array(v) || json_array_size(v) != 16)
        return fail(p, "expected 16 numbers as 'uuid'");
    for (size_t i = 0; i < 16; i++)
        ret_uuid[i] = (uint8_t)json_integer_value(json_array_get(v, i));
    *ret_has = true;
    return 1;
}

/* ---- field classes ---- */

static int parse_class(struct parser *p, json_t *json, int depth, struct field_class **ret_class);

/* [[low, high], ...] */
static int parse_ranges(struct parser *p, json_t *json, const char *what, struct field_range **ret_ranges,
                        uint32_t *ret_count)
{
    if (!json_is_array(json))
        return fail(p, "expected a list of ranges in '%s'", what);
    size_t n = json_array_size(json);
    struct field_range *ranges = arena_alloc(&p->meta->arena, (n + 1) * sizeof(*ranges));
    if (!ranges)
        return no_memory(p);
    for (size_t i = 0; i < n; i++) {
        json_t *range = json_array_get(json, i);
        json_t *low = json_array_get(range, 0), *high = json_array_get(range, 1);
        int64_t from = json_integer_value(low), to = json_integer_value(high);
        if (!json_is_integer(low) || !json_is_integer(high) || json_array_size(range) != 2 ||
            (from > to && (uint64_t)from > (uint64_t)to)) /* signed or not, the field will tell */
            return fail(p, "expected [low, high] in '%s'", what);
        ranges[i] = (struct field_range){.low_signed = from, .high_signed = to};
    }
    *ret_ranges = ranges;
    *ret_count = (uint32_t)n;
    return 0;
}

/* {"label": [[low, high], ...], ...} */
static int parse_mappings(struct parser *p, json_t *json, const char *what, struct field_class *c)
{
    const char *label;
    json_t *list;
    size_t count = 0;
    if (!json_is_object(json))
        return fail(p, "expected an object as '%s'", what);
    json_object_foreach (json, label, list)
        count += json_array_size(list);
    c->labels = arena_alloc(&p->meta->arena, (count + 1) * sizeof(*c->labels));
    if (!c->labels)
        return no_memory(p);
    json_object_foreach (json, label, list) {
        struct field_range *ranges;
        uint32_t n;
        const char *name = arena_strdup(&p->meta->arena, label);
        int r = name ? parse_ranges(p, list, what, &ranges, &n) : no_memory(p);
        if (r < 0)
            return r;
        for (uint32_t i = 0; i < n; i++)
            c->labels[c->label_count++] =
                (struct trace_label){.name = name, .low = ranges[i].low, .high = ranges[i].high};
    }
    c->is_enum = true;
    return 0;
}

/* {"origin": SCOPE, "path": [name | null, ...]}, or the draft's [SCOPE, name, ...]. */
static int parse_location(struct parser *p, json_t *json, const char *what,
                          struct field_location *ret_location)
{
    static const char *const ORIGINS[ROOT_COUNT] = {
        [ROOT_PACKET_HEADER] = "packet-header",
        [ROOT_PACKET_CONTEXT] = "packet-context",
        [ROOT_EVENT_HEADER] = "event-record-header",
        [ROOT_COMMON_CONTEXT] = "event-record-common-context",
        [ROOT_CONTEXT] = "event-record-specific-context",
        [ROOT_PAYLOAD] = "event-record-payload",
    };
    struct field_location l = {0};
    json_t *path = json_is_array(json) ? json : json_object_get(json, "path");
    size_t n = json_array_size(path), first = 0;
    const char *origin =
        json_string_value(json_is_array(json) ? json_array_get(json, 0) : json_object_get(json, "origin"));
    for (int root = 1; origin && root < ROOT_COUNT; root++)
        if (strcmp(origin, ORIGINS[root]) == 0)
            l.root = (enum scope)root;
    if (json_is_array(json) && l.root != ROOT_NONE)
        first = 1;
    if (!json_is_array(path) || n <= first || n > METADATA_MAX_DEPTH)
        return fail(p, "expected a field location with a path as '%s'", what);
    l.names = arena_alloc(&p->meta->arena, n * sizeof(*l.names));
    if (!l.names)
        return no_memory(p);
    for (size_t i = first; i < n; i++) {
        json_t *name = json_array_get(path, i);
        if (!json_is_string(name) && !json_is_null(name))
            return fail(p, "expected a name or null in the path of '%s'", what);
        const char *kept =
            json_is_string(name) ? arena_strdup(&p->meta->arena, json_string_value(name)) : NULL;
        if (json_is_string(name) && !kept)
            return no_memory(p);
        l.names[l.count++] = kept;
    }
    *ret_location = l;
    return 0;
}

static int parse_roles(struct parser *p, json_t *json, struct field_class *c)
{
    static const struct {
        const char *name;
        enum field_role role;
    } ROLES[] = {
        {"packet-magic-number", ROLE_MAGIC},
        {"data-stream-class-id", ROLE_STREAM_CLASS_ID},
        {"data-stream-id", ROLE_STREAM_ID},
        {"packet-total-length", ROLE_PACKET_SIZE},
        {"packet-content-length", ROLE_CONTENT_SIZE},
        {"default-clock-timestamp", ROLE_CLOCK},
        {"packet-end-default-clock-timestamp", ROLE_TIME_END},
        {"discarded-event-record-counter-snapshot", ROLE_DISCARDED},
        {"packet-sequence-number", ROLE_SEQUENCE_NUMBER},
        {"event-record-class-id", ROLE_EVENT_ID},
        {"metadata-stream-uuid", ROLE_UUID},
    };
    json_t *list = json_object_get(json, "roles");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name)
            return fail(p, "expected strings as 'roles'");
        for (size_t j = 0; j < ARRAY_SIZE(ROLES); j++)
            if (strcmp(name, ROLES[j].name) == 0)
                c->roles |= (uint16_t)(1u << ROLES[j].role);
    }
    return 0;
}

static int parse_base(struct parser *p, json_t *json, struct field_class *c)
{
    uint64_t base = c->base;
    int r = get_unsigned(p, json, "preferred-display-base", 2, 16, &base);
    c->base = base == 2 || base == 8 || base == 16 ? (uint8_t)base : 10;
    return r;
}

/* What integers of either kind share. */
static int parse_integer(struct parser *p, json_t *json, const char *type, struct field_class *c)
{
    c->is_signed = strstr(type, "-signed-") != NULL;
    c->is_boolean = strstr(type, "boolean") != NULL;
    c->is_bitmap = strcmp(type, "fixed-length-bit-map") == 0;
    int r = parse_base(p, json, c);
    json_t *mappings = json_object_get(json, c->is_bitmap ? "flags" : "mappings");
    if (r >= 0 && mappings)
        r = parse_mappings(p, mappings, c->is_bitmap ? "flags" : "mappings", c);
    return r < 0 ? r : parse_roles(p, json, c);
}

static int parse_fixed(struct parser *p, json_t *json, const char *type, struct field_class *c)
{
    uint64_t bits = 0;
    int r = get_unsigned(p, json, "length", 1, 64, &bits);
    if (r == 0)
        return fail(p, "expected a 'length' in this %s", type);
    if (r < 0 || (r = get_alignment(p, json, "alignment", &c->align)) < 0)
        return r;
    const char *order = json_string_value(json_object_get(json, "byte-order"));
    const char *bit_order = json_string_value(json_object_get(json, "bit-order"));
    bool big = order && (strcmp(order, "big-endian") == 0 || strcmp(order, "be") == 0);
    if (order && !big && strcmp(order, "little-endian") != 0 && strcmp(order, "le") != 0)
        return fail(p, "expected little-endian or big-endian as 'byte-order'");
    c->order = big ? ORDER_BIG : ORDER_LITTLE;
    c->reversed = bit_order && strcmp(bit_order, big ? "first-to-last" : "last-to-first") == 0;
    c->bits = (uint32_t)bits;
    if (c->kind == KIND_REAL && bits != 32 && bits != 64)
        return fail(p, "expected a real of 32 or 64 bits, found %u", c->bits);
    return c->kind == KIND_REAL ? 0 : parse_integer(p, json, type, c);
}

static int parse_encoding(struct parser *p, json_t *json, struct field_class *c)
{
    static const char *const NAMES[] = {"", "utf-8", "utf-16le", "utf-16be", "utf-32le", "utf-32be"};
    const char *name = json_string_value(json_object_get(json, "encoding"));
    c->encoding = ENCODING_UTF8;
    for (int i = 1; name && i <= ENCODING_UTF32BE; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            c->encoding = (uint8_t)i;
            return 0;
        }
    }
    return name ? fail(p, "expected utf-8, utf-16le, utf-16be, utf-32le or utf-32be as 'encoding'") : 0;
}

/* The length of texts, blobs and arrays: a number, or where it is found. */
static int parse_length(struct parser *p, json_t *json, const char *type, struct field_class *c)
{
    c->dynamic = strncmp(type, "dynamic-", 8) == 0;
    if (c->dynamic) {
        json_t *location = json_object_get(json, "length-field-location");
        return parse_location(p, location, "length-field-location", &c->location);
    }
    int r = get_unsigned(p, json, "length", 0, INT64_MAX, &c->length);
    return r == 0 ? fail(p, "expected a 'length' in this %s", type) : r;
}

static int parse_content(struct parser *p, json_t *json, int depth, struct field_class *c)
{
    c->members = arena_alloc(&p->meta->arena, sizeof(*c->members));
    if (!c->members)
        return no_memory(p);
    c->member_count = 1;
    return parse_class(p, json, depth + 1, &c->members[0].class);
}

static int parse_structure(struct parser *p, json_t *json, int depth, struct field_class *c)
{
    json_t *list = json_object_get(json, "member-classes");
    size_t n = json_array_size(list);
    int r = get_alignment(p, json, "minimum-alignment", &c->align);
    c->members = arena_alloc(&p->meta->arena, (n + 1) * sizeof(*c->members));
    if (r < 0 || !c->members)
        return r < 0 ? r : no_memory(p);
    for (size_t i = 0; i < n; i++) {
        json_t *member = json_array_get(list, i);
        r = get_string(p, member, "name", &c->members[i].name);
        if (r == 0)
            return fail(p, "expected a 'name' in every member");
        if (r < 0 ||
            (r = parse_class(p, json_object_get(member, "field-class"), depth + 1, &c->members[i].class)) < 0)
            return r;
        c->member_count++;
    }
    return 0;
}

static int parse_variant(struct parser *p, json_t *json, int depth, struct field_class *c)
{
    json_t *list = json_object_get(json, "options");
    size_t n = json_array_size(list);
    int r = parse_location(p, json_object_get(json, "selector-field-location"), "selector-field-location",
                           &c->location);
    c->members = arena_alloc(&p->meta->arena, (n + 1) * sizeof(*c->members));
    if (r < 0 || !c->members)
        return r < 0 ? r : no_memory(p);
    for (size_t i = 0; i < n; i++) {
        json_t *option = json_array_get(list, i);
        struct field_member *m = &c->members[i];
        if ((r = get_string(p, option, "name", &m->name)) < 0 ||
            (r = parse_ranges(p, json_object_get(option, "selector-field-ranges"), "selector-field-ranges",
                              &m->ranges, &m->range_count)) < 0 ||
            (r = parse_class(p, json_object_get(option, "field-class"), depth + 1, &m->class)) < 0)
            return r;
        c->member_count++;
    }
    return 0;
}

static int parse_optional(struct parser *p, json_t *json, int depth, struct field_class *c)
{
    json_t *ranges = json_object_get(json, "selector-field-ranges");
    int r = parse_location(p, json_object_get(json, "selector-field-location"), "selector-field-location",
                           &c->location);
    if (r >= 0 && ranges)
        r = parse_ranges(p, ranges, "selector-field-ranges", &c->ranges, &c->range_count);
    return r < 0 ? r : parse_content(p, json_object_get(json, "field-class"), depth, c);
}

static int parse_array(struct parser *p, json_t *json, const char *type, int depth, struct field_class *c)
{
    int r = parse_length(p, json, type, c);
    if (r >= 0)
        r = get_alignment(p, json, "minimum-alignment", &c->align);
    return r < 0 ? r : parse_content(p, json_object_get(json, "element-field-class"), depth, c);
}

static const struct {
    const char *type;
    enum field_kind kind;
} KINDS[] = {
    {"fixed-length-bit-array", KIND_INTEGER},
    {"fixed-length-bit-map", KIND_INTEGER},
    {"fixed-length-boolean", KIND_INTEGER},
    {"fixed-length-unsigned-integer", KIND_INTEGER},
    {"fixed-length-signed-integer", KIND_INTEGER},
    {"fixed-length-unsigned-enumeration", KIND_INTEGER},
    {"fixed-length-signed-enumeration", KIND_INTEGER},
    {"fixed-length-floating-point-number", KIND_REAL},
    {"variable-length-unsigned-integer", KIND_VARINT},
    {"variable-length-signed-integer", KIND_VARINT},
    {"variable-length-unsigned-enumeration", KIND_VARINT},
    {"variable-length-signed-enumeration", KIND_VARINT},
    {"null-terminated-string", KIND_STRING},
    {"static-length-string", KIND_TEXT},
    {"dynamic-length-string", KIND_TEXT},
    {"static-length-blob", KIND_BLOB},
    {"dynamic-length-blob", KIND_BLOB},
    {"structure", KIND_STRUCT},
    {"static-length-array", KIND_ARRAY},
    {"dynamic-length-array", KIND_ARRAY},
    {"optional", KIND_OPTIONAL},
    {"variant", KIND_VARIANT},
};

static int parse_class_of(struct parser *p, json_t *json, const char *type, int depth, struct field_class *c)
{
    switch (c->kind) {
    case KIND_INTEGER:
    case KIND_REAL:
        return parse_fixed(p, json, type, c);
    case KIND_VARINT:
        c->align = 8;
        c->bits = 64;
        return parse_integer(p, json, type, c);
    case KIND_STRING:
        c->align = 8;
        return parse_encoding(p, json, c);
    case KIND_TEXT:
    case KIND_BLOB: {
        c->align = 8;
        int r = parse_length(p, json, type, c);
        return r < 0 ? r : c->kind == KIND_BLOB ? parse_roles(p, json, c) : parse_encoding(p, json, c);
    }
    case KIND_STRUCT:
        return parse_structure(p, json, depth, c);
    case KIND_ARRAY:
        return parse_array(p, json, type, depth, c);
    case KIND_OPTIONAL:
        return parse_optional(p, json, depth, c);
    default:
        return parse_variant(p, json, depth, c);
    }
}

static int parse_class(struct parser *p, json_t *json, int depth, struct field_class **ret_class)
{
    if (depth > METADATA_MAX_DEPTH)
        return fail(p, "field classes nested deeper than %d", METADATA_MAX_DEPTH);
    if (json_is_string(json)) { /* an alias */
        json_t *alias = json_object_get(p->aliases, json_string_value(json));
        if (!alias)
            return fail(p, "field class alias '%.60s' is not declared above", json_string_value(json));
        return parse_class(p, alias, depth + 1, ret_class);
    }
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type)
        return fail(p, "expected a field class (an object with a 'type', or an alias)");
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++) {
        if (strcmp(type, KINDS[i].type) != 0)
            continue;
        struct field_class *c = field_class_new(p->meta, KINDS[i].kind);
        if (!c)
            return no_memory(p);
        int r = parse_class_of(p, json, type, depth, c);
        if (r >= 0)
            *ret_class = c;
        return r;
    }
    return fail(p, "field class type '%.60s' is unknown", type);
}

/* A scope: a structure field class, or absent. */
static int parse_scope(struct parser *p, json_t *fragment, const char *key, struct field_class **ret_class)
{
    json_t *json = json_object_get(fragment, key);
    if (!json)
        return 0;
    int r = parse_class(p, json, 0, ret_class);
    if (r >= 0 && (*ret_class)->kind != KIND_STRUCT)
        return fail(p, "expected a structure as '%s'", key);
    return r;
}

/* ---- fragments ---- */

/* An extension may change what any field means: a trace that declares one is not guessed at. */
static int fragment_preamble(struct parser *p, json_t *json)
{
    uint64_t version = 0;
    const char *space, *name;
    json_t *of_space, *extension;
    int r = get_unsigned(p, json, "version", 2, 2, &version);
    if (r == 0)
        return fail(p, "expected 'version' 2");
    json_object_foreach (json_object_get(json, "extensions"), space, of_space)
        json_object_foreach (of_space, name, extension)
            return fail(p, "extension '%.60s' of '%.60s' is not supported", name, space);
    return r < 0 ? r : get_uuid(p, json, p->meta->uuid, &p->meta->has_uuid);
}

static int fragment_alias(struct parser *p, json_t *json)
{
    const char *name = NULL;
    json_t *class = json_object_get(json, "field-class");
    int r = get_string(p, json, "name", &name);
    if (r < 0)
        return r;
    if (!name || !class)
        return fail(p, "expected a 'name' and a 'field-class'");
    return json_object_set(p->aliases, name, class) < 0 ? no_memory(p) : 0;
}

static int fragment_trace(struct parser *p, json_t *json)
{
    json_t *environment = json_object_get(json, "environment"), *value;
    const char *name;
    struct environment **end = &p->meta->environment;
    json_object_foreach (environment, name, value) {
        struct environment *e = arena_alloc(&p->meta->arena, sizeof(*e));
        if (!e || !(e->name = arena_strdup(&p->meta->arena, name)))
            return no_memory(p);
        if (json_is_string(value) && !(e->string = arena_strdup(&p->meta->arena, json_string_value(value))))
            return no_memory(p);
        e->integer = json_integer_value(value);
        *end = e;
        end = &e->next;
    }
    int r = get_string(p, json, "name", &p->meta->name);
    return r < 0 ? r : parse_scope(p, json, "packet-header-field-class", &p->meta->packet_header);
}

static int fragment_clock(struct parser *p, json_t *json)
{
    struct clock_class *c = arena_alloc(&p->meta->arena, sizeof(*c)), **end = &p->meta->clocks;
    if (!c)
        return no_memory(p);
    int r = get_string(p, json, "name", &c->name);
    if (r >= 0)
        r = get_string(p, json, "id", &c->id);
    if (r >= 0)
        r = get_string(p, json, "description", &c->description);
    if (r >= 0 && (r = get_unsigned(p, json, "frequency", 1, INT64_MAX, &c->frequency)) == 0)
        r = fail(p, "expected a 'frequency'");
    json_t *offset = json_object_get(json, "offset-from-origin");
    if (!offset)
        offset = json_object_get(json, "offset");
    c->offset_s = json_integer_value(json_object_get(offset, "seconds"));
    if (r >= 0)
        r = get_unsigned(p, offset, "cycles", 0, INT64_MAX, &c->offset_cycles);
    if (r < 0)
        return r;
    json_t *origin = json_object_get(json, "origin");
    c->unix_epoch =
        !origin || (json_is_string(origin) && strcmp(json_string_value(origin), "unix-epoch") == 0);
    while (*end)
        end = &(*end)->next;
    *end = c;
    return 0;
}

static int fragment_stream(struct parser *p, json_t *json)
{
    struct stream_meta *s = arena_alloc(&p->meta->arena, sizeof(*s)), **end = &p->meta->streams;
    if (!s)
        return no_memory(p);
    int r = get_unsigned(p, json, "id", 0, INT64_MAX, &s->id);
    if (r >= 0)
        r = get_string(p, json, "name", &s->name);
    if (r >= 0)
        r = get_string(p, json, "default-clock-class-name", &s->clock_name);
    if (r >= 0)
        r = get_string(p, json, "default-clock-class-id", &s->clock_name);
    if (r >= 0)
        r = parse_scope(p, json, "packet-context-field-class", &s->packet_context);
    if (r >= 0)
        r = parse_scope(p, json, "event-record-header-field-class", &s->event_header);
    if (r >= 0)
        r = parse_scope(p, json, "event-record-common-context-field-class", &s->event_context);
    if (r < 0)
        return r;
    for (; *end; end = &(*end)->next)
        if ((*end)->id == s->id)
            return fail(p, "a second data stream class with id %llu", (unsigned long long)s->id);
    *end = s;
    return 0;
}

static int fragment_event(struct parser *p, json_t *json)
{
    struct event_meta *e = arena_alloc(&p->meta->arena, sizeof(*e));
    if (!e)
        return no_memory(p);
    e->log_level = -1;
    e->has_stream_id = true;
    int r = get_unsigned(p, json, "id", 0, INT64_MAX, &e->id);
    if (r >= 0)
        r = get_unsigned(p, json, "data-stream-class-id", 0, INT64_MAX, &e->stream_id);
    if (r >= 0)
        r = get_string(p, json, "name", &e->name);
    if (r >= 0)
        r = parse_scope(p, json, "specific-context-field-class", &e->context);
    if (r >= 0)
        r = parse_scope(p, json, "payload-field-class", &e->payload);
    if (r < 0)
        return r;
    if (!e->name)
        e->name = "";
    *p->events_end = e;
    p->events_end = &e->next;
    return 0;
}

static int parse_fragment(struct parser *p, json_t *json, bool first)
{
    static const struct {
        const char *type;
        int (*parse)(struct parser *p, json_t *json);
    } FRAGMENTS[] = {
        {"preamble", fragment_preamble},        {"field-class-alias", fragment_alias},
        {"trace-class", fragment_trace},        {"clock-class", fragment_clock},
        {"data-stream-class", fragment_stream}, {"event-record-class", fragment_event},
    };
    const char *type = json_string_value(json_object_get(json, "type"));
    p->type = "fragment";
    if (!type)
        return fail(p, "expected an object with a 'type'");
    for (size_t i = 0; i < ARRAY_SIZE(FRAGMENTS); i++) {
        if (strcmp(type, FRAGMENTS[i].type) != 0)
            continue;
        p->type = FRAGMENTS[i].type;
        if (first != (i == 0))
            return fail(p, first ? "expected the preamble first" : "a second preamble");
        return FRAGMENTS[i].parse(p, json);
    }
    return fail(p, "fragment type '%.60s' is unknown", type);
}

/* Streams name their clock; fields that tell the time take it. */
static int bind_clocks(struct parser *p)
{
    for (struct stream_meta *s = p->meta->streams; s; s = s->next) {
        if (!s->clock_name) {
            s->clock = p->meta->clocks && !p->meta->clocks->next ? p->meta->clocks : NULL;
            continue;
        }
        for (struct clock_class *c = p->meta->clocks; c && !s->clock; c = c->next)
            if ((c->id && strcmp(c->id, s->clock_name) == 0) ||
                (c->name && strcmp(c->name, s->clock_name) == 0))
                s->clock = c;
        p->type = "data-stream-class";
        if (!s->clock)
            return fail(p, "the default clock class '%.60s' is not declared", s->clock_name);
    }
    return 0;
}

/* An integer of 2^63 to 2^64 - 1 that starts at text[at]: its digits, or 0. */
static size_t large_integer(const char *text, size_t length, size_t at, uint64_t *ret_value)
{
    size_t n = 0;
    uint64_t v = 0;
    for (; at + n < length && isdigit((unsigned char)text[at + n]); n++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(text[at + n] - '0'), &v))
            return 0;
    if (v <= INT64_MAX || (at + n < length && strchr(".eE", text[at + n])))
        return 0;
    *ret_value = v;
    return n;
}

/* jansson's integers end at 2^63 - 1; ranges of 64-bit enumerations do not. What is larger becomes the
 * negative number of the same bits. *ret_copy is NULL when there is none, else the caller's. */
static int fold_large_integers(const char *text, size_t *length, char **ret_copy)
{
    enum { LEAST_DIGITS = 19 };
    char *copy = NULL;
    size_t out = 0;
    bool quoted = false;
    for (size_t at = 0; at < *length; at++) {
        char c = text[at];
        uint64_t v;
        size_t n = 0;
        if (quoted && c == '\\' && at + 1 < *length) {
            if (copy)
                copy[out++] = c;
            c = text[++at];
        } else if (c == '"' || c == 0x1e) { /* a fragment that is cut off within a string ends there */
            quoted = c == '"' && !quoted;
        } else if (!quoted && isdigit((unsigned char)c) &&
                   (!at || !strchr("0123456789.-+eE", text[at - 1]))) {
            n = large_integer(text, *length, at, &v);
        }
        if (n && !copy) {
            copy = malloc(*length + *length / LEAST_DIGITS + 32);
            if (!copy)
                return -ENOMEM;
            memcpy(copy, text, out = at);
        }
        if (n) {
            out += (size_t)sprintf(copy + out, "%" PRId64, (int64_t)v);
            at += n - 1;
        } else if (copy) {
            copy[out++] = c;
        }
    }
    if (copy)
        *length = out;
    *ret_copy = copy;
    return 0;
}

/* Does text, of which length bytes were read when an error was found, end with a comma and a closing bracket?
 */
static bool is_trailing_comma(const char *text, size_t length)
{
    if (!length || (text[length - 1] != '}' && text[length - 1] != ']'))
        return false;
    for (length--; length && strchr(" \t\r\n", text[length - 1]); length--)
        ;
    return length && text[length - 1] == ',';
}

int ctf2_parse(struct metadata *metadata, const char *text, size_t length, struct problem *problem)
{
    struct parser p = {.meta = metadata,
                       .problem = problem,
                       .aliases = json_object(),
                       .line = 1,
                       .type = "fragment",
                       .events_end = &metadata->events};
    metadata->order = ORDER_LITTLE;
    _cleanup_(freep) char *folded = NULL;
    int r = p.aliases && fold_large_integers(text, &length, &folded) >= 0 ? 0 : no_memory(&p);
    text = folded ? folded : text;
    bool first = true;
    for (size_t at = 0; r >= 0;) {
        while (at < length && (text[at] == 0x1e || text[at] == ' ' || text[at] == '\n' || text[at] == '\r' ||
                               text[at] == '\t' || text[at] == '\0'))
            p.line += text[at++] == '\n';
        if (at >= length)
            break;
        json_error_t error;
        json_t *json = json_loadb(text + at, length - at, JSON_DISABLE_EOF_CHECK, &error);
        if (!json && metadata->cut_bytes && json_error_code(&error) == json_error_premature_end_of_input)
            break;
        if (!json) {
            r = problem_set(problem, -EINVAL, "%s:%u:%d: expected JSON: %s%s", metadata->path,
                            p.line + (unsigned)error.line - 1, error.column, error.text,
                            is_trailing_comma(text + at, (size_t)error.position)
                                ? " (a comma before the end of an object or array)"
                                : "");
            break;
        }
        size_t end = at + (size_t)error.position;
        r = parse_fragment(&p, json, first);
        json_decref(json);
        first = false;
        for (; at < end; at++)
            p.line += text[at] == '\n';
    }
    if (r >= 0 && first)
        r = fail(&p, "expected a preamble, found nothing");
    if (r >= 0)
        r = bind_clocks(&p);
    json_decref(p.aliases);
    return r < 0 ? r : 0;
}
