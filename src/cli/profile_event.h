/* What can be sampled: events, and what to say when none came. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_EVENT_H
#define CLI_PROFILE_EVENT_H

#include "base/text.h"
#include "profile/sampler.h"

/* Sets what options say of an event ("cpu", "page-faults", "r1a2"), and the unit of its weights. False: it is
 * not known. */
bool profile_event_set(const char *name, struct sampler_options *options, const char **ret_unit);

/* Adds why there may be no samples of it, and what to do that was not done: sentences. */
void profile_event_say_nothing(const char *name, const struct sampler_options *options, struct text *out);

/* The same of a run that has ended, with what it counted: to stderr. */
void profile_event_explain_nothing(const char *name, const struct sampler_options *options,
                                   const struct sampler_counts *counts);

#endif
