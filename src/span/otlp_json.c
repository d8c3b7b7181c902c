/* OTLP as JSON: ids are hexadecimal, 64-bit integers are strings, enumerations are numbers (names are read
 * too). Members come in any order, so a resource's spans are read after the resource. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/otlp.h"

#include <errno.h>

#include "span/json_attributes.h"

struct decoder {
    struct span_sink *sink;
    struct span_resource resource;
    struct span_attribute resource_attributes[SPAN_ATTRIBUTES_MAX];
    struct span_attribute attributes[SPAN_ATTRIBUTES_MAX];
};

/* {"stringValue": "x"}, {"intValue": "1"}, ...: the text of whichever is there. */
static struct slice read_value(struct jread *json)
{
    struct slice key, value = {0};
    if (jread_peek(json) != '{')
        return jread_string(json);
    for (jread_object(json); jread_member(json, &key);)
        value = jread_string(json);
    return value;
}

static uint8_t read_kind(struct jread *json)
{
    static const char *const names[] = {"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER",
                                        "SPAN_KIND_CLIENT",      "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"};
    struct slice text = jread_string(json);
    if (text.length == 1 && text.at[0] >= '0' && text.at[0] <= '5')
        return (uint8_t)(text.at[0] - '0');
    for (uint8_t i = 0; i < 6; i++)
        if (slice_is(text, names[i]))
            return i;
    return SPAN_KIND_UNSPECIFIED;
}

static uint8_t read_status(struct jread *json)
{
    struct slice key;
    uint8_t status = SPAN_STATUS_UNSET;
    for (jread_object(json); jread_member(json, &key);) {
        if (!slice_is(key, "code")) {
            jread_skip(json);
            continue;
        }
        struct slice code = jread_string(json);
        status = slice_is(code, "2") || slice_is(code, "STATUS_CODE_ERROR") ? SPAN_STATUS_ERROR
                 : slice_is(code, "1") || slice_is(code, "STATUS_CODE_OK")  ? SPAN_STATUS_OK
                                                                            : SPAN_STATUS_UNSET;
    }
    return status;
}

/* Whether one of the events is an exception. */
static bool read_events(struct jread *json)
{
    struct slice key;
    bool exception = false;
    for (jread_array(json); jread_element(json);)
        for (jread_object(json); jread_member(json, &key);) {
            if (slice_is(key, "name"))
                exception |= slice_is(jread_string(json), SPAN_EVENT_EXCEPTION);
            else
                jread_skip(json);
        }
    return exception;
}

static int read_span(struct decoder *d, struct jread *json)
{
    struct span span = {.resource = &d->resource, .attributes = d->attributes};
    struct span_outcome outcome = {0};
    struct slice key;
    uint64_t ignored;
    for (jread_object(json); jread_member(json, &key);) {
        if (slice_is(key, "traceId"))
            span_id_parse(jread_string(json), &span.trace_high, &span.trace_low);
        else if (slice_is(key, "spanId"))
            span_id_parse(jread_string(json), &ignored, &span.id);
        else if (slice_is(key, "parentSpanId"))
            span_id_parse(jread_string(json), &ignored, &span.parent);
        else if (slice_is(key, "name"))
            span.name = jread_string(json);
        else if (slice_is(key, "kind"))
            span.kind = read_kind(json);
        else if (slice_is(key, "startTimeUnixNano"))
            span.start_ns = jread_u64(json);
        else if (slice_is(key, "endTimeUnixNano"))
            span.end_ns = jread_u64(json);
        else if (slice_is(key, "attributes"))
            span.attribute_count = json_attributes(json, read_value, d->attributes, d->sink);
        else if (slice_is(key, "status"))
            outcome.status = read_status(json);
        else if (slice_is(key, "events"))
            outcome.exception = read_events(json);
        else
            jread_skip(json);
    }
    span.error = span_outcome_failed(outcome);
    return json->error < 0 ? json->error : span_sink_put(d->sink, &span);
}

/* An array of scopes, each with its "spans". */
static int read_scopes(struct decoder *d, struct jread *json)
{
    struct slice key;
    for (jread_array(json); jread_element(json);)
        for (jread_object(json); jread_member(json, &key);) {
            if (!slice_is(key, "spans")) {
                jread_skip(json);
                continue;
            }
            for (jread_array(json); jread_element(json);) {
                int r = read_span(d, json);
                if (r < 0)
                    return r;
            }
        }
    return json->error;
}

static int read_resource_spans(struct decoder *d, struct jread *json)
{
    struct slice key;
    struct jread scopes = {0};
    d->resource = (struct span_resource){.attributes = d->resource_attributes};
    for (jread_object(json); jread_member(json, &key);) {
        if (slice_is(key, "resource")) {
            for (jread_object(json); jread_member(json, &key);)
                if (slice_is(key, "attributes"))
                    d->resource.attribute_count =
                        json_attributes(json, read_value, d->resource_attributes, d->sink);
                else
                    jread_skip(json);
            continue;
        }
        if (slice_is(key, "scopeSpans") || slice_is(key, "instrumentationLibrarySpans")) {
            jread_peek(json);
            scopes = jread_at(json, json->at);
        }
        jread_skip(json);
    }
    if (json->error < 0 || !scopes.at)
        return json->error;
    span_resource_conventions(&d->resource);
    int r = read_scopes(d, &scopes);
    return r < 0 ? r : json->error;
}

static int read_request(struct decoder *d, struct jread *json)
{
    struct slice key;
    for (jread_object(json); jread_member(json, &key);) {
        if (!slice_is(key, "resourceSpans")) {
            jread_skip(json);
            continue;
        }
        for (jread_array(json); jread_element(json);) {
            int r = read_resource_spans(d, json);
            if (r < 0)
                return r;
        }
    }
    return json->error;
}

/* Of the text that begins at `begin`, where lines and bytes of faults are counted from. */
static int decode_documents(const char *begin, const char *text, size_t length, struct span_sink *sink,
                            struct problem *problem)
{
    struct arena scratch = {0};
    struct jread json;
    struct decoder d;
    d.sink = sink;
    jread_init(&json, begin, (size_t)(text + length - begin), &scratch, problem);
    json = jread_at(&json, text);
    int r = 0;
    while (r == 0) {
        while (json.at < json.end && (unsigned char)*json.at <= ' ')
            json.at++;
        if (json.at >= json.end)
            break;
        r = read_request(&d, &json);
        if (scratch.held_bytes > (1u << 20))
            arena_done(&scratch);
    }
    arena_done(&scratch);
    return r;
}

int otlp_json_decode(const char *text, size_t length, struct span_sink *sink, struct problem *problem)
{
    return decode_documents(text, text, length, sink, problem);
}

int otlp_json_decode_lines(const char *text, size_t length, struct span_sink *sink, struct problem *problem)
{
    const char *end = text + length, *newline = memchr(text, '\n', length);
    struct span_counts ignored;
    uint64_t lines = 0, bad = 0;
    size_t first = newline ? (size_t)(newline - text) : length;
    const char *second = newline ? memchr(newline + 1, '\n', (size_t)(end - newline - 1)) : NULL;
    bool by_line =
        newline &&
        (otlp_json_check(text, first, &ignored, NULL) == 0 ||
         (second && otlp_json_check(newline + 1, (size_t)(second - newline - 1), &ignored, NULL) == 0));
    if (!by_line)
        return decode_documents(text, text, length, sink, problem);
    for (const char *at = text; at < end; at = newline + 1) {
        newline = memchr(at, '\n', (size_t)(end - at));
        newline = newline ? newline : end;
        int r = decode_documents(text, at, (size_t)(newline - at), sink, bad ? NULL : problem);
        lines++;
        if (r == -ENOMEM)
            return r;
        bad += r < 0;
    }
    sink->counts.malformed += bad;
    return bad == lines ? -EINVAL : 0;
}

static int take_nothing(void *context, const struct span *span)
{
    return 0;
}

int otlp_json_check(const char *text, size_t length, struct span_counts *ret_counts, struct problem *problem)
{
    struct span_sink sink = {.take = take_nothing};
    int r = otlp_json_decode(text, length, &sink, problem);
    if (r == 0)
        *ret_counts = sink.counts;
    return r;
}
