/* A profile's functions with their weights by block: stretches of its time (windows.h), or groups of its
 * processes. Samples that follow each other are alike; how blocks differ says how certain a share is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_BLOCKS_H
#define PROFILE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "profile/windows.h"

enum {
    BLOCKS = WINDOWS,
    LEAST_BLOCKS = 6,     /* with fewer a variance is a guess */
    LEAST_PROCESSES = 6,  /* of which blocks are made */
    SAMPLES_PER_DRAW = 4, /* without blocks: samples that are worth one independent draw */
};

struct block_weights {
    double weight[BLOCKS];
};

struct profile_blocks {
    const struct profile *profile;
    struct profile_function *functions; /* without groups; the largest own weight first */
    size_t count;
    uint32_t *of;                       /* by frame: its function; UINT32_MAX: none */
    struct block_weights *self, *total; /* by function */
    struct block_weights all;
    size_t block_count; /* 0: there are none */
    bool by_window;
    double sum, quantum; /* of all weights; of one sample */
};

/* The weight of one sample: their mean where samples are counted, else (folded text has one line for each
 * stack) that of the rarest stack. */
double profile_sample_weight(const struct profile *profile);

/* The profile has to stay. 0 or -ENOMEM. */
int profile_blocks_open(const struct profile *profile, struct profile_blocks *ret_blocks);
void profile_blocks_close(struct profile_blocks *blocks);

/* The variance of a function's share, as that of a ratio estimate over blocks (Cochran, Sampling Techniques,
 * section 6.3), relative to the share's square. Needs at least two blocks; 0 when the function is in none of
 * them. */
double profile_blocks_variance(const struct profile_blocks *blocks, size_t function, bool total);

#endif
