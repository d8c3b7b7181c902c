/* See batch.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/batch.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "span/files.h"
#include "span/journal.h"
#include "span/otlp.h"

enum { BYTES_A_SPAN = 256, BYTES_AN_ATTRIBUTE = 48 }; /* of a request, to begin with */

/* A string: in the request, or behind it in the batch's own text. */
struct place {
    uint32_t at, length;
};

struct kept_attribute {
    struct place key, value;
};

struct kept_resource {
    uint64_t serial;
    struct place service, version, host;
    uint32_t first, count; /* attributes */
};

struct kept_span {
    uint64_t trace_high, trace_low, id, parent, start_ns, end_ns;
    struct place name;
    uint32_t resource;
    uint32_t first; /* attribute */
    uint16_t count;
    uint8_t kind;
    bool error : 1, shared : 1;
};

struct span_batch {
    unsigned references;
    uint32_t kind; /* of the bytes: without JOURNAL_GZIP */
    char *bytes;
    size_t length, keep_bytes;
    bool kept; /* what follows is complete */
    ARRAY(struct kept_span) spans;
    ARRAY(struct kept_attribute) attributes;
    ARRAY(struct kept_resource) resources;
    struct text own; /* strings that the request has not as they are: numbers, escapes */
    struct span_counts counts;
};

static int decode(const struct span_batch *batch, struct span_sink *sink, struct problem *problem)
{
    return batch->kind == JOURNAL_OTLP_JSON
               ? otlp_json_decode(batch->bytes, batch->length, sink, problem)
               : otlp_protobuf_decode(batch->bytes, batch->length, sink, problem);
}

static size_t decoded_bytes(const struct span_batch *batch)
{
    return batch->spans.count * sizeof(*batch->spans.at) +
           batch->attributes.count * sizeof(*batch->attributes.at) +
           batch->resources.count * sizeof(*batch->resources.at) + batch->own.length;
}

static void drop_spans(struct span_batch *batch)
{
    batch->kept = false;
    array_done(&batch->spans);
    array_done(&batch->attributes);
    array_done(&batch->resources);
    text_done(&batch->own);
}

static struct place place_of(struct span_batch *batch, struct slice string)
{
    uintptr_t at = (uintptr_t)string.at, begin = (uintptr_t)batch->bytes;
    if (!string.length)
        return (struct place){0};
    if (at >= begin && at < begin + batch->length)
        return (struct place){(uint32_t)(at - begin), (uint32_t)string.length};
    struct place place = {(uint32_t)(batch->length + batch->own.length), (uint32_t)string.length};
    text_add_bytes(&batch->own, string.at, string.length);
    return place;
}

static struct slice string_at(const struct span_batch *batch, struct place place)
{
    const char *at =
        place.at < batch->length ? batch->bytes + place.at : batch->own.at + (place.at - batch->length);
    return place.length ? (struct slice){at, place.length} : SLICE("");
}

static int keep_attributes(struct span_batch *batch, const struct span_attribute *from, size_t count)
{
    if (array_reserve(&batch->attributes, batch->attributes.count + count) < 0)
        return -ENOMEM;
    struct kept_attribute *to = batch->attributes.at + batch->attributes.count;
    for (size_t i = 0; i < count; i++)
        to[i] = (struct kept_attribute){place_of(batch, from[i].key), place_of(batch, from[i].value)};
    batch->attributes.count += count;
    return 0;
}

static int keep_resource(struct span_batch *batch, const struct span_resource *from)
{
    struct kept_resource resource = {.serial = from->serial,
                                     .service = place_of(batch, from->service),
                                     .version = place_of(batch, from->version),
                                     .host = place_of(batch, from->host),
                                     .first = (uint32_t)batch->attributes.count,
                                     .count = (uint32_t)from->attribute_count};
    int r = keep_attributes(batch, from->attributes, from->attribute_count);
    return r < 0 ? r : array_add(&batch->resources, resource);
}

static int keep_span(struct span_batch *batch, const struct span *span)
{
    size_t n = batch->resources.count;
    if ((n == 0 || batch->resources.at[n - 1].serial != span->resource->serial) &&
        keep_resource(batch, span->resource) < 0)
        return -ENOMEM;
    struct kept_span kept = {.trace_high = span->trace_high,
                             .trace_low = span->trace_low,
                             .id = span->id,
                             .parent = span->parent,
                             .start_ns = span->start_ns,
                             .end_ns = span->end_ns,
                             .name = place_of(batch, span->name),
                             .resource = (uint32_t)batch->resources.count - 1,
                             .first = (uint32_t)batch->attributes.count,
                             .count = (uint16_t)span->attribute_count,
                             .kind = span->kind,
                             .error = span->error,
                             .shared = span->shared};
    int r = keep_attributes(batch, span->attributes, span->attribute_count);
    return r < 0 ? r : array_add(&batch->spans, kept);
}

/* What cannot be kept is decoded again by whoever reads it. */
static int take(void *context, const struct span *span)
{
    struct span_batch *batch = context;
    if (batch->kept &&
        (keep_span(batch, span) < 0 || batch->own.failed || batch->length + batch->own.length > UINT32_MAX ||
         decoded_bytes(batch) > batch->keep_bytes))
        drop_spans(batch);
    return 0;
}

static int unpack(struct span_batch *batch, uint32_t kind, const void *payload, size_t length)
{
    if (kind & JOURNAL_GZIP)
        return span_gunzip(payload, length, JOURNAL_UNPACKED_MAX, &batch->bytes, &batch->length);
    batch->bytes = malloc(length + 1);
    if (!batch->bytes)
        return -ENOMEM;
    if (length)
        memcpy(batch->bytes, payload, length);
    batch->length = length;
    return 0;
}

int span_batch_new(uint32_t kind, const void *payload, size_t length, struct span_batch **ret_batch)
{
    struct span_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return -ENOMEM;
    batch->references = 1;
    batch->kind = kind & 0xff;
    int r = unpack(batch, kind, payload, length);
    if (r < 0) {
        span_batch_unref(batch);
        return r;
    }
    *ret_batch = batch;
    return 0;
}

int span_batch_decode(struct span_batch *batch, size_t keep_bytes, struct problem *problem)
{
    struct span_sink sink = {.take = take, .context = batch};
    size_t spans = MIN(batch->length / BYTES_A_SPAN, keep_bytes / sizeof(struct kept_span)),
           attributes = MIN(batch->length / BYTES_AN_ATTRIBUTE, keep_bytes / sizeof(struct kept_attribute));
    batch->keep_bytes = keep_bytes;
    batch->kept = batch->length <= UINT32_MAX && array_reserve(&batch->spans, spans + 1) == 0 &&
                  array_reserve(&batch->attributes, attributes + 1) == 0;
    int r = decode(batch, &sink, problem);
    batch->counts = sink.counts;
    if (r < 0)
        drop_spans(batch);
    return r;
}

struct span_batch *span_batch_ref(struct span_batch *batch)
{
    __atomic_add_fetch(&batch->references, 1, __ATOMIC_RELAXED);
    return batch;
}

void span_batch_unref(struct span_batch *batch)
{
    if (!batch || __atomic_sub_fetch(&batch->references, 1, __ATOMIC_ACQ_REL))
        return;
    drop_spans(batch);
    free(batch->bytes);
    free(batch);
}

const struct span_counts *span_batch_counts(const struct span_batch *batch)
{
    return &batch->counts;
}

size_t span_batch_unpacked_bytes(const struct span_batch *batch)
{
    return batch->length;
}

size_t span_batch_held_bytes(const struct span_batch *batch)
{
    return sizeof(*batch) + batch->length + batch->spans.capacity * sizeof(*batch->spans.at) +
           batch->attributes.capacity * sizeof(*batch->attributes.at) +
           batch->resources.capacity * sizeof(*batch->resources.at) + batch->own.capacity;
}

bool span_batch_is_kept(const struct span_batch *batch)
{
    return batch->kept;
}

static void read_attributes(const struct span_batch *batch, uint32_t first, size_t count,
                            struct span_attribute to[SPAN_ATTRIBUTES_MAX])
{
    const struct kept_attribute *from = batch->attributes.at + first;
    for (size_t i = 0; i < count; i++)
        to[i] = (struct span_attribute){string_at(batch, from[i].key), string_at(batch, from[i].value)};
}

static void read_resource(const struct span_batch *batch, const struct kept_resource *from,
                          struct span_attribute attributes[SPAN_ATTRIBUTES_MAX], struct span_resource *to)
{
    *to = (struct span_resource){.serial = from->serial,
                                 .service = string_at(batch, from->service),
                                 .version = string_at(batch, from->version),
                                 .host = string_at(batch, from->host),
                                 .attributes = attributes,
                                 .attribute_count = from->count};
    read_attributes(batch, from->first, from->count, attributes);
}

int span_batch_read(const struct span_batch *batch, struct span_sink *sink)
{
    struct span_attribute resource_attributes[SPAN_ATTRIBUTES_MAX], attributes[SPAN_ATTRIBUTES_MAX];
    struct span_resource resource = {0};
    uint32_t current = UINT32_MAX;
    if (!batch->kept)
        return decode(batch, sink, NULL);
    sink->counts.without_id += batch->counts.without_id;
    sink->counts.without_time += batch->counts.without_time;
    sink->counts.backwards += batch->counts.backwards;
    sink->counts.attributes_dropped += batch->counts.attributes_dropped;
    array_foreach (&batch->spans, s) {
        if (s->resource != current)
            read_resource(batch, &batch->resources.at[s->resource], resource_attributes, &resource);
        current = s->resource;
        read_attributes(batch, s->first, s->count, attributes);
        struct span span = {.trace_high = s->trace_high,
                            .trace_low = s->trace_low,
                            .id = s->id,
                            .parent = s->parent,
                            .start_ns = s->start_ns,
                            .end_ns = s->end_ns,
                            .name = string_at(batch, s->name),
                            .kind = s->kind,
                            .error = s->error,
                            .shared = s->shared,
                            .resource = &resource,
                            .attributes = attributes,
                            .attribute_count = s->count};
        sink->counts.spans++;
        int r = sink->take(sink->context, &span);
        if (r < 0)
            return r;
    }
    return 0;
}
