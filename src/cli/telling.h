/* Telling what changes in a report that is made again and again: a line for each finding that is new, worse
 * or gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TELLING_H
#define CLI_TELLING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "finding/prose.h"
#include "finding/report.h"

struct told {
    char *key;   /* kind, service and place: what stays the same while it goes on */
    char *title; /* as it was told last */
    enum finding_severity severity;
    uint64_t cost_ns; /* then */
    bool there;       /* in the newest report */
};

/* Zero-initialise, but for json; telling_done() when finished. */
struct telling {
    bool json; /* a document in a line each, else words */
    uint64_t read_ns;
    ARRAY(struct told) list;
};

/* Prints to stdout which of the report's findings are new, became severe, cost twice as much, or are gone.
 * read_ns: what was read for it, in the trace's clock. */
void telling_changes(struct telling *telling, uint64_t read_ns, const struct report *report);
void telling_done(struct telling *telling);

/* A line for each of the first most findings, cut to width columns, and how many more there are. */
void telling_list(struct text *to, const struct report *report, size_t most, unsigned width,
                  const struct prose_style *style);

#endif
