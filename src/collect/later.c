/* Processes that programs start after we attached to them. A program that was started under sonde hands the
 * probe down in its environment; one that was attached to does not, so its descendants are looked for in
 * /proc, ten times a second, which needs no privilege, and attached to once they have come as far as their
 * event loop. A descendant whose parent ends before we saw it is not found; the kernel hands it to another. A
 * program that replaces itself (exec) is met again in the same way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum { LOOK_MS = 100, RETRY_MS = 200, GROWN_UP_MS = 1000, PATIENCE_MS = 50, TRIES = 25 };

static struct newcomer *newcomer_of(struct session *session, pid_t pid)
{
    array_foreach (&session->newcomers, n)
        if (n->pid == pid && proc_exists(n->proc))
            return n;
    return NULL;
}

/* Held from now on; the one that had the number before is gone. */
static struct newcomer *add_newcomer(struct session *session, pid_t root, struct proc *proc)
{
    const struct newcomer newcomer = {
        .proc = proc, .pid = proc->pid, .root = root, .seen_ns = clock_monotonic_ns()};
    if (array_add(&session->newcomers, newcomer) < 0)
        return NULL;
    proc_ref(proc);
    return &session->newcomers.at[session->newcomers.count - 1];
}

/* Which file the process executes; 0 when it is gone. */
static uint64_t image_of(const struct proc *proc)
{
    struct stat st;
    return fstatat(proc->directory, "exe", &st, 0) == 0 ? st.st_ino ^ (uint64_t)st.st_dev << 40 : 0;
}

/* A process that waits for events has its loader behind it and holds no lock: it can be attached to at once.
 */
static bool waits_for_events(const struct proc *proc)
{
    _cleanup_(freep) char *text = NULL;
    if (proc_read(proc, "syscall", 512, &text, NULL) < 0 || strncmp(text, "running", 7) == 0)
        return false;
    long number = strtol(text, NULL, 10);
    return number == SYS_epoll_wait || number == SYS_epoll_pwait || number == SYS_epoll_pwait2;
}

static void try_to_attach(struct session *session, struct newcomer *newcomer, uint64_t now_ns)
{
    struct problem problem = {0};
    _cleanup_(proc_unrefp) struct proc *proc = proc_ref(newcomer->proc);
    bool young = now_ns - newcomer->seen_ns < GROWN_UP_MS * NS_PER_MS;
    if (young && !waits_for_events(proc) && session_may_attach(session, proc))
        return; /* soon */
    int r = session_attach_within(session, proc, PATIENCE_MS * NS_PER_MS, &problem);
    newcomer->next_ns = clock_monotonic_ns() + RETRY_MS * NS_PER_MS;
    if (r >= 0) {
        const struct program *program = session->programs.at[session->programs.count - 1];
        session_note(session, "%s (%d), started by %d, is traced too", program->name, proc->pid,
                     program->parent);
    }
    bool again = (r == -ETIMEDOUT || r == -EAGAIN || r == -EBUSY) && ++newcomer->tries < TRIES;
    newcomer->settled = !again;
    if (!again && r < 0 && r != -ENOTSUP && r != -EALREADY && r != -ESRCH) {
        char name[PROC_NAME_BYTES];
        proc_read_name(proc, name);
        session_remember_untraced(session, name, proc->pid, problem.what);
    }
}

static void meet(struct session *session, struct newcomer *newcomer, uint64_t now_ns)
{
    uint64_t image = image_of(newcomer->proc);
    if (!image)
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

/* A look at the descendants of a program that was attached to. */
struct round {
    struct session *session;
    pid_t root;
    uint64_t now_ns;
};

static void meet_children_of(const struct round *round, const struct proc *proc, int depth);

static void meet_child(const struct round *round, pid_t pid, int depth)
{
    struct newcomer *newcomer = newcomer_of(round->session, pid);
    _cleanup_(proc_unrefp) struct proc *proc = newcomer ? proc_ref(newcomer->proc) : NULL;
    if (!proc && proc_open(pid, &proc) < 0)
        return;
    if (!newcomer)
        newcomer = add_newcomer(round->session, round->root, proc);
    if (newcomer)
        meet(round->session, newcomer, round->now_ns);
    meet_children_of(round, proc, depth + 1);
}

/* The children that one thread has started. */
static void meet_children_of_thread(const struct round *round, const struct proc *proc, const char *tid,
                                    int depth)
{
    char name[300];
    _cleanup_(freep) char *text = NULL;
    snprintf(name, sizeof(name), "task/%s/children", tid);
    int r = proc_read(proc, name, 1 << 20, &text, NULL);
    for (char *at = r < 0 ? NULL : text, *end; at && *at; at = end) {
        pid_t child = (pid_t)strtol(at, &end, 10);
        if (end == at || child <= 0 || child == getpid())
            break;
        meet_child(round, child, depth);
    }
}

static void meet_children_of(const struct round *round, const struct proc *proc, int depth)
{
    enum { DEPTH_MAX = 16 };
    DIR *tasks = depth < DEPTH_MAX ? proc_list(proc, "task") : NULL;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            meet_children_of_thread(round, proc, entry->d_name, depth);
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
        else
            proc_unref(n->proc);
    session->newcomers.count = kept;
}

/* A process that replaced its program has neither our probe nor our hooks any more. */
static void notice_exec(struct session *session, struct program *program, uint64_t now_ns)
{
    uint64_t stack = program_stack_of(program->proc);
    if (!stack || stack == program->stack_start)
        return;
    session_end_program(session, program, true);
    struct newcomer *newcomer = newcomer_of(session, program->pid);
    if (!newcomer)
        newcomer = add_newcomer(session, program->pid, program->proc);
    if (newcomer) {
        newcomer->image = image_of(program->proc);
        newcomer->replaced = true;
        newcomer->settled = false;
        newcomer->seen_ns = now_ns;
    }
}

/* Whether the kernel tells whose children are whose, once for each program. */
static void check_kernel(struct program *program)
{
    char name[48];
    if (program->children_checked)
        return;
    program->children_checked = true;
    snprintf(name, sizeof(name), "task/%d/children", program->pid);
    if (faccessat(program->proc->directory, name, F_OK, 0) < 0 && proc_exists(program->proc))
        target_miss(program->target, "processes that it starts later",
                    "this kernel does not list a process's children (CONFIG_PROC_CHILDREN)",
                    "Attach to them by their PIDs.");
}

static const struct program *program_of(const struct session *session, pid_t pid)
{
    array_foreach (&session->programs, p)
        if ((*p)->pid == pid && !(*p)->ended_ns)
            return *p;
    return NULL;
}

/* Who does nothing starts nobody. Its descendants are as they were when they are all programs that we trace,
 * and do nothing either; then they are taken as met. */
static bool is_as_before(struct session *session, const struct program *program, uint64_t now_ns)
{
    if (!program->quiet || program->checks_children)
        return false;
    array_foreach (&session->newcomers, n) {
        const struct program *child = n->root == program->pid ? program_of(session, n->pid) : NULL;
        if (n->root == program->pid && !(child && child->quiet))
            return false;
    }
    array_foreach (&session->newcomers, n)
        if (n->root == program->pid)
            n->met_ns = now_ns;
    return true;
}

void session_follow(struct session *session, uint64_t now_ns)
{
    if (now_ns - session->followed_ns < LOOK_MS * NS_PER_MS)
        return;
    session->followed_ns = now_ns;
    for (size_t i = 0; i < session->programs.count; i++) {
        struct program *program = session->programs.at[i];
        if (!program->attached || program->ended_ns || is_as_before(session, program, now_ns))
            continue;
        program->checks_children = false;
        check_kernel(program);
        notice_exec(session, program, now_ns);
        if (!program->ended_ns)
            meet_children_of(&(struct round){session, program->pid, now_ns}, program->proc, 0);
    }
    for (size_t i = 0; i < session->newcomers.count; i++)
        if (session->newcomers.at[i].replaced && session->newcomers.at[i].met_ns != now_ns)
            meet(session, &session->newcomers.at[i], now_ns);
    forget_others(session, now_ns);
}

bool session_expects(const struct session *session)
{
    array_foreach (&session->newcomers, n)
        if (!n->settled)
            return true;
    return false;
}
