/* The samples of a profile as events of a trace that is recorded meanwhile. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_TRACE_H
#define CLI_PROFILE_TRACE_H

#include <stdint.h>

#include "base/problem.h"
#include "profile/profile.h"
#include "trace/ctf_writer.h"

/* Adds the kept samples to the trace as a stream of profile:sample, in order of time. lost: samples that the
 * kernel had no room for; they and those that were not kept are counted as the stream's lost events. 0 or a
 * negative errno with problem set. Sorts the profile's samples. */
int profile_into_trace(struct profile *profile, uint64_t lost, struct ctf_writer *trace,
                       struct problem *problem);

#endif
