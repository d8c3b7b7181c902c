/* The spans of a trace that waits for the rest of it: about 30 bytes each instead of 72. A record is
 *
 *     0    u8      kind, and what of the flags below is set
 *     1    u64     id
 *          u64     parent, unless it is a root
 *          varints service, version, host, unless they are the previous span's
 *          varint  labels, unless they are the previous span's
 *          varint  name
 *          varint  start - the previous span's start, zigzag
 *          varint  end - start
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_PACKED_H
#define SPAN_PACKED_H

#include "base/array.h"
#include "span/assemble.h"

/* Zero-initialise to use; packed_done() when finished. */
struct packed {
    uint8_t *bytes;
    uint32_t length, capacity;
    uint32_t count;
    uint32_t service, version, host, labels; /* of the previous span */
    uint64_t start_ns;
};

/* Adds a span as it arrived: unlinked. 0, or -ENOMEM, which leaves all as it was. */
int packed_add(struct packed *packed, const struct part *part);

/* Appends all of them to an array in order of arrival; 0 or -ENOMEM. */
int packed_read(const struct packed *packed, struct parts *to);

/* Empty again; memory for a few spans is kept. */
void packed_clear(struct packed *packed);
void packed_done(struct packed *packed);

#endif
