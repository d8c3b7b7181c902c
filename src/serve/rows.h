/* The order and names in which the view of states shows a history's attributes: by process, what matters
 * first. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_ROWS_H
#define SERVE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history/history.h"

/* A row of the view of states: one attribute of the history. */
struct source_row {
    uint32_t quark;
    char group[64];          /* "orders 4711", "CPUs" */
    char name[96];           /* "thread 4712: state" */
    bool names;              /* its numbers are names (a thread's), not amounts */
    bool counts;             /* its values are amounts: more is darker */
    int64_t process, thread; /* whose it is; 0: none in particular */
    char *path;
};

/* report is the report's document, whose "processes" name the threads. *ret_rows and their paths are the
 * caller's. 0 or -ENOMEM; history may be NULL: no rows. */
int rows_list(const char *report, const struct history *history, struct source_row **ret_rows,
              size_t *ret_count);

/* States in which nothing is done: waiting for nothing in particular, and the end. Ends with NULL. */
extern const char *const ROWS_QUIET[];

/* Whether a row with that value is at work. */
bool rows_at_work(struct history_value value);

#endif
