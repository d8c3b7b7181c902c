/* How many combinations of attribute values there are that something could be said of: what Bonferroni's
 * inequality has to pay for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_COMBINATIONS_H
#define DIAGNOSE_COMBINATIONS_H

#include "diagnose/cause.h"
#include "diagnose/excess.h"

struct combination_limits {
    double least; /* requests of either side */
    double noise; /* variance of one request's log latency; 0: all combinations weigh the same */
};

/* What a combination weighs, from 0.05 to 1, by its requests alone and so whatever they take: the less a
 * slow-down of two times could be seen in so few, the less of the level it gets. */
double combinations_weight(const struct combination_limits *limits, double newer, double older);

/* Adds up, for each length from 1 to CAUSE_LENGTH_MAX, the weights of the combinations of values of different
 * keys that enough requests of either side have. Keys are those of `values`, each of which is one that may be
 * part of a combination. Where counting would take too long, as many as the values make and the requests
 * suffice for weigh 1 each. ret_weights has CAUSE_LENGTH_MAX + 1 places, the first one unused. -ENOMEM. */
int combinations_weigh(const struct book *book, const struct excess_list *list, const struct label *values,
                       size_t value_count, const struct combination_limits *limits, double *ret_weights);

#endif
