/* See freezer.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/freezer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

/* A line of mountinfo (proc(5)): "ID PARENT DEVICE ROOT PLACE OPTIONS [FIELDS] - TYPE SOURCE SUPER-OPTIONS".
 */
struct hierarchy {
    char root[PATH_MAX], place[PATH_MAX];
    bool unified; /* version 2 */
};

static bool read_mount(const char *line, struct hierarchy *ret)
{
    const char *rest = strstr(line, " - ");
    char type[32], options[256];
    if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2 ||
        sscanf(line, "%*s %*s %*s %4095s %4095s", ret->root, ret->place) != 2)
        return false;
    ret->unified = strcmp(type, "cgroup2") == 0;
    return ret->unified || (strcmp(type, "cgroup") == 0 && strstr(options, "freezer"));
}

static bool file_says(const struct hierarchy *at, const char *group, const char *file, const char *word)
{
    char path[3 * PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t root = strcmp(at->root, "/") == 0 ? 0 : strlen(at->root);
    if (strncmp(group, at->root, root) != 0)
        return false; /* it lies outside of what we see */
    snprintf(path, sizeof(path), "%s%s/%s", at->place, group + root, file);
    return file_read(path, 4096, &text, NULL) == 0 && strstr(text, word);
}

static bool is_frozen(const struct hierarchy *at, const char *group)
{
    if (at->unified)
        return file_says(at, group, "cgroup.events", "frozen 1") ||
               file_says(at, group, "cgroup.freeze", "1");
    return file_says(at, group, "freezer.state", "FROZEN") ||
           file_says(at, group, "freezer.state", "FREEZING");
}

bool freezer_holds(const struct proc *proc)
{
    char *mounts_at = NULL, group[PATH_MAX];
    _cleanup_(freep) char *mounts = NULL, *groups = NULL;
    size_t length;
    if (proc_read(proc, "cgroup", 1 << 16, &groups, &length) < 0 ||
        file_read("/proc/self/mountinfo", 1 << 20, &mounts, NULL) < 0)
        return false;
    struct hierarchy hierarchy[2]; /* of either version */
    struct proc_cgroup of;
    size_t count = 0;
    for (char *m = strtok_r(mounts, "\n", &mounts_at); m && count < 2; m = strtok_r(NULL, "\n", &mounts_at))
        count += read_mount(m, &hierarchy[count]);
    const char *at = groups;
    while (proc_next_cgroup(&at, groups + length, &of)) {
        if ((!of.unified && !proc_cgroup_controls(&of, "freezer")) || of.path_length >= sizeof(group))
            continue;
        memcpy(group, of.path, of.path_length);
        group[of.path_length] = '\0';
        for (size_t i = 0; i < count; i++)
            if (hierarchy[i].unified == of.unified && is_frozen(&hierarchy[i], group))
                return true;
    }
    return false;
}

int freezer_check(const struct proc *proc, struct problem *problem)
{
    if (!freezer_holds(proc))
        return 0;
    problem_set(problem, -EBUSY, "process %d is frozen (docker pause, a freezer cgroup)", proc->pid);
    problem_remedy(problem, "Thaw it (docker unpause, systemctl thaw) and try again.");
    return -EBUSY;
}
