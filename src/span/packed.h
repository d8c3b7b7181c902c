/* The spans of traces that wait for the rest of them: about 25 bytes each instead of 72. A record is
 *
 *     0    u8      kind, and what of the flags below is set
 *     1    u8      how its ids are related to those of the previous span
 *          u64     id, unless it is the previous span's parent
 *          u64     parent, unless it is a root, a sibling or a child of the previous span
 *          varints service, version, host, unless they are the previous span's
 *          varint  labels, unless they are the previous span's
 *          varint  name
 *          varint  start - the previous span's start, zigzag
 *          varint  end - start
 *
 * Records lie in blocks of one size, of which a pool has many: traces come and go by the hundred thousand,
 * and neither room to grow nor what lies between them is worth as much as the spans themselves. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_PACKED_H
#define SPAN_PACKED_H

#include "base/array.h"
#include "span/assemble.h"

#define PACKED_BLOCK_BYTES 64

struct packed_block;

/* Zero-initialise to use; packed_pool_done() when finished, with or without spans in it. */
struct packed_pool {
    ARRAY(struct packed_block *) chunks;
    uint32_t spare; /* the first block of those that were given back; 0: none */
    uint32_t taken; /* blocks that were ever used since the pool was empty */
    uint32_t used;
    ARRAY(uint8_t) whole; /* the records of the trace that is read */
};

/* The spans of one trace; zero-initialise to use. */
struct packed {
    uint32_t first, last; /* blocks; 0: none */
    uint32_t length, count;
    uint32_t service, version, host, labels; /* of the previous span, as all below */
    uint64_t start_ns, id, parent;
};

/* Adds a span as it arrived: unlinked. 0, or -ENOMEM, which leaves all as it was. */
int packed_add(struct packed_pool *pool, struct packed *packed, const struct part *part);

/* Appends all of them to an array in order of arrival; 0 or -ENOMEM. */
int packed_read(struct packed_pool *pool, const struct packed *packed, struct parts *to);

/* Empty again. A pool that nothing uses any more gives its memory back. */
void packed_clear(struct packed_pool *pool, struct packed *packed);

/* Bytes of the blocks in use. */
size_t packed_pool_bytes(const struct packed_pool *pool);

void packed_pool_done(struct packed_pool *pool);

#endif
