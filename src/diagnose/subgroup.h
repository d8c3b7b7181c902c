/* A slow-down of a part of the requests only, which all requests together hardly show: the combination of
 * attribute values within which the newer side is most surely slower than the older side predicts, and than
 * its own other requests are. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SUBGROUP_H
#define DIAGNOSE_SUBGROUP_H

#include "diagnose/cause.h"
#include "diagnose/excess.h"

#define SUBGROUP_RATIO_MIN 1.3 /* smaller ones are no findings */

struct subgroup {
    bool tested;        /* there was a combination with enough requests on either side */
    bool slower;        /* set by whoever compares all subgroups that were tested */
    struct cause cause; /* its labels, requests and ratios */
    double low, high;   /* 95 % interval of cause.ratio */
    double p;           /* one-sided, for all the combinations that could have been chosen */
    double adjusted_p;  /* over all subgroups; set with slower */
    uint64_t base_requests;
    size_t hosts, base_hosts;
};

/* Searches these entries. spread: the standard deviation between hosts of log latency. -ENOMEM. */
int subgroup_search(const struct book *book, const struct excess_of *of, double spread,
                    struct subgroup *ret_subgroup);

#endif
