/* One contrast tested: an older and a newer side made alike (match.h), then their latency (regress.h,
 * sequential.h) and errors (errors.h) compared. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_CONTRAST_H
#define DIAGNOSE_CONTRAST_H

#include "diagnose/judge.h"

/* Both sides' groups, borrowed. */
struct contrast_of {
    const struct group *const *older, *const *newer;
    size_t older_count, newer_count;
};

/* Sets what the tests say in a verdict whose sides are set. A version that ran beside the older one for the
 * smaller part of its time, as one does that came host by host and stayed, is tested twice: over all time,
 * and over the time that both share; the p-value is paid for both. spread: between hosts, of log latency.
 * -ENOMEM. */
int contrast_test(const struct book *book, const struct contrast_of *of,
                  const struct judge_settings *settings, double spread, struct verdict *verdict);

#endif
