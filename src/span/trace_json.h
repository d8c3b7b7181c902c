/* Traces in the JSON of other tracers' query APIs: Jaeger ({"data": [{"spans", "processes"}]}) and Zipkin v2
 * ([{"traceId", "id", ...}], also [[...]] of several traces). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_TRACE_JSON_H
#define SPAN_TRACE_JSON_H

#include "base/problem.h"
#include "span/span.h"

int jaeger_json_decode(const char *text, size_t length, struct span_sink *sink, struct problem *problem);
int zipkin_json_decode(const char *text, size_t length, struct span_sink *sink, struct problem *problem);

#endif
