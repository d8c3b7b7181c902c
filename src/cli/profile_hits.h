/* Events that are places: a tracepoint of the kernel (CATEGORY:NAME), a function (uprobe:BINARY:FUNCTION), a
 * probe that the program's author put there (usdt:BINARY:PROVIDER:NAME). Where they are, and what a hit
 * costs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_HITS_H
#define CLI_PROFILE_HITS_H

#include "base/array.h"
#include "base/problem.h"
#include "profile/sampler.h"

struct profile_hits {
    ARRAY(struct sampler_hit) list;
    char *text; /* the event, in parts */
    char path[32];
    int file; /* 0: none */
};

/* Whether an event is of this kind, by its form. */
bool profile_hits_is_event(const char *event);

/* Finds the event's places: a BINARY with a slash is a path, one without the name of a file that one of the
 * processes, or the command, has. Files are parsed by a process without rights. 0 or a negative errno with
 * problem set. */
int profile_hits_find(const char *event, const struct sampler_options *options, const char *command,
                      struct profile_hits *ret_hits, struct problem *problem);
void profile_hits_done(struct profile_hits *hits);

/* What a hit costs and when it stops, before; what was counted, after. To stderr. */
void profile_hits_print_price(const char *event, const struct sampler_options *options,
                              const struct sampler *sampler);
void profile_hits_print_counts(const char *event, const struct sampler_options *options,
                               const struct sampler_counts *counts, uint64_t start_ns);

/* Also of allocations: of what the watched processes started later, from when on it was watched and
 * what was not. To stderr; nothing when there was none. */
void profile_hits_print_followed(const struct sampler *sampler, const struct sampler_counts *counts);

#endif
