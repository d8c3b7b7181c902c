/* Profiles of a machine kept for weeks: a folder of windows, each a pprof file of its own that `sonde diff`,
 * `go tool pprof` and others read.
 *
 *     DIR/windows/SECONDS-LENGTH.pb.gz    START of the window in seconds since 1970 and its length in seconds
 *
 * A window is complete or not there: it is written beside and renamed. When ten seconds are old enough, those
 * of a minute become one file, later those of an hour: the sum is renamed into place first and its parts are
 * removed then, and a reader leaves out what a longer window covers. So whenever the writer ends, or the disk
 * is full, nothing is counted twice and what is missing shows as a gap. Nothing else is in these files: no
 * index, no journal. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEER_KEEPING_H
#define STEER_KEEPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/problem.h"
#include "profile/profile.h"

struct store_window {
    uint64_t start_s, length_s; /* since 1970 */
    uint64_t bytes;
};

struct store_options {
    uint64_t
        keep_s[3]; /* how long windows of up to 10 s, a minute and an hour are kept: 2 h, 2 days, 60 days */
    uint64_t quota_bytes; /* of all windows; the oldest go first. 0: no limit */
};
extern const struct store_options STORE_USUAL;

/* The windows that count, by time: without those that a longer one covers. Owned by the caller. 0, -ENOENT
 * when there is no store at the path, or another negative errno. */
int store_list(const char *path, struct store_window **ret_windows, size_t *ret_count,
               struct problem *problem);

/* Writes the path of a window's file, at most size bytes of it. */
void store_window_path(char *to, size_t size, const char *path, const struct store_window *window);

/* Adds a window; the folder is made when it is not there. What the window covers is from its start_ns to its
 * end_ns: less than length_s when sampling began or ended in it. It takes in what the store has of
 * the same time: the clock may have been set back, also so far that its window is part of a longer one.
 * Nothing is left of a window that failed. */
int store_add(const char *path, struct profile *window, uint64_t start_s, uint64_t length_s,
              struct problem *problem);

/* Makes longer windows of those that are over, and removes what is too old or too much. now_s: since 1970. */
int store_tidy(const char *path, const struct store_options *options, uint64_t now_s,
               struct problem *problem);

struct store_sum {
    size_t windows;
    uint64_t covered_s, gap_s; /* of the time between the first and the last window; what is missing of it */
    uint64_t start_s, end_s;   /* of the first and the last window */
    size_t damaged;            /* files that could not be read: they are left out, and their time is a gap */
};

/* Adds what lies in [from_s, until_s) to the profile: windows whose middle is in it; in 16 stretches of equal
 * length when the profile keeps windows. 0, also when there is nothing. */
int store_sum(const char *path, uint64_t from_s, uint64_t until_s, struct profile *into,
              struct store_sum *ret_sum, struct problem *problem);

#endif
