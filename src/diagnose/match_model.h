/* The model behind match.c, and what match_time.c decides of time in it. Of these two files only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_MATCH_MODEL_H
#define DIAGNOSE_MATCH_MODEL_H

#include "diagnose/match.h"

#define MATCH_BLOCKS_ROOM BOOK_SLOTS_MAX

/* One stratum of one host, with its places in the model. */
struct piece {
    const struct stratum *stratum;
    bool newer;
    uint32_t host;
    uint32_t host_at, class_at; /* indices of effects */
    uint32_t block;             /* of time; BOOK_NONE: not compared */
    bool starting;              /* left out: the host has only just got the newer version */
    double weight;              /* of its requests, so that both sides have as much of each time; at most 1 */
    double n, mean, variance;
};

struct effect {
    double n, value;
    uint32_t hosts; /* of the older side that it was seen on */
    double n_newer;
};

/* One value of one attribute, or (key NAMES_NONE) one set of sub-operations. */
struct trait {
    uint32_t key, value;
    struct effect effect;
};

/* A class that either side has: its traits stand together in class_traits. */
struct known_class {
    uint32_t number;
    uint32_t first, count;
    double level;      /* of its traits and its own effect together */
    struct effect own; /* beyond its traits */
};

struct model {
    ARRAY(struct piece) pieces;
    ARRAY(struct effect) hosts;
    ARRAY(struct known_class) classes;
    ARRAY(struct trait) traits;
    ARRAY(uint32_t) class_traits;
    ARRAY(uint32_t) keys; /* that traits are of */
    struct effect blocks[MATCH_BLOCKS_ROOM];
    size_t block_count;
    double all;
    size_t older_hosts;
};

/* Whether both sides ran beside each other, and in which blocks of time; -ENOMEM. */
int match_choose_time(struct model *m, const struct match_settings *settings, struct match *match);

/* Standard error of the log ratio for what time does to the level of either side (time_spread, grew), once
 * all effects are fitted: only where the sides are not of the same time, but for a part (shares_time).
 * -ENOMEM. */
int match_find_spread(const struct model *m, struct match *match);

#endif
