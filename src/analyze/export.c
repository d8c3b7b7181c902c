/* See export.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/export.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/map.h"

enum { DEPTH_MAX = 64, NAME_MAX_BYTES = 160, SUMMARY_BYTES = 256 };

struct exporter {
    const struct export_settings *settings;
    struct span_sink *sink;
    uint64_t trace_high, trace_low;
    uint64_t last_id;
};

static uint8_t kind_of(const struct vspan *span)
{
    switch (span->kind) {
    case VSPAN_request:
        return SPAN_KIND_SERVER;
    case VSPAN_http:
    case VSPAN_command:
    case VSPAN_other:
        return SPAN_KIND_CLIENT;
    default:
        return SPAN_KIND_INTERNAL;
    }
}

/* What stays the same from request to request: no addresses, no keys. */
static void name_of(const struct request *request, const struct vspan *span, char *name, size_t size)
{
    if (span->kind == VSPAN_request)
        snprintf(name, size, "%s %s", request->method ? request->method : "?",
                 request->route ? request->route : "?");
    else
        snprintf(name, size, "%s %s", layer_name(span), span->name ? span->name : "?");
}

/* db.query.summary of OpenTelemetry's semantic conventions: what is done, and to which tables. */
static size_t summary_of(const char *statement, char *summary, size_t size)
{
    static const char *const DONE[] = {"select", "insert", "update", "delete", "with",   "call",
                                       "create", "alter",  "drop",   "merge",  "replace"};
    static const char *const BEFORE_TABLE[] = {"from", "into", "update", "join", "table"};
    size_t length = 0;
    bool table = false;
    for (const char *p = statement; *p;) {
        size_t n = strcspn(p, " (),;");
        bool done = false, before = false;
        for (size_t i = 0; i < ARRAY_SIZE(DONE); i++)
            done |= n == strlen(DONE[i]) && strncasecmp(p, DONE[i], n) == 0;
        for (size_t i = 0; i < ARRAY_SIZE(BEFORE_TABLE); i++)
            before |= n == strlen(BEFORE_TABLE[i]) && strncasecmp(p, BEFORE_TABLE[i], n) == 0;
        bool name = table && n && *p != '?' && !before;
        if ((done || name || !length) && n && length + n + 1 < size) {
            if (length)
                summary[length++] = ' ';
            memcpy(summary + length, p, n);
            length += n;
        }
        table = n ? before : table && *p == ' ';
        p += n ? n : 1;
    }
    return length;
}

static int put(struct exporter *e, const struct request *request, const struct vspan *vspan, uint64_t id,
               uint64_t parent, const struct span_resource *resource)
{
    char name[NAME_MAX_BYTES];
    uint64_t offset = e->settings->realtime_offset_ns;
    name_of(request, vspan, name, sizeof(name));
    char summary[SUMMARY_BYTES];
    struct span_attribute attributes[4] = {{SLICE("sonde.layer"), slice_of(layer_name(vspan))}};
    size_t count = 1;
    if (vspan->statement) {
        size_t length = summary_of(vspan->statement, summary, sizeof(summary));
        attributes[count++] = (struct span_attribute){SLICE("db.system.name"), slice_of(layer_name(vspan))};
        attributes[count++] = (struct span_attribute){SLICE("db.query.text"), slice_of(vspan->statement)};
        attributes[count++] =
            (struct span_attribute){SLICE("db.query.summary"), (struct slice){summary, length}};
    }
    struct span span = {.trace_high = e->trace_high,
                        .trace_low = e->trace_low,
                        .id = id,
                        .parent = parent,
                        .start_ns = vspan->start_ns + offset,
                        .end_ns = vspan->end_ns + offset,
                        .name = slice_of(name),
                        .kind = kind_of(vspan),
                        .error = vspan->kind == VSPAN_request && request->status >= 500,
                        .resource = resource,
                        .attributes = attributes,
                        .attribute_count = count};
    return span_sink_put(e->sink, &span);
}

/* A callback starts an operation and ends; the operation goes on. In the span model a parent lasts as long as
 * what it waits for, so an operation hangs below the nearest span that does. */
static uint32_t container_of_span(const struct request *request, const struct vspan *span)
{
    uint32_t at = span->parent;
    for (unsigned depth = 0; at < request->spans.count && depth < DEPTH_MAX; depth++) {
        const struct vspan *parent = &request->spans.at[at];
        bool told = parent->end_ns && (at == 0 || parent->known >= KNOWN_INFERRED);
        if (told && parent->start_ns <= span->start_ns && parent->end_ns >= span->end_ns)
            return at;
        at = parent->parent;
    }
    return 0;
}

static int export_one(struct exporter *e, const struct request *request, uint64_t parent, unsigned depth)
{
    struct span_attribute attributes[] = {{SLICE("sonde.recording"), slice_of(e->settings->recording)}};
    struct span_resource resource = {.service = slice_of(request->service ? request->service : "?"),
                                     .host = slice_of(e->settings->host ? e->settings->host : ""),
                                     .attributes = attributes,
                                     .attribute_count = ARRAY_SIZE(attributes)};
    uint64_t first = e->last_id + 1;
    int r = 0;
    span_resource_conventions(&resource);
    e->last_id += request->spans.count;
    for (size_t i = 0; r == 0 && i < request->spans.count; i++) {
        const struct vspan *span = &request->spans.at[i];
        if (!span->end_ns || (i && span->known < KNOWN_INFERRED))
            continue;
        uint64_t above = i ? first + container_of_span(request, span) : parent;
        r = put(e, request, span, first + i, above, &resource);
        if (r == 0 && span->child && depth < DEPTH_MAX)
            r = export_one(e, span->child, first + i, depth + 1);
    }
    return r;
}

int request_export(const struct request *request, const struct export_settings *settings,
                   struct span_sink *sink)
{
    if (request->caller || !request->spans.count || !request->spans.at[0].end_ns)
        return 0;
    struct exporter e = {.settings = settings,
                         .sink = sink,
                         .trace_high = map_hash(settings->recording, strlen(settings->recording)),
                         .trace_low = map_hash(request->name, strlen(request->name)) | 1};
    return export_one(&e, request, 0, 0);
}
