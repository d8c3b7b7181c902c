/* Where goroutines wait for locks and let others go on, in the programs that are to be sampled: functions
 * that Go's own table names (unwind/row_source.h), each decoded from its beginning to its end. A function
 * whose code is not understood as a whole is left alone, and with it the program: a breakpoint within an
 * instruction would destroy it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GOROUTINE_PLACES_H
#define CLI_GOROUTINE_PLACES_H

#include "cli/process_places.h"

/* Those of the programs of the processes that options name, with their descendants, or of the child, which is
 * to run the command; of the whole machine or a cgroup there are none. Programs that are no Go's, or are not
 * understood, have none. 0 or a negative errno with problem set. */
int goroutine_places_find(const struct sampler_options *options, pid_t child, const char *command,
                          struct process_places *ret_places, struct problem *problem);

/* Those of a file alone: follow_find_fn. */
int goroutine_places_in(pid_t pid, int file, struct sampler_place *ret_places, size_t most);

#endif
