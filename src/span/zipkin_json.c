/* Zipkin's v2 JSON. Times are microseconds. Client and server may share one span id ("shared"): the server's
 * half gets an id of its own then, and trace_link() puts it below the client's, if that ever came. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/trace_json.h"

#include <errno.h>

#include "base/clock.h"
#include "span/jread.h"

static void read_endpoint(struct jread *json, struct span_resource *resource)
{
    struct slice key;
    if (jread_peek(json) != '{') {
        jread_skip(json);
        return;
    }
    for (jread_object(json); jread_member(json, &key);) {
        if (slice_is(key, "serviceName"))
            resource->service = jread_string(json);
        else if (slice_is(key, "ipv4"))
            resource->host = jread_string(json);
        else
            jread_skip(json);
    }
}

static uint8_t kind_of(struct slice text)
{
    return slice_is(text, "CLIENT")     ? SPAN_KIND_CLIENT
           : slice_is(text, "SERVER")   ? SPAN_KIND_SERVER
           : slice_is(text, "PRODUCER") ? SPAN_KIND_PRODUCER
           : slice_is(text, "CONSUMER") ? SPAN_KIND_CONSUMER
                                        : SPAN_KIND_UNSPECIFIED;
}

static size_t read_tags(struct jread *json, struct span_attribute *tags, struct span_sink *sink)
{
    size_t n = 0;
    struct slice key;
    for (jread_object(json); jread_member(json, &key);) {
        struct slice value = jread_string(json);
        if (n == SPAN_ATTRIBUTES_MAX)
            sink->counts.attributes_dropped++;
        else
            tags[n++] = (struct span_attribute){key, value};
    }
    return n;
}

static int read_span(struct span_sink *sink, struct jread *json)
{
    struct span_attribute tags[SPAN_ATTRIBUTES_MAX];
    struct span_resource resource = {.attributes = tags};
    struct span span = {.resource = &resource, .attributes = tags};
    struct slice key;
    uint64_t start_us = 0, duration_us = 0, ignored;
    bool timed = false, shared = false;
    for (jread_object(json); jread_member(json, &key);) {
        if (slice_is(key, "traceId"))
            span_id_parse(jread_string(json), &span.trace_high, &span.trace_low);
        else if (slice_is(key, "id"))
            span_id_parse(jread_string(json), &ignored, &span.id);
        else if (slice_is(key, "parentId"))
            span_id_parse(jread_string(json), &ignored, &span.parent);
        else if (slice_is(key, "name"))
            span.name = jread_string(json);
        else if (slice_is(key, "kind"))
            span.kind = kind_of(jread_string(json));
        else if (slice_is(key, "timestamp"))
            start_us = jread_u64(json);
        else if (slice_is(key, "duration")) {
            duration_us = jread_u64(json);
            timed = true;
        } else if (slice_is(key, "shared"))
            shared = jread_boolean(json);
        else if (slice_is(key, "localEndpoint"))
            read_endpoint(json, &resource);
        else if (slice_is(key, "tags") && jread_peek(json) == '{')
            span.attribute_count = read_tags(json, tags, sink);
        else
            jread_skip(json);
    }
    if (json->error < 0)
        return json->error;
    if (start_us > UINT64_MAX / 4000 || duration_us > UINT64_MAX / 4000)
        return jread_fail(json, "a time beyond the year 2100");
    for (size_t i = 0; i < span.attribute_count; i++)
        span.error |= slice_is(tags[i].key, "error");
    /* Zipkin has no resource: the tags name version and host where they are set. */
    struct slice address = resource.host;
    resource.attribute_count = span.attribute_count;
    resource.host = (struct slice){0};
    span_resource_conventions(&resource);
    if (!resource.host.length)
        resource.host = address;
    span.attribute_count = 0;
    if (shared && span.kind == SPAN_KIND_SERVER) {
        span.shared = true;
        span.id ^= SPAN_SHARED_BIT;
    }
    span.start_ns = start_us * NS_PER_US;
    span.end_ns = timed ? (start_us + duration_us) * NS_PER_US : 0;
    return span_sink_put(sink, &span);
}

int zipkin_json_decode(const char *text, size_t length, struct span_sink *sink, struct problem *problem)
{
    struct arena scratch = {0};
    struct jread json;
    jread_init(&json, text, length, &scratch, problem);
    int r = 0;
    for (jread_array(&json); r == 0 && jread_element(&json);) {
        if (jread_peek(&json) != '[') {
            r = read_span(sink, &json);
            continue;
        }
        for (jread_array(&json); r == 0 && jread_element(&json);)
            r = read_span(sink, &json);
    }
    arena_done(&scratch);
    return r < 0 ? r : json.error;
}
