/* Tiles: what a view of states over time draws, reduced to columns of a power of two of nanoseconds. Tiles of
 * one zoom do not overlap, so that a viewer that pans and zooms keeps those it has.
 *
 * Bytes of a tile, little endian:
 *
 *      0  4  "SDT1"
 *      4  2  rows
 *      6  2  columns, TILE_COLUMNS
 *      8  8  start of the first column, ns
 *     16  4  zoom: a column is 2^zoom ns wide
 *     20  4  offset of the table of values
 *     24  8  end of the history, ns; columns behind it are empty
 *     32  8  zero
 *     40     plane of values: uint16 for each row and column, an index into the table; the value that held
 * longest
 *         +  plane of shares: uint8, how much of the column it held, 0 to 255; 0: the column is empty
 *         +  plane of changes: uint8, 0 for none, else 1 + floor(log2(states that begin in the column))
 *         +  plane of second shares: uint8, 0: there was one value only
 *         +  plane of second values: uint16, the value that held second longest
 *         +  table of values: a JSON array of null, numbers and strings; [0] is null
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HISTORY_TILE_H
#define HISTORY_TILE_H

#include "history/history.h"

enum { TILE_COLUMNS = 512, TILE_ROWS = 64, TILE_HEADER = 40, TILE_ZOOM_MAX = 54 };

/* The zoom at which the whole history fits into one tile. */
unsigned tile_zoom_whole(const struct history *history);

/* Whether a tile is still wanted: asked before each of its rows. */
struct tile_wanted {
    bool (*wanted)(void *context);
    void *context;
};

/* Appends the tile whose first column is number index * TILE_COLUMNS, counted from the history's start. count
 * is at most TILE_ROWS. wanted may be NULL. 0; -EINVAL for too many rows or too large a zoom, -ERANGE for a
 * tile behind the history's end, -ECANCELED when it is not wanted any more. */
int tile_write(struct history *history, const uint32_t *quarks, size_t count, unsigned zoom, uint64_t index,
               const struct tile_wanted *wanted, struct text *to, struct problem *problem);

/* Appends a tile of numbers that were found elsewhere: values[row * TILE_COLUMNS + column], NAN where nothing
 * was recorded, and changes as the format has them. 0; -EINVAL for too many rows, or -ENOMEM. */
int tile_write_numbers(const double *values, const uint8_t *changes, size_t rows, uint64_t start_ns,
                       uint64_t end_ns, unsigned zoom, uint64_t index, struct text *to);

#endif
