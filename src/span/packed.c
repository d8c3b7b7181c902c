/* See packed.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"

enum {
    KIND = 7, /* bits of the first byte: enum span_kind */
    ERROR = 8,
    SHARED = 16,
    ROOT = 32,         /* no parent */
    SAME_PROCESS = 64, /* service, version and host */
    SAME_LABELS = 128,
    RECORD_MAX = 1 + 2 * 8 + 7 * VARINT_MAX,
    KEPT_BYTES = 1024, /* by packed_clear() */
};

/* By a quarter at a time: there are many traces, and most are short. */
static int make_room(struct packed *packed)
{
    uint64_t need = (uint64_t)packed->length + RECORD_MAX;
    if (need <= packed->capacity)
        return 0;
    uint64_t capacity = need + packed->length / 4;
    uint8_t *grown = capacity > UINT32_MAX ? NULL : realloc(packed->bytes, capacity);
    if (!grown)
        return -ENOMEM;
    packed->bytes = grown;
    packed->capacity = (uint32_t)capacity;
    return 0;
}

static uint8_t *put_id(uint8_t *p, uint64_t id)
{
    memcpy(p, &id, sizeof(id));
    return p + sizeof(id);
}

int packed_add(struct packed *packed, const struct part *part)
{
    int r = make_room(packed);
    if (r < 0)
        return r;
    bool same_process = packed->count && part->service == packed->service &&
                        part->version == packed->version && part->host == packed->host;
    bool same_labels = packed->count && part->labels == packed->labels;
    uint8_t *p = packed->bytes + packed->length;
    *p++ = (uint8_t)((part->kind & KIND) | (part->error ? ERROR : 0) | (part->shared ? SHARED : 0) |
                     (part->parent ? 0 : ROOT) | (same_process ? SAME_PROCESS : 0) |
                     (same_labels ? SAME_LABELS : 0));
    p = put_id(p, part->id);
    if (part->parent)
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
    packed->length = (uint32_t)(p - packed->bytes);
    packed->count++;
    packed->service = part->service;
    packed->version = part->version;
    packed->host = part->host;
    packed->labels = part->labels;
    packed->start_ns = part->start_ns;
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

int packed_read(const struct packed *packed, struct parts *to)
{
    const uint8_t *p = packed->bytes, *end = p + packed->length;
    struct part part = {.up = PART_NONE};
    if (array_reserve(to, to->count + packed->count) < 0)
        return -ENOMEM;
    while (p < end) {
        uint8_t head = *p++;
        uint64_t start = 0, duration = 0;
        part.kind = head & KIND;
        part.error = head & ERROR;
        part.shared = head & SHARED;
        part.parent = 0;
        p = get_id(p, &part.id);
        if (!(head & ROOT))
            p = get_id(p, &part.parent);
        if (!(head & SAME_PROCESS)) {
            p = get_number(p, end, &part.service);
            p = get_number(p, end, &part.version);
            p = get_number(p, end, &part.host);
        }
        if (!(head & SAME_LABELS))
            p = get_number(p, end, &part.labels);
        p = get_number(p, end, &part.name);
        p = varint_get(p, end, &start);
        p = varint_get(p, end, &duration);
        part.start_ns += (uint64_t)unzigzag(start);
        part.end_ns = part.start_ns + duration;
        to->at[to->count++] = part;
    }
    return 0;
}

void packed_clear(struct packed *packed)
{
    struct packed empty = {.bytes = packed->bytes, .capacity = packed->capacity};
    if (packed->capacity > KEPT_BYTES) {
        free(packed->bytes);
        empty = (struct packed){0};
    }
    *packed = empty;
}

void packed_done(struct packed *packed)
{
    free(packed->bytes);
    *packed = (struct packed){0};
}
