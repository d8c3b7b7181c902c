/* The metadata of a trace: reading the file (packetised or plain), choosing the language, and resolving what
 * the languages leave open: byte order, roles, clocks, references between fields, which stream an event
 * belongs to. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/metadata.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "trace/metadata_packets.h"

const char *metadata_environment(const struct metadata *metadata, const char *name)
{
    for (const struct environment *e = metadata->environment; e; e = e->next)
        if (e->string && strcmp(e->name, name) == 0)
            return e->string;
    return NULL;
}

/* ---- resolving ---- */

struct resolver {
    struct metadata *meta;
    struct problem *problem;
    struct field_class *roots[ROOT_COUNT];
    enum scope root; /* the one being resolved */
    const char *where;
};

static const char *const SCOPE_NAMES[ROOT_COUNT] = {
    "",
    "packet header",
    "packet context",
    "event header",
    "event context",
    "event's own context",
    "event fields",
};

static int link_parents(struct resolver *r, struct field_class *c, int depth)
{
    if (depth > METADATA_MAX_DEPTH * 2)
        return problem_set(r->problem, -EINVAL, "%s: %s: fields nested deeper than %d", r->meta->path,
                           r->where, METADATA_MAX_DEPTH * 2);
    if (c->order == ORDER_NATIVE)
        c->order = (uint8_t)r->meta->order;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct field_class *m = c->members[i].class;
        m->parent = c;
        m->own_name = c->members[i].name;
        int e = link_parents(r, m, depth + 1);
        if (e < 0)
            return e;
    }
    if (c->kind == KIND_ARRAY && c->member_count == 1 && r->meta->version == 1) {
        const struct field_class *e = c->members[0].class;
        c->is_text = e->kind == KIND_INTEGER && !e->is_enum && e->bits == 8 && e->align == 8 &&
                     e->encoding == ENCODING_UTF8;
    }
    return 0;
}

/* The member of a structure or option of a variant by its name; arrays are stepped into. */
static struct field_class *step(struct field_class *c, const char *name)
{
    while (c && (c->kind == KIND_ARRAY || c->kind == KIND_OPTIONAL))
        c = c->members[0].class;
    if (!c || (c->kind != KIND_STRUCT && c->kind != KIND_VARIANT))
        return NULL;
    for (uint32_t i = 0; i < c->member_count; i++)
        if (c->members[i].name && strcmp(c->members[i].name, name) == 0)
            return c->members[i].class;
    return NULL;
}

static struct field_class *walk(struct field_class *from, const struct field_location *l, uint32_t first)
{
    struct field_class *at = from;
    for (uint32_t i = first; at && i < l->count; i++) {
        if (l->names[i]) {
            at = step(at, l->names[i]);
        } else { /* CTF 2: the parent structure */
            do
                at = at->parent;
            while (at && at->kind != KIND_STRUCT);
        }
    }
    while (at && (at->kind == KIND_OPTIONAL))
        at = at->members[0].class;
    return at;
}

/* Whether a comes before b (and does not contain it) in the order of the stream. */
static bool comes_before(const struct field_class *a, const struct field_class *b)
{
    const struct field_class *a_up[METADATA_MAX_DEPTH * 2 + 4], *b_up[METADATA_MAX_DEPTH * 2 + 4];
    size_t na = 0, nb = 0;
    for (const struct field_class *c = a; c && na < ARRAY_SIZE(a_up); c = c->parent)
        a_up[na++] = c;
    for (const struct field_class *c = b; c && nb < ARRAY_SIZE(b_up); c = c->parent)
        b_up[nb++] = c;
    if (a_up[na - 1] != b_up[nb - 1])
        return true; /* different scopes: the caller knows their order */
    while (na && nb && a_up[na - 1] == b_up[nb - 1])
        na--, nb--;
    if (!na || !nb)
        return false;
    const struct field_class *parent = a_up[na - 1]->parent;
    for (uint32_t i = 0; i < parent->member_count; i++) {
        if (parent->members[i].class == a_up[na - 1])
            return true;
        if (parent->members[i].class == b_up[nb - 1])
            return false;
    }
    return false;
}

static struct field_class *locate(struct resolver *r, struct field_class *c)
{
    const struct field_location *l = &c->location;
    if (l->root != ROOT_NONE) {
        struct field_class *root = l->root <= r->root ? r->roots[l->root] : NULL;
        struct field_class *found = root ? walk(root, l, 0) : NULL;
        return found && comes_before(found, c) ? found : NULL;
    }
    for (struct field_class *up = c->parent; up; up = up->parent) {
        if (up->kind != KIND_STRUCT && up->kind != KIND_VARIANT)
            continue;
        struct field_class *found = walk(up, l, 0);
        if (found && comes_before(found, c))
            return found;
        if (l->count && !l->names[0])
            return NULL;
    }
    for (int root = (int)r->root - 1; root > ROOT_NONE; root--) {
        struct field_class *found = r->roots[root] ? walk(r->roots[root], l, 0) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static void location_text(const struct field_location *l, char *buffer, size_t size)
{
    size_t n = 0;
    buffer[0] = '\0';
    for (uint32_t i = 0; i < l->count && n < size; i++)
        n += (size_t)snprintf(buffer + n, size - n, "%s%s", i ? "." : "",
                              l->names[i] ? l->names[i] : "(parent)");
}

/* TSDL: an option is selected by the enumerators that have its name. */
static int options_from_labels(struct resolver *r, struct field_class *c)
{
    const struct field_class *tag = c->target;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct field_member *option = &c->members[i];
        if (option->ranges)
            continue;
        uint32_t n = 0;
        for (uint32_t j = 0; j < tag->label_count; j++)
            n += strcmp(tag->labels[j].name, option->name) == 0;
        option->ranges = arena_alloc(&r->meta->arena, (n ? n : 1) * sizeof(*option->ranges));
        if (!option->ranges)
            return problem_set(r->problem, -ENOMEM, "%s: not enough memory", r->meta->path);
        for (uint32_t j = 0; j < tag->label_count; j++)
            if (strcmp(tag->labels[j].name, option->name) == 0)
                option->ranges[option->range_count++] =
                    (struct field_range){.low = tag->labels[j].low, .high = tag->labels[j].high};
    }
    return 0;
}

static int resolve_reference(struct resolver *r, struct field_class *c)
{
    bool variant = c->kind == KIND_VARIANT;
    const char *what = variant                    ? "tag of the variant"
                       : c->kind == KIND_OPTIONAL ? "selector of"
                                                  : "length of";
    const char *name = c->own_name ? c->own_name : "";
    if (variant && !c->location.count)
        return problem_set(r->problem, -EINVAL,
                           "%s: %s, %s: expected a tag, as in variant <tag>, for '%.60s'", r->meta->path,
                           r->where, SCOPE_NAMES[r->root], name);
    struct field_class *target = locate(r, c);
    char path[128];
    location_text(&c->location, path, sizeof(path));
    if (!target)
        return problem_set(r->problem, -EINVAL,
                           "%s: %s, %s: the %s '%.60s', field '%s', is not found before it", r->meta->path,
                           r->where, SCOPE_NAMES[r->root], what, name, path);
    bool integer = target->kind == KIND_INTEGER || target->kind == KIND_VARINT;
    if (!integer || (variant && r->meta->version == 1 && !target->is_enum) ||
        (!variant && c->kind != KIND_OPTIONAL && target->is_signed))
        return problem_set(r->problem, -EINVAL, "%s: %s, %s: the %s '%.60s', field '%s', is not an %s",
                           r->meta->path, r->where, SCOPE_NAMES[r->root], what, name, path,
                           variant ? "enumeration" : "unsigned integer");
    c->target = target;
    target->saved = 0; /* numbered later */
    target->uses++;
    return variant && r->meta->version == 1 ? options_from_labels(r, c) : 0;
}

static int resolve_class(struct resolver *r, struct field_class *c)
{
    if (c->location.count || c->kind == KIND_VARIANT) {
        int e = resolve_reference(r, c);
        if (e < 0)
            return e;
    }
    for (uint32_t i = 0; i < c->member_count; i++) {
        int e = resolve_class(r, c->members[i].class);
        if (e < 0)
            return e;
    }
    return 0;
}

static int resolve_root(struct resolver *r, enum scope root, struct field_class *c)
{
    r->root = root;
    r->roots[root] = c;
    if (!c)
        return 0;
    int e = link_parents(r, c, 0);
    return e < 0 ? e : resolve_class(r, c);
}

/* ---- roles and clocks (CTF 1.8: by name) ---- */

static void give_role(struct field_class *scope, const char *name, enum field_role role)
{
    for (uint32_t i = 0; scope && i < scope->member_count; i++)
        if (strcmp(scope->members[i].name, name) == 0)
            scope->members[i].class->roles |= (uint16_t)(1u << role);
}

static void give_event_id(struct field_class *c)
{
    for (uint32_t i = 0; c && (c->kind == KIND_STRUCT || c->kind == KIND_VARIANT) && i < c->member_count;
         i++) {
        struct field_class *m = c->members[i].class;
        if (m->kind == KIND_INTEGER && c->members[i].name && strcmp(c->members[i].name, "id") == 0)
            m->roles |= 1u << ROLE_EVENT_ID;
        give_event_id(m);
    }
}

/* A field without a map takes the trace's only clock when its name says that it is a time. */
static void map_clock(struct field_class *c, const char *name, struct clock_class *clock)
{
    for (uint32_t i = 0; c && (c->kind == KIND_STRUCT || c->kind == KIND_VARIANT) && i < c->member_count;
         i++) {
        struct field_class *m = c->members[i].class;
        if (m->kind == KIND_INTEGER && c->members[i].name && strcmp(c->members[i].name, name) == 0 &&
            !m->clock)
            m->clock = clock;
        map_clock(m, name, clock);
    }
}

/* Gives mapped fields their role and returns the first clock found. */
static struct clock_class *clocks_to_roles(struct field_class *c, struct clock_class *found)
{
    if (!c)
        return found;
    if (c->clock && !(c->roles & 1u << ROLE_TIME_END)) {
        if (!c->is_signed)
            c->roles |= 1u << ROLE_CLOCK;
        if (!found)
            found = c->clock;
    }
    for (uint32_t i = 0; i < c->member_count; i++)
        found = clocks_to_roles(c->members[i].class, found);
    return found;
}

static bool has_member(const struct field_class *c, const char *name)
{
    for (uint32_t i = 0; c && (c->kind == KIND_STRUCT || c->kind == KIND_VARIANT) && i < c->member_count; i++)
        if ((c->members[i].name && strcmp(c->members[i].name, name) == 0) ||
            has_member(c->members[i].class, name))
            return true;
    return false;
}

static int name_roles_of_stream(struct metadata *m, struct stream_meta *s)
{
    struct field_class *pc = s->packet_context;
    give_role(pc, "content_size", ROLE_CONTENT_SIZE);
    give_role(pc, "packet_size", ROLE_PACKET_SIZE);
    give_role(pc, "timestamp_end", ROLE_TIME_END);
    give_role(pc, "events_discarded", ROLE_DISCARDED);
    give_role(pc, "packet_seq_num", ROLE_SEQUENCE_NUMBER);
    give_event_id(s->event_header);
    if (!m->clocks && (has_member(s->event_header, "timestamp") || has_member(pc, "timestamp_begin"))) {
        m->clocks = arena_alloc(&m->arena, sizeof(*m->clocks));
        if (!m->clocks)
            return -ENOMEM;
        *m->clocks = (struct clock_class){.name = "default", .frequency = 1000000000, .unix_epoch = true};
    }
    if (m->clocks && !m->clocks->next) {
        map_clock(s->event_header, "timestamp", m->clocks);
        map_clock(pc, "timestamp_begin", m->clocks);
        map_clock(pc, "timestamp_end", m->clocks);
    }
    return 0;
}

static int name_roles(struct metadata *m)
{
    give_role(m->packet_header, "magic", ROLE_MAGIC);
    give_role(m->packet_header, "stream_id", ROLE_STREAM_CLASS_ID);
    give_role(m->packet_header, "stream_instance_id", ROLE_STREAM_ID);
    for (struct stream_meta *s = m->streams; s; s = s->next) {
        int r = name_roles_of_stream(m, s);
        if (r < 0)
            return r;
        s->clock = clocks_to_roles(s->event_header, s->clock);
        s->clock = clocks_to_roles(s->packet_context, s->clock);
        s->clock = clocks_to_roles(s->event_context, s->clock);
        for (struct event_meta *e = s->events; e; e = e->next) {
            s->clock = clocks_to_roles(e->context, s->clock);
            s->clock = clocks_to_roles(e->payload, s->clock);
        }
    }
    return 0;
}

/* ---- the trace's UUID in packet headers ---- */

static bool is_uuid(const struct metadata *m, const struct field_member *member)
{
    const struct field_class *c = member->class;
    if (m->version == 2)
        return c->roles & 1u << ROLE_UUID && c->kind == KIND_BLOB && !c->dynamic && c->length == 16;
    return member->name && strcmp(member->name, "uuid") == 0 && c->kind == KIND_ARRAY && !c->dynamic &&
           c->length == 16 && c->members[0].class->bits == 8;
}

/* Where it lies, in bytes from the packet's begin; -1 when there is none, or behind what has no fixed size.
 */
static int32_t find_uuid(const struct metadata *m)
{
    uint64_t bits = 0;
    const struct field_class *header = m->packet_header;
    for (uint32_t i = 0; m->has_uuid && header && header->kind == KIND_STRUCT && i < header->member_count;
         i++) {
        const struct field_class *c = header->members[i].class;
        uint64_t align = MAX(field_class_align(c), 1u);
        bits = (bits + align - 1) / align * align;
        if (is_uuid(m, &header->members[i]))
            return bits % 8 || bits > INT16_MAX ? -1 : (int32_t)(bits / 8);
        if (c->kind == KIND_BLOB && !c->dynamic && c->length < INT16_MAX)
            bits += c->length * 8;
        else if (c->kind == KIND_INTEGER || c->kind == KIND_REAL)
            bits += c->bits;
        else
            break;
    }
    return -1;
}

/* Cycles to ns the way babeltrace2 does it, so that times are equal to the last digit. */
static uint64_t cycles_to_ns(uint64_t frequency, uint64_t cycles)
{
    if (frequency == 1000000000)
        return cycles;
    double ns = 1e9 * (double)cycles / (double)frequency;
    return ns >= (double)UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* The clock's zero since the Epoch. Times are 64 bits of ns, which is 292 years either way. */
static int clock_origin(const struct metadata *m, struct clock_class *c, struct problem *problem)
{
    __int128 s = (__int128)c->offset_s + c->offset_cycles / c->frequency;
    __int128 ns = s * 1000000000 + cycles_to_ns(c->frequency, c->offset_cycles % c->frequency);
    if (ns > INT64_MAX || ns < INT64_MIN)
        return problem_set(problem, -EINVAL,
                           "%s: clock '%.60s': expected an offset that fits into nanoseconds since the Epoch "
                           "(at most 9223372036 s), found %" PRId64 " s",
                           m->path, c->name ? c->name : "", s > INT64_MAX ? INT64_MAX : (int64_t)s);
    c->base_ns = (int64_t)ns;
    return 0;
}

/* ---- events to streams ---- */

static struct stream_meta *stream_by_id(struct metadata *m, uint64_t id)
{
    for (struct stream_meta *s = m->streams; s; s = s->next)
        if (s->id == id)
            return s;
    return NULL;
}

static int event_stream(struct metadata *m, struct event_meta *e, struct problem *problem)
{
    if (!m->streams) {
        m->streams = arena_alloc(&m->arena, sizeof(*m->streams));
        if (!m->streams)
            return problem_set(problem, -ENOMEM, "%s: not enough memory", m->path);
    }
    e->stream = e->has_stream_id || m->streams->next ? stream_by_id(m, e->stream_id) : m->streams;
    if (!e->stream)
        return problem_set(problem, -EINVAL,
                           "%s: event '%.60s': expected a stream with id %" PRIu64 ", which is not declared",
                           m->path, e->name, e->stream_id);
    return 0;
}

#define DENSE_IDS 65536

/* Events hang off their streams, found by id through a table while ids are small. */
static int attach_events(struct metadata *m, struct problem *problem)
{
    struct event_meta *next;
    for (struct event_meta *e = m->events; e; e = next) {
        next = e->next;
        int r = event_stream(m, e, problem);
        if (r < 0)
            return r;
        if (e->id < DENSE_IDS && e->id >= e->stream->by_id_count)
            e->stream->by_id_count = e->id + 1;
        e->next = e->stream->events;
        e->stream->events = e;
    }
    m->events = NULL;
    for (struct stream_meta *s = m->streams; s; s = s->next) {
        s->by_id = arena_alloc(&m->arena, (size_t)(s->by_id_count + 1) * sizeof(*s->by_id));
        if (!s->by_id)
            return problem_set(problem, -ENOMEM, "%s: not enough memory", m->path);
        for (struct event_meta *e = s->events; e; e = e->next) {
            if (e->id >= s->by_id_count)
                continue;
            if (s->by_id[e->id])
                return problem_set(problem, -EINVAL, "%s: event '%.60s': id %" PRIu64 " is taken by '%.60s'",
                                   m->path, e->name, e->id, s->by_id[e->id]->name);
            s->by_id[e->id] = e;
        }
    }
    return 0;
}

/* ---- registers ---- */

static void number_registers(struct metadata *m, struct field_class *c)
{
    if (!c)
        return;
    if (c->saved == 0)
        c->saved = (int32_t)++m->register_count; /* 1..: 0 means "wanted" until here */
    for (uint32_t i = 0; i < c->member_count; i++)
        number_registers(m, c->members[i].class);
}

/* Which all streams have in common; also without any it is read. */
static int resolve_header(struct metadata *m, struct problem *problem)
{
    struct resolver r = {.meta = m, .problem = problem, .where = "all streams"};
    return resolve_root(&r, ROOT_PACKET_HEADER, m->packet_header);
}

static int resolve_stream(struct metadata *m, struct stream_meta *s, struct problem *problem)
{
    char where[64];
    int e;
    snprintf(where, sizeof(where), "stream %" PRIu64, s->id);
    struct resolver r = {.meta = m, .problem = problem, .where = where};
    r.roots[ROOT_PACKET_HEADER] = m->packet_header;
    if ((e = resolve_root(&r, ROOT_PACKET_CONTEXT, s->packet_context)) < 0 ||
        (e = resolve_root(&r, ROOT_EVENT_HEADER, s->event_header)) < 0 ||
        (e = resolve_root(&r, ROOT_COMMON_CONTEXT, s->event_context)) < 0)
        return e;
    for (struct event_meta *v = s->events; v; v = v->next) {
        snprintf(where, sizeof(where), "event '%.50s'", v->name);
        if ((e = resolve_root(&r, ROOT_CONTEXT, v->context)) < 0 ||
            (e = resolve_root(&r, ROOT_PAYLOAD, v->payload)) < 0)
            return e;
    }
    return 0;
}

static int finish(struct metadata *m, struct problem *problem)
{
    int r = attach_events(m, problem);
    if (r < 0)
        return r;
    if (m->version == 1 && m->order == ORDER_NATIVE)
        return problem_set(problem, -EINVAL, "%s: expected a trace block with byte_order", m->path);
    if (m->version == 1 && name_roles(m) < 0)
        return problem_set(problem, -ENOMEM, "%s: not enough memory", m->path);
    for (struct clock_class *c = m->clocks; c; c = c->next)
        if (clock_origin(m, c, problem) < 0)
            return -EINVAL;
    for (struct stream_meta *s = m->streams; s; s = s->next)
        for (uint32_t i = 0; s->packet_context && i < s->packet_context->member_count; i++)
            s->counts_packets |= s->packet_context->members[i].class->roles >> ROLE_SEQUENCE_NUMBER & 1;
    m->uuid_offset = find_uuid(m);
    const char *tracer = metadata_environment(m, "tracer_name");
    m->own = tracer && strcmp(tracer, "sonde") == 0;
    if ((r = resolve_header(m, problem)) < 0)
        return r;
    for (struct stream_meta *s = m->streams; s; s = s->next)
        if ((r = resolve_stream(m, s, problem)) < 0)
            return r;
    number_registers(m, m->packet_header);
    for (struct stream_meta *s = m->streams; s; s = s->next) {
        number_registers(m, s->packet_context);
        number_registers(m, s->event_header);
    }
    m->stream_register_count = m->register_count + 1;
    for (struct stream_meta *s = m->streams; s; s = s->next) {
        number_registers(m, s->event_context);
        for (struct event_meta *e = s->events; e; e = e->next) {
            number_registers(m, e->context);
            number_registers(m, e->payload);
        }
    }
    m->register_count++;
    return layout_compile(m, problem);
}

/* ---- the file ---- */

static int parse(const char *path, const char *text, size_t length, const struct metadata_cut *cut,
                 struct problem *problem, struct metadata **ret_metadata)
{
    _cleanup_(metadata_freep) struct metadata *m = calloc(1, sizeof(*m));
    if (!m || !(m->path = arena_strdup(&m->arena, path)))
        return problem_set(problem, -ENOMEM, "%s: not enough memory", path);
    m->cut_bytes = cut->bytes;
    m->cut_offset = cut->offset;
    size_t start = 0;
    while (start < length &&
           (text[start] == ' ' || text[start] == '\n' || text[start] == '\r' || text[start] == '\t'))
        start++;
    if (start == length)
        return problem_set(problem, -EINVAL, "%s: empty: the tracer ended before it described its events",
                           path);
    m->version = (text[start] == '{' || text[start] == '[' || text[start] == 0x1e) ? 2 : 1;
    int r = m->version == 2 ? ctf2_parse(m, text, length, problem) : tsdl_parse(m, text, length, problem);
    if (r >= 0)
        r = finish(m, problem);
    if (r < 0)
        return r;
    *ret_metadata = m;
    m = NULL;
    return 0;
}

int metadata_parse(const char *path, const char *data, size_t length, struct problem *problem,
                   struct metadata **ret_metadata)
{
    _cleanup_(freep) char *text = NULL;
    struct metadata_cut cut = {0};
    const uint8_t *d = (const uint8_t *)data;
    if (!metadata_in_packets(d, length))
        return parse(path, data, length, &cut, problem, ret_metadata);
    text = malloc(length);
    if (!text)
        return problem_set(problem, -ENOMEM, "%s: not enough memory", path);
    int r = metadata_unpack(path, d, length, text, &length, &cut, problem);
    if (r >= 0)
        r = parse(path, text, length, &cut, problem, ret_metadata);
    if (r == -EINVAL && cut.bytes)
        problem_remedy(problem,
                       "The metadata is cut off: the file ends %" PRIu64
                       " bytes before its last packet (offset %" PRIu64
                       ") does; what is needed may have been in it.",
                       cut.bytes, cut.offset);
    return r;
}

int metadata_load(const char *folder, struct problem *problem, struct metadata **ret_metadata)
{
    _cleanup_(freep) char *path = NULL;
    _cleanup_(freep) char *data = NULL;
    size_t length;
    if (asprintf(&path, "%s/metadata", folder) < 0)
        return path = NULL, problem_set(problem, -ENOMEM, "not enough memory");
    int r = file_read(path, METADATA_MAX_BYTES, &data, &length);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    return metadata_parse(path, data, length, problem, ret_metadata);
}

void metadata_free(struct metadata *metadata)
{
    if (!metadata)
        return;
    struct arena arena = metadata->arena; /* holds every part but the struct itself */
    free(metadata);
    arena_done(&arena);
}
