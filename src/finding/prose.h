/* Findings and the rest of a report as text for a terminal. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINDING_PROSE_H
#define FINDING_PROSE_H

#include "finding/report.h"

/* Escape sequences, or all "" for plain text. */
struct prose_style {
    const char *none, *bold, *dim, *red, *yellow, *green, *cyan;
};
extern const struct prose_style prose_plain;

/* Text broken at spaces so that no line exceeds width columns; lines after the first are indented. The first
 * line starts at column (what stands before it is the caller's). UTF-8 counts by characters. Ends without a
 * line feed. */
void prose_wrap(struct text *to, const char *words, unsigned column, unsigned indent, unsigned width);

/* All findings in words, ranked: title, where, cause, who suffered, remedy. Says why when there are none. */
void prose_findings(struct text *to, const struct report *report, const struct prose_style *style,
                    unsigned width);

/* Losses, overhead and what is missing; adds nothing for those that are empty. */
void prose_limits(struct text *to, const struct report *report, const struct prose_style *style,
                  unsigned width);

/* "1 request", "12 requests", "1,234 requests". Plural is singular with an s. */
void prose_count(struct text *to, uint64_t count, const char *singular);

#endif
