/* How busy each group of rows (a process, the CPUs) was over time: for the overview, which shows one row a
 * group. Made once from all rows and kept beside the recording, so that an overview of thousands of rows
 * reads none of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_GROUPS_H
#define SERVE_GROUPS_H

#include <stdbool.h>

#include "base/text.h"
#include "history/history.h"
#include "serve/rows.h"

/* Up to this many times finer than the tile that shows the whole. */
#define GROUPS_DEEPER 3

struct groups;

/* Reads every row. *cancel (atomic, may be NULL) ends that with -ECANCELED. Rows of one group stand together.
 */
int groups_make(struct history *history, const struct source_row *rows, size_t count, const bool *cancel,
                struct groups **ret_groups, struct problem *problem);

/* Writes it to a file, and reads one that groups_write() has made of the same history and rows: -ESTALE when
 * it is of others or damaged. */
int groups_write(const struct groups *groups, const char *path);
int groups_read(const char *path, const struct history *history, const struct source_row *rows, size_t count,
                struct groups **ret_groups);

/* The least zoom that groups_tile() has. */
unsigned groups_zoom(const struct groups *groups);

/* Appends a tile (history/tile.h) of the page-th TILE_ROWS groups. A value is how many of the group's rows
 * were at work on average. -ENOENT for groups that are not there, -ERANGE for a tile behind the end or below
 * groups_zoom(). */
int groups_tile(const struct groups *groups, size_t page, unsigned zoom, uint64_t index, struct text *to);

void groups_free(struct groups *groups);
DEFINE_FREEP(struct groups, groups_free)

#endif
