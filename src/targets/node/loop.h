/* The event loops and collectors of the traced Node processes over time, for programs that draw them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_LOOP_H
#define TARGETS_NODE_LOOP_H

#include <jansson.h>

#include "model/analysis.h"

/* An array with one object for each thread that ran an event loop; a new reference, NULL when memory is
 * exhausted. Times are in bins of one width: how long the loop was active, its turns and the longest of them,
 * what garbage collection and encoding took, and the heap after the last collection of each bin. TIGC and
 * TBGC of the paper (Node Compass 4.3) are gc_ns / collections_count and between_ns / collections_count of a
 * bin. Queues: the most callbacks that one tick found ready (ready_most_count), the most operations that this
 * loop had in the thread pool (pool_most_count), and sums over these operations of the time waiting for a
 * thread, at work, and done and waiting for the loop (pool_queued_ns, ...): divided by the width of the bin,
 * or in "queues" by observed_ns, the mean length of each queue (Little's law). */
json_t *analysis_loops_json(const struct analysis *analysis);

#endif
