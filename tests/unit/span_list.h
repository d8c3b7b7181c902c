/* For tests: a sink that writes every span as one line, so that decoders are compared as text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SPAN_LIST_H
#define TESTS_UNIT_SPAN_LIST_H

#include "base/text.h"
#include "span/span.h"

static inline int span_list_take(void *context, const struct span *span)
{
    struct text *list = context;
    text_addf(list, "%llx%016llx %llx<-%llx %llu+%llu kind%d%s %.*s|%.*s|%.*s|%.*s",
              (unsigned long long)span->trace_high, (unsigned long long)span->trace_low,
              (unsigned long long)span->id, (unsigned long long)span->parent,
              (unsigned long long)span->start_ns, (unsigned long long)(span->end_ns - span->start_ns),
              span->kind, span->error ? " error" : "", (int)span->resource->service.length,
              span->resource->service.at, (int)span->resource->version.length, span->resource->version.at,
              (int)span->resource->host.length, span->resource->host.at, (int)span->name.length,
              span->name.at);
    for (size_t i = 0; i < span->attribute_count; i++)
        text_addf(list, " %.*s=%.*s", (int)span->attributes[i].key.length, span->attributes[i].key.at,
                  (int)span->attributes[i].value.length, span->attributes[i].value.at);
    text_add(list, "\n");
    return 0;
}

#endif
