/* What a judgement found beside slower versions, as alerts: versions whose hosts complete fewer requests,
 * queues that grow, services that are slower than on the days before. For whoever looks again and again:
 * `sonde watch` (rollout.h), `sonde serve` (watcher.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_BESIDE_H
#define SERVE_BESIDE_H

#include "diagnose/judge.h"
#include "serve/alerts.h"

/* Between alerts_begin() and alerts_end(). ret_version: whether a version is to blame for any of it. 0 or
 * -ENOMEM. */
int beside_see(struct alerts *alerts, const struct book *book, const struct judgement *judgement,
               bool *ret_version);

/* Whether an alert blames a version, so that an action may stop its rollout. */
bool beside_blames_version(const struct alert *alert);

#endif
