/* See records.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

enum { LIST_KEPT = 4096 };

static void forget_blocks(struct records *r, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(r->blocks.at[i]);
    r->blocks.count -= count;
    memmove(r->blocks.at, r->blocks.at + count, r->blocks.count * sizeof(*r->blocks.at));
    r->gone += count;
}

void records_done(struct records *r)
{
    if (r->blocks.count)
        forget_blocks(r, r->blocks.count);
    array_done(&r->blocks);
    array_done(&r->list);
    *r = (struct records){0};
}

static int add_block(struct records *r)
{
    uint8_t *block = malloc(RECORD_BYTES_MAX);
    if (!block || array_add(&r->blocks, block) < 0) {
        free(block);
        return -ENOMEM;
    }
    r->used = 0;
    return 0;
}

static size_t room_of(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

static int add(struct records *r, const void *data, size_t size)
{
    size_t room = room_of(size);
    if (size > RECORD_BYTES_MAX)
        return -E2BIG;
    if ((!r->blocks.count || RECORD_BYTES_MAX - r->used < room) && add_block(r) < 0)
        return -ENOMEM;
    uint8_t *at = r->blocks.at[r->blocks.count - 1] + r->used;
    const struct waiting entry = {{at, size}, r->gone + r->blocks.count - 1};
    if (array_add(&r->list, entry) < 0)
        return -ENOMEM;
    memcpy(at, data, size);
    r->used += room;
    r->bytes += room;
    return 0;
}

int records_add(struct records *r, const void *data, size_t size)
{
    int result = add(r, data, size);
    r->not_kept += result < 0;
    return result;
}

bool records_full(const struct records *r)
{
    return r->bytes >= RECORDS_BYTES_MAX;
}

/* All were taken: one block stays for those that come. */
static void begin_anew(struct records *r)
{
    if (r->blocks.count > 1)
        forget_blocks(r, r->blocks.count - 1);
    array_clear(&r->list);
    if (r->list.capacity > LIST_KEPT)
        array_done(&r->list);
    r->used = r->next = 0;
}

bool records_take(struct records *r, struct record *ret_record)
{
    if (r->next == r->list.count) {
        begin_anew(r);
        return false;
    }
    if (r->next > LIST_KEPT && r->next > r->list.count / 2) {
        r->list.count -= r->next;
        memmove(r->list.at, r->list.at + r->next, r->list.count * sizeof(*r->list.at));
        r->next = 0;
    }
    size_t block = r->list.at[r->next].block;
    *ret_record = r->list.at[r->next++].record;
    r->bytes -= room_of(ret_record->size);
    if (block > r->gone)
        forget_blocks(r, block - r->gone);
    return true;
}

bool records_ahead(const struct records *r, size_t distance, struct record *ret_record)
{
    if (distance >= r->list.count - r->next)
        return false;
    *ret_record = r->list.at[r->next + distance].record;
    return true;
}
