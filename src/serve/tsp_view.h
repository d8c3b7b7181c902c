/* What the outputs of the Trace Server (tsp.c) share: a recording as its viewers see it, and what they ask.
 *
 * A viewer names rows by numbers, which it keeps while it shows the experiment: row i of source_rows() is
 * i + 1, the group that begins with row i is n + 1 + i for n rows, the recording itself 2n + 1. All numbers
 * in answers but times must stay below 10^15 and have at most 15 characters: the protocol's client reads
 * longer ones as another type and drops the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_TSP_VIEW_H
#define SERVE_TSP_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/problem.h"
#include "base/text.h"
#include "serve/source.h"

struct tsp_view {
    struct source *source;
    const char *name;        /* of the experiment */
    struct history *history; /* NULL while the recording is read: there are no rows then */
    const struct source_row *rows;
    size_t row_count;
    uint64_t start_ns, end_ns; /* of the history */
    struct problem problem;    /* why a function below refused */
};

/* An endpoint of an output: appends the model of its answer. 0; -EINVAL with words for parameters that are
 * missing or not understood, or another negative errno. */
typedef int tsp_model_fn(struct tsp_view *view, const json_t *parameters, struct text *to);

tsp_model_fn tsp_states_tree, tsp_states, tsp_arrows, tsp_tooltip, tsp_annotations, tsp_styles;
tsp_model_fn tsp_counts_tree, tsp_counts;
tsp_model_fn tsp_shares_tree;
tsp_model_fn tsp_table_columns, tsp_table_lines;

/* The one set of markers, and its category of annotations. */
#define TSP_MARKERS "Findings"

/* What may be asked for at once: samples in time, and rows times samples. */
enum { TSP_COLUMNS_MAX = 8192, TSP_CELLS_MAX = 4 << 20 };

struct tsp_range {
    uint64_t from_ns, to_ns; /* within the history; equal: nothing lies within */
    uint32_t columns;        /* samples, 1 to TSP_COLUMNS_MAX */
};

/* "requested_timerange". -EINVAL when it is missing or not understood. */
int tsp_range(struct tsp_view *view, const json_t *parameters, struct tsp_range *ret_range);

/* An integer of the viewer's, which may come as a double. */
bool tsp_integer(const json_t *value, int64_t *ret_number);

/* "requested_items": which rows are wanted, each once, in the order asked for; *ret_rows is the caller's.
 * Numbers of groups, and of nothing, are left out. */
int tsp_items(struct tsp_view *view, const json_t *parameters, size_t **ret_rows, size_t *ret_count);

/* Fewer samples when there are many rows, so that an answer stays bounded. */
void tsp_range_limit(struct tsp_range *range, size_t rows);

/* An entry of a tree: {"id", "parentId", "labels": [...], its times if timed ...}; text[] ends with NULL. */
void tsp_entry(const struct tsp_view *view, struct text *to, uint64_t id, int64_t parent, bool has_data,
               bool timed, const char *const *labels);

static inline uint64_t tsp_row_id(size_t row)
{
    return row + 1;
}

static inline uint64_t tsp_root_id(const struct tsp_view *view)
{
    return 2 * view->row_count + 1;
}

/* The group that a row belongs to; *first is where it begins, for the row before (0 for the first row). */
uint64_t tsp_group_id(const struct tsp_view *view, size_t row, size_t *first);

/* A number of at most 15 characters, as exact as they allow; null for none. */
void tsp_add_number(struct text *to, double number);

/* The style of a state with this value, a key of tsp_styles(): the colour that the page gives it, and thin
 * for a wait. The pointer is good as long as buffer. */
enum { TSP_STYLE_KEY = 16 };
const char *tsp_style_key(const char *value, char buffer[TSP_STYLE_KEY]);

/* Further keys. */
#define TSP_STYLE_FINDING "finding"
#define TSP_STYLE_CALL    "call"

/* "#0072b2": for a line of a chart. */
const char *tsp_colour(const char *value);

/* A value in words. */
const char *tsp_words(struct history_value value, char *buffer, size_t size);

#endif
