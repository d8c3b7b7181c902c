/* What all span decoders share: identifiers, conventions, the checks before a sink. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/span.h"

#include "base/macro.h"
#include "base/map.h"
#include "base/text.h"

int span_sink_put(struct span_sink *sink, struct span *span)
{
    if ((!span->trace_high && !span->trace_low) || !span->id) {
        sink->counts.without_id++;
        return 0;
    }
    if (!span->end_ns || span->end_ns > INT64_MAX || span->start_ns > INT64_MAX) {
        sink->counts.without_time++;
        return 0;
    }
    if (span->end_ns < span->start_ns) {
        sink->counts.backwards++;
        span->end_ns = span->start_ns;
    }
    if (span->parent == span->id)
        span->parent = 0;
    sink->counts.spans++;
    return sink->take(sink->context, span);
}

/* The first key present wins. */
static const char *const VERSION_KEYS[] = {"service.version", "version", "deployment.version", NULL};
static const char *const HOST_KEYS[] = {
    "host.name", "k8s.node.name",       "hostname",     "host", "k8s.pod.name", "host.id",
    "ip",        "service.instance.id", "container.id", NULL};

static struct slice first_of(const struct span_resource *resource, const char *const *keys)
{
    for (; *keys; keys++) {
        struct slice key = slice_of(*keys);
        for (size_t i = 0; i < resource->attribute_count; i++)
            if (slice_equal(resource->attributes[i].key, key) && resource->attributes[i].value.length)
                return resource->attributes[i].value;
    }
    return (struct slice){0};
}

void span_resource_conventions(struct span_resource *resource)
{
    static uint64_t serial;
    static const char *const service_keys[] = {"service.name", NULL};
    if (!resource->service.length)
        resource->service = first_of(resource, service_keys);
    if (!resource->service.length)
        resource->service = SLICE("unknown_service");
    if (!resource->version.length)
        resource->version = first_of(resource, VERSION_KEYS);
    if (!resource->host.length)
        resource->host = first_of(resource, HOST_KEYS);
    resource->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
}

void span_id_parse(struct slice text, uint64_t *ret_high, uint64_t *ret_low)
{
    uint64_t high = 0, low = 0;
    bool hex = text.length <= 32;
    for (size_t i = 0; hex && i < text.length; i++) {
        int digit = text_hex_digit(text.at[i]);
        if (digit < 0) {
            hex = false;
            break;
        }
        high = high << 4 | low >> 60;
        low = low << 4 | (unsigned)digit;
    }
    if (!hex) {
        high = 0;
        low = map_hash(text.at, text.length);
    }
    *ret_high = high;
    *ret_low = low;
}
