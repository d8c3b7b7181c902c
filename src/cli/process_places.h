/* Where breakpoints go in what is to be sampled: looked for in the files that processes have mapped, each by
 * a process without rights. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROCESS_PLACES_H
#define CLI_PROCESS_PLACES_H

#include "base/array.h"
#include "cli/hooked.h"
#include "profile/sampler.h"

enum { PROCESS_PLACES_MOST = 32 }; /* of a file */

/* What a file has of it. */
struct found_places {
    uint32_t count;
    struct sampler_place places[PROCESS_PLACES_MOST];
    struct place_code codes[PROCESS_PLACES_MOST]; /* what the file has there */
};

/* Fills in a struct found_places, where nothing is at stake. 0, also when there is none; or a negative errno.
 */
typedef int find_places_fn(int fd, void *found);

/* The list is what options.places are; its files stay open, as breakpoints are put into them. */
struct process_places {
    ARRAY(struct sampler_place) list;
    ARRAY(char *) paths;
    ARRAY(int) files;
};
void process_places_done(struct process_places *places);

/* Those of all files of code that the process has mapped, or of its program's alone. All return 0, also when
 * there is none or the process has ended, or a negative errno: -EBUSY when another tool has changed the code
 * at one of them. */
int process_places_add(struct process_places *places, pid_t pid, bool program_only, find_places_fn *find);
/* Those of the program that the process is going to execute, as execvp() will find it; and of the C library
 * that this one uses, as that program will. */
int process_places_add_command(struct process_places *places, pid_t pid, const char *command,
                               find_places_fn *find);
int process_places_add_own(struct process_places *places, pid_t pid, find_places_fn *find);

/* Those of a file alone: as follow_find_fn. */
int process_places_in(pid_t pid, int file, find_places_fn *find, struct sampler_place *ret_places,
                      size_t most);

#endif
