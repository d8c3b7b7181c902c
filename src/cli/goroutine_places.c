/* See goroutine_places.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/goroutine_places.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macro.h"
#include "profile/family.h"
#include "profile/goroutines.h"
#include "symbol/elf.h"

static int find_in_file(int fd, void *result)
{
    _cleanup_(elf_freep) struct elf *elf = NULL;
    struct found_places *found = result;
    size_t count = 0;
    if (elf_open_fd(fd, "", &elf, NULL) < 0 ||
        goroutines_places(elf, found->places, PROCESS_PLACES_MOST, &count) < 0)
        return 0; /* nothing is in it */
    found->count = (uint32_t)count;
    for (uint32_t i = 0; i < found->count; i++)
        found->codes[i] = place_code_read(fd, found->places[i].offset);
    return 0;
}

int goroutine_places_in(pid_t pid, int file, struct sampler_place *ret_places, size_t most)
{
    return process_places_in(pid, file, find_in_file, ret_places, most);
}

int goroutine_places_find(const struct sampler_options *o, pid_t child, const char *command,
                          struct process_places *places, struct problem *problem)
{
    size_t count = 0;
    if (o->whole_machine || o->cgroup)
        return 0;
    int r = child ? process_places_add_command(places, child, command, find_in_file) : 0;
    _cleanup_(freep) pid_t *family = child ? NULL : family_of(o->pids, o->pid_count, &count);
    for (size_t i = 0; i < count && r != -ENOMEM; i++)
        r = process_places_add(places, family[i], true, find_in_file);
    return r == -ENOMEM ? problem_set(problem, r, "out of memory") : 0;
}
