/* Daemons: a command that forks a service into the background and ends. The service is what is to be traced,
 * so recording goes on until it ends too, or is interrupted. A daemon is told from a child that was merely
 * left behind by its session (setsid(2)), which is not the command's any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    LOOK_MS = 20,
    GENERATIONS = 3,  /* of forks, each of which may end while we look */
    LEAVING_MS = 1000 /* what a process may take to go its own ways after the command has ended */
};

static bool just_ended(const struct session *session, uint64_t now_ns)
{
    return now_ns - session->command_ended_ns < LEAVING_MS * NS_PER_MS;
}

static bool is_known(const struct session *session, pid_t pid)
{
    array_foreach (&session->programs, p)
        if ((*p)->pid == pid)
            return true;
    return false;
}

/* Forked from a program of ours: it shows itself with its first call of a hooked function. */
static bool is_forked(const struct session *session, const struct proc *proc)
{
    char exe[PATH_MAX];
    struct session_parent parent;
    return proc_read_link(proc, "exe", exe, sizeof(exe)) > 0 && session_find_parent(session, proc, &parent) &&
           strcmp(parent.exe, exe) == 0;
}

/* Started by the command, directly or not: it may be about to execute a runtime. */
static bool is_descendant(const struct session *session, const struct proc *proc)
{
    _cleanup_(freep) char *variables = NULL;
    size_t size = 0;
    return proc_read(proc, "environ", 4 << 20, &variables, &size) == 0 &&
           memmem(variables, size, session->socket_path, strlen(session->socket_path));
}

static bool is_coming(const struct session *session, pid_t pid, uint64_t now_ns)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    if (is_known(session, pid) || proc_open(pid, &proc) < 0)
        return false;
    if (is_forked(session, proc))
        return getsid(pid) != session->command_group || just_ended(session, now_ns);
    return just_ended(session, now_ns) && is_descendant(session, proc);
}

/* Looks at a list of the processes that are. One that ends before its turn has perhaps left a child that the
 * list does not have: nobody is coming when several lists in a row say so. */
static bool any_coming(const struct session *session, uint64_t now_ns)
{
    size_t count;
    bool coming = false;
    _cleanup_(freep) pid_t *pids = proc_all(&count);
    for (size_t i = 0; i < count && !coming; i++)
        coming = is_coming(session, pids[i], now_ns);
    return coming;
}

/* One that is traced: away, or (forked) about to go away. */
static const struct program *find_daemon(const struct session *session, bool *ret_away, uint64_t now_ns)
{
    array_foreach (&session->programs, p) {
        pid_t group = (*p)->ended_ns ? -1 : getsid((*p)->pid);
        *ret_away = group >= 0 && group != session->command_group;
        if (*ret_away || (group >= 0 && (*p)->forked && just_ended(session, now_ns)))
            return *p;
    }
    return NULL;
}

bool session_outlived(struct session *session, uint64_t now_ns)
{
    if (now_ns - session->outlived_ns < LOOK_MS * NS_PER_MS)
        return session->outlived;
    bool away;
    const struct program *daemon = find_daemon(session, &away, now_ns);
    session->outlived_ns = now_ns;
    session->outlived = daemon;
    for (int look = 0; look < GENERATIONS && !session->outlived; look++)
        session->outlived = any_coming(session, now_ns);
    if (daemon && away && !session->daemon_noted) {
        session->daemon_noted = true;
        session_note(session,
                     "the command has ended; %s (%d), which it left in the background, is traced until it "
                     "ends, or Ctrl-C",
                     daemon->name, daemon->pid);
    }
    return session->outlived;
}
