/* Which attribute combination has the errors that a newer version adds: searched, as causes of slow-downs
 * are, over the cells of the book. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_ERROR_CAUSE_H
#define DIAGNOSE_ERROR_CAUSE_H

#include "diagnose/cause.h"
#include "diagnose/excess.h"

struct error_cause {
    struct cause
        cause; /* length 0: nowhere in particular. Its ratios: errors to those that the older side predicts;
                * its coverage: the share of all errors beyond the prediction that it has */
    double share, share_outside; /* errors to requests of the newer side, within and outside */
    double share_older;          /* of the older side, within */
    uint64_t errors;             /* of the newer side, within */
    double low, high;            /* 95 % interval of cause.ratio */
    double p; /* of the older side's share there, one-sided, for all the combinations that could have been
                 chosen */
};

/* The combination that explains the newer side's additional errors best, among these entries; and the part of
 * them that fails most surely more often than before, and than the other entries do (length 0: none).
 * dispersion: how much more the errors of hosts differ than chance would have it, at least 1. -ENOMEM. */
int error_cause_search(const struct book *book, const struct excess_of *of, double dispersion,
                       struct error_cause *ret_cause, struct error_cause *ret_part);

#endif
