/* A trace's spans into a tree: duplicates out, parents found, orphans marked, cycles cut, clocks of different
 * hosts brought together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_LINK_H
#define SPAN_LINK_H

#include "span/assemble.h"

struct link_counts {
    uint64_t duplicates; /* spans that came more than once */
    uint64_t orphans;    /* spans whose parent never came */
    uint64_t cycles;     /* spans that are their own ancestors */
    uint64_t rootless;   /* traces without a root: their beginning never came */
    uint64_t skewed;     /* traces in which a host's clock was corrected */
    uint64_t unskewable; /* calls between hosts whose times no offset explains */
};

/* Links a trace in place: sorts its parts so that parents come before children and siblings are in order of
 * time, sets `up`, corrects skew, and drops duplicates (trace->count shrinks). ret_root is the index of the
 * request's first span (always 0 then), or PART_NONE when the trace has none. Other tops are orphans.
 * -ENOMEM. */
int trace_link(struct trace *trace, struct link_counts *counts, uint32_t *ret_root);

#endif
