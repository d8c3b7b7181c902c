/* What a profile that goes on says of itself to Prometheus: functions by service (steer/exposition.h), and
 * what was kept and lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_METRICS_H
#define CLI_PROFILE_METRICS_H

#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"
#include "profile/business.h"
#include "profile/profile.h"
#include "steer/regressed.h"

struct profile_metrics;

/* Answers GET /metrics at the address ("127.0.0.1:9477") until it is freed. 0 or a negative errno. */
int profile_metrics_start(const char *address, struct profile_metrics **ret_metrics, struct problem *problem);
void profile_metrics_free(struct profile_metrics *metrics);
DEFINE_FREEP(struct profile_metrics, profile_metrics_free)

uint16_t profile_metrics_port(const struct profile_metrics *metrics);

/* A window has ended: its functions by service (profile_by_service()). 0 or -ENOMEM. */
int profile_metrics_add(struct profile_metrics *metrics, const struct profile *services,
                        const struct business_rules *rules);

/* The functions whose share has grown, of the last day (steer/regressed.h). 0 or -ENOMEM. */
int profile_metrics_set_regressed(struct profile_metrics *metrics, const struct regressed_function *functions,
                                  size_t count);

/* Since the start: windows that were kept and could not be, samples that were lost, CPU time that sonde took;
 * and the rate of now. */
void profile_metrics_set(struct profile_metrics *metrics, uint64_t kept, uint64_t failed, uint64_t lost,
                         unsigned hz, double spent_s);

#endif
