/* What has become slower, or fails more often, than at the same hour of the days before, over all services.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_DAY_CHANGES_H
#define DIAGNOSE_DAY_CHANGES_H

#include "diagnose/judge.h"

/* Adds one change for each service that no slower version explains, nor a service that it calls; the verdicts
 * are there by then. Nothing where the book keeps no days. -ENOMEM. */
int day_changes_judge(const struct book *book, const struct judge_settings *settings,
                      struct judgement *judgement);

#endif
