/* The TSDL of a rewritten trace. Private to rewrite.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_REWRITE_METADATA_H
#define TRACE_REWRITE_METADATA_H

#include "base/text.h"
#include "trace/metadata.h"

/* Bytes that an integer takes in the rewritten trace: 1, 2, 4 or 8. */
static inline unsigned rewrite_width(const struct field_class *c)
{
    return c->bits <= 8 ? 1 : c->bits <= 16 ? 2 : c->bits <= 32 ? 4 : 8;
}

/* The members of a packet context that are written again: all but the reader's bookkeeping. */
bool rewrite_keeps(const struct metadata *meta, const struct field_member *member);

/* Appends the whole metadata. offset_ns: what the times in the streams are counted from. 0, -ENOMEM,
 * -ENOTSUP. */
int rewrite_metadata(struct text *out, const struct metadata *meta, int64_t offset_ns,
                     struct problem *problem);

#endif
