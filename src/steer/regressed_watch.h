/* When a store that is being filled is judged for functions whose share has grown (regressed.h): every six
 * hours its last six and its last 24 hours are. Reading them is spread over many calls, so that sampling is
 * never held up for longer than a few files take. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_REGRESSED_WATCH_H
#define STEER_REGRESSED_WATCH_H

#include "steer/regressed.h"

struct regressed_watch;

/* The path has to stay. now_s: since 1970; the first judgement is at the next multiple of six hours. 0 or
 * -ENOMEM. */
int regressed_watch_new(const char *path, uint64_t now_s, struct regressed_watch **ret_watch);
void regressed_watch_free(struct regressed_watch *watch);
DEFINE_FREEP(struct regressed_watch, regressed_watch_free)

/* Goes on with what is due, if anything is: reads at most so many windows. 1: a stretch has been judged, and
 * regressed_watch_last() is new; 0: not yet; or a negative errno, after which that stretch is left out. */
int regressed_watch_step(struct regressed_watch *watch, uint64_t now_s, size_t windows,
                         struct problem *problem);

/* The last judgement; NULL before the first. */
const struct regressed *regressed_watch_last(const struct regressed_watch *watch);

/* Whether the function of the last judgement is news: a day has passed since it was found before, or it never
 * was. */
bool regressed_watch_is_new(const struct regressed_watch *watch, const struct regressed_function *function);

/* The functions that were found in the last day, each once with what was said last, in the order in which
 * they were found. */
const struct regressed_function *regressed_watch_found(const struct regressed_watch *watch,
                                                       size_t *ret_count);

#endif
