/* How far two profiles are from each other: the Jensen-Shannon divergence of their hottest functions and one
 * cell for all others (Atys, section 5.2; Lin, Divergence measures based on the Shannon entropy, 1991), and
 * what it would be by sampling alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_DIVERGENCE_H
#define STEER_DIVERGENCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/map.h"
#include "profile/profile.h"

/* How many samples each function has of its own. Zero-initialise to use. */
struct distribution_cell {
    uint64_t key; /* of a function, never 0; the same in all profiles */
    double samples;
};
struct distribution {
    struct map index; /* key -> place in cells */
    ARRAY(struct distribution_cell) cells;
    double samples; /* of all of them */
};

void distribution_done(struct distribution *distribution);

/* Samples may be negative, to take back what was added. 0 or -ENOMEM. */
int distribution_add(struct distribution *distribution, uint64_t key, double samples);
int distribution_merge(struct distribution *into, const struct distribution *from, double factor);

/* Adds the functions of a profile, by their own samples. 0 or -ENOMEM. */
int distribution_add_profile(struct distribution *into, const struct profile *profile);

/* The same by their own weights, times factor. */
int distribution_add_weights(struct distribution *into, const struct profile *profile, double factor);

enum { DIVERGENCE_CELLS = 65 };

struct divergence {
    double nats;    /* Jensen-Shannon with equal weights: 0 to ln 2 */
    double scale;   /* 8 / (1/n + 1/m): nats * scale is chi-squared with cells - 1 degrees of freedom, if
                     * samples are independent draws of one distribution */
    unsigned cells; /* functions and, behind them, all others together */
    struct {
        uint64_t key; /* 0: all others */
        double nats;  /* of the two cells that this function and the rest are: one degree of freedom */
    } cell[DIVERGENCE_CELLS];
};

/* Of the `top` functions that are hottest in both together, less those of which hardly any sample is
 * expected: they belong to the others. At least one sample on each side, else nothing diverges. top <
 * DIVERGENCE_CELLS. 0 or -ENOMEM. */
int divergence_of(const struct distribution *a, const struct distribution *b, unsigned top,
                  struct divergence *ret_divergence);

#endif
