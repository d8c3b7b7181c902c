/* Vertical spans as spans of the span model, so that diagnosis and other tracers' tools take them: one trace
 * a request, with what other traced services did for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANALYZE_EXPORT_H
#define ANALYZE_EXPORT_H

#include "model/request.h"
#include "span/span.h"

struct export_settings {
    const char *recording;       /* names the recording: the attribute sonde.recording */
    const char *host;            /* host.name; NULL: unknown */
    uint64_t realtime_offset_ns; /* added to the trace's times */
};

/* The request's spans to the sink; nothing of a request that another one's span holds, or that never ended.
 * What is ambiguous is left out. 0 or the sink's error. */
int request_export(const struct request *request, const struct export_settings *settings,
                   struct span_sink *sink);

#endif
