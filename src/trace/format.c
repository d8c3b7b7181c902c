/* See format.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

void format_unsigned(struct text *text, uint64_t value)
{
    char digits[20];
    size_t n = sizeof(digits);
    do
        digits[--n] = (char)('0' + value % 10);
    while (value /= 10);
    text_add_bytes(text, digits + n, sizeof(digits) - n);
}

void format_signed(struct text *text, int64_t value)
{
    if (value < 0)
        text_add_bytes(text, "-", 1);
    format_unsigned(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void format_time(struct text *text, int64_t since_epoch_ns)
{
    int64_t s = since_epoch_ns / (int64_t)NS_PER_S, ns = since_epoch_ns % (int64_t)NS_PER_S;
    if (ns < 0) {
        s--;
        ns += NS_PER_S;
    }
    struct tm tm;
    time_t t = (time_t)s;
    char buffer[64];
    if (!gmtime_r(&t, &tm) || !strftime(buffer, sizeof(buffer), "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(buffer, sizeof(buffer), "%" PRId64, s);
    text_add(text, buffer);
    text_addf(text, ".%09" PRId64, ns);
}

bool format_label(struct text *text, const struct trace_field *field, const struct value *value)
{
    const char *label = field->label_count ? trace_field_label(field, value) : NULL;
    if (label)
        text_add(text, label);
    bool any = label != NULL;
    for (uint32_t i = 0; field->type == TYPE_BITMAP && i < field->label_count; i++) {
        const struct trace_label *l = &field->labels[i];
        uint64_t width = l->high - l->low;
        uint64_t bits = l->low > 63 ? 0 : (width > 62 ? UINT64_MAX : (1ull << (width + 1)) - 1) << l->low;
        if (!(value->u & bits))
            continue;
        text_add(text, any ? "|" : "");
        text_add(text, l->name);
        any = true;
    }
    return any;
}

/* ---- for people ---- */

static void plain_text(struct text *text, const char *s, size_t length)
{
    size_t from = 0;
    text_add_bytes(text, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        if (s[i] != '"' && s[i] != '\\')
            continue;
        text_add_visible(text, s + from, i - from);
        text_add_bytes(text, "\\", 1);
        from = i;
    }
    text_add_visible(text, s + from, length - from);
    text_add_bytes(text, "\"", 1);
}

static void plain_name(struct text *text, const char *name)
{
    text_add_visible(text, name, strlen(name));
}

static void plain_value(struct text *text, const struct event *event, const struct trace_field *f,
                        const struct value *v, const char *label);

static void plain_array(struct text *text, const struct event *event, const struct trace_field *f,
                        const struct value *v)
{
    bool scalar = f->element_count == 1 && f->elements[0].name[0] == '\0';
    text_add(text, "[");
    for (uint32_t i = 0; i < v->length; i++) {
        bool first = true;
        text_add(text, i ? ", " : "");
        text_add(text, scalar ? "" : "{");
        for (uint32_t j = 0; j < f->element_count; j++) {
            const struct value *e = event_element(event, f, v, i, j);
            if (e->absent)
                continue;
            if (!scalar) {
                text_add(text, first ? "" : ", ");
                plain_name(text, f->elements[j].name);
                text_add(text, "=");
            }
            first = false;
            plain_value(text, event, &f->elements[j], e, NULL);
        }
        text_add(text, scalar ? "" : "}");
    }
    text_add(text, "]");
}

static void plain_number(struct text *text, const struct trace_field *f, const struct value *v)
{
    if (f->type == TYPE_SIGNED)
        format_signed(text, v->i);
    else if (f->base == 16)
        text_addf(text, "0x%" PRIx64, v->u);
    else if (f->base == 8)
        text_addf(text, "0%" PRIo64, v->u);
    else
        format_unsigned(text, v->u);
}

static void plain_value(struct text *text, const struct event *event, const struct trace_field *f,
                        const struct value *v, const char *label)
{
    _cleanup_(text_done) struct text found = {0};
    switch (f->type) {
    case TYPE_STRING:
        plain_text(text, v->s, v->length);
        return;
    case TYPE_BLOB:
        for (uint32_t i = 0; i < v->length; i++)
            text_addf(text, "%02x", (unsigned char)v->s[i]);
        return;
    case TYPE_ARRAY:
        plain_array(text, event, f, v);
        return;
    case TYPE_REAL:
        text_addf(text, "%.17g", v->d);
        return;
    default:
        if (!label && f->label_count && format_label(&found, f, v))
            label = text_get(&found);
        if (label)
            plain_name(text, label);
        text_add(text, label && label[0] ? "(" : "");
        plain_number(text, f, v);
        text_add(text, label && label[0] ? ")" : "");
        text->failed |= found.failed;
        return;
    }
}

static const struct value *scope_values(const struct event *event, enum field_scope scope,
                                        const struct trace_field **ret_fields, uint32_t *ret_count)
{
    bool packet = scope == SCOPE_PACKET_CONTEXT;
    *ret_fields = packet ? event->class->packet_fields : event->class->fields;
    *ret_count = packet ? (event->packet ? event->class->packet_field_count : 0) : event->class->field_count;
    return packet ? event->packet : event->values;
}

void format_fields(struct text *text, const struct event *event, enum field_scope scope,
                   const struct event_names *names)
{
    const struct trace_field *fields;
    uint32_t count;
    const struct value *values = scope_values(event, scope, &fields, &count);
    struct event packet = *event; /* arrays of the packet context are reached through its own values */
    packet.values = values;
    bool first = true;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].absent || fields[i].scope != scope)
            continue;
        text_add(text, first ? "" : ", ");
        plain_name(text, fields[i].name);
        text_add(text, "=");
        plain_value(text, &packet, &fields[i], &values[i],
                    scope == SCOPE_PAYLOAD ? event_names_of_field(names, event, i) : NULL);
        first = false;
    }
}

/* ---- JSON ---- */

/* Objects that are open while members are written one by one: those of a structure follow each other. */
struct json_members {
    const struct trace_parent *in;
    bool any; /* the innermost one has a member */
};

static const struct trace_parent *parent_at(const struct trace_parent *p, uint32_t depth)
{
    while (p && p->depth > depth)
        p = p->parent;
    return p;
}

static void json_begin(struct text *text, struct json_members *m, const struct trace_parent *in)
{
    if (!in)
        return;
    if (parent_at(m->in, in->depth) != in)
        json_begin(text, m, in->parent);
    if (m->in == in)
        return;
    text_add(text, m->any ? "," : "");
    text_add_json(text, in->name, strlen(in->name));
    text_add(text, ":{");
    m->in = in;
    m->any = false;
}

static void json_end(struct text *text, struct json_members *m, const struct trace_parent *until)
{
    for (; m->in != until; m->in = m->in->parent) {
        text_add(text, "}");
        m->any = true;
    }
}

static const char *own_name(const struct trace_field *f)
{
    return f->own_name ? f->own_name : f->name;
}

/* Begins a member: its name, in the structures that it is in. */
static void json_member(struct text *text, struct json_members *m, const struct trace_field *f)
{
    const struct trace_parent *common = m->in;
    while (common && parent_at(f->parent, common->depth) != common)
        common = common->parent;
    json_end(text, m, common);
    json_begin(text, m, f->parent);
    text_add(text, m->any ? "," : "");
    m->any = true;
    text_add_json(text, own_name(f), strlen(own_name(f)));
    text_add(text, ":");
}

static void json_value(struct text *text, const struct event *event, const struct trace_field *f,
                       const struct value *v)
{
    switch (f->type) {
    case TYPE_STRING:
        text_add_json(text, v->s, v->length);
        break;
    case TYPE_BLOB:
        text_add(text, "\"");
        for (uint32_t i = 0; i < v->length; i++)
            text_addf(text, "%02x", (unsigned char)v->s[i]);
        text_add(text, "\"");
        break;
    case TYPE_REAL:
        if (isfinite(v->d))
            text_addf(text, "%.17g", v->d);
        else
            text_add(text, "null");
        break;
    case TYPE_BOOLEAN:
        text_add(text, v->u ? "true" : "false");
        break;
    case TYPE_SIGNED:
        format_signed(text, v->i);
        break;
    case TYPE_ARRAY: {
        bool scalar = f->element_count == 1 && f->elements[0].name[0] == '\0';
        text_add(text, "[");
        for (uint32_t i = 0; i < v->length; i++) {
            struct json_members members = {0};
            text_add(text, i ? "," : "");
            text_add(text, scalar ? "" : "{");
            for (uint32_t j = 0; j < f->element_count; j++) {
                const struct value *e = event_element(event, f, v, i, j);
                if (e->absent)
                    continue;
                if (!scalar)
                    json_member(text, &members, &f->elements[j]);
                json_value(text, event, &f->elements[j], e);
            }
            json_end(text, &members, NULL);
            text_add(text, scalar ? "" : "}");
        }
        text_add(text, "]");
        break;
    }
    default:
        format_unsigned(text, v->u);
        break;
    }
}

/* ,"KEY":{...} for the scopes first to last; nothing when they have no fields. */
static void json_scope(struct text *text, const struct event *event, const char *key, enum field_scope first,
                       enum field_scope last, const struct event_names *names)
{
    const struct trace_field *fields;
    uint32_t count;
    const struct value *values = scope_values(event, last, &fields, &count);
    struct event packet = *event;
    packet.values = values;
    struct json_members members = {0};
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].absent || fields[i].scope < first || fields[i].scope > last)
            continue;
        if (!any)
            text_addf(text, ",\"%s\":{", key);
        any = true;
        json_member(text, &members, &fields[i]);
        json_value(text, &packet, &fields[i], &values[i]);
        const char *name = first == SCOPE_PAYLOAD ? event_names_of_field(names, event, i) : NULL;
        if (!name && !fields[i].label_count)
            continue;
        _cleanup_(text_done) struct text label = {0}, label_key = {0};
        if (name)
            text_add(&label, name);
        else if (!format_label(&label, &fields[i], &values[i]))
            continue;
        text_addf(&label_key, "%s.label", own_name(&fields[i]));
        text_add(text, ",");
        text_add_json(text, text_get(&label_key), label_key.length);
        text_add(text, ":");
        text_add_json(text, text_get(&label), label.length);
        text->failed |= label_key.failed || label.failed;
    }
    json_end(text, &members, NULL);
    text_add(text, any ? "}" : "");
}

void format_json(struct text *text, const struct event *event, const char *host,
                 const struct event_names *names)
{
    text_add(text, "{\"time_ns\":");
    format_signed(text, (int64_t)event->time_ns);
    text_add(text, ",\"name\":");
    text_add_json(text, event->class->name, strlen(event->class->name));
    if (host) {
        text_add(text, ",\"host\":");
        text_add_json(text, host, strlen(host));
    }
    if (event->pid >= 0) {
        text_add(text, ",\"pid\":");
        format_signed(text, event->pid);
    }
    if (event->tid >= 0) {
        text_add(text, ",\"tid\":");
        format_signed(text, event->tid);
    }
    text_add(text, ",\"stream\":");
    format_unsigned(text, event->stream);
    json_scope(text, event, "fields", SCOPE_PAYLOAD, SCOPE_PAYLOAD, names);
    json_scope(text, event, "context", SCOPE_CONTEXT, SCOPE_COMMON_CONTEXT, NULL);
    json_scope(text, event, "packet", SCOPE_PACKET_CONTEXT, SCOPE_PACKET_CONTEXT, NULL);
    text_add(text, "}");
}
