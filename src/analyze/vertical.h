/* The vertical span of a request for people (an indented tree) and for programs (JSON). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANALYZE_VERTICAL_H
#define ANALYZE_VERTICAL_H

#include <jansson.h>

#include "model/request.h"
#include "model/samples.h"
#include "base/text.h"
#include "finding/prose.h"

/* The tree, one line per span: offset from the beginning, duration, layer, what, and how it is known where
 * that is not proved. Fits width columns where the names allow it. At most lines lines (0: no limit); the
 * shortest spans are left out first, and how many is said. samples (analysis_samples(); may be NULL) tell
 * which functions ran in a callback, a pool operation's run or a Redis command's execution. */
void vertical_print(struct text *to, const struct request *request, const struct profile *samples,
                    const struct prose_style *style, unsigned width, unsigned lines);

/* What one of its spans is, in words: "call GET 127.0.0.1:8080 (inferred)"; of spans.at[0] the request. */
void vertical_words(struct text *to, const struct request *request, const struct vspan *span);

/* A new reference: {id, service, process, method, path, route, status, state, start_ns, latency_ns, ...,
 * spans: [...]}. Requests of other services stand as "request" within the span that called them. NULL: out of
 * memory. */
json_t *vertical_json(const struct request *request, const struct profile *samples);

#endif
