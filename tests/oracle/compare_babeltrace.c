/* Compares what sonde reads from a trace with what babeltrace2 reads: every field of every event, every time,
 * every stream. Each event becomes a hash of its time, its name and the text of its fields in any order; each
 * stream a count and a hash of its events, so that a trace of any length takes little memory. What is printed
 * are lines, the fields sorted.
 *
 *     compare_babeltrace DIR                  exit 0: equal; 1: not, with the first line that differs
 *     compare_babeltrace OURS THEIRS          the same for two traces whose streams have the same file names
 *     compare_babeltrace --sonde DIR STREAM   prints one stream's lines (for diff)
 *     compare_babeltrace --babeltrace DIR STREAM
 *
 * babeltrace2's streams are read one by one, without its muxer, which refuses some traces with lost events.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <babeltrace2/babeltrace.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/array.h"
#include "base/map.h"
#include "base/text.h"
#include "trace/trace.h"

/* One stream as one side sees it. */
struct side {
    uint64_t events, hash;
    uint64_t discarded_packets;
};

struct pair {
    char *path;
    struct side ours, theirs;
};

struct comparison {
    ARRAY(struct pair) pairs;
    const char *print;    /* the stream whose lines are printed, or NULL */
    bool by_name;         /* streams pair by file name, not by path */
    uint64_t fields_hash; /* of the event at hand: the sum over its fields */
    ARRAY(char *) fields; /* only when lines are printed */
    struct text line, field;
    bool failed;
};

static struct pair *pair_of(struct comparison *c, const char *path)
{
    if (c->by_name && strrchr(path, '/'))
        path = strrchr(path, '/') + 1;
    array_foreach (&c->pairs, p)
        if (strcmp(p->path, path) == 0)
            return p;
    struct pair p = {.path = strdup(path)};
    if (!p.path || array_add(&c->pairs, p) < 0)
        abort();
    return &c->pairs.at[c->pairs.count - 1];
}

static int compare_fields(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the collected fields into a line. */
static void print_line(struct comparison *c, int64_t time_ns, const char *name)
{
    if (c->fields.count)
        qsort(c->fields.at, c->fields.count, sizeof(*c->fields.at), compare_fields);
    text_clear(&c->line);
    text_addf(&c->line, "%" PRId64 " %s", time_ns, name);
    array_foreach (&c->fields, f) {
        text_add(&c->line, " ");
        text_add(&c->line, *f);
        free(*f);
    }
    array_clear(&c->fields);
    puts(text_get(&c->line));
}

/* All fields of an event are collected: it is counted. */
static void finish_event(struct comparison *c, struct side *side, bool print, int64_t time_ns,
                         const char *name)
{
    if (print)
        print_line(c, time_ns, name);
    array_foreach (&c->fields, f)
        free(*f);
    array_clear(&c->fields);
    uint64_t event = map_hash(&time_ns, sizeof(time_ns)) + 31 * map_hash(name, strlen(name)) + c->fields_hash;
    side->hash = (side->hash ^ event) * 0x9e3779b97f4a7c15u;
    side->hash ^= side->hash >> 29;
    side->events++;
    c->fields_hash = 0;
}

static void add_field(struct comparison *c, const char *scope, const char *name, struct text *value)
{
    text_clear(&c->field);
    text_add(&c->field, scope);
    text_add(&c->field, ":");
    text_add(&c->field, name);
    text_add(&c->field, "=");
    text_add_bytes(&c->field, text_get(value), value->length);
    c->fields_hash += map_hash(text_get(&c->field), c->field.length);
    if (!c->print)
        return;
    char *field = strdup(text_get(&c->field));
    if (!field || array_add(&c->fields, field) < 0)
        abort();
}

static void add_unsigned(struct text *out, uint64_t n)
{
    char digits[24], *p = digits + sizeof(digits);
    do
        *--p = (char)('0' + n % 10);
    while (n /= 10);
    text_add_bytes(out, p, (size_t)(digits + sizeof(digits) - p));
}

static void add_signed(struct text *out, int64_t n)
{
    if (n < 0)
        text_add(out, "-");
    add_unsigned(out, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

/* A member's flattened name. */
static void join(char full[1024], const char *name, const char *member)
{
    size_t n = strlen(name), m = strlen(member);
    if (n + m + 2 > 1024)
        abort();
    memcpy(full, name, n);
    if (n)
        full[n++] = '.';
    memcpy(full + n, member, m + 1);
}

static void add_quoted(struct text *out, const char *s, size_t length)
{
    text_add(out, "\"");
    for (size_t i = 0; i < length; i++)
        if (s[i] > ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\')
            text_add_bytes(out, &s[i], 1);
        else
            text_addf(out, "\\%02x", (unsigned char)s[i]);
    text_add(out, "\"");
}

static const char *scope_name(int scope)
{
    static const char *const NAMES[] = {"fields", "context", "common", "packet"};
    return NAMES[scope];
}

/* Fields of the packet context that babeltrace2 keeps to itself. */
static bool is_packet_bookkeeping(const char *name)
{
    static const char *const NAMES[] = {"timestamp_begin", "timestamp_end",    "content_size",
                                        "packet_size",     "events_discarded", "packet_seq_num"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0)
            return true;
    return false;
}

enum { MAX_LABELS = 256 };

/* Sorted, each once: "(a|b)". */
static void add_labels(struct text *out, const char **labels, uint64_t n)
{
    if (n)
        qsort(labels, n, sizeof(*labels), compare_fields);
    for (uint64_t i = 0; i < n; i++)
        if (i == 0 || strcmp(labels[i], labels[i - 1]) != 0)
            text_addf(out, "%s%s", i ? "|" : "(", labels[i]);
    text_add(out, n ? ")" : "");
}

/* ---- ours ---- */

static void our_value(struct text *out, const struct trace_field *f, const struct value *values,
                      const struct value *v)
{
    switch (f->type) {
    case TYPE_SIGNED:
        add_signed(out, v->i);
        break;
    case TYPE_REAL:
        text_addf(out, "%a", v->d);
        break;
    case TYPE_STRING:
        add_quoted(out, v->s, v->length);
        break;
    case TYPE_ARRAY:
        text_add(out, "[");
        for (uint32_t i = 0; i < v->length; i++) {
            bool scalar = f->element_count == 1 && f->elements[0].name[0] == '\0', first = true;
            text_add(out, scalar ? "" : "{");
            for (uint32_t j = 0; j < f->element_count; j++) {
                const struct value *e = values + v->first + (uint64_t)i * f->element_count + j;
                if (e->absent)
                    continue;
                if (!scalar)
                    text_addf(out, "%s%s=", first ? "" : ",", f->elements[j].name);
                first = false;
                our_value(out, &f->elements[j], values, e);
            }
            text_add(out, scalar ? "," : "},");
        }
        text_add(out, "]");
        return;
    default:
        add_unsigned(out, v->u);
        break;
    }
    const char *labels[MAX_LABELS];
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->label_count && n < MAX_LABELS; i++) {
        const struct trace_label *l = &f->labels[i];
        if (f->type == TYPE_SIGNED ? v->i >= l->low_signed && v->i <= l->high_signed
                                   : v->u >= l->low && v->u <= l->high)
            labels[n++] = l->name;
    }
    add_labels(out, labels, n);
}

static void our_fields(struct comparison *c, const struct trace_field *fields, uint32_t count,
                       const struct value *values, bool packet)
{
    struct text value = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].absent || (packet && is_packet_bookkeeping(fields[i].name)))
            continue;
        text_clear(&value);
        our_value(&value, &fields[i], values, &values[i]);
        add_field(c, packet ? "packet" : scope_name(fields[i].scope), fields[i].name, &value);
    }
    text_done(&value);
}

static int read_ours(struct comparison *c, const char *path)
{
    struct problem problem;
    struct trace *t;
    const struct event *e;
    int r = trace_open(path, NULL, &problem, &t);
    if (r < 0) {
        fprintf(stderr, "sonde: %s\n", problem.what);
        return r;
    }
    uint64_t last = 0, backwards = 0;
    while ((r = trace_next(t, &e)) > 0) {
        const struct trace_stream *s = trace_stream_at(t, e->stream);
        const struct trace_host *h = trace_host_at(t, e->trace);
        struct pair *p = pair_of(c, s->path);
        our_fields(c, e->class->fields, e->class->field_count, e->values, false);
        our_fields(c, e->class->packet_fields, e->class->packet_field_count, e->packet, true);
        finish_event(c, &p->ours, c->print && strcmp(c->print, s->path) == 0,
                     (int64_t)e->time_ns + (h->own ? h->clock_origin_ns : 0), e->class->name);
        backwards += (int64_t)e->time_ns < (int64_t)last;
        last = e->time_ns;
    }
    size_t losses;
    const struct trace_loss *l = trace_losses(t, &losses);
    for (size_t i = 0; i < losses; i++) {
        if (l[i].kind == LOSS_DISCARDED_PACKETS)
            pair_of(c, trace_stream_at(t, l[i].stream)->path)->ours.discarded_packets = l[i].count;
        if (l[i].kind == LOSS_UNREADABLE || l[i].kind == LOSS_TRUNCATED)
            fprintf(stderr, "sonde: %s:%" PRIu64 ": %" PRIu64 " bytes %s\n", l[i].path, l[i].offset,
                    l[i].count, l[i].what);
    }
    if (backwards)
        fprintf(stderr, "sonde: %" PRIu64 " events before the one in front of them\n", backwards);
    trace_close(t);
    return r;
}

/* ---- theirs ---- */

static void their_labels(struct text *out, const bt_field *f)
{
    bt_field_class_enumeration_mapping_label_array labels;
    uint64_t n;
    bt_field_enumeration_get_mapping_labels_status status =
        bt_field_class_type_is(bt_field_get_class_type(f), BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)
            ? bt_field_enumeration_unsigned_get_mapping_labels(f, &labels, &n)
            : bt_field_enumeration_signed_get_mapping_labels(f, &labels, &n);
    if (status != BT_FIELD_ENUMERATION_GET_MAPPING_LABELS_STATUS_OK)
        abort();
    const char *sorted[MAX_LABELS];
    n = n < MAX_LABELS ? n : MAX_LABELS;
    if (n)
        memcpy(sorted, labels, n * sizeof(*sorted));
    add_labels(out, sorted, n);
}

static void their_flat(const bt_field *f, const char *name, void (*sink)(void *, const char *, struct text *),
                       void *to);

struct element {
    struct text *out;
    bool first;
};

static void element_sink(void *to, const char *name, struct text *value)
{
    struct element *e = to;
    if (name[0])
        text_addf(e->out, "%s%s=", e->first ? "" : ",", name);
    text_add(e->out, text_get(value));
    e->first = false;
}

static void their_scalar(struct text *out, const bt_field *f, bt_field_class_type type)
{
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
        add_unsigned(out, bt_field_integer_unsigned_get_value(f));
    else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
        add_signed(out, bt_field_integer_signed_get_value(f));
    else if (type == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL)
        text_addf(out, "%a", (double)bt_field_real_single_precision_get_value(f));
    else if (type == BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL)
        text_addf(out, "%a", bt_field_real_double_precision_get_value(f));
    else if (type == BT_FIELD_CLASS_TYPE_STRING)
        add_quoted(out, bt_field_string_get_value(f), bt_field_string_get_length(f));
    else if (type == BT_FIELD_CLASS_TYPE_BOOL)
        text_addf(out, "%d", bt_field_bool_get_value(f) == BT_TRUE);
    else
        abort();
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ENUMERATION))
        their_labels(out, f);
}

static void their_array(struct text *out, const bt_field *f)
{
    uint64_t n = bt_field_array_get_length(f);
    text_add(out, "[");
    for (uint64_t i = 0; i < n; i++) {
        const bt_field *e = bt_field_array_borrow_element_field_by_index_const(f, i);
        bt_field_class_type type = bt_field_get_class_type(e);
        bool compound = type == BT_FIELD_CLASS_TYPE_STRUCTURE ||
                        bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_VARIANT);
        struct element to = {out, true};
        text_add(out, compound ? "{" : "");
        their_flat(e, "", element_sink, &to);
        text_add(out, compound ? "}," : ",");
    }
    text_add(out, "]");
}

static void their_flat(const bt_field *f, const char *name, void (*sink)(void *, const char *, struct text *),
                       void *to)
{
    bt_field_class_type type = bt_field_get_class_type(f);
    const bt_field_class *class = bt_field_borrow_class_const(f);
    char full[1024];
    if (type == BT_FIELD_CLASS_TYPE_STRUCTURE) {
        uint64_t n = bt_field_class_structure_get_member_count(class);
        for (uint64_t i = 0; i < n; i++) {
            const bt_field_class_structure_member *m =
                bt_field_class_structure_borrow_member_by_index_const(class, i);
            join(full, name, bt_field_class_structure_member_get_name(m));
            their_flat(bt_field_structure_borrow_member_field_by_index_const(f, i), full, sink, to);
        }
    } else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_VARIANT)) {
        const bt_field_class_variant_option *o = bt_field_variant_borrow_selected_option_class_const(f);
        join(full, name, bt_field_class_variant_option_get_name(o));
        their_flat(bt_field_variant_borrow_selected_option_field_const(f), full, sink, to);
    } else {
        struct text value = {0};
        if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ARRAY))
            their_array(&value, f);
        else
            their_scalar(&value, f, type);
        sink(to, name, &value);
        text_done(&value);
    }
}

struct scope_sink {
    struct comparison *c;
    const char *scope;
};

static void field_sink(void *to, const char *name, struct text *value)
{
    struct scope_sink *s = to;
    if (strcmp(s->scope, "packet") != 0 || !is_packet_bookkeeping(name))
        add_field(s->c, s->scope, name, value);
}

static void their_fields(struct comparison *c, const char *scope, const bt_field *f)
{
    struct scope_sink to = {c, scope};
    if (f)
        their_flat(f, "", field_sink, &to);
}

static void their_event(struct comparison *c, const bt_message *message)
{
    const bt_event *e = bt_message_event_borrow_event_const(message);
    const bt_stream *stream = bt_event_borrow_stream_const(e);
    const char *path = bt_stream_get_name(stream);
    int64_t time_ns = 0;
    if (bt_stream_class_borrow_default_clock_class_const(bt_stream_borrow_class_const(stream)) &&
        bt_clock_snapshot_get_ns_from_origin(bt_message_event_borrow_default_clock_snapshot_const(message),
                                             &time_ns) != BT_CLOCK_SNAPSHOT_GET_NS_FROM_ORIGIN_STATUS_OK)
        time_ns = -1;
    their_fields(c, "fields", bt_event_borrow_payload_field_const(e));
    their_fields(c, "context", bt_event_borrow_specific_context_field_const(e));
    their_fields(c, "common", bt_event_borrow_common_context_field_const(e));
    if (bt_stream_class_supports_packets(bt_stream_borrow_class_const(stream)))
        their_fields(c, "packet", bt_packet_borrow_context_field_const(bt_event_borrow_packet_const(e)));
    const char *name = bt_event_class_get_name(bt_event_borrow_class_const(e));
    finish_event(c, &pair_of(c, path)->theirs, c->print && strcmp(c->print, path) == 0, time_ns,
                 name ? name : "");
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator, void *data)
{
    struct comparison *c = data;
    bt_message_array_const messages;
    uint64_t n;
    bt_message_iterator_next_status s = bt_message_iterator_next(iterator, &messages, &n);
    if (s == BT_MESSAGE_ITERATOR_NEXT_STATUS_END)
        return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
    if (s != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK) {
        c->failed = true;
        bt_current_thread_clear_error();
        return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
    }
    for (uint64_t i = 0; i < n; i++) {
        bt_message_type type = bt_message_get_type(messages[i]);
        if (type == BT_MESSAGE_TYPE_EVENT) {
            their_event(c, messages[i]);
        } else if (type == BT_MESSAGE_TYPE_DISCARDED_PACKETS) {
            uint64_t count = 0;
            const bt_stream *stream = bt_message_discarded_packets_borrow_stream_const(messages[i]);
            if (bt_message_discarded_packets_get_count(messages[i], &count) ==
                BT_PROPERTY_AVAILABILITY_AVAILABLE)
                pair_of(c, bt_stream_get_name(stream))->theirs.discarded_packets += count;
        }
        bt_message_put_ref(messages[i]);
    }
    return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
}

static bt_value *parameters(const char *path)
{
    bt_value *map = bt_value_map_create(), *list = NULL;
    if (!map || bt_value_map_insert_empty_array_entry(map, "inputs", &list) != 0 ||
        bt_value_array_append_string_element(list, path) != 0)
        abort();
    return map;
}

/* One trace folder (with a metadata file). */
static int read_theirs(struct comparison *c, const char *path)
{
    const bt_plugin *plugin = NULL;
    if (bt_plugin_find("ctf", BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, &plugin) !=
        BT_PLUGIN_FIND_STATUS_OK)
        return fprintf(stderr, "babeltrace2: no ctf plug-in\n"), -1;
    bt_graph *graph = bt_graph_create(0);
    const bt_component_source *source;
    bt_value *params = parameters(path);
    int r = bt_graph_add_source_component(graph,
                                          bt_plugin_borrow_source_component_class_by_name_const(plugin, "fs"),
                                          "source", params, BT_LOGGING_LEVEL_FATAL, &source);
    uint64_t ports = r == 0 ? bt_component_source_get_output_port_count(source) : 0;
    for (uint64_t i = 0; r == 0 && i < ports; i++) {
        const bt_component_sink *sink;
        char name[32];
        snprintf(name, sizeof(name), "sink%" PRIu64, i);
        r = bt_graph_add_simple_sink_component(graph, name, NULL, consume, NULL, c, &sink);
        if (r == 0)
            r = bt_graph_connect_ports(graph,
                                       bt_component_source_borrow_output_port_by_index_const(source, i),
                                       bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL);
    }
    if (r == 0 && ports)
        r = bt_graph_run(graph);
    if (r != 0) {
        bt_current_thread_clear_error();
        fprintf(stderr, "babeltrace2: cannot read %s\n", path);
    }
    bt_value_put_ref(params);
    bt_graph_put_ref(graph);
    bt_plugin_put_ref(plugin);
    return r;
}

static int read_all_theirs(struct comparison *c, const char *path)
{
    struct problem problem;
    struct trace *t;
    /* The list of traces is ours: an experiment is several folders. */
    int r = trace_open(path, NULL, &problem, &t);
    if (r < 0)
        return read_theirs(c, path);
    for (uint32_t i = 0; r == 0 && i < trace_host_count(t); i++)
        r = read_theirs(c, trace_host_at(t, i)->path);
    trace_close(t);
    return r;
}

static int report(const struct comparison *c)
{
    uint64_t events = 0;
    int different = 0;
    for (size_t i = 0; i < c->pairs.count; i++) {
        const struct pair *p = &c->pairs.at[i];
        events += p->ours.events;
        if (p->ours.events == p->theirs.events && p->ours.hash == p->theirs.hash &&
            p->ours.discarded_packets == p->theirs.discarded_packets)
            continue;
        printf("%s: differs: sonde %" PRIu64 " events (%016" PRIx64 ", %" PRIu64
               " packets lost), babeltrace2 %" PRIu64 " (%016" PRIx64 ", %" PRIu64 ")\n",
               p->path, p->ours.events, p->ours.hash, p->ours.discarded_packets, p->theirs.events,
               p->theirs.hash, p->theirs.discarded_packets);
        different++;
    }
    if (!different)
        printf("equal: %" PRIu64 " events in %zu streams\n", events, c->pairs.count);
    return different != 0;
}

int main(int argc, char **argv)
{
    struct comparison c = {0};
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int r;
    if (argc == 4) {
        c.print = argv[3];
        r = strcmp(argv[1], "--sonde") == 0 ? read_ours(&c, argv[2]) : read_all_theirs(&c, argv[2]);
        r = r != 0;
    } else if (argc == 2 || argc == 3) {
        c.by_name = argc == 3;
        int ours = read_ours(&c, argv[1]), theirs = read_all_theirs(&c, argv[argc - 1]);
        if (c.failed)
            fprintf(stderr, "babeltrace2: stopped in the middle of a stream\n");
        r = report(&c) || ours < 0 || theirs < 0;
    } else {
        fprintf(stderr, "usage: compare_babeltrace DIR [DIR] | --sonde|--babeltrace DIR STREAM\n");
        r = 2;
    }
    array_foreach (&c.pairs, p)
        free(p->path);
    array_done(&c.pairs);
    array_done(&c.fields);
    text_done(&c.line);
    text_done(&c.field);
    return r;
}
