/* See tile.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/tile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

struct tile {
    const uint32_t *quarks;
    size_t count, row;
    uint64_t start_ns;
    unsigned zoom;
    uint16_t *values, *second_values;
    uint8_t *shares, *changes, *second_shares;
    const struct tile_wanted *wanted;  /* or NULL */
    struct map numbers;                /* of a value in the table, by its hash */
    ARRAY(struct history_value) table; /* [0] is null */
    bool failed;
};

unsigned tile_zoom_whole(const struct history *history)
{
    struct history_info info;
    unsigned zoom = 0;
    history_get_info(history, &info);
    while (zoom < TILE_ZOOM_MAX && (info.end_ns - info.start_ns - 1) >> zoom >= TILE_COLUMNS)
        zoom++;
    return zoom;
}

static uint64_t hash_of(struct history_value value)
{
    uint64_t words[2] = {value.type, 0};
    if (value.type == HISTORY_STRING)
        return map_hash(value.string, strlen(value.string)) ^ HISTORY_STRING;
    memcpy(&words[1], &value.integer, sizeof(words[1]));
    return map_hash(words, sizeof(words));
}

/* Its place in the table. Should two values in every cell all differ, the very last one is not told. */
static uint16_t number_of(struct tile *tile, struct history_value value)
{
    if (value.type == HISTORY_NULL)
        return 0;
    for (uint64_t hash = hash_of(value);; hash++) {
        bool added;
        uint64_t *place = map_put(&tile->numbers, hash, &added);
        if (!place || (added && array_add(&tile->table, value) < 0)) {
            tile->failed = true;
            return 0;
        }
        if (added && tile->table.count > UINT16_MAX) {
            tile->table.count--;
            map_remove(&tile->numbers, hash);
            return 0;
        }
        if (added)
            *place = tile->table.count - 1;
        if (history_value_equal(tile->table.at[*place], value))
            return (uint16_t)*place;
    }
}

/* 1 to 255: what held at all is not nothing. */
static uint8_t share_of(uint64_t held_ns, uint64_t width_ns)
{
    return (uint8_t)fmax(1, fmin(255, floor((double)held_ns / (double)width_ns * 255 + 0.5)));
}

static int take(void *context, uint32_t column, const struct history_summary *s)
{
    struct tile *tile = context;
    uint64_t width = s->end_ns - s->start_ns;
    column = (uint32_t)((s->start_ns - tile->start_ns) >> tile->zoom);
    if (column >= TILE_COLUMNS || !s->shares || !width)
        return 0;
    size_t at = tile->row * TILE_COLUMNS + column;
    tile->values[at] = number_of(tile, s->share[0].value);
    tile->shares[at] = share_of(s->share[0].held_ns, width);
    if (s->shares > 1 && s->share[1].held_ns) {
        tile->second_values[at] = number_of(tile, s->share[1].value);
        tile->second_shares[at] = share_of(s->share[1].held_ns, width);
    }
    tile->changes[at] = s->changes ? (uint8_t)(64 - __builtin_clzll(s->changes)) : 0;
    return tile->failed ? -ENOMEM : 0;
}

static void add_value(struct text *to, struct history_value value)
{
    if (value.type == HISTORY_STRING)
        text_add_json(to, value.string, strlen(value.string));
    else if (value.type == HISTORY_INT)
        text_addf(to, "%" PRId64, value.integer);
    else if (value.type == HISTORY_DOUBLE && isfinite(value.number))
        text_addf(to, "%.9g", value.number);
    else
        text_add(to, "null");
}

static void add_tile(const struct tile *tile, uint64_t end_ns, struct text *to)
{
    size_t cells = tile->count * TILE_COLUMNS;
    uint16_t sizes[] = {(uint16_t)tile->count, TILE_COLUMNS};
    uint32_t numbers[] = {tile->zoom, (uint32_t)(TILE_HEADER + 7 * cells)};
    uint64_t end[] = {end_ns, 0};
    text_add_bytes(to, "SDT1", 4);
    text_add_bytes(to, (const char *)sizes, sizeof(sizes));
    text_add_bytes(to, (const char *)&tile->start_ns, sizeof(tile->start_ns));
    text_add_bytes(to, (const char *)numbers, sizeof(numbers));
    text_add_bytes(to, (const char *)end, sizeof(end));
    text_add_bytes(to, (const char *)tile->values, 2 * cells);
    text_add_bytes(to, (const char *)tile->shares, cells);
    text_add_bytes(to, (const char *)tile->changes, cells);
    text_add_bytes(to, (const char *)tile->second_shares, cells);
    text_add_bytes(to, (const char *)tile->second_values, 2 * cells);
    text_add(to, "[");
    for (size_t i = 0; i < tile->table.count; i++) {
        text_add(to, i ? "," : "");
        add_value(to, tile->table.at[i]);
    }
    text_add(to, "]");
}

static int summarize_row(struct history *history, struct tile *tile, uint64_t end_ns, struct problem *problem)
{
    /* The history may end within a column: that one is asked for by itself. */
    const uint32_t *quark = &tile->quarks[tile->row];
    uint64_t whole = MIN((end_ns - tile->start_ns) >> tile->zoom, (uint64_t)TILE_COLUMNS);
    uint64_t to_ns = tile->start_ns + (whole << tile->zoom);
    int r = 0;
    if (whole)
        r = history_summarize(history, quark, 1, tile->start_ns, to_ns, (uint32_t)whole, take, tile, problem);
    if (r >= 0 && whole < TILE_COLUMNS && to_ns < end_ns)
        r = history_summarize(history, quark, 1, to_ns, end_ns, 1, take, tile, problem);
    return r;
}

/* Rows cost the same one by one as together. */
static int summarize(struct history *history, struct tile *tile, uint64_t end_ns, struct problem *problem)
{
    int r = 0;
    for (tile->row = 0; r == 0 && tile->row < tile->count; tile->row++) {
        if (tile->wanted && !tile->wanted->wanted(tile->wanted->context))
            return -ECANCELED;
        r = summarize_row(history, tile, end_ns, problem);
    }
    return r;
}

static int begin_tile(struct tile *tile)
{
    size_t cells = tile->count * TILE_COLUMNS;
    tile->values = calloc(cells + 1, 2);
    tile->shares = calloc(cells + 1, 1);
    tile->changes = calloc(cells + 1, 1);
    tile->second_values = calloc(cells + 1, 2);
    tile->second_shares = calloc(cells + 1, 1);
    bool made = tile->values && tile->shares && tile->changes && tile->second_values && tile->second_shares;
    return made ? array_add(&tile->table, history_null()) : -ENOMEM;
}

static void end_tile(struct tile *tile)
{
    free(tile->values);
    free(tile->shares);
    free(tile->changes);
    free(tile->second_values);
    free(tile->second_shares);
    map_done(&tile->numbers);
    array_done(&tile->table);
}

int tile_write(struct history *history, const uint32_t *quarks, size_t count, unsigned zoom, uint64_t index,
               const struct tile_wanted *wanted, struct text *to, struct problem *problem)
{
    struct history_info info;
    struct tile tile = {.quarks = quarks, .count = count, .zoom = zoom, .wanted = wanted};
    history_get_info(history, &info);
    if (count > TILE_ROWS || zoom > TILE_ZOOM_MAX)
        return problem_set(problem, -EINVAL, "a tile has at most %d rows and zoom %d", TILE_ROWS,
                           TILE_ZOOM_MAX);
    if (info.end_ns <= info.start_ns || index > (info.end_ns - info.start_ns - 1) >> zoom >> 9)
        return problem_set(problem, -ERANGE, "the tile lies behind the end");
    tile.start_ns = info.start_ns + (index << zoom << 9);
    int r = begin_tile(&tile);
    if (r == 0)
        r = summarize(history, &tile, info.end_ns, problem);
    if (r >= 0)
        add_tile(&tile, info.end_ns, to);
    end_tile(&tile);
    return r < 0 ? r : to->failed ? -ENOMEM : 0;
}

int tile_write_numbers(const double *values, const uint8_t *changes, size_t rows, uint64_t start_ns,
                       uint64_t end_ns, unsigned zoom, uint64_t index, struct text *to)
{
    struct tile tile = {.count = rows, .zoom = zoom, .start_ns = start_ns + (index << zoom << 9)};
    if (rows > TILE_ROWS)
        return -EINVAL;
    int r = begin_tile(&tile);
    for (size_t at = 0; r == 0 && at < rows * TILE_COLUMNS; at++) {
        if (isnan(values[at]))
            continue;
        tile.values[at] = number_of(&tile, history_double(values[at]));
        tile.shares[at] = UINT8_MAX;
        tile.changes[at] = changes[at];
        r = tile.failed ? -ENOMEM : 0;
    }
    if (r == 0)
        add_tile(&tile, end_ns, to);
    end_tile(&tile);
    return r < 0 ? r : to->failed ? -ENOMEM : 0;
}
