/* Does the newer side fail more often? Errors are compared within strata of time, and hosts whose errors
 * differ more than chance allows count for less. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_ERRORS_H
#define DIAGNOSE_ERRORS_H

#include "diagnose/match.h"

struct error_result {
    double rate_older, rate_newer;
    double ratio, low, high; /* newer / older, with its 95 % interval */
    double p, adjusted_p;    /* one-sided; adjusted over all contrasts by the caller */
    double e_value;          /* valid however often one looks */
    double dispersion;       /* how much more hosts differ than chance would have it; 1: no more */
    double errors_older, errors_newer;
    bool more; /* set by the caller */
};

#define ERRORS_MINIMUM_RATIO 1.2
#define ERRORS_MINIMUM_SHARE 0.002 /* of requests: smaller growth is no finding */

void errors_test(const struct match *match, struct error_result *ret_result);

#endif
