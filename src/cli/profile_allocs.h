/* Allocations: where malloc() and its family are in what is to be sampled, and what came out in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_ALLOCS_H
#define CLI_PROFILE_ALLOCS_H

#include <jansson.h>

#include "cli/process_places.h"
#include "profile/allocs.h"
#include "profile/sampler.h"

/* The functions of the processes that options name, with their descendants, or of the child, which is to run
 * the command: its program is looked at, and it is thought to use the C library that is used here. Files of
 * others are parsed by a process without rights. -ENOENT when there is none; other negative errnos; with
 * problem set. */
int profile_allocs_find(const struct sampler_options *options, pid_t child, const char *command,
                        struct process_places *ret_places, struct problem *problem);

/* Those of a file alone: follow_find_fn. */
int profile_allocs_find_in(pid_t pid, int file, struct sampler_place *ret_places, size_t most);

/* Prints the places by what they still have. An exit status. */
int profile_allocs_print(const struct allocs *allocs, const struct profile *profile, unsigned top);

/* Says, to stderr, of which processes the runtime has a heap of its own of which not all is seen, and what
 * shows that. */
void profile_allocs_print_hidden(struct sampler *sampler, const struct sampler_options *options, pid_t child);

/* Adds "allocations" to the object. 0 or -ENOMEM. */
int profile_allocs_add_json(const struct allocs *allocs, const struct profile *profile, unsigned top,
                            json_t *to);

#endif
