/* Processes that programs start after we attached to them. A program that was started under sonde hands the
 * probe down in its environment; one that was attached to does not, so its descendants are looked for in
 * /proc, ten times a second, which needs no privilege, and attached to once they have come as far as their
 * event loop. A descendant whose parent ends before we saw it is not found; the kernel hands it to another. A
 * program that replaces itself (exec) is met again in the same way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { LOOK_MS = 100, RETRY_MS = 200, GROWN_UP_MS = 1000, PATIENCE_MS = 50, TRIES = 25 };

static struct newcomer *newcomer_of(struct session *session, pid_t pid)
{
    array_foreach (&session->newcomers, n)
        if (n->pid == pid)
            return n;
    const struct newcomer newcomer = {.pid = pid, .seen_ns = clock_monotonic_ns()};
    if (array_add(&session->newcomers, newcomer) < 0)
        return NULL;
    return &session->newcomers.at[session->newcomers.count - 1];
}

/* Which file the process executes; 0 when it is gone. */
static uint64_t image_of(pid_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/exe", pid);
    return stat(path, &st) == 0 ? st.st_ino ^ (uint64_t)st.st_dev << 40 : 0;
}

/* A process that waits for events has its loader behind it and holds no lock: it can be attached to at once.
 */
static bool waits_for_events(pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
    if (file_read(path, 512, &text, NULL) < 0 || strncmp(text, "running", 7) == 0)
        return false;
    long number = strtol(text, NULL, 10);
    return number == SYS_epoll_wait || number == SYS_epoll_pwait || number == SYS_epoll_pwait2;
}

static void try_to_attach(struct session *session, struct newcomer *newcomer, uint64_t now_ns)
{
    struct problem problem = {0};
    pid_t pid = newcomer->pid;
    bool young = now_ns - newcomer->seen_ns < GROWN_UP_MS * NS_PER_MS;
    if (young && !waits_for_events(pid) && session_may_attach(session, pid))
        return; /* soon */
    int r = session_attach_within(session, pid, PATIENCE_MS * NS_PER_MS, &problem);
    newcomer = newcomer_of(session, pid);
    newcomer->next_ns = clock_monotonic_ns() + RETRY_MS * NS_PER_MS;
    if (r >= 0) {
        const struct program *program = session->programs.at[session->programs.count - 1];
        session_note(session, "%s (%d), started by %d, is traced too", program->name, pid, program->parent);
    }
    bool again = (r == -ETIMEDOUT || r == -EAGAIN || r == -EBUSY) && ++newcomer->tries < TRIES;
    newcomer->settled = !again;
    if (!again && r < 0 && r != -ENOTSUP && r != -EALREADY && r != -ESRCH)
        session_remember_untraced(session, pid, &problem);
}

static void meet(struct session *session, pid_t pid, uint64_t now_ns)
{
    struct newcomer *newcomer = newcomer_of(session, pid);
    uint64_t image = image_of(pid);
    if (!newcomer || !image)
        return;
    newcomer->met_ns = now_ns;
    if (image != newcomer->image) { /* another program than we knew */
        newcomer->image = image;
        newcomer->settled = false;
        newcomer->tries = 0;
        newcomer->seen_ns = now_ns;
    }
    if (!newcomer->settled && now_ns >= newcomer->next_ns)
        try_to_attach(session, newcomer, now_ns);
}

static void meet_children_of(struct session *session, pid_t pid, int depth, uint64_t now_ns);

/* The children that one thread has started. false: this kernel does not tell. */
static bool meet_children_of_thread(struct session *session, pid_t pid, const char *tid, int depth,
                                    uint64_t now_ns)
{
    char path[300];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, tid);
    int r = file_read(path, 1 << 20, &text, NULL);
    for (char *at = r < 0 ? NULL : text, *end; at && *at; at = end) {
        pid_t child = (pid_t)strtol(at, &end, 10);
        if (end == at || child <= 0 || child == getpid())
            break;
        meet(session, child, now_ns);
        meet_children_of(session, child, depth + 1, now_ns);
    }
    return r != -ENOENT;
}

static void meet_children_of(struct session *session, pid_t pid, int depth, uint64_t now_ns)
{
    enum { DEPTH_MAX = 16 };
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *tasks = depth < DEPTH_MAX ? opendir(path) : NULL;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            (void)meet_children_of_thread(session, pid, entry->d_name, depth, now_ns);
    if (tasks)
        closedir(tasks);
}

/* Those that were not met in this round are gone. */
static void forget_others(struct session *session, uint64_t now_ns)
{
    size_t kept = 0;
    array_foreach (&session->newcomers, n)
        if (n->met_ns == now_ns)
            session->newcomers.at[kept++] = *n;
    session->newcomers.count = kept;
}

/* A process that replaced its program has neither our probe nor our hooks any more. */
static void notice_exec(struct session *session, struct program *program, uint64_t now_ns)
{
    uint64_t stack = program_stack_of(program->pid);
    if (!stack || stack == program->stack_start)
        return;
    pid_t pid = program->pid;
    session_end_program(session, program, true);
    struct newcomer *newcomer = newcomer_of(session, pid);
    if (newcomer) {
        newcomer->image = image_of(pid);
        newcomer->replaced = true;
        newcomer->settled = false;
        newcomer->seen_ns = now_ns;
    }
}

/* Whether the kernel tells whose children are whose, once for each program. */
static void check_kernel(struct program *program)
{
    char path[64];
    if (program->children_checked)
        return;
    program->children_checked = true;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", program->pid, program->pid);
    if (access(path, F_OK) < 0 && kill(program->pid, 0) == 0)
        target_miss(program->target, "processes that it starts later",
                    "this kernel does not list a process's children (CONFIG_PROC_CHILDREN)",
                    "Attach to them by their PIDs.");
}

void session_follow(struct session *session, uint64_t now_ns)
{
    if (now_ns - session->followed_ns < LOOK_MS * NS_PER_MS)
        return;
    session->followed_ns = now_ns;
    for (size_t i = 0; i < session->programs.count; i++) {
        struct program *program = session->programs.at[i];
        if (!program->attached || program->ended_ns)
            continue;
        check_kernel(program);
        notice_exec(session, program, now_ns);
        if (!program->ended_ns)
            meet_children_of(session, program->pid, 0, now_ns);
    }
    for (size_t i = 0; i < session->newcomers.count; i++)
        if (session->newcomers.at[i].replaced && kill(session->newcomers.at[i].pid, 0) == 0)
            meet(session, session->newcomers.at[i].pid, now_ns);
    forget_others(session, now_ns);
}

bool session_expects(const struct session *session)
{
    array_foreach (&session->newcomers, n)
        if (!n->settled)
            return true;
    return false;
}
