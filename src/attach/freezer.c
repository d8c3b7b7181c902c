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

/* The path of a process's group in a hierarchy, from a line of /proc/PID/cgroup ("6:freezer:/a", "0::/a"). */
static const char *group_in(const char *line, bool unified)
{
    const char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return NULL;
    const char *freezer = strstr(controllers, "freezer");
    bool fits = unified ? strncmp(line, "0::", 3) == 0 : freezer && freezer < path;
    return fits ? path + 1 : NULL;
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

bool freezer_holds(pid_t pid)
{
    char path[64], *mounts_at = NULL, *groups_at = NULL;
    _cleanup_(freep) char *mounts = NULL, *groups = NULL;
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    if (file_read(path, 1 << 16, &groups, NULL) < 0 ||
        file_read("/proc/self/mountinfo", 1 << 20, &mounts, NULL) < 0)
        return false;
    struct hierarchy hierarchy[2]; /* of either version */
    size_t count = 0;
    for (char *m = strtok_r(mounts, "\n", &mounts_at); m && count < 2; m = strtok_r(NULL, "\n", &mounts_at))
        count += read_mount(m, &hierarchy[count]);
    for (char *g = strtok_r(groups, "\n", &groups_at); g; g = strtok_r(NULL, "\n", &groups_at))
        for (size_t i = 0; i < count; i++) {
            const char *group = group_in(g, hierarchy[i].unified);
            if (group && is_frozen(&hierarchy[i], group))
                return true;
        }
    return false;
}

int freezer_check(pid_t pid, struct problem *problem)
{
    if (!freezer_holds(pid))
        return 0;
    problem_set(problem, -EBUSY, "process %d is frozen (docker pause, a freezer cgroup)", pid);
    problem_remedy(problem, "Thaw it (docker unpause, systemctl thaw) and try again.");
    return -EBUSY;
}
