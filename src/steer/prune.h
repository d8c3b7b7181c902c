/* Pruning by thread (Atys, section 5.1: function selective pruning). A service has a few threads that work
 * and hundreds that hardly do. The stacks of those are most of a profile's places and tell next to nothing of
 * what is hot, so they are given up; what they weigh is kept, as PRUNE_RARE of their process, and what the
 * list of hot functions loses by it is measured, not guessed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_PRUNE_H
#define STEER_PRUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

#define PRUNE_RARE "[rare threads]"

enum { PRUNE_TOPS = 4 };

/* How wrong the own weights of the hottest functions became, relative to what they were. */
struct prune_error {
    size_t top;     /* of that many functions: 5, 10, 20, 50, or all when there are fewer */
    double mean;    /* mean absolute percentage error */
    double largest; /* of one of them, in per cent */
};

struct prune_result {
    size_t threads, kept;
    uint64_t weight, rare_weight; /* of the whole profile; of what is in PRUNE_RARE now */
    size_t nodes_before, nodes_after;
    struct prune_error errors[PRUNE_TOPS];
};

/* Of each process, keeps the most sampled threads that together have `percent` (0 to 100) of its weight, and
 * folds the others into PRUNE_RARE. The profile must have threads as its second groups (by_thread); processes
 * that have none stay as they are. keep_threads: false joins the kept threads of a process afterwards. Ids of
 * nodes change. 0 or -ENOMEM. */
int prune_threads(struct profile *profile, double percent, bool keep_threads,
                  struct prune_result *ret_result);

#endif
