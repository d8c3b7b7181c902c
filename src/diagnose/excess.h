/* How much slower the newer side's entries of one type are than the older side's with the same attributes,
 * cell by cell: what causes and subgroups are searched over. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_EXCESS_H
#define DIAGNOSE_EXCESS_H

#include "diagnose/book.h"

/* One cell. Latencies are mean natural logarithms of nanoseconds. */
struct excess {
    const struct cell *cell; /* the book's */
    uint32_t labels;
    double n;         /* requests */
    double predicted; /* by the older side: the mean of all, and an effect of each attribute's value */
    double beyond;    /* above what is predicted */
    double d;         /* above the older cell of the same attributes, where that has enough requests */
};

struct excess_list {
    ARRAY(struct excess) cells; /* of the newer side */
    ARRAY(struct excess) older;
    double noise; /* variance of one older request's log latency about what is predicted */
};

/* Which entries are compared. */
struct excess_of {
    uint32_t type;
    uint32_t labels; /* a label set: only those that have all of it; 0: all */
    int (*is_newer)(void *context, uint32_t combination); /* 1 newer, 0 older, -1 neither */
    void *context;
};

/* A cell's side: 1 newer, 0 older, -1 neither, or of other entries. */
int excess_side(const struct book *book, const struct excess_of *of, const struct cell *cell);

/* Both sides, into an empty list; lists stay empty when the older side has hardly any requests. -ENOMEM. */
int excess_collect(const struct book *book, const struct excess_of *of, struct excess_list *ret_list);
void excess_done(struct excess_list *list);

/* Whether a value is distinguished from others of its key; whether a label set has all of these pairs;
 * whether one of the pairs has this key. */
bool labels_usable(const struct book *book, struct label label);
bool labels_match(const struct book *book, uint32_t set, const struct label *labels, size_t length);
bool labels_have_key(const struct label *labels, size_t length, uint32_t key);

#endif
