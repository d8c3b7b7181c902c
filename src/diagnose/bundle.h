/* The evidence bundle: one verdict as one HTML file that needs nothing else: numbers, both distributions, the
 * forest with the critical path marked, slow and normal requests side by side; and the JSON of it within. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BUNDLE_H
#define DIAGNOSE_BUNDLE_H

#include "diagnose/diagnosis.h"

/* The page of all verdicts of a judgement that are slower. -ENOMEM. */
int bundle_write(const struct diagnosis *diagnosis, const struct judgement *judgement,
                 const struct report *report, struct text *to);

#endif
