/* See groups.h. A file is a header, then for each group its columns as floats (NAN: nothing recorded) and
 * then as bytes: 0 for no change, else 1 + floor(log2(changes)). Byte order is that of the machine, as in the
 * rest of what is kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/groups.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "history/tile.h"

#define CELLS_MAX ((size_t)4 << 20) /* more groups have coarser columns */
#define FILE_MAX  (sizeof(struct header) + 8 * CELLS_MAX)

struct header {
    char magic[4];
    uint32_t groups, columns, zoom;
    uint64_t start_ns, end_ns, changes;
    uint64_t rows; /* hash of their names */
};

struct groups {
    struct header header;
    float *busy;      /* by group and column */
    uint8_t *changes; /* the same */
};

/* A walk along the rows. */
struct walk {
    struct groups *groups;
    const struct source_row *row;
    size_t group;
    uint32_t *changes; /* by group and column */
};

static size_t count_groups(const struct source_row *rows, size_t count)
{
    size_t groups = 0;
    for (size_t i = 0; i < count; i++)
        groups += !i || strcmp(rows[i].group, rows[i - 1].group) != 0;
    return groups;
}

static struct header header_of(const struct history *history, const struct source_row *rows, size_t count)
{
    struct header header = {.magic = "SDG1"};
    struct history_info info;
    history_get_info(history, &info);
    header.start_ns = info.start_ns;
    header.end_ns = info.end_ns;
    header.changes = info.changes;
    header.groups = (uint32_t)count_groups(rows, count);
    unsigned whole = tile_zoom_whole(history);
    header.zoom = whole > GROUPS_DEEPER ? whole - GROUPS_DEEPER : 0;
    uint64_t span = info.end_ns > info.start_ns ? info.end_ns - info.start_ns - 1 : 0;
    while (header.zoom < whole && header.groups * ((span >> header.zoom) + 1) > CELLS_MAX)
        header.zoom++;
    header.columns = (uint32_t)(span >> header.zoom) + 1;
    for (size_t i = 0; i < count; i++)
        header.rows = header.rows * 31 + map_hash(rows[i].path, strlen(rows[i].path)) +
                      map_hash(rows[i].group, strlen(rows[i].group));
    return header;
}

static int new_groups(const struct header *header, struct groups **ret_groups)
{
    size_t cells = (size_t)header->groups * header->columns;
    struct groups *groups = cells <= 2 * CELLS_MAX ? calloc(1, sizeof(*groups)) : NULL;
    if (!groups)
        return -ENOMEM;
    groups->header = *header;
    groups->busy = calloc(cells + 1, sizeof(*groups->busy));
    groups->changes = calloc(cells + 1, 1);
    if (!groups->busy || !groups->changes) {
        groups_free(groups);
        return -ENOMEM;
    }
    for (size_t i = 0; i < cells; i++)
        groups->busy[i] = NAN;
    *ret_groups = groups;
    return 0;
}

void groups_free(struct groups *groups)
{
    if (!groups)
        return;
    free(groups->busy);
    free(groups->changes);
    free(groups);
}

static uint8_t magnitude(uint64_t changes)
{
    return changes ? (uint8_t)(64 - __builtin_clzll(changes)) : 0;
}

/* Adds one cell of a row. Changes are added up as powers of two: their sum is no less than half of what it
 * says. */
static int take(void *context, uint32_t column, const struct history_summary *s)
{
    struct walk *walk = context;
    const struct header *h = &walk->groups->header;
    uint64_t width = s->end_ns - s->start_ns, busy = s->other_ns;
    column = (uint32_t)((s->start_ns - h->start_ns) >> h->zoom);
    if (column >= h->columns || !s->shares || !width)
        return 0;
    size_t at = walk->group * h->columns + column;
    for (uint32_t i = 0; i < s->shares; i++)
        busy += rows_at_work(s->share[i].value) ? s->share[i].held_ns : 0;
    if (!walk->row->counts)
        walk->groups->busy[at] =
            (isnan(walk->groups->busy[at]) ? 0 : walk->groups->busy[at]) + (float)busy / (float)width;
    walk->changes[at] = (uint32_t)MIN(walk->changes[at] + s->changes, (uint64_t)UINT32_MAX);
    return 0;
}

int groups_make(struct history *history, const struct source_row *rows, size_t count, const bool *cancel,
                struct groups **ret_groups, struct problem *problem)
{
    const struct header header = header_of(history, rows, count);
    _cleanup_(groups_freep) struct groups *groups = NULL;
    int r = new_groups(&header, &groups);
    size_t cells = (size_t)header.groups * header.columns;
    _cleanup_(freep) uint32_t *changes = calloc(cells + 1, sizeof(*changes));
    struct walk walk = {.groups = groups, .changes = changes};
    if (r == 0 && !changes)
        r = -ENOMEM;
    uint64_t span = header.end_ns - header.start_ns, whole = span >> header.zoom,
             to_ns = header.start_ns + (whole << header.zoom);
    for (size_t i = 0; r >= 0 && i < count; i++) {
        walk.row = &rows[i];
        walk.group += i && strcmp(rows[i].group, rows[i - 1].group) != 0;
        if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
            r = -ECANCELED;
        if (r >= 0 && whole)
            r = history_summarize(history, &rows[i].quark, 1, header.start_ns, to_ns, (uint32_t)whole, take,
                                  &walk, problem);
        if (r >= 0 && to_ns < header.end_ns) /* the last column ends with the history */
            r = history_summarize(history, &rows[i].quark, 1, to_ns, header.end_ns, 1, take, &walk, problem);
    }
    if (r < 0)
        return r;
    for (size_t i = 0; i < cells; i++)
        groups->changes[i] = magnitude(changes[i]);
    *ret_groups = groups;
    groups = NULL;
    return 0;
}

int groups_write(const struct groups *groups, const char *path)
{
    size_t cells = (size_t)groups->header.groups * groups->header.columns;
    struct text text = {0};
    text_add_bytes(&text, (const char *)&groups->header, sizeof(groups->header));
    text_add_bytes(&text, (const char *)groups->busy, cells * sizeof(*groups->busy));
    text_add_bytes(&text, (const char *)groups->changes, cells);
    int r = text.failed ? -ENOMEM : file_replace(path, text_get(&text), text.length);
    text_done(&text);
    return r;
}

int groups_read(const char *path, const struct history *history, const struct source_row *rows, size_t count,
                struct groups **ret_groups)
{
    const struct header header = header_of(history, rows, count);
    size_t cells = (size_t)header.groups * header.columns, length;
    _cleanup_(freep) char *data = NULL;
    struct groups *groups = NULL;
    int r = file_read(path, FILE_MAX, &data, &length);
    if (r < 0)
        return r;
    if (length != sizeof(header) + cells * (sizeof(*groups->busy) + 1) ||
        memcmp(data, &header, sizeof(header)) != 0)
        return -ESTALE;
    r = new_groups(&header, &groups);
    if (r < 0)
        return r;
    memcpy(groups->busy, data + sizeof(header), cells * sizeof(*groups->busy));
    memcpy(groups->changes, data + sizeof(header) + cells * sizeof(*groups->busy), cells);
    for (size_t i = 0; i < cells; i++)
        if (!(groups->busy[i] >= 0) || groups->changes[i] > 64) {
            groups->busy[i] = NAN;
            groups->changes[i] = 0;
        }
    *ret_groups = groups;
    return 0;
}

unsigned groups_zoom(const struct groups *groups)
{
    return groups->header.zoom;
}

/* Two significant digits, so that a tile has few values. */
static double rounded(double value)
{
    if (value < 0.005)
        return 0;
    double unit = pow(10, floor(log10(value)) - 1);
    return round(value / unit) * unit;
}

/* What `columns` columns from `first` on have: the mean of those that were recorded. */
static void add_up(const struct groups *groups, size_t group, uint64_t first, uint64_t columns,
                   double *ret_busy, uint8_t *ret_changes)
{
    const struct header *h = &groups->header;
    double sum = 0;
    uint64_t recorded = 0, changes = 0;
    for (uint64_t i = first; i < MIN(first + columns, (uint64_t)h->columns); i++) {
        size_t at = group * h->columns + i;
        if (isnan(groups->busy[at]))
            continue;
        sum += groups->busy[at];
        recorded++;
        changes += groups->changes[at] ? 1ull << MIN(groups->changes[at] - 1, 56) : 0;
    }
    *ret_busy = recorded ? rounded(sum / (double)recorded) : NAN;
    *ret_changes = magnitude(changes);
}

int groups_tile(const struct groups *groups, size_t page, unsigned zoom, uint64_t index, struct text *to)
{
    const struct header *h = &groups->header;
    if (page > h->groups / TILE_ROWS || page * TILE_ROWS >= h->groups)
        return -ENOENT;
    if (zoom < h->zoom || zoom > TILE_ZOOM_MAX || index > (h->end_ns - h->start_ns - 1) >> zoom >> 9)
        return -ERANGE;
    size_t rows = MIN((size_t)TILE_ROWS, h->groups - page * TILE_ROWS), cells = rows * TILE_COLUMNS;
    _cleanup_(freep) double *values = calloc(cells, sizeof(*values));
    _cleanup_(freep) uint8_t *changes = calloc(cells, 1);
    if (!values || !changes)
        return -ENOMEM;
    unsigned merged = zoom - h->zoom;
    for (size_t row = 0; row < rows; row++)
        for (uint64_t column = 0; column < TILE_COLUMNS; column++)
            add_up(groups, page * TILE_ROWS + row, (index * TILE_COLUMNS + column) << merged, 1ull << merged,
                   &values[row * TILE_COLUMNS + column], &changes[row * TILE_COLUMNS + column]);
    return tile_write_numbers(values, changes, rows, h->start_ns, h->end_ns, zoom, index, to);
}
