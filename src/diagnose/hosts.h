/* What hosts that serve the same tell about each other: how much they differ, and which one is bad. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_HOSTS_H
#define DIAGNOSE_HOSTS_H

#include "diagnose/judge.h"

#define HOSTS_REQUESTS_MIN 20 /* of a host, before it is compared with others */

/* The spread between hosts of one version in log latency, over all buckets of entries; and its degrees of
 * freedom. */
double hosts_spread(const struct book *book, const struct judge_settings *settings, double *ret_freedom);

/* Adds the hosts on which a service is much slower than on their equals, whatever version they run, at the
 * false-discovery rate of the settings over all that was looked at. -ENOMEM. */
int hosts_judge(const struct book *book, const struct judge_settings *settings, struct judgement *judgement);

#endif
