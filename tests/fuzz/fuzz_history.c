/* History files of both stores. A file with wrong checksums is refused early, so half of the inputs (by their
 * first byte) get right ones first: what lies behind them must stand any content. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "history/history.h"
#include "history/record.h"
#include "history/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes every record of the columnar store that fits valid by its checksums. */
static void mend_columns(uint8_t *data, size_t size)
{
    struct file_head head;
    if (size < sizeof(head))
        return;
    memcpy(&head, data, sizeof(head));
    memcpy(head.magic, "SNDHIST\n", 8);
    head.version = FILE_VERSION;
    head.checksum = map_hash(&head, offsetof(struct file_head, checksum));
    memcpy(data, &head, sizeof(head));
    size_t at = sizeof(head);
    for (uint32_t number = 0; at + sizeof(struct record_head) <= size; number++) {
        struct record_head record;
        memcpy(&record, data + at, sizeof(record));
        uint64_t pages = (record.body_bytes + 65535) >> RECORD_PAGE_SHIFT, table = (pages * 4 + 63) & ~63ull;
        if (record.body_bytes > size || at + sizeof(record) + table + record.body_bytes > size)
            break;
        uint8_t *body = data + at + sizeof(record) + table;
        for (uint64_t page = 0; page < pages; page++) {
            uint64_t from = page << RECORD_PAGE_SHIFT, left = record.body_bytes - from;
            uint32_t sum = (uint32_t)map_hash(body + from, left < 65536 ? left : 65536);
            memcpy(data + at + sizeof(record) + page * 4, &sum, 4);
        }
        record.magic = RECORD_MAGIC;
        record.number = number;
        record.pages_checksum = map_hash(data + at + sizeof(record), pages * 4);
        record.checksum = map_hash(&record, offsetof(struct record_head, checksum));
        memcpy(data + at, &record, sizeof(record));
        at += sizeof(record) + table + ((record.body_bytes + 63) & ~63ull);
    }
}

/* The same for a tree: its head, its names and every node. */
static void mend_tree(uint8_t *data, size_t size)
{
    enum { HEAD = 4096, NODE = 65536 };
    struct tree_head head;
    if (size < HEAD + NODE)
        return;
    memcpy(&head, data, sizeof(head));
    head.nodes = (uint32_t)((size - HEAD) / NODE);
    head.names_bytes = (size - HEAD) % NODE;
    head.root %= head.nodes;
    head.names_checksum = map_hash(data + HEAD + (size_t)head.nodes * NODE, head.names_bytes);
    head.checksum = map_hash(&head, offsetof(struct tree_head, checksum));
    memcpy(data, &head, sizeof(head));
    for (uint32_t i = 0; i < head.nodes; i++) {
        uint8_t *node = data + HEAD + (size_t)i * NODE;
        memset(node + 32, 0, 8);
        memcpy(node + 4, &i, 4);
        uint64_t sum = map_hash(node, NODE);
        memcpy(node + 32, &sum, 8);
    }
}

static int use_state(void *context, const struct history_interval *s)
{
    size_t *count = context;
    *count += s->value.type == HISTORY_STRING ? strlen(s->value.string) : 1;
    return *count > 100000;
}

static int use_summary(void *context, uint32_t column, const struct history_summary *s)
{
    size_t *count = context;
    *count += s->shares;
    return *count > 100000;
}

static void ask(struct history *h)
{
    struct history_info info;
    struct history_interval one, *all;
    size_t count = 0;
    uint32_t *quarks = NULL;
    size_t quark_count = 0;
    history_get_info(h, &info);
    uint64_t from = info.start_ns, to = info.end_ns, middle = from + (to - from) / 2;
    if (history_list(h, "**", &quarks, &quark_count) == 0 && quark_count) {
        size_t n = quark_count < 20 ? quark_count : 20;
        for (size_t i = 0; i < n; i++) {
            history_query(h, quarks[i], from + (to - from) / 7 * (i % 7), &one, NULL);
            history_query_range(h, quarks[i], from, to, use_state, &count, NULL);
            history_next_change(h, quarks[i], middle, &one, NULL);
            history_previous_change(h, quarks[i], middle, &one, NULL);
        }
        history_query_2d(h, quarks, n, from, to, 17, use_state, &count, NULL);
        history_summarize(h, quarks, n, from, to, 5, use_summary, &count, NULL);
        history_summarize(h, quarks, n, from, to, 1, use_summary, &count, NULL);
    }
    free(quarks);
    all = malloc((info.attributes + 1ul) * sizeof(*all));
    if (all) {
        history_query_full(h, from, all, NULL);
        history_query_full(h, middle, all, NULL);
        history_query_full(h, to - 1, all, NULL);
    }
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("history", MFD_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    if (size < 2 || fd < 0)
        return 0;
    uint8_t mend = *data++;
    size--;
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (mend & 1 && !memcmp(copy, TREE_MAGIC, size < 8 ? size : 8))
        mend_tree(copy, size);
    else if (mend & 1)
        mend_columns(copy, size);
    if (ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 && file_write_all(fd, copy, size) == 0) {
        struct problem problem = {0};
        struct history *h = NULL;
        if (history_open(path, &h, &problem) == 0)
            ask(h);
        else if (!problem.what[0])
            abort(); /* an error without words */
        history_free(h);
    }
    free(copy);
    return 0;
}
