/* See rewrite.h. Every packet of the source becomes a packet of the copy. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/owner.h"
#include "base/text.h"
#include "trace/rewrite_metadata.h"
#include "trace/stream.h"

/* A source without packets is one endless packet: the copy has one for every so many bytes. */
#define PACKET_BYTES (1u << 20)

struct copy {
    const struct stream *stream;
    char *path;
    uint64_t source_packet; /* offset and file of the packet that is copied */
    size_t source_file;
    const struct stream_meta *class;
    struct text packet; /* header and context in front, events behind */
    size_t sizes_at;    /* of content_size */
    uint64_t begin, end, discarded, sequence;
    bool open, created;
};

struct rewriter {
    struct trace *trace;
    struct problem *problem;
    struct copy *copies; /* by stream */
    uint64_t *registers; /* values of selectors and lengths, by field_class.saved */
    const struct metadata *meta;
    const uint32_t *slots;
    const struct value *values;
    uint32_t leaf;
    struct text *out;
};

static void put(struct text *out, uint64_t value, unsigned bytes)
{
    text_add_bytes(out, (const char *)&value, bytes);
}

/* ---- values ---- */

static void write_class(struct rewriter *w, const struct field_class *c);

static const struct value *next_value(struct rewriter *w)
{
    uint32_t leaf = w->leaf++;
    return &w->values[w->slots ? w->slots[leaf] : leaf];
}

static uint32_t leaf_count(const struct field_class *c)
{
    uint32_t n = 0;
    if (c->kind != KIND_STRUCT && c->kind != KIND_VARIANT && c->kind != KIND_OPTIONAL)
        return 1;
    for (uint32_t i = 0; i < c->member_count; i++)
        n += leaf_count(c->members[i].class);
    return n;
}

static void write_padded(struct text *out, const struct value *v, uint64_t bytes)
{
    uint64_t n = MIN(v->length, bytes);
    text_add_bytes(out, v->s, n);
    for (; n < bytes; n++)
        text_add_bytes(out, "", 1);
}

static void write_array(struct rewriter *w, const struct field_class *c)
{
    const struct value *v = next_value(w);
    uint64_t length = c->target ? w->registers[c->target->saved] : c->length;
    if (c->is_text || c->kind == KIND_BLOB) {
        write_padded(w->out, v, length);
        return;
    }
    struct rewriter inner = *w; /* an element's fields are numbered from 0 in a range of their own */
    uint32_t stride = leaf_count(c->members[0].class);
    for (uint32_t i = 0; i < v->length; i++) {
        inner.slots = NULL;
        inner.leaf = (uint32_t)v->first + i * stride;
        write_class(&inner, c->members[0].class);
    }
}

static bool in_ranges(const struct field_class *selector, const struct field_range *r, uint32_t count,
                      uint64_t v)
{
    for (uint32_t i = 0; i < count; i++)
        if (selector->is_signed ? (int64_t)v >= r[i].low_signed && (int64_t)v <= r[i].high_signed
                                : v >= r[i].low && v <= r[i].high)
            return true;
    return false;
}

static void write_choice(struct rewriter *w, const struct field_class *c)
{
    uint64_t selector = w->registers[c->target->saved];
    bool optional = c->kind == KIND_OPTIONAL, chosen = false;
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct field_range *r = optional ? c->ranges : c->members[i].ranges;
        uint32_t n = optional ? c->range_count : c->members[i].range_count;
        bool in = !chosen && (optional && !n ? selector != 0 : in_ranges(c->target, r, n, selector));
        if (optional)
            put(w->out, in, 1);
        if (in)
            write_class(w, c->members[i].class);
        else
            w->leaf += leaf_count(c->members[i].class);
        chosen |= in;
    }
}

static void write_class(struct rewriter *w, const struct field_class *c)
{
    switch (c->kind) {
    case KIND_INTEGER:
    case KIND_VARINT: {
        const struct value *v = next_value(w);
        if (c->saved > 0)
            w->registers[c->saved] = v->u;
        put(w->out, v->u, rewrite_width(c));
        break;
    }
    case KIND_REAL: {
        double d = next_value(w)->d;
        float f = (float)d;
        text_add_bytes(w->out, c->bits == 32 ? (const char *)&f : (const char *)&d, c->bits / 8);
        break;
    }
    case KIND_STRING:
    case KIND_TEXT: {
        const struct value *v = next_value(w);
        text_add_bytes(w->out, v->s, v->length);
        text_add_bytes(w->out, "", 1);
        break;
    }
    case KIND_STRUCT:
        for (uint32_t i = 0; i < c->member_count; i++)
            write_class(w, c->members[i].class);
        break;
    case KIND_ARRAY:
    case KIND_BLOB:
        write_array(w, c);
        break;
    default:
        write_choice(w, c);
        break;
    }
}

/* ---- packets ---- */

static int write_file(struct rewriter *w, struct copy *c)
{
    int flags = O_WRONLY | O_CREAT | (c->created ? O_APPEND : O_TRUNC);
    _cleanup_(file_closep) int fd = owner_open(c->path, flags);
    int r = fd < 0 ? fd : file_write_all(fd, c->packet.at, c->packet.length);
    c->created = true;
    return r < 0 ? problem_set(w->problem, r, "%s: %s", c->path, strerror(-r)) : 0;
}

static int close_packet(struct rewriter *w, struct copy *c)
{
    if (!c->open)
        return 0;
    c->open = false;
    if (c->packet.failed)
        return problem_set(w->problem, -ENOMEM, "not enough memory");
    uint64_t bits = c->packet.length * 8;
    char *at = c->packet.at + c->sizes_at;
    memcpy(at - 16, &c->begin, 8);
    memcpy(at - 8, &c->end, 8);
    memcpy(at, &bits, 8);
    memcpy(at + 8, &bits, 8);
    return write_file(w, c);
}

/* Header and context; times and sizes are put in when the packet is closed. */
static void open_packet(struct rewriter *w, struct copy *c, uint64_t time)
{
    const struct stream *s = c->stream;
    const struct stream_meta *class = s->class;
    text_clear(&c->packet);
    put(&c->packet, 0xc1fc1fc1, 4);
    put(&c->packet, class->id, 8);
    c->begin = c->end = time;
    put(&c->packet, 0, 8);
    put(&c->packet, 0, 8);
    c->sizes_at = c->packet.length;
    put(&c->packet, 0, 8);
    put(&c->packet, 0, 8);
    put(&c->packet, s->counted_events ? s->discarded : 0, 8);
    if (class->counts_packets)
        put(&c->packet, s->sequence, 8);
    w->out = &c->packet;
    w->values = s->packet_values;
    w->slots = NULL;
    w->leaf = 0;
    for (uint32_t i = 0; class->packet_context && i < class->packet_context->member_count; i++) {
        const struct field_member *m = &class->packet_context->members[i];
        if (rewrite_keeps(w->meta, m)) {
            write_class(w, m->class);
            continue;
        }
        w->leaf += leaf_count(m->class);
    }
    c->open = true;
    c->class = class;
    c->source_packet = s->packet_offset;
    c->source_file = s->file;
}

static int copy_event(struct rewriter *w, const struct event *e)
{
    struct copy *c = &w->copies[e->stream];
    const struct stream *s = c->stream;
    const struct event_meta *meta = e->class->reader;
    w->meta = s->meta;
    bool same = c->open && c->source_packet == s->packet_offset && c->source_file == s->file &&
                c->class == s->class && (c->packet.length < PACKET_BYTES || s->class->counts_packets);
    if (!same) {
        int r = close_packet(w, c);
        if (r < 0)
            return r;
        open_packet(w, c, e->time_ns);
    }
    w->out = &c->packet;
    c->end = MAX(c->end, e->time_ns);
    put(w->out, meta->id, 4);
    put(w->out, e->time_ns, 8);
    const struct field_class *parts[] = {s->class->event_context, meta->context, meta->payload};
    w->values = e->values;
    w->slots = meta->slots;
    w->leaf = 0;
    for (int i = 0; i < 3; i++)
        if (parts[i])
            write_class(w, parts[i]);
    return 0;
}

/* ---- folders ---- */

static int write_metadata(struct rewriter *w, const char *folder, uint32_t host)
{
    _cleanup_(text_done) struct text text = {0};
    _cleanup_(freep) char *path = NULL;
    const struct metadata *m = trace_metadata(w->trace, host);
    int r =
        rewrite_metadata(&text, m, m->own ? trace_host_at(w->trace, host)->clock_origin_ns : 0, w->problem);
    if (r < 0)
        return r == -ENOMEM ? problem_set(w->problem, r, "not enough memory") : r;
    if (asprintf(&path, "%s/metadata", folder) < 0)
        return path = NULL, problem_set(w->problem, -ENOMEM, "not enough memory");
    if (access(path, F_OK) == 0) {
        problem_set(w->problem, -EEXIST, "%s: there is a trace already", folder);
        problem_remedy(w->problem, "Name another directory, or remove this one.");
        return -EEXIST;
    }
    r = file_replace(path, text.at, text.length);
    return r < 0 ? problem_set(w->problem, r, "%s: %s", path, strerror(-r)) : 0;
}

static int prepare_host(struct rewriter *w, const char *folder, uint32_t host)
{
    _cleanup_(freep) char *own = NULL;
    char name[64];
    snprintf(name, sizeof(name), "%s", trace_host_at(w->trace, host)->name);
    for (char *c = name; *c; c++)
        if (*c == '/' || (*c == '.' && c == name))
            *c = '_';
    if ((trace_host_count(w->trace) == 1 ? asprintf(&own, "%s", folder)
                                         : asprintf(&own, "%s/%u-%s", folder, host, name)) < 0)
        return own = NULL, problem_set(w->problem, -ENOMEM, "not enough memory");
    int r = file_make_folder(own);
    if (r < 0)
        return problem_set(w->problem, r, "%s: %s", own, strerror(-r));
    if ((r = write_metadata(w, own, host)) < 0)
        return r;
    for (uint32_t i = 0; i < trace_stream_count(w->trace); i++) {
        const struct trace_stream *s = trace_stream_at(w->trace, i);
        const char *base = strrchr(s->path, '/');
        if (s->host != host)
            continue;
        w->copies[i].stream = trace_stream_private(w->trace, i);
        if (asprintf(&w->copies[i].path, "%s/%s", own, base ? base + 1 : s->path) < 0)
            return w->copies[i].path = NULL, problem_set(w->problem, -ENOMEM, "not enough memory");
    }
    return 0;
}

static int copy_all(struct rewriter *w, trace_progress_fn progress, void *context)
{
    const struct event *e;
    int r;
    for (uint64_t n = 1; (r = trace_next(w->trace, &e)) > 0; n++) {
        if ((r = copy_event(w, e)) < 0)
            return r;
        if ((n & 0xffff) == 0 && progress) {
            uint64_t done, total;
            trace_progress(w->trace, &done, &total);
            if ((r = progress(context, done, total)) != 0)
                return r;
        }
    }
    for (uint32_t i = 0; r >= 0 && i < trace_stream_count(w->trace); i++)
        r = close_packet(w, &w->copies[i]);
    return r;
}

int rewrite_ctf(struct trace *trace, const char *folder, struct problem *problem, trace_progress_fn progress,
                void *context)
{
    struct rewriter w = {.trace = trace, .problem = problem};
    uint32_t registers = 1;
    for (uint32_t i = 0; i < trace_host_count(trace); i++)
        registers = MAX(registers, trace_metadata(trace, i)->register_count + 1);
    w.copies = calloc(trace_stream_count(trace) + 1, sizeof(*w.copies));
    w.registers = calloc(registers, sizeof(*w.registers));
    int r = w.copies && w.registers ? 0 : problem_set(problem, -ENOMEM, "not enough memory");
    for (uint32_t i = 0; r >= 0 && i < trace_host_count(trace); i++)
        r = prepare_host(&w, folder, i);
    if (r >= 0)
        r = copy_all(&w, progress, context);
    for (uint32_t i = 0; w.copies && i < trace_stream_count(trace); i++) {
        text_done(&w.copies[i].packet);
        free(w.copies[i].path);
    }
    free(w.copies);
    free(w.registers);
    return r;
}
