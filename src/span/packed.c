/* See packed.h. Blocks have numbers from 1 on; a chunk of them is allocated at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/varint.h"

enum {
    KIND = 7, /* bits of the first byte: enum span_kind */
    ERROR = 8,
    SHARED = 16,
    ROOT = 32,         /* no parent */
    SAME_PROCESS = 64, /* service, version and host */
    SAME_LABELS = 128,
};

enum {
    SIBLING = 1, /* of the second byte: its parent is the previous span's */
    CHILD = 2,   /* its parent is the previous span */
    PARENT = 4,  /* it is the previous span's parent */
};

enum {
    RECORD_MAX = 2 + 2 * 8 + 7 * VARINT_MAX,
    BLOCK_ROOM = PACKED_BLOCK_BYTES - sizeof(uint32_t),
    CHUNK_BLOCKS = 1 << 14,
};

struct packed_block {
    uint32_t next; /* of the same trace, or of those that are free; 0: none */
    uint8_t bytes[BLOCK_ROOM];
};

static struct packed_block *block_at(const struct packed_pool *pool, uint32_t number)
{
    return &pool->chunks.at[(number - 1) / CHUNK_BLOCKS][(number - 1) % CHUNK_BLOCKS];
}

/* 0 when there is no memory. */
static uint32_t take_block(struct packed_pool *pool)
{
    uint32_t number = pool->spare;
    if (number) {
        pool->spare = block_at(pool, number)->next;
    } else {
        if (pool->taken == pool->chunks.count * CHUNK_BLOCKS) {
            struct packed_block *chunk =
                pool->taken > UINT32_MAX - CHUNK_BLOCKS ? NULL : malloc(CHUNK_BLOCKS * sizeof(*chunk));
            if (!chunk || array_add(&pool->chunks, chunk) < 0) {
                free(chunk);
                return 0;
            }
        }
        number = ++pool->taken;
    }
    block_at(pool, number)->next = 0;
    pool->used++;
    return number;
}

static void free_chunks(struct packed_pool *pool)
{
    array_foreach (&pool->chunks, chunk)
        free(*chunk);
    array_done(&pool->chunks);
    pool->spare = pool->taken = pool->used = 0;
}

/* How much of the last block is used: it is never empty. */
static size_t last_used(const struct packed *packed)
{
    return packed->length ? (packed->length - 1) % BLOCK_ROOM + 1 : BLOCK_ROOM;
}

/* Behind what there is. The blocks are there before anything changes: a record needs two more at most. */
static int append(struct packed_pool *pool, struct packed *packed, const uint8_t *bytes, size_t length)
{
    size_t used = last_used(packed), missing = length - MIN(length, BLOCK_ROOM - used);
    uint32_t more[2] = {0};
    for (size_t i = 0; i * BLOCK_ROOM < missing; i++) {
        more[i] = take_block(pool);
        if (!more[i]) {
            if (i) {
                block_at(pool, more[0])->next = pool->spare;
                pool->spare = more[0];
                pool->used--;
            }
            return -ENOMEM;
        }
    }
    for (size_t done = 0, next = 0; done < length;) {
        if (used == BLOCK_ROOM) {
            *(packed->last ? &block_at(pool, packed->last)->next : &packed->first) = more[next];
            packed->last = more[next++];
            used = 0;
        }
        size_t n = MIN(length - done, BLOCK_ROOM - used);
        memcpy(block_at(pool, packed->last)->bytes + used, bytes + done, n);
        done += n;
        used += n;
    }
    packed->length += (uint32_t)length;
    return 0;
}

static uint8_t *put_id(uint8_t *p, uint64_t id)
{
    memcpy(p, &id, sizeof(id));
    return p + sizeof(id);
}

static uint8_t relation(const struct packed *packed, const struct part *part)
{
    if (!packed->count)
        return 0;
    uint8_t parent = !part->parent                    ? 0
                     : part->parent == packed->id     ? CHILD
                     : part->parent == packed->parent ? SIBLING
                                                      : 0;
    return parent | (packed->parent && part->id == packed->parent ? PARENT : 0);
}

int packed_add(struct packed_pool *pool, struct packed *packed, const struct part *part)
{
    bool same_process = packed->count && part->service == packed->service &&
                        part->version == packed->version && part->host == packed->host;
    bool same_labels = packed->count && part->labels == packed->labels;
    uint8_t related = relation(packed, part), record[RECORD_MAX], *p = record;
    if (packed->length > UINT32_MAX - RECORD_MAX)
        return -ENOMEM;
    *p++ = (uint8_t)((part->kind & KIND) | (part->error ? ERROR : 0) | (part->shared ? SHARED : 0) |
                     (part->parent ? 0 : ROOT) | (same_process ? SAME_PROCESS : 0) |
                     (same_labels ? SAME_LABELS : 0));
    *p++ = related;
    if (!(related & PARENT))
        p = put_id(p, part->id);
    if (part->parent && !(related & (CHILD | SIBLING)))
        p = put_id(p, part->parent);
    if (!same_process) {
        p = varint_put(p, part->service);
        p = varint_put(p, part->version);
        p = varint_put(p, part->host);
    }
    if (!same_labels)
        p = varint_put(p, part->labels);
    p = varint_put(p, part->name);
    p = varint_put(p, zigzag((int64_t)(part->start_ns - packed->start_ns)));
    p = varint_put(p, part->end_ns - part->start_ns);
    int r = append(pool, packed, record, (size_t)(p - record));
    if (r < 0)
        return r;
    packed->count++;
    packed->service = part->service;
    packed->version = part->version;
    packed->host = part->host;
    packed->labels = part->labels;
    packed->start_ns = part->start_ns;
    packed->id = part->id;
    packed->parent = part->parent;
    return 0;
}

static const uint8_t *get_id(const uint8_t *p, uint64_t *ret_id)
{
    memcpy(ret_id, p, sizeof(*ret_id));
    return p + sizeof(*ret_id);
}

static const uint8_t *get_number(const uint8_t *p, const uint8_t *end, uint32_t *ret_number)
{
    uint64_t number = 0;
    p = varint_get(p, end, &number);
    *ret_number = (uint32_t)number;
    return p;
}

/* The record at p into `part`, which is the previous one's before; the byte behind. */
static const uint8_t *read_record(const uint8_t *p, const uint8_t *end, struct part *part)
{
    uint8_t head = *p++, related = *p++;
    uint64_t start = 0, duration = 0, id = part->id, parent = part->parent;
    part->kind = head & KIND;
    part->error = head & ERROR;
    part->shared = head & SHARED;
    part->id = parent;
    if (!(related & PARENT))
        p = get_id(p, &part->id);
    part->parent = head & ROOT ? 0 : related & CHILD ? id : parent;
    if (!(head & ROOT) && !(related & (CHILD | SIBLING)))
        p = get_id(p, &part->parent);
    if (!(head & SAME_PROCESS)) {
        p = get_number(p, end, &part->service);
        p = get_number(p, end, &part->version);
        p = get_number(p, end, &part->host);
    }
    if (!(head & SAME_LABELS))
        p = get_number(p, end, &part->labels);
    p = get_number(p, end, &part->name);
    p = varint_get(p, end, &start);
    p = varint_get(p, end, &duration);
    part->start_ns += (uint64_t)unzigzag(start);
    part->end_ns = part->start_ns + duration;
    return p;
}

int packed_read(struct packed_pool *pool, const struct packed *packed, struct parts *to)
{
    struct part part = {.up = PART_NONE};
    if (array_reserve(to, to->count + packed->count) < 0 || array_reserve(&pool->whole, packed->length) < 0)
        return -ENOMEM;
    array_clear(&pool->whole);
    for (uint32_t number = packed->first; number;) {
        const struct packed_block *block = block_at(pool, number);
        size_t n = MIN(packed->length - pool->whole.count, (size_t)BLOCK_ROOM);
        memcpy(pool->whole.at + pool->whole.count, block->bytes, n);
        pool->whole.count += n;
        number = block->next;
    }
    const uint8_t *p = pool->whole.at, *end = p + pool->whole.count;
    while (p < end) {
        p = read_record(p, end, &part);
        to->at[to->count++] = part;
    }
    return 0;
}

void packed_clear(struct packed_pool *pool, struct packed *packed)
{
    uint32_t blocks = (uint32_t)((packed->length + BLOCK_ROOM - 1) / BLOCK_ROOM);
    if (packed->last) {
        block_at(pool, packed->last)->next = pool->spare;
        pool->spare = packed->first;
        pool->used -= blocks;
    }
    *packed = (struct packed){0};
    if (!pool->used && pool->chunks.count > 1)
        free_chunks(pool);
}

size_t packed_pool_bytes(const struct packed_pool *pool)
{
    return (size_t)pool->used * PACKED_BLOCK_BYTES;
}

void packed_pool_done(struct packed_pool *pool)
{
    free_chunks(pool);
    array_done(&pool->whole);
}
