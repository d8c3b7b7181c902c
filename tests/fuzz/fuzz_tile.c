/* A history of any changes, and tiles of it by any parameters: what comes is refused or is a tile whose every
 * cell can be looked up. (Tiles are decoded by the page only: web/src/tile.ts, which
 * tests/system/page.test.mjs damages.)
 *
 *     byte 0 zoom, 1 to 8 index, 9 number of rows, 10 shift of the times; then changes of 4 bytes:
 *     attribute, time since the last one, kind of value, value */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "history/tile.h"

enum { ATTRIBUTES = 3, HEAD = 11, CHANGE = 4, CHANGES_MAX = 500 };

static struct history *history_of(const uint8_t *data, size_t size, uint32_t quarks[ATTRIBUTES])
{
    struct history_options options = {.size = sizeof(options), .start_ns = 1000, .segment_changes = 16};
    struct history *h;
    char path[] = "/tmp/sonde-fuzz-XXXXXX";
    uint64_t time = options.start_ns;
    int fd = mkstemp(path);
    if (fd < 0 || history_create(path, &options, &h, NULL) < 0)
        abort();
    close(fd);
    unlink(path);
    for (unsigned i = 0; i < ATTRIBUTES; i++) {
        char name[8];
        snprintf(name, sizeof(name), "a%u", i);
        if (history_add_path(h, name, &quarks[i], NULL) < 0)
            abort();
    }
    for (size_t at = HEAD, n = 0; at + CHANGE <= size && n < CHANGES_MAX; at += CHANGE, n++) {
        char word[3] = {(char)(data[at + 3] | 1), '"', 0};
        const struct history_value values[] = {history_null(), history_int((int8_t)data[at + 3]),
                                               history_double(1.0 / (double)data[at + 3]),
                                               history_string(word)};
        time += (uint64_t)data[at + 1] << (data[10] & 31);
        history_modify(h, time, quarks[data[at] % ATTRIBUTES], values[data[at + 2] & 3], NULL);
    }
    if (history_close(h, time + 1, NULL) < 0)
        abort();
    return h;
}

static size_t table_size(const char *at, const char *end)
{
    size_t entries = 1;
    bool quoted = false;
    if (at >= end || *at != '[' || end[-1] != ']')
        abort();
    for (; at < end; at++) {
        if (quoted && *at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && *at == ',')
            entries++;
    }
    return quoted ? 0 : entries;
}

static void check(const struct text *tile, size_t rows)
{
    size_t cells = rows * TILE_COLUMNS, table = TILE_HEADER + 7 * cells;
    const uint8_t *shares = (const uint8_t *)tile->at + TILE_HEADER + 2 * cells, *second = shares + 2 * cells;
    if (tile->length <= table || memcmp(tile->at, "SDT1", 4) != 0)
        abort();
    size_t entries = table_size(tile->at + table, tile->at + tile->length);
    for (size_t i = 0; i < cells; i++) {
        uint16_t value, other;
        memcpy(&value, tile->at + TILE_HEADER + 2 * i, sizeof(value));
        memcpy(&other, tile->at + TILE_HEADER + 5 * cells + 2 * i, sizeof(other));
        if (value >= entries || other >= entries || second[i] > shares[i])
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t quarks[ATTRIBUTES], rows[TILE_ROWS + 1];
    uint64_t index;
    struct text tile = {0};
    if (size < HEAD)
        return 0;
    struct history *h = history_of(data, size, quarks);
    size_t count = data[9] % (TILE_ROWS + 2);
    for (size_t i = 0; i < count; i++)
        rows[i] = quarks[i % ATTRIBUTES];
    memcpy(&index, data + 1, sizeof(index));
    if (tile_write(h, rows, count, data[0], index, NULL, &tile, NULL) == 0)
        check(&tile, count);
    text_clear(&tile);
    if (count <= TILE_ROWS) {
        if (tile_write(h, rows, count, tile_zoom_whole(h), 0, NULL, &tile, NULL) < 0)
            abort();
        check(&tile, count);
    }
    text_done(&tile);
    history_free(h);
    return 0;
}
