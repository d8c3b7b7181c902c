/* See lttng_index.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/lttng_index.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"

#define INDEX_MAGIC     0xc1f1dcc1u
#define INDEX_BYTES_MAX (256u << 20)
#define HEADER_BYTES    16u
#define ENTRY_BYTES_1_0 56u
#define ENTRY_BYTES_1_1 72u

static uint32_t big32(const char *at)
{
    uint32_t v;
    memcpy(&v, at, 4);
    return __builtin_bswap32(v);
}

static uint64_t big64(const char *at)
{
    uint64_t v;
    memcpy(&v, at, 8);
    return __builtin_bswap64(v);
}

static struct lttng_index_entry entry_at(const char *at, uint32_t bytes)
{
    return (struct lttng_index_entry){.offset = big64(at),
                                      .packet_bits = big64(at + 8),
                                      .content_bits = big64(at + 16),
                                      .begin = big64(at + 24),
                                      .end = big64(at + 32),
                                      .discarded = big64(at + 40),
                                      .class_id = big64(at + 48),
                                      .instance = bytes >= ENTRY_BYTES_1_1 ? big64(at + 56) : 0,
                                      .sequence = bytes >= ENTRY_BYTES_1_1 ? big64(at + 64) : 0};
}

/* One packet behind the other, from the file's start to its end. */
static int fill(struct lttng_index *index, const char *data, uint32_t entry_bytes, uint64_t stream_bytes)
{
    uint64_t expected = 0;
    for (size_t i = 0; i < index->count; i++) {
        struct lttng_index_entry e = entry_at(data + HEADER_BYTES + i * entry_bytes, entry_bytes);
        if (e.offset != expected || e.packet_bits == 0 || e.packet_bits % 8 ||
            e.content_bits > e.packet_bits || e.packet_bits / 8 > stream_bytes - e.offset)
            return -EINVAL;
        expected = e.offset + e.packet_bits / 8;
        index->entries[i] = e;
    }
    return expected == stream_bytes ? 0 : -EINVAL;
}

int lttng_index_read(const char *stream_path, uint64_t stream_bytes, struct lttng_index *ret_index)
{
    const char *name = strrchr(stream_path, '/');
    char path[PATH_MAX];
    int folder = name ? (int)(name - stream_path) : 0;
    name = name ? name + 1 : stream_path;
    if (snprintf(path, sizeof(path), "%.*s%sindex/%s.idx", folder, stream_path, folder ? "/" : "", name) >=
        (int)sizeof(path))
        return -ENAMETOOLONG;
    _cleanup_(freep) char *data = NULL;
    size_t length;
    int r = file_read(path, INDEX_BYTES_MAX, &data, &length);
    if (r < 0)
        return r;
    uint32_t entry_bytes = length >= HEADER_BYTES ? big32(data + 12) : 0;
    if (length < HEADER_BYTES || big32(data) != INDEX_MAGIC || big32(data + 4) != 1 ||
        entry_bytes < ENTRY_BYTES_1_0 || entry_bytes > 4096 || (length - HEADER_BYTES) % entry_bytes)
        return -EINVAL;
    struct lttng_index index = {.count = (length - HEADER_BYTES) / entry_bytes};
    index.entries = calloc(index.count + 1, sizeof(*index.entries));
    if (!index.entries)
        return -ENOMEM;
    r = fill(&index, data, entry_bytes, stream_bytes);
    if (r < 0) {
        free(index.entries);
        return r;
    }
    *ret_index = index;
    return 0;
}
