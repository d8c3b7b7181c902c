/* Which attribute combination explains a slow-down, and which attributes requests should be bucketed by:
 * searched over the cells of the book, requests of one type that share versions and attributes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_CAUSE_H
#define DIAGNOSE_CAUSE_H

#include "diagnose/book.h"

#define CAUSE_LENGTH_MAX 3

/* The shortest combination of attribute values within which the newer side is slower than the older one. */
struct cause {
    struct label labels[CAUSE_LENGTH_MAX];
    size_t length;
    double gain;     /* requests times squared log ratio explained */
    double coverage; /* share of all slow-down (in log time) that lies within the combination */
    double ratio;    /* newer / older, geometric mean, within it; and outside of it */
    double ratio_outside;
    uint64_t requests; /* newer ones within it */
};

/* Causes of the slow-down of one request type, best first; at most room, fewer when there is nothing to
 * explain. is_newer(context, combination): 1 newer, 0 older, -1 neither. The last one returned beside ours is
 * the simple rule (the one value with the largest ratio), flagged by rule. -ENOMEM. */
int cause_search(const struct book *book, uint32_t type, int (*is_newer)(void *context, uint32_t combination),
                 void *context, struct cause *causes, size_t room, size_t *ret_count, struct cause *ret_rule);

/* An attribute that explains much of the variance of a request type's latency. */
struct proposal {
    uint32_t type, key;
    double explained; /* share of the variance of log latency, corrected for the number of values */
    uint32_t values;
    uint64_t requests;
    bool in_use; /* requests are bucketed by it already */
};

/* The attributes worth bucketing by, over all types, most explained first. At most room; -ENOMEM. */
int cause_propose(const struct book *book, struct proposal *proposals, size_t room, size_t *ret_count);

void cause_words(const struct book *book, const struct cause *cause, struct text *to);

#endif
