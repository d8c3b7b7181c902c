/* Functions whose share of their service's CPU has grown: a stretch of a store (keeping.h) is judged against
 * earlier stretches of the same length.
 *
 * Like is compared with like: with the same hours of earlier days, of working days or weekends alone where
 * there are six of the kind, or else, where the store is young, with the stretches just before. How much a
 * function's share differs between those says what is noise (profile_differences_of_runs()). A growth counts
 * when both halves of the stretch show half of it at least: what happened once is no regression. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_REGRESSED_H
#define STEER_REGRESSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/macro.h"
#include "base/problem.h"
#include "diagnose/profile_difference.h"
#include "finding/report.h"

struct regressed_options {
    uint64_t from_s, until_s; /* what is judged, since 1970 */
    double level;             /* the share of judgements of the whole store that find something by chance */
    double least;             /* of its service's CPU, 0 to 1: what a function has to have grown by */
};

/* One false finding a month, when every six hours the last six and the last 24 hours are judged. */
#define REGRESSED_LEVEL (1 / (4 * 2 * 365.25 / 12))
#define REGRESSED_LEAST 0.0025

struct regressed_function {
    char *service, *function, *place;
    struct difference share; /* of the service's CPU */
};

struct regressed {
    struct regressed_options options;
    ARRAY(struct regressed_function) functions; /* what grew most comes first */
    size_t services, unjudged;                  /* that were compared; that had too little to compare */
    size_t runs;                                /* earlier stretches; 0: too few */
    bool by_day; /* they are the same hours of earlier days, of one kind of day: */
    bool one_kind;
    size_t damaged; /* windows that could not be read */
    bool empty;     /* the store holds no window at all */
};

enum {
    REGRESSED_RUNS_LEAST = 6, /* earlier stretches that are needed */
    REGRESSED_SAMPLES = 1000, /* of a service in the stretch, for a judgement */
};

void regressed_done(struct regressed *regressed);

/* Of one service: what differs between after and what before's windows hold, one earlier run each; after has
 * two windows, its halves. Adds to ret_functions. level: for this service. 0 or -ENOMEM. */
int regressed_judge(const struct profile *before, const struct profile *after, const char *service,
                    double level, double least, struct regressed *into);

/* Reading a store takes a while: it is done some windows at a time. */
struct regressed_search;

int regressed_search_new(const char *path, const struct regressed_options *options,
                         struct regressed_search **ret_search, struct problem *problem);
void regressed_search_free(struct regressed_search *search);
DEFINE_FREEP(struct regressed_search, regressed_search_free)

/* Reads so many windows. 1: there is more to read, 0: all was read, or a negative errno. */
int regressed_search_step(struct regressed_search *search, size_t windows, struct problem *problem);

/* Once all was read. 0 or -ENOMEM. */
int regressed_search_end(struct regressed_search *search, struct regressed *ret_regressed);

/* All of that at once. */
int regressed_find(const char *path, const struct regressed_options *options, struct regressed *ret_regressed,
                   struct problem *problem);

/* Adds a finding for each function, and why there is none. 0 or -ENOMEM. */
int regressed_report(const struct regressed *regressed, struct report *report);

#endif
