/* See choose.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/choose.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/kind.h"
#include "base/file.h"
#include "observe/observe_internal.h"

static bool is_number(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return text[0] != '\0';
}

/* The name of a process as its user knows it: the program's, without its path. */
static bool has_name(const struct proc *proc, const char *name)
{
    char exe[PATH_MAX];
    if (proc_read_link(proc, "exe", exe, sizeof(exe)) <= 0)
        return false;
    const char *slash = strrchr(exe, '/');
    return strncmp(slash ? slash + 1 : exe, name, strlen(name)) == 0;
}

void chosen_done(struct chosen *chosen)
{
    array_foreach (chosen, proc)
        proc_unref(*proc);
    array_done(chosen);
}

int choose_process(struct chosen *chosen, struct proc *proc)
{
    array_foreach (chosen, p)
        if ((*p)->pid == proc->pid)
            return 0;
    int r = array_add(chosen, proc);
    if (r == 0)
        proc_ref(proc);
    return r;
}

/* name (may be NULL): only if its program's name begins so. */
static bool add_pid(struct chosen *chosen, pid_t pid, const char *name)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    return proc_open(pid, &proc) == 0 && (!name || has_name(proc, name)) && choose_process(chosen, proc) == 0;
}

int choose_named(struct chosen *chosen, const char *name)
{
    size_t count;
    _cleanup_(freep) pid_t *pids = proc_all(&count);
    int found = 0;
    for (size_t i = 0; i < count; i++)
        if (pids[i] != getpid())
            found += add_pid(chosen, pids[i], name);
    return found;
}

int choose_all(struct chosen *chosen)
{
    int found = 0;
    for (const struct target_kind *const *kind = TARGET_KINDS; *kind; kind++)
        for (const char *const *program = (*kind)->programs; program && *program; program++)
            found += choose_named(chosen, *program);
    return found;
}

int choose_cgroup(struct chosen *chosen, const char *folder)
{
    char path[4096];
    _cleanup_(freep) char *text = NULL;
    int found = 0;
    snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
    if (file_read(path, 1 << 20, &text, NULL) < 0)
        return -1;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (is_number(line))
            found += add_pid(chosen, atoi(line), NULL);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            int below = choose_cgroup(chosen, path);
            found += below > 0 ? below : 0;
        }
    if (dir)
        closedir(dir);
    return found;
}

int observe_attach_all(struct observation *observation, const struct chosen *chosen, bool picky,
                       unsigned *ret_attached, struct problem *problem)
{
    unsigned attached = 0;
    int last = -ESRCH;
    array_foreach (chosen, proc) {
        int r = observe_attach(observation, *proc, problem);
        if (r >= 0) {
            attached++;
            continue;
        }
        last = r;
        if (r == -EINTR)
            break;
        if (r == -ESRCH && attached) /* it was found by name or container, and has ended since */
            continue;
        if ((picky || r != -ENOTSUP) && chosen->count > 1)
            observe_warn(observation, problem->what);
    }
    if (!attached && !chosen->count) {
        char kinds[200];
        target_kinds_say(kinds, sizeof(kinds));
        problem_set(problem, -ESRCH, "no running %s that can be attached to", kinds);
    }
    *ret_attached = attached;
    return attached ? 0 : last;
}

void observe_kinds(char *buffer, size_t size)
{
    target_kinds_say(buffer, size);
}
