/* Where a fault is: services ranked by how well each explains what differs between a normal and a faulty
 * period. For outages and slow-downs that come without a new version. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_LOCATE_H
#define DIAGNOSE_LOCATE_H

#include "diagnose/book.h"

struct suspect {
    const char *service; /* borrowed from the faulty book's or the normal book's names */
    double score;        /* ours */
    double inside;       /* growth of its own time: the largest of its operations' (log ratios) */
    double into, out_of; /* growth that all calls into it, and all calls out of it, share */
    double broken;       /* share of calls that now end with it, beyond the normal share */
    double rule_self;    /* simple rule: growth of the mean own time per request */
    double rule_total;   /* simple rule: growth of the p95 of its slowest-growing operation */
    char why[256];       /* the strongest evidence, in words */
};

/* How much each kind of evidence counts, beside growth inside: what the score is made with. */
struct locate_weights {
    double into, out_of, broken;
    double others; /* of the evidence that is not the strongest */
};

extern const struct locate_weights LOCATE_WEIGHTS;

/* The score of a suspect's evidence. */
double locate_score(const struct suspect *suspect, const struct locate_weights *weights);

/* The log of how many times the strongest evidence is what it was in the normal period; above LOCATE_SURE it
 * is a finding. */
#define LOCATE_SURE 0.405 /* log 1.5 */
double locate_strength(const struct suspect *suspect);

/* At most room suspects, the most suspected first. -ENOMEM. */
int locate(const struct book *normal, const struct book *faulty, struct suspect *suspects, size_t room,
           size_t *ret_count);

#endif
