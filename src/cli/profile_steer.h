/* What the steering of a profile (src/steer) did, in words and as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_STEER_H
#define CLI_PROFILE_STEER_H

#include <jansson.h>

#include "cli/profile_report.h"
#include "cli/profile_sampling.h"
#include "steer/tuning.h"

/* To stderr: what was given up, and the error that it makes. */
void profile_steer_print_pruned(const struct prune_result *pruned);

void profile_steer_print_rate(const struct rate_summary *rate);

void profile_steer_print_cost(const struct cost *cost);

/* profile: that was measured. */
void profile_steer_print_target(const struct profile *profile, const struct certainty_target *target,
                                const struct certainty_reached *reached);

/* To stdout: what to set for the service that was profiled. */
void profile_steer_print_tuning(const struct tuning *tuning, double acceptable,
                                const struct rate_summary *rate, bool json);

/* Adds what is known to the "profile" object of the document. */
void profile_steer_add_json(json_t *profile, const struct profile_facts *facts);

#endif
