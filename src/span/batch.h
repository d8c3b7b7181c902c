/* One OTLP request: decoded once, its spans read as often as needed, by several threads at the same time.
 * What is kept of a span is 72 bytes and 16 for each attribute; its strings stay in the request. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_BATCH_H
#define SPAN_BATCH_H

#include "base/macro.h"
#include "base/problem.h"
#include "span/span.h"

struct span_batch;

/* Unpacks a request as a sender wrote it and the journal keeps it (kind: enum journal_kind). The payload is
 * copied. -EBADMSG when it does not unpack; -EFBIG when it would be more than JOURNAL_UNPACKED_MAX; -ENOMEM.
 * The caller has the one reference. */
int span_batch_new(uint32_t kind, const void *payload, size_t length, struct span_batch **ret_batch);

/* Decodes all of it, before anybody else has the batch: 0, or -EBADMSG when it is malformed, wherever. Where
 * the spans would take more than keep_bytes, or there is no memory for them, they are counted only. */
int span_batch_decode(struct span_batch *batch, size_t keep_bytes, struct problem *problem);

struct span_batch *span_batch_ref(struct span_batch *batch);
void span_batch_unref(struct span_batch *batch); /* frees it with the last reference; NULL is nothing */
DEFINE_FREEP(struct span_batch, span_batch_unref)

const struct span_counts *span_batch_counts(const struct span_batch *batch); /* once it was decoded */
size_t span_batch_unpacked_bytes(const struct span_batch *batch);            /* of the request */
size_t span_batch_held_bytes(const struct span_batch *batch);                /* of memory, with the request */
bool span_batch_is_kept(const struct span_batch *batch);                     /* its decoded spans are */

/* Hands every span to the sink and adds to the sink's counts; what was not kept is decoded on the way.
 * Strings live as long as the batch, arrays as long as the call. 0, what the sink returned to stop, or
 * -EBADMSG after the spans before the fault. Safe from several threads with a sink each. */
int span_batch_read(const struct span_batch *batch, struct span_sink *sink);

#endif
