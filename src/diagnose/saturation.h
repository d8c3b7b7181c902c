/* Versions whose hosts complete fewer requests while others wait, and queues that grow (throughput.h), as
 * judgements and as findings. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SATURATION_H
#define DIAGNOSE_SATURATION_H

#include "diagnose/diagnosis.h"

/* Adds the contrasts' throughputs, and the queues that grow where no version's throughput explains it. 0 or
 * -ENOMEM. */
int saturation_judge(const struct book *book, const struct judge_settings *settings,
                     struct judgement *judgement);

/* The findings. 0 or -ENOMEM. */
int saturation_report(const struct book *book, const struct judgement *judgement, struct report *report);

/* [{service, version, base_version, bucket, outcome, ...}] */
json_t *saturation_document(const struct book *book, const struct judgement *judgement);

#endif
