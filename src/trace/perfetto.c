/* See perfetto.h. Protobuf by hand; field numbers are those of the schema in protos/perfetto/trace:
 *
 *     Trace            1 packet (TracePacket)
 *     TracePacket      8 timestamp, 10 trusted_packet_sequence_id, 11 track_event, 60 track_descriptor
 *     TrackDescriptor  1 uuid, 2 name, 3 process, 4 thread, 5 parent_uuid, 8 counter
 *     ProcessDescr.    1 pid, 6 process_name;  ThreadDescriptor 1 pid, 2 tid, 5 thread_name
 *     TrackEvent       4 debug_annotations, 9 type (1 begin, 2 end, 3 instant), 11 track_uuid, 22 categories,
 *                      23 name, 30 counter_value, 47 flow_ids, 48 terminating_flow_ids (fixed64)
 *     DebugAnnotation  2 bool, 3 uint, 4 int, 5 double, 6 string, 10 name, 11 dict_entries, 12 array_values
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/perfetto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "event/event.h"
#include "trace/format.h"

enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };
enum { SEQUENCE = 1 };

struct perfetto {
    FILE *file;
    const struct trace *trace;
    struct map tracks; /* uuids that were described */
    struct text packet, message, annotation, value;
};

/* ---- protobuf ---- */

static void varint(struct text *out, uint64_t v)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (char)(v & 0x7f);
        v >>= 7;
        bytes[n++] |= v ? (char)0x80 : 0;
    } while (v);
    text_add_bytes(out, bytes, n);
}

static void field_varint(struct text *out, unsigned number, uint64_t v)
{
    varint(out, (uint64_t)number << 3);
    varint(out, v);
}

static void field_double(struct text *out, unsigned number, double d)
{
    varint(out, (uint64_t)number << 3 | 1);
    text_add_bytes(out, (const char *)&d, 8);
}

static void field_fixed64(struct text *out, unsigned number, uint64_t v)
{
    varint(out, (uint64_t)number << 3 | 1);
    text_add_bytes(out, (const char *)&v, 8);
}

static void field_bytes(struct text *out, unsigned number, const char *bytes, size_t length)
{
    varint(out, (uint64_t)number << 3 | 2);
    varint(out, length);
    text_add_bytes(out, bytes, length);
}

static void field_string(struct text *out, unsigned number, const char *s)
{
    field_bytes(out, number, s, strlen(s));
}

static void field_message(struct text *out, unsigned number, const struct text *message)
{
    field_bytes(out, number, text_get(message), message->length);
}

/* Wraps the packet into Trace.packet and writes it. */
static int write_packet(struct perfetto *w)
{
    field_varint(&w->packet, 10, SEQUENCE);
    text_clear(&w->value);
    varint(&w->value, 1 << 3 | 2);
    varint(&w->value, w->packet.length);
    if (w->packet.failed || w->value.failed || w->message.failed || w->annotation.failed)
        return -ENOMEM;
    errno = 0;
    if (fwrite(w->value.at, 1, w->value.length, w->file) != w->value.length ||
        fwrite(w->packet.at, 1, w->packet.length, w->file) != w->packet.length)
        return errno ? -errno : -EIO;
    return 0;
}

/* ---- tracks ---- */

static uint64_t uuid_of(const char *kind, uint64_t a, uint64_t b, uint64_t c, const char *name)
{
    uint64_t parts[5] = {map_hash(kind, strlen(kind)), a, b, c, map_hash(name, strlen(name))};
    uint64_t uuid = map_hash(parts, sizeof(parts));
    return uuid ? uuid : 1;
}

/* 1: described now, w->message is to be filled; 0: known already. */
static int begin_track(struct perfetto *w, uint64_t uuid)
{
    bool added;
    if (!map_put(&w->tracks, uuid, &added))
        return -ENOMEM;
    if (!added)
        return 0;
    text_clear(&w->message);
    field_varint(&w->message, 1, uuid);
    return 1;
}

static int end_track(struct perfetto *w, uint64_t parent)
{
    if (parent)
        field_varint(&w->message, 5, parent);
    text_clear(&w->packet);
    field_message(&w->packet, 60, &w->message);
    return write_packet(w);
}

static int host_track(struct perfetto *w, uint32_t host, uint64_t *ret_uuid)
{
    uint64_t uuid = *ret_uuid = uuid_of("host", host, 0, 0, "");
    int r = begin_track(w, uuid);
    if (r <= 0)
        return r;
    field_string(&w->message, 2, trace_host_at(w->trace, host)->name);
    return end_track(w, 0);
}

/* Pids of different hosts must not meet: those of later hosts get the host's number above them. */
static uint64_t shown_id(uint32_t host, int64_t id)
{
    return ((uint64_t)id & 0x3ffffff) + (uint64_t)(host % 16) * 0x4000000;
}

static int process_track(struct perfetto *w, const struct event *e, uint64_t *ret_uuid)
{
    int64_t pid = e->pid >= 0 ? e->pid : e->tid;
    uint64_t uuid = *ret_uuid = uuid_of("process", e->trace, (uint64_t)pid, 0, "");
    int r = begin_track(w, uuid);
    if (r <= 0)
        return r;
    text_clear(&w->annotation);
    field_varint(&w->annotation, 1, shown_id(e->trace, pid));
    text_clear(&w->value);
    int name = event_class_find(e->class, "procname"); /* LTTng's context */
    if (name >= 0 && event_has(e, (uint32_t)name) && e->class->fields[name].type == TYPE_STRING)
        text_add_utf8(&w->value, e->values[name].s, e->values[name].length);
    else
        text_addf(&w->value, "%s %" PRId64, trace_host_at(w->trace, e->trace)->name, pid);
    field_message(&w->annotation, 6, &w->value);
    field_message(&w->message, 3, &w->annotation);
    return end_track(w, 0);
}

static int thread_track(struct perfetto *w, const struct event *e, uint64_t parent, uint64_t *ret_uuid)
{
    uint64_t uuid = *ret_uuid = uuid_of("thread", e->trace, (uint64_t)e->pid, (uint64_t)e->tid, "");
    int r = begin_track(w, uuid);
    if (r <= 0)
        return r;
    text_clear(&w->annotation);
    field_varint(&w->annotation, 1, shown_id(e->trace, e->pid >= 0 ? e->pid : e->tid));
    field_varint(&w->annotation, 2, shown_id(e->trace, e->tid));
    text_clear(&w->value);
    text_addf(&w->value, "thread %" PRId64, e->tid);
    field_message(&w->annotation, 5, &w->value);
    field_message(&w->message, 4, &w->annotation);
    return end_track(w, parent);
}

/* Events that name no thread belong to their stream (a CPU, a channel). */
static int stream_track(struct perfetto *w, const struct event *e, uint64_t *ret_uuid)
{
    uint64_t host, uuid = *ret_uuid = uuid_of("stream", e->stream, 0, 0, "");
    int r = host_track(w, e->trace, &host);
    if (r >= 0)
        r = begin_track(w, uuid);
    if (r <= 0)
        return r;
    const char *path = trace_stream_at(w->trace, e->stream)->path, *base = strrchr(path, '/');
    field_string(&w->message, 2, base ? base + 1 : path);
    return end_track(w, host);
}

static int event_track(struct perfetto *w, const struct event *e, bool span, uint64_t *ret_uuid)
{
    uint64_t process, owner;
    int r;
    if (e->pid < 0 && e->tid < 0)
        return stream_track(w, e, ret_uuid);
    if ((r = process_track(w, e, &process)) < 0)
        return r;
    owner = process;
    if (e->tid >= 0 && (r = thread_track(w, e, process, &owner)) < 0)
        return r;
    *ret_uuid = owner;
    if (!span)
        return 0;
    uint64_t uuid = *ret_uuid = uuid_of("kind", e->trace, (uint64_t)e->pid, (uint64_t)e->tid, e->class->name);
    if ((r = begin_track(w, uuid)) <= 0)
        return r;
    field_string(&w->message, 2, e->class->name);
    return end_track(w, owner);
}

/* ---- events ---- */

static void annotation(struct perfetto *w, struct text *out, const struct event *e,
                       const struct trace_field *f, const struct value *v, const char *label);

/* One value of an array or member of a structure in one, as field `number` of the annotation around it. */
static void nested(struct perfetto *w, struct text *out, unsigned number, const struct event *e,
                   const struct trace_field *f, const struct value *v)
{
    struct text inner = {0};
    annotation(w, &inner, e, f, v, NULL);
    field_message(out, number, &inner);
    out->failed |= inner.failed;
    text_done(&inner);
}

static void array_values(struct perfetto *w, struct text *out, const struct event *e,
                         const struct trace_field *f, const struct value *v)
{
    bool scalar = f->element_count == 1 && f->elements[0].name[0] == '\0';
    for (uint32_t i = 0; i < v->length; i++) {
        struct text members = {0};
        for (uint32_t j = 0; j < f->element_count; j++) {
            const struct value *member = event_element(e, f, v, i, j);
            if (!member->absent)
                nested(w, scalar ? out : &members, scalar ? 12 : 11, e, &f->elements[j], member);
        }
        if (!scalar)
            field_message(out, 12, &members);
        out->failed |= members.failed;
        text_done(&members);
    }
}

/* A DebugAnnotation. */
static void annotation(struct perfetto *w, struct text *out, const struct event *e,
                       const struct trace_field *f, const struct value *v, const char *label)
{
    text_clear(&w->value);
    if (f->name[0])
        field_string(out, 10, f->name);
    if (label)
        field_string(out, 6, label);
    else if (format_label(&w->value, f, v))
        field_message(out, 6, &w->value);
    else if (f->type == TYPE_STRING || f->type == TYPE_BLOB) {
        text_add_utf8(&w->value, v->s, v->length); /* protobuf strings must be */
        field_message(out, 6, &w->value);
    } else if (f->type == TYPE_REAL)
        field_double(out, 5, v->d);
    else if (f->type == TYPE_SIGNED)
        field_varint(out, 4, (uint64_t)v->i);
    else if (f->type == TYPE_BOOLEAN)
        field_varint(out, 2, v->u != 0);
    else if (f->type == TYPE_ARRAY)
        array_values(w, out, e, f, v);
    else
        field_varint(out, 3, v->u);
}

static int track_event(struct perfetto *w, const struct event *e, unsigned type, uint64_t time_ns,
                       uint64_t track, const struct event_names *names)
{
    text_clear(&w->message);
    field_varint(&w->message, 9, type);
    field_varint(&w->message, 11, track);
    if (type != SLICE_END) {
        size_t category = strcspn(e->class->name, ":");
        field_string(&w->message, 23, e->class->name);
        if (e->class->name[category])
            field_bytes(&w->message, 22, e->class->name, category);
        for (uint32_t i = 0; i < e->class->field_count; i++)
            if (!e->values[i].absent) {
                text_clear(&w->annotation);
                annotation(w, &w->annotation, e, &e->class->fields[i], &e->values[i],
                           event_names_of_field(names, e, i));
                field_message(&w->message, 4, &w->annotation);
            }
    }
    text_clear(&w->packet);
    field_varint(&w->packet, 8, time_ns);
    field_message(&w->packet, 11, &w->message);
    return write_packet(w);
}

int perfetto_event(struct perfetto *writer, const struct event *event, const struct event_names *names)
{
    bool span = event->id != EVENT_FOREIGN && event_catalogue[event->id].span && event_has(event, 0);
    uint64_t track;
    int r = event_track(writer, event, span, &track);
    if (r < 0)
        return r;
    if (!span)
        return track_event(writer, event, INSTANT, event->time_ns, track, names);
    uint64_t duration = MIN(event->values[0].u, event->time_ns);
    r = track_event(writer, event, SLICE_BEGIN, event->time_ns - duration, track, names);
    return r < 0 ? r : track_event(writer, event, SLICE_END, event->time_ns, track, names);
}

/* ---- what is made of several events ---- */

/* Protobuf strings must be UTF-8; programs call themselves anything. */
static void field_utf8(struct perfetto *w, struct text *out, unsigned number, const char *name)
{
    text_clear(&w->value);
    text_add_utf8(&w->value, name, strlen(name));
    field_message(out, number, &w->value);
}

int perfetto_process(struct perfetto *w, uint32_t host, int64_t pid, const char *name, uint64_t *ret_track)
{
    uint64_t uuid = *ret_track = uuid_of("process", host, (uint64_t)pid, 0, "");
    int r = begin_track(w, uuid);
    if (r <= 0)
        return r;
    text_clear(&w->annotation);
    field_varint(&w->annotation, 1, shown_id(host, pid));
    field_utf8(w, &w->annotation, 6, name);
    field_message(&w->message, 3, &w->annotation);
    return end_track(w, 0);
}

int perfetto_thread(struct perfetto *w, uint32_t host, int64_t pid, const char *process_name, int64_t tid,
                    const char *name, uint64_t *ret_track)
{
    int64_t process = pid >= 0 ? pid : tid;
    uint64_t parent, uuid = *ret_track = uuid_of("thread", host, (uint64_t)process, (uint64_t)tid, "");
    int r = perfetto_process(w, host, process, process_name, &parent);
    if (r < 0 || (r = begin_track(w, uuid)) <= 0)
        return r;
    text_clear(&w->annotation);
    field_varint(&w->annotation, 1, shown_id(host, process));
    field_varint(&w->annotation, 2, shown_id(host, tid));
    field_utf8(w, &w->annotation, 5, name);
    field_message(&w->message, 4, &w->annotation);
    return end_track(w, parent);
}

int perfetto_lane(struct perfetto *w, uint32_t host, uint64_t parent, const char *name, bool is_counter,
                  uint64_t *ret_track)
{
    int r = parent ? 0 : host_track(w, host, &parent);
    if (r < 0)
        return r;
    uint64_t uuid = *ret_track = uuid_of("lane", host, parent, is_counter, name);
    if ((r = begin_track(w, uuid)) <= 0)
        return r;
    field_string(&w->message, 2, name);
    if (is_counter)
        field_bytes(&w->message, 8, "", 0);
    return end_track(w, parent);
}

int perfetto_row(struct perfetto *w, uint64_t parent, const char *name, uint64_t number, uint64_t *ret_track)
{
    uint64_t uuid = *ret_track = uuid_of("row", parent, number, 0, name);
    int r = begin_track(w, uuid);
    if (r <= 0)
        return r;
    field_utf8(w, &w->message, 2, name);
    return end_track(w, parent);
}

static int lane_event(struct perfetto *w, unsigned type, uint64_t track, uint64_t time_ns)
{
    field_varint(&w->message, 9, type);
    field_varint(&w->message, 11, track);
    text_clear(&w->packet);
    field_varint(&w->packet, 8, time_ns);
    field_message(&w->packet, 11, &w->message);
    return write_packet(w);
}

int perfetto_slice(struct perfetto *w, uint64_t track, uint64_t start_ns, uint64_t end_ns, const char *name,
                   enum perfetto_flow flow, uint64_t flow_id)
{
    text_clear(&w->message);
    field_utf8(w, &w->message, 23, name);
    if (flow != FLOW_NONE)
        field_fixed64(&w->message, flow == FLOW_BEGINS ? 47 : 48, flow_id);
    int r = lane_event(w, start_ns == end_ns ? INSTANT : SLICE_BEGIN, track, start_ns);
    if (r < 0 || start_ns == end_ns)
        return r;
    text_clear(&w->message);
    return lane_event(w, SLICE_END, track, end_ns);
}

int perfetto_count(struct perfetto *w, uint64_t track, uint64_t time_ns, int64_t value)
{
    text_clear(&w->message);
    field_varint(&w->message, 30, (uint64_t)value);
    return lane_event(w, COUNTER, track, time_ns);
}

int perfetto_new(FILE *file, const struct trace *trace, struct perfetto **ret_writer)
{
    struct perfetto *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->file = file;
    w->trace = trace;
    *ret_writer = w;
    return 0;
}

void perfetto_free(struct perfetto *writer)
{
    if (!writer)
        return;
    map_done(&writer->tracks);
    text_done(&writer->packet);
    text_done(&writer->message);
    text_done(&writer->annotation);
    text_done(&writer->value);
    free(writer);
}
