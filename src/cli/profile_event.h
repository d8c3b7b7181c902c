/* What can be sampled: events, and what to say when none came. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_EVENT_H
#define CLI_PROFILE_EVENT_H

#include "profile/sampler.h"

/* Sets what options say of an event ("cpu", "page-faults", "r1a2"), and the unit of its weights. False: it is
 * not known. */
bool profile_event_set(const char *name, struct sampler_options *options, const char **ret_unit);

/* Why there are no samples of it, with what to do: to stderr. */
void profile_event_explain_nothing(const char *name, const struct sampler_options *options,
                                   const struct sampler_counts *counts);

#endif
