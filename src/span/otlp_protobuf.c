/* OTLP's protobuf, read where it lies. Field numbers are those of opentelemetry/proto/trace/v1/trace.proto:
 *
 *     ExportTraceServiceRequest  1 resource_spans
 *     ResourceSpans              1 resource, 2 scope_spans
 *     Resource                   1 attributes
 *     ScopeSpans                 2 spans
 *     Span                       1 trace_id, 2 span_id, 4 parent_span_id, 5 name, 6 kind, 7 start (fixed64),
 *                                8 end (fixed64), 9 attributes, 11 events, 15 status
 *     Event                      2 name
 *     KeyValue                   1 key, 2 value
 *     AnyValue                   1 string, 2 bool, 3 int, 4 double, 5 array, 6 list, 7 bytes
 *     Status                     3 code
 *
 * Everything else is skipped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/otlp.h"

#include <errno.h>
#include <stdio.h>

/* The bytes of one message that are still unread. */
struct wire {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    uint32_t type; /* 0 varint, 1 fixed64, 2 bytes, 5 fixed32 */
    uint64_t number_value;
    struct wire bytes;
};

/* Text of one number or boolean attribute. */
struct number_text {
    char at[32];
};

struct decoder {
    struct span_sink *sink;
    struct span_resource resource;
    struct span_attribute resource_attributes[SPAN_ATTRIBUTES_MAX];
    struct span_attribute attributes[SPAN_ATTRIBUTES_MAX];
    struct number_text resource_numbers[SPAN_ATTRIBUTES_MAX];
    struct number_text numbers[SPAN_ATTRIBUTES_MAX];
};

static inline int read_varint(struct wire *wire, uint64_t *ret_value)
{
    const uint8_t *at = wire->at;
    if (at < wire->end && *at < 128) {
        *ret_value = *at;
        wire->at = at + 1;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; at < wire->end && shift < 64; shift += 7) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            wire->at = at;
            *ret_value = value;
            return 0;
        }
    }
    return -EBADMSG;
}

/* 1 and a field, 0 at the end of the message, -EBADMSG. */
static inline int next_field(struct wire *wire, struct field *ret_field)
{
    if (wire->at >= wire->end)
        return 0;
    uint64_t tag;
    if (read_varint(wire, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return -EBADMSG;
    ret_field->number = (uint32_t)(tag >> 3);
    ret_field->type = tag & 7;
    size_t left;
    uint64_t length;
    switch (ret_field->type) {
    case 0:
        return read_varint(wire, &ret_field->number_value) < 0 ? -EBADMSG : 1;
    case 1:
        left = (size_t)(wire->end - wire->at);
        if (left < 8)
            return -EBADMSG;
        memcpy(&ret_field->number_value, wire->at, 8);
        wire->at += 8;
        return 1;
    case 2:
        if (read_varint(wire, &length) < 0 || length > (size_t)(wire->end - wire->at))
            return -EBADMSG;
        ret_field->bytes = (struct wire){wire->at, wire->at + length};
        wire->at += length;
        return 1;
    case 5:
        if (wire->end - wire->at < 4)
            return -EBADMSG;
        wire->at += 4;
        return 1;
    default:
        return -EBADMSG;
    }
}

static struct slice slice_from(struct wire bytes)
{
    return (struct slice){(const char *)bytes.at, (size_t)(bytes.end - bytes.at)};
}

/* Up to 16 big-endian bytes. */
static void read_id(struct wire bytes, uint64_t *ret_high, uint64_t *ret_low)
{
    uint64_t high = 0, low = 0;
    for (int i = 0; bytes.at < bytes.end && i < 16; bytes.at++, i++) {
        high = high << 8 | low >> 56;
        low = low << 8 | *bytes.at;
    }
    *ret_high = high;
    *ret_low = low;
}

static int read_value(struct wire value, struct number_text *text, struct slice *ret_value)
{
    struct field f = {0};
    int r, length = 0;
    *ret_value = (struct slice){0};
    while ((r = next_field(&value, &f)) > 0) {
        if (f.number == 1 && f.type == 2) {
            *ret_value = slice_from(f.bytes);
            continue;
        }
        double real;
        if (f.number == 2 && f.type == 0)
            length = snprintf(text->at, sizeof(text->at), "%s", f.number_value ? "true" : "false");
        else if (f.number == 3 && f.type == 0)
            length = snprintf(text->at, sizeof(text->at), "%lld", (long long)f.number_value);
        else if (f.number == 4 && f.type == 1) {
            memcpy(&real, &f.number_value, 8);
            length = snprintf(text->at, sizeof(text->at), "%.15g", real);
        } else {
            continue;
        }
        *ret_value = (struct slice){text->at, (size_t)length};
    }
    return r;
}

static int read_attribute(struct wire pair, struct span_attribute *attribute, struct number_text *text)
{
    struct field f = {0};
    int r;
    *attribute = (struct span_attribute){0};
    while ((r = next_field(&pair, &f)) > 0) {
        if (f.type != 2)
            continue;
        if (f.number == 1)
            attribute->key = slice_from(f.bytes);
        else if (f.number == 2 && (r = read_value(f.bytes, text, &attribute->value)) < 0)
            return r;
    }
    return r;
}

static int read_resource(struct decoder *d, struct wire resource)
{
    struct field f = {0};
    int r;
    size_t n = 0;
    d->resource = (struct span_resource){.attributes = d->resource_attributes};
    while ((r = next_field(&resource, &f)) > 0) {
        if (f.number != 1 || f.type != 2)
            continue;
        if (n == SPAN_ATTRIBUTES_MAX) {
            d->sink->counts.attributes_dropped++;
            continue;
        }
        r = read_attribute(f.bytes, &d->resource_attributes[n], &d->resource_numbers[n]);
        if (r < 0)
            return r;
        n++;
    }
    d->resource.attribute_count = n;
    return r;
}

static int read_status(struct wire status, struct span_outcome *outcome)
{
    struct field f = {0};
    int r;
    while ((r = next_field(&status, &f)) > 0)
        if (f.number == 3 && f.type == 0)
            outcome->status = f.number_value <= SPAN_STATUS_ERROR ? (uint8_t)f.number_value : 0;
    return r;
}

static int read_event(struct wire event, struct span_outcome *outcome)
{
    struct field f = {0};
    int r;
    while ((r = next_field(&event, &f)) > 0)
        if (f.number == 2 && f.type == 2)
            outcome->exception |= slice_is(slice_from(f.bytes), SPAN_EVENT_EXCEPTION);
    return r;
}

static int read_span(struct decoder *d, struct wire bytes)
{
    struct span span = {.resource = &d->resource, .attributes = d->attributes};
    struct span_outcome outcome = {0};
    struct field f = {0};
    uint64_t ignored;
    size_t n = 0;
    int r;
    while ((r = next_field(&bytes, &f)) > 0) {
        switch (f.number << 3 | f.type) {
        case 1 << 3 | 2:
            read_id(f.bytes, &span.trace_high, &span.trace_low);
            break;
        case 2 << 3 | 2:
            read_id(f.bytes, &ignored, &span.id);
            break;
        case 4 << 3 | 2:
            read_id(f.bytes, &ignored, &span.parent);
            break;
        case 5 << 3 | 2:
            span.name = slice_from(f.bytes);
            break;
        case 6 << 3 | 0:
            span.kind = f.number_value <= SPAN_KIND_CONSUMER ? (uint8_t)f.number_value : 0;
            break;
        case 7 << 3 | 1:
            span.start_ns = f.number_value;
            break;
        case 8 << 3 | 1:
            span.end_ns = f.number_value;
            break;
        case 9 << 3 | 2:
            if (n == SPAN_ATTRIBUTES_MAX) {
                d->sink->counts.attributes_dropped++;
                break;
            }
            r = read_attribute(f.bytes, &d->attributes[n], &d->numbers[n]);
            if (r < 0)
                return r;
            n++;
            break;
        case 11 << 3 | 2:
            r = read_event(f.bytes, &outcome);
            if (r < 0)
                return r;
            break;
        case 15 << 3 | 2:
            r = read_status(f.bytes, &outcome);
            if (r < 0)
                return r;
            break;
        default:
            break;
        }
    }
    if (r < 0)
        return r;
    span.attribute_count = n;
    span.error = span_outcome_failed(outcome);
    return span_sink_put(d->sink, &span);
}

static int read_scope_spans(struct decoder *d, struct wire bytes)
{
    struct field f = {0};
    int r;
    while ((r = next_field(&bytes, &f)) > 0)
        if (f.number == 2 && f.type == 2 && (r = read_span(d, f.bytes)) < 0)
            return r;
    return r;
}

/* Twice over the fields: the resource may stand behind the spans that it describes. */
static int read_resource_spans(struct decoder *d, struct wire bytes)
{
    struct wire again = bytes;
    struct field f = {0};
    int r;
    d->resource = (struct span_resource){.attributes = d->resource_attributes};
    while ((r = next_field(&bytes, &f)) > 0)
        if (f.number == 1 && f.type == 2 && (r = read_resource(d, f.bytes)) < 0)
            return r;
    if (r < 0)
        return r;
    span_resource_conventions(&d->resource);
    while ((r = next_field(&again, &f)) > 0)
        if (f.number == 2 && f.type == 2 && (r = read_scope_spans(d, f.bytes)) < 0)
            return r;
    return r;
}

int otlp_protobuf_decode(const void *bytes, size_t length, struct span_sink *sink, struct problem *problem)
{
    struct wire request = {bytes, (const uint8_t *)bytes + length};
    struct decoder d;
    struct field f = {0};
    int r;
    d.sink = sink;
    while ((r = next_field(&request, &f)) > 0)
        if (f.number == 1 && f.type == 2 && (r = read_resource_spans(&d, f.bytes)) < 0)
            break;
    if (r == -EBADMSG)
        return problem_set(problem, r, "OTLP protobuf: malformed message near byte %zu of %zu",
                           (size_t)(request.at - (const uint8_t *)bytes), length);
    return r;
}

static int take_nothing(void *context, const struct span *span)
{
    return 0;
}

int otlp_protobuf_check(const void *bytes, size_t length, struct span_counts *ret_counts,
                        struct problem *problem)
{
    struct span_sink sink = {.take = take_nothing};
    int r = otlp_protobuf_decode(bytes, length, &sink, problem);
    if (r == 0)
        *ret_counts = sink.counts;
    return r;
}
