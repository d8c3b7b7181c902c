/* Span tables as CSV (RFC 4180: quotes, doubled quotes, line breaks within quotes; the first line names the
 * columns). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_CSV_H
#define SPAN_CSV_H

#include "base/arena.h"
#include "span/mapping.h"

#define CSV_COLUMNS_MAX 256

/* One record: its cells, of which at most CSV_COLUMNS_MAX are kept. 1, 0 at the end of the text, -ENOMEM.
 * Cells with doubled quotes are copied to scratch, all others are slices of the text. */
int csv_record(const char **at, const char *end, struct arena *scratch, struct slice *cells,
               size_t *ret_count);

/* mapping may be NULL: all columns are guessed. */
int csv_decode(const char *text, size_t length, const struct mapping *mapping, struct span_sink *sink,
               struct problem *problem);

#endif
