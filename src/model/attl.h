/* The latency of atomic operations per kind, for programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANALYZE_ATTL_H
#define ANALYZE_ATTL_H

#include <jansson.h>

#include "model/analysis.h"

/* An array with one object for each service and kind of operation: count, quantiles of its ATTL and of its
 * time at work, and how many were hit by a garbage collection. A new reference. */
json_t *analysis_operations_json(const struct analysis *analysis);

#endif
