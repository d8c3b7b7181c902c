/* What hosts that serve the same tell about each other: how much they differ, and which one is bad. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_HOSTS_H
#define DIAGNOSE_HOSTS_H

#include "diagnose/judge.h"

#define HOSTS_REQUESTS_MIN 20 /* of a host, before it is compared with others */

/* Sets the spread between hosts of one version in log latency, that of differences between versions on the
 * same host, over all buckets of entries, and what either rests on. */
void hosts_spread(const struct book *book, struct regress_settings *settings);

/* Adds the hosts on which a service is much slower than on their equals, whatever version they run, at the
 * false-discovery rate of the settings over all that was looked at. -ENOMEM. */
int hosts_judge(const struct book *book, const struct judge_settings *settings, struct judgement *judgement);

#endif
