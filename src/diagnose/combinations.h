/* How many combinations of attribute values there are that something could be said of: what Bonferroni's
 * inequality has to pay for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_COMBINATIONS_H
#define DIAGNOSE_COMBINATIONS_H

#include "diagnose/cause.h"
#include "diagnose/excess.h"

/* Counts, for each length from 1 to CAUSE_LENGTH_MAX, the combinations of values of different keys that at
 * least `least` requests of either side have. Keys are those of `values`, each of which is one that may be
 * part of a combination. Where counting would take too long, as many as the values make and the requests
 * suffice for. ret_counts has CAUSE_LENGTH_MAX + 1 places, the first one unused. -ENOMEM. */
int combinations_count(const struct book *book, const struct excess_list *list, const struct label *values,
                       size_t value_count, double least, double *ret_counts);

#endif
