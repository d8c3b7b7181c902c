/* See processes.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/processes.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/proc.h"

static char *read_of(pid_t pid, const char *what, size_t *ret_length)
{
    char path[64], *text;
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
    return file_read(path, 1 << 16, &text, ret_length) == 0 ? text : NULL;
}

/* Calls visit for every process but our own. */
static void each_process(void (*visit)(void *context, pid_t pid), void *context)
{
    size_t count;
    _cleanup_(freep) pid_t *pids = proc_all(&count);
    for (size_t i = 0; i < count; i++)
        if (pids[i] != getpid())
            visit(context, pids[i]);
}

/* "server" and "server.js" are both what "/srv/server.js" is called. */
static bool is_called(const char *path, const char *name)
{
    const char *base = basename(path), *dot = strrchr(base, '.');
    size_t length = strlen(name);
    return strcmp(base, name) == 0 ||
           (dot && dot > base && (size_t)(dot - base) == length && strncmp(base, name, length) == 0);
}

/* The script is the first word that is no option, and is a file's name. */
static bool runs_script(pid_t pid, const char *name)
{
    size_t length;
    bool found = false;
    char *words = read_of(pid, "cmdline", &length);
    for (size_t at = words ? strlen(words) + 1 : 0; words && at < length; at += strlen(words + at) + 1)
        if (words[at] != '-') {
            found = is_called(words + at, name);
            break;
        }
    free(words);
    return found;
}

static bool is_named(pid_t pid, const char *name)
{
    char link[64], target[PATH_MAX];
    char *comm = read_of(pid, "comm", NULL);
    bool found = false;
    if (comm) {
        comm[strcspn(comm, "\n")] = '\0';
        found = strcmp(comm, name) == 0;
    }
    free(comm);
    snprintf(link, sizeof(link), "/proc/%d/exe", pid);
    ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n > 0) {
        target[n] = '\0';
        found |= strcmp(basename(target), name) == 0;
    }
    return found || runs_script(pid, name);
}

struct by_name {
    const char *name;
    pid_t *pids;
    size_t count, room;
};

static void visit_named(void *context, pid_t pid)
{
    struct by_name *b = context;
    if (b->count < b->room && is_named(pid, b->name))
        b->pids[b->count++] = pid;
}

size_t processes_named(const char *name, pid_t *ret_pids, size_t room)
{
    struct by_name b = {name, ret_pids, 0, room};
    each_process(visit_named, &b);
    return b.count;
}

/* ---- containers ---- */

#define DOCKER "/var/lib/docker/containers"
#define PODMAN "/var/lib/containers/storage/overlay-containers/containers.json"

static bool docker_named(const char *name, char *ret_id, size_t size)
{
    char path[PATH_MAX];
    bool found = false;
    DIR *dir = opendir(DOCKER);
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (*e->d_name == '.' ||
            snprintf(path, sizeof(path), DOCKER "/%s/config.v2.json", e->d_name) >= (int)sizeof(path))
            continue;
        json_t *config = json_load_file(path, 0, NULL);
        const char *its = json_string_value(json_object_get(config, "Name"));
        found = its && strcmp(its + (*its == '/'), name) == 0;
        if (found)
            snprintf(ret_id, size, "%s", e->d_name);
        json_decref(config);
    }
    if (dir)
        closedir(dir);
    return found;
}

static bool podman_named(const char *name, char *ret_id, size_t size)
{
    size_t i, j;
    json_t *container, *its;
    bool found = false;
    json_t *list = json_load_file(PODMAN, 0, NULL);
    json_array_foreach (list, i, container)
        json_array_foreach (json_object_get(container, "names"), j, its) {
            const char *id = json_string_value(json_object_get(container, "id"));
            if (found || !id || !json_is_string(its) || strcmp(json_string_value(its), name) != 0)
                continue;
            snprintf(ret_id, size, "%s", id);
            found = true;
        }
    json_decref(list);
    return found;
}

bool container_named(const char *name, char *ret_id, size_t size)
{
    return docker_named(name, ret_id, size) || podman_named(name, ret_id, size);
}

/* ---- cgroups ---- */

struct in_cgroup {
    const char *text;
    size_t count;
};

static void visit_in_cgroup(void *context, pid_t pid)
{
    struct in_cgroup *in = context;
    char *text = read_of(pid, "cgroup", NULL);
    in->count += text && strstr(text, in->text);
    free(text);
}

size_t processes_in_cgroup(const char *text)
{
    struct in_cgroup in = {text, 0};
    each_process(visit_in_cgroup, &in);
    return in.count;
}

struct names {
    struct map seen;
    size_t most;
    struct text *out;
};

static void visit_cgroups(void *context, pid_t pid)
{
    struct names *n = context;
    char *text = read_of(pid, "cgroup", NULL), *rest;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        const char *name = basename(line);
        bool is_new;
        if (!*name || n->seen.count >= n->most || !map_put(&n->seen, map_hash(name, strlen(name)), &is_new) ||
            !is_new)
            continue;
        text_add(n->out, n->seen.count > 1 ? ", " : "");
        text_add_visible(n->out, name, strlen(name));
    }
    free(text);
}

void cgroups_list(size_t most, struct text *out)
{
    struct names n = {.most = most, .out = out};
    each_process(visit_cgroups, &n);
    map_done(&n.seen);
}
