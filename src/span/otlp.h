/* OpenTelemetry's export requests: protobuf by a hand-written scanner of the wire format (14 fields matter
 * out of some 60), and JSON (one request, or one to a line). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_OTLP_H
#define SPAN_OTLP_H

#include "base/problem.h"
#include "span/span.h"

/* Hands every span of an ExportTraceServiceRequest to the sink. -EBADMSG when the message is malformed; spans
 * before the fault have been handed over then, so check first with otlp_protobuf_check() where that matters.
 */
int otlp_protobuf_decode(const void *bytes, size_t length, struct span_sink *sink, struct problem *problem);

/* The same walks without a sink: 0 or -EBADMSG, and what is in it. */
int otlp_json_check(const char *text, size_t length, struct span_counts *ret_counts, struct problem *problem);
int otlp_protobuf_check(const void *bytes, size_t length, struct span_counts *ret_counts,
                        struct problem *problem);

/* One request, or several one after another (JSON lines). */
int otlp_json_decode(const char *text, size_t length, struct span_sink *sink, struct problem *problem);

/* A file of requests, one a line, as the collector writes it: a line that does not parse, such as the last
 * one of a file that is still written, is counted as malformed and passed over; the problem is then what is
 * wrong with the first of them, though 0 is returned. -EINVAL when no line parses. */
int otlp_json_decode_lines(const char *text, size_t length, struct span_sink *sink, struct problem *problem);

#endif
