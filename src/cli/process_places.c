/* See process_places.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/process_places.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/proc.h"
#include "base/process_file.h"
#include "cli/confine.h"
#include "profile/frame_name.h"
#include "symbol/modules.h"

enum { FILES_MOST = 512 };

int process_places_in(pid_t pid, int file, find_places_fn *find, struct sampler_place *ret_places,
                      size_t most)
{
    struct found_places found = {0};
    uint64_t hooked;
    int r = confine_parse(file, find, &found, sizeof(found));
    if (r < 0)
        return r;
    size_t count = MIN(found.count, MIN((uint32_t)most, (uint32_t)PROCESS_PLACES_MOST)), n = 0;
    if (count && hooked_process(file, found.codes, count, &pid, 1, &hooked))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (found.places[i].function < PLACE_FUNCTIONS)
            ret_places[n++] = found.places[i];
    return (int)n;
}

/* fd: stays open. */
static int add_file(struct process_places *places, pid_t pid, int fd, bool is_own, find_places_fn *find)
{
    struct found_places found = {0};
    char path[40], *copy;
    uint64_t hooked;
    if (fd < 0)
        return 0; /* memory of devices, or it has ended */
    int r = array_add(&places->files, fd);
    if (r < 0) {
        close(fd);
        return r;
    }
    r = is_own ? find(fd, &found) : confine_parse(fd, find, &found, sizeof(found));
    found.count = MIN(found.count, (uint32_t)PROCESS_PLACES_MOST);
    if (r < 0 || !found.count)
        return r;
    if (!is_own && hooked_process(fd, found.codes, found.count, &pid, 1, &hooked))
        return -EBUSY;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    copy = strdup(path);
    if (!copy || array_add(&places->paths, copy) < 0) {
        free(copy);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < found.count; i++) {
        struct sampler_place place = found.places[i];
        place.pid = pid;
        place.path = copy;
        if (place.function < PLACE_FUNCTIONS && array_add(&places->list, place) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* What process `of` has mapped, for breakpoints in process pid. */
static int add_mapped(struct process_places *places, pid_t pid, pid_t of, bool program_only,
                      find_places_fn *find)
{
    size_t files = 0;
    bool is_own = of == getpid();
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    _cleanup_(modules_done) struct modules modules = {0};
    struct problem ignored;
    int r = proc_open(of, &proc);
    if (r >= 0)
        r = modules_list(proc, &modules, &ignored);
    if (r < 0)
        return r == -ENOENT || r == -ESRCH ? 0 : r; /* the sampler says so */
    for (size_t i = 0; i < modules.mappings.count && r >= 0; i++) {
        const struct mapping *m = &modules.mappings.at[i];
        bool first = m->executable && m->module != UINT32_MAX;
        for (size_t k = 0; k < i && first; k++)
            first = !modules.mappings.at[k].executable || modules.mappings.at[k].module != m->module;
        const char *name = first ? modules.list.at[m->module].path : "";
        if (*name != '/' || (is_own && !frame_in_c_library(name)) || ++files > FILES_MOST)
            continue;
        r = add_file(places, pid, process_mapped_open(proc, m->start, m->end), is_own, find);
        if (program_only) /* it lies below its libraries */
            break;
    }
    return r;
}

int process_places_add(struct process_places *places, pid_t pid, bool program_only, find_places_fn *find)
{
    return add_mapped(places, pid, pid, program_only, find);
}

int process_places_add_own(struct process_places *places, pid_t pid, find_places_fn *find)
{
    return add_mapped(places, pid, getpid(), false, find);
}

int process_places_add_command(struct process_places *places, pid_t pid, const char *command,
                               find_places_fn *find)
{
    return add_file(places, pid, file_open_program(command), false, find);
}

void process_places_done(struct process_places *places)
{
    array_foreach (&places->paths, path)
        free(*path);
    array_done(&places->paths);
    array_foreach (&places->files, fd)
        close(*fd);
    array_done(&places->files);
    array_done(&places->list);
}
