/* Jaeger's JSON. Times are microseconds. A trace's "processes" may stand behind its "spans", so they are read
 * first; a span refers to its process by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/trace_json.h"

#include <errno.h>

#include "base/array.h"
#include "base/clock.h"
#include "span/json_attributes.h"

struct process {
    struct slice id;
    struct span_resource resource;
};

struct decoder {
    struct span_sink *sink;
    struct arena scratch; /* one trace's strings and processes */
    ARRAY(struct process) processes;
    struct span_attribute attributes[SPAN_ATTRIBUTES_MAX];
};

static size_t read_tags(struct jread *json, struct span_attribute *attributes, struct span_sink *sink)
{
    if (jread_peek(json) == '[')
        return json_attributes(json, jread_string, attributes, sink);
    jread_skip(json);
    return 0;
}

static int read_processes(struct decoder *d, struct jread *json)
{
    struct slice id, key;
    struct span_attribute tags[SPAN_ATTRIBUTES_MAX];
    for (jread_object(json); jread_member(json, &id);) {
        struct process process = {.id = id};
        size_t n = 0;
        for (jread_object(json); jread_member(json, &key);) {
            if (slice_is(key, "serviceName"))
                process.resource.service = jread_string(json);
            else if (slice_is(key, "tags"))
                n = read_tags(json, tags, d->sink);
            else
                jread_skip(json);
        }
        struct span_attribute *kept = arena_alloc(&d->scratch, (n + 1) * sizeof(*kept));
        if (!kept)
            return -ENOMEM;
        memcpy(kept, tags, n * sizeof(*kept));
        process.resource.attributes = kept;
        process.resource.attribute_count = n;
        span_resource_conventions(&process.resource);
        if (array_add(&d->processes, process) < 0)
            return -ENOMEM;
    }
    return json->error;
}

/* The parent: a CHILD_OF within the trace; failing that a FOLLOWS_FROM. */
static uint64_t read_references(struct jread *json)
{
    struct slice key;
    uint64_t child_of = 0, follows = 0, high;
    if (jread_peek(json) != '[') {
        jread_skip(json);
        return 0;
    }
    for (jread_array(json); jread_element(json);) {
        uint64_t id = 0;
        bool is_child = false;
        for (jread_object(json); jread_member(json, &key);) {
            if (slice_is(key, "spanID"))
                span_id_parse(jread_string(json), &high, &id);
            else if (slice_is(key, "refType"))
                is_child = slice_is(jread_string(json), "CHILD_OF");
            else
                jread_skip(json);
        }
        if (is_child && !child_of)
            child_of = id;
        else if (!is_child)
            follows = id;
    }
    return child_of ? child_of : follows;
}

/* Kind and error stand among the tags. */
static void read_conventions(struct span *span)
{
    static const struct {
        const char *name;
        uint8_t kind;
    } kinds[] = {{"server", SPAN_KIND_SERVER},
                 {"client", SPAN_KIND_CLIENT},
                 {"producer", SPAN_KIND_PRODUCER},
                 {"consumer", SPAN_KIND_CONSUMER},
                 {"internal", SPAN_KIND_INTERNAL}};
    for (size_t i = 0; i < span->attribute_count; i++) {
        const struct span_attribute *tag = &span->attributes[i];
        if (slice_is(tag->key, "span.kind")) {
            for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
                if (slice_is(tag->value, kinds[k].name))
                    span->kind = kinds[k].kind;
        } else if (slice_is(tag->key, "error")) {
            span->error = tag->value.length && !slice_is(tag->value, "false");
        } else if (slice_is(tag->key, "otel.status_code")) {
            span->error |= slice_is(tag->value, "ERROR");
        }
    }
}

static int read_span(struct decoder *d, struct jread *json)
{
    static const struct span_resource unknown = {.service = {"unknown_service", 15}};
    struct span span = {.attributes = d->attributes, .resource = &unknown};
    struct slice key, process = {0};
    uint64_t start_us = 0, duration_us = 0, ignored, parent = 0;
    bool timed = false;
    for (jread_object(json); jread_member(json, &key);) {
        if (slice_is(key, "traceID"))
            span_id_parse(jread_string(json), &span.trace_high, &span.trace_low);
        else if (slice_is(key, "spanID"))
            span_id_parse(jread_string(json), &ignored, &span.id);
        else if (slice_is(key, "parentSpanID"))
            span_id_parse(jread_string(json), &ignored, &parent);
        else if (slice_is(key, "operationName"))
            span.name = jread_string(json);
        else if (slice_is(key, "startTime"))
            start_us = jread_u64(json);
        else if (slice_is(key, "duration")) {
            duration_us = jread_u64(json);
            timed = true;
        } else if (slice_is(key, "references"))
            span.parent = read_references(json);
        else if (slice_is(key, "tags"))
            span.attribute_count = read_tags(json, d->attributes, d->sink);
        else if (slice_is(key, "processID"))
            process = jread_string(json);
        else
            jread_skip(json);
    }
    if (json->error < 0)
        return json->error;
    if (!span.parent)
        span.parent = parent;
    if (start_us > UINT64_MAX / 4000 || duration_us > UINT64_MAX / 4000)
        return jread_fail(json, "a time beyond the year 2100");
    span.start_ns = start_us * NS_PER_US;
    span.end_ns = timed ? (start_us + duration_us) * NS_PER_US : 0;
    array_foreach (&d->processes, p)
        if (slice_equal(p->id, process))
            span.resource = &p->resource;
    read_conventions(&span);
    return span_sink_put(d->sink, &span);
}

static int read_trace(struct decoder *d, struct jread *json)
{
    struct slice key;
    struct jread spans = {0};
    array_clear(&d->processes);
    for (jread_object(json); jread_member(json, &key);) {
        if (slice_is(key, "processes") && jread_peek(json) == '{') {
            int r = read_processes(d, json);
            if (r < 0)
                return r;
            continue;
        }
        if (slice_is(key, "spans") && jread_peek(json) == '[')
            spans = jread_at(json, json->at);
        jread_skip(json);
    }
    if (json->error < 0)
        return json->error;
    if (spans.at)
        for (jread_array(&spans); jread_element(&spans);) {
            int r = read_span(d, &spans);
            if (r < 0)
                return r;
        }
    int r = spans.error;
    arena_done(&d->scratch);
    return r;
}

static int read_document(struct decoder *d, struct jread *json)
{
    struct slice key;
    for (jread_object(json); jread_member(json, &key);) {
        if (!slice_is(key, "data")) {
            jread_skip(json);
            continue;
        }
        for (jread_array(json); jread_element(json);) {
            int r = read_trace(d, json);
            if (r < 0)
                return r;
        }
    }
    return json->error;
}

int jaeger_json_decode(const char *text, size_t length, struct span_sink *sink, struct problem *problem)
{
    struct decoder d = {.sink = sink};
    struct jread json;
    jread_init(&json, text, length, &d.scratch, problem);
    int r = read_document(&d, &json);
    array_done(&d.processes);
    arena_done(&d.scratch);
    return r;
}
