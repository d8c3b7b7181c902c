/* The windows of a profile whose rate changes, pooled by regime (rate.h). In a regime what is hot stays the
 * same, so that each sample of it says as much as any other, at whatever rate it was taken: the regime's
 * weight, which is known well, is spread over its stacks by their samples (Atys, section 5.2: high rates
 * serve the low ones). That is biased where windows of one regime differ after all; so each regime is also
 * kept by time, and what is given out lies between both, the nearer to the latter the more they differ. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_POOLING_H
#define STEER_POOLING_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

struct pool;

/* as: a profile whose event, unit and limits those of the pool are. keep: nodes of a regime; above that, rare
 * stacks lose their callers. -ENOMEM. */
int pool_new(const struct profile *as, size_t keep, struct pool **ret_pool);
void pool_free(struct pool *pool);
DEFINE_FREEP(struct pool, pool_free)

/* Adds a window to its regime; its weights are overwritten. fresh: the regime's number begins anew. 0 or
 * -ENOMEM. */
int pool_add(struct pool *pool, size_t regime, bool fresh, struct profile *window);

/* Adds all regimes to into, whose weights then sum to those of all windows; with windows for intervals, when
 * it keeps some. 0 or -ENOMEM. */
int pool_finish(struct pool *pool, struct profile *into);

#endif
