/* Like with like: the entries of an older and a newer side made comparable. Where both ran at the same time,
 * only that time counts, and each request's latency is put right by what its time and its class (attributes
 * and sub-operations) did to the older side's; what the older side has not seen is not put right. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_MATCH_H
#define DIAGNOSE_MATCH_H

#include "diagnose/book.h"
#include "diagnose/regress.h"

#define MATCH_CONCURRENT_MIN 300 /* requests of the older side meanwhile, before a rollout may be stopped */

/* A side's hosts: standardised latencies. */
struct clusters {
    ARRAY(struct cluster) list;
    ARRAY(struct sketch) sketches;
};

/* Errors of one host over the time that is compared. */
struct error_count {
    uint32_t host;
    bool newer;
    double requests, errors, expected; /* by the rate of both sides together, stratum by stratum */
};

struct match {
    struct clusters older, newer;
    ARRAY(struct error_count) errors;
    double error_variance; /* of the newer side's errors, given all of them (hypergeometric) */
    bool concurrent;       /* both sides over the same time */
    bool uneven;           /* each has much more than the other of some of it, and time moves the level: tails
                              of slots of time that differ within them are not alike */
    bool shares_time;      /* it is not, but there is a time that both share, long enough to be compared */
    bool waiting;          /* the older side runs too, but has not served enough meanwhile: no alarm yet */
    double mix;            /* log ratio of the newer side's latency that its mix of classes explains */
    struct label
        mix_label; /* the attribute value that most of it is owed to; key NAMES_NONE: sub-operations */
    double mix_share_older, mix_share_newer; /* the share of either side with it */
    double time_spread; /* how much the level of either side moves by itself, where times differ */
    double grew;        /* what of it only the newer side grew by, after it came: part of its log level */
};

struct match_settings {
    bool watching;    /* a rollout, looked at again and again */
    bool shared_time; /* only the time that both sides share, however little of the newer one's it is */
    uint64_t requests_min;
};

/* The groups are those of one bucket of entries. -ENOMEM. */
int match_sides(const struct book *book, const struct group *const *older, size_t older_count,
                const struct group *const *newer, size_t newer_count, const struct match_settings *settings,
                struct match *ret_match);

void match_done(struct match *match);
void clusters_done(struct clusters *clusters);

#endif
