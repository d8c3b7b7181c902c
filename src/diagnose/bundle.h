/* The evidence of a judgement for the page's view of regressions: for each verdict that is slower its
 * numbers, both distributions, what changed on the critical path, the forest, slow and normal requests side
 * by side. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BUNDLE_H
#define DIAGNOSE_BUNDLE_H

#include "diagnose/diagnosis.h"

/* Appends the document, JSON (web/src/types.ts has its members). -ENOMEM. */
int bundle_document(const struct diagnosis *diagnosis, const struct judgement *judgement,
                    const struct report *report, struct text *to);

/* Appends the page with such a document within, as one file. -ENOMEM. */
int bundle_page(const struct text *document, struct text *to);

/* Both. */
int bundle_write(const struct diagnosis *diagnosis, const struct judgement *judgement,
                 const struct report *report, struct text *to);

#endif
