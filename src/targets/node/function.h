/* The JavaScript functions that were chosen when the trace was made (--function), for commands that show
 * them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_FUNCTION_H
#define TARGETS_NODE_FUNCTION_H

#include <jansson.h>

#include "model/analysis.h"

/* An array with one object for each service, process and function: its calls, what they took until they
 * returned or their promise was settled (p50_ns, p95_ns, worst_ns, total_ns; absent when none has ended), and
 * how long the event loop was busy with them, without other chosen functions that they called (self_ns). A
 * new reference. */
json_t *analysis_functions_json(const struct analysis *analysis);

#endif
