/* The order and names in which the view of states shows a history's attributes: by process, what matters
 * first. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_ROWS_H
#define SERVE_ROWS_H

#include "serve/source.h"

/* report is the report's document, whose "processes" name the threads. *ret_rows and their paths are the
 * caller's. 0 or -ENOMEM; history may be NULL: no rows. */
int rows_list(const char *report, const struct history *history, struct source_row **ret_rows,
              size_t *ret_count);

#endif
