/* Throughput and saturation: how many requests a host completes while others wait for it. A version that gets
 * less traffic serves less and is no worse; only while requests wait does a rate say what a host can do. How
 * long they wait is known where the span that calls or sends them is: a client's, a producer's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_THROUGHPUT_H
#define DIAGNOSE_THROUGHPUT_H

#include "diagnose/book.h"

enum throughput_outcome {
    THROUGHPUT_CANNOT_TELL, /* nothing waited, or too little is known */
    THROUGHPUT_NOT_FEWER,
    THROUGHPUT_FEWER,
};

/* Of a contrast of versions. */
struct throughput {
    uint32_t bucket, service, version, base;
    enum throughput_outcome outcome;
    bool tested;
    bool older_waited;       /* the older side while requests waited for it, too; else all that it served */
    double rate, base_rate;  /* requests a second of a host: geometric means over hosts */
    double ratio, low, high; /* the first to the second, and its 95 % interval */
    double p;                /* one-sided: fewer */
    double e_value;          /* the same, however often it is looked at */
    size_t hosts, base_hosts;
    double wait_ns, usual_wait_ns; /* for a newer host while requests waited; at the best of times */
    uint64_t requests, first_ns, last_ns;
};

/* Both sides are groups of one bucket of entries. -ENOMEM. Fills in all but names and outcome. */
int throughput_test(const struct book *book, const struct bucket *bucket, const struct group *const *older,
                    size_t older_count, const struct group *const *newer, size_t newer_count,
                    struct throughput *ret_throughput);

/* Decides the outcomes of all contrasts together, at this rate of false ones. */
void throughput_decide(struct throughput *all, size_t count, double rate);

/* The same of e-values, for whoever looks again and again: at most this chance of a false one ever. */
void throughput_decide_watched(struct throughput *all, size_t count, double chance);

/* A queue that grows: more comes than is completed. */
struct backlog {
    uint32_t bucket;
    double completed, low, high;   /* share of what comes, with its 95 % interval */
    double p;                      /* one-sided: as much is completed as comes, but for BEHIND_MIN */
    double wait_ns, usual_wait_ns; /* at the end; at the best of times */
    uint64_t requests, since_ns, last_ns;
};

/* Whether requests wait longer and longer up to the end. -ENOMEM. */
int backlog_find(const struct book *book, uint32_t bucket, bool *ret_grows, struct backlog *ret_backlog);

const char *throughput_outcome_name(enum throughput_outcome outcome);

#endif
