/* See hold.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/call.h"
#include "attach/safe_point.h"
#include "attach/stop.h"
#include "attach/thread_state.h"
#include "base/clock.h"
#include "base/file.h"

enum {
    STOP_TIMEOUT_MS = 2000,
    SEIZE_TIMEOUT_MS = 8000, /* another sonde's way to a safe point takes 5 s at most */
    /* While some threads are stopped already, the others have this long to stop too: one that writes to a
     * slow disk, or waits for its vforked child, must not keep the service still. One that only waits for a
     * CPU gets one soon, now that the others want none. */
    STOP_ALL_TIMEOUT_MS = 5,
    STOP_ALL_RUNNABLE_MS = 100,
    WAKE_MS = 1, /* a look without having been called */
};

/* ---- our own turn ---- */

/* While threads of somebody else's service stand still we do not queue behind other programs. Without the
 * privilege we do. */
static void hurry(bool on)
{
    const struct sched_param first = {.sched_priority = 1}, normal = {0};
    (void)sched_setscheduler(0, on ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER, on ? &first : &normal);
}

/* Each thread that is interrupted or let go runs for a moment. The kernel lets one that has just woken run
 * before one that computes: of thousands at once, the one that serves would wait behind all of them, and
 * behind us. So after every so many others we pause until the latest of them, some on each CPU, have had
 * their turn; in all not for long, since there may be some that compute. More at a time would keep the one
 * that serves waiting for longer, fewer would keep all of them held for longer (64 at a time: by a third). */
struct pace {
    const struct hold *hold;
    uint64_t left_ns;
};

static struct pace pace_of(const struct hold *hold)
{
    static const uint64_t ALL_PAUSES_NS = 60 * NS_PER_MS;
    return (struct pace){hold, ALL_PAUSES_NS};
}

/* After the index-th of the threads. */
static void give_way(struct pace *pace, size_t index)
{
    enum { AT_A_TIME = 256, LATEST = 8, PAUSE_US = 50, TURN_US = 4000 };
    const struct hold *hold = pace->hold;
    if (hold->threads.count < AT_A_TIME || index % AT_A_TIME)
        return;
    const struct timespec pause = {.tv_nsec = PAUSE_US * 1000};
    uint64_t begin_ns = clock_monotonic_ns(), end_ns = begin_ns + MIN(pace->left_ns, TURN_US * NS_PER_US);
    nanosleep(&pause, NULL);
    for (size_t i = 0; i < LATEST && i <= index; i++) {
        pid_t tid = hold->threads.at[index - i].tid;
        while (tid != hold->pid && clock_monotonic_ns() < end_ns && thread_is_runnable(hold->proc, tid))
            nanosleep(&pause, NULL);
    }
    pace->left_ns -= MIN(pace->left_ns, clock_monotonic_ns() - begin_ns);
}

static void begin(struct hold *hold)
{
    hurry(true);
    hold->since_ns = clock_monotonic_ns();
}

/* ---- stopping ---- */

static uint64_t in_ms(uint64_t ms)
{
    return clock_monotonic_ns() + ms * NS_PER_MS;
}

static void let_stranger_go(pid_t tid);

/* Is another sonde at it? It will soon have done; or it has, between our attempt and this look: *looks counts
 * those on which nobody was seen. */
static bool held_by_sonde(const struct proc *proc, pid_t tid, unsigned *looks)
{
    enum { LOOKS = 5 };
    char file[48], name[PROC_NAME_BYTES];
    long number;
    size_t length;
    _cleanup_(freep) char *status = NULL;
    _cleanup_(proc_unrefp) struct proc *tracer = NULL;
    snprintf(file, sizeof(file), "task/%d/status", tid);
    if (proc_read(proc, file, 1 << 16, &status, &length) < 0 ||
        !proc_parse_status_number(status, length, "TracerPid", &number))
        return false;
    if (!number || proc_open((pid_t)number, &tracer) < 0)
        return ++*looks < LOOKS;
    proc_read_name(tracer, name);
    return name[0] ? strncmp(name, "sonde", 5) == 0 : ++*looks < LOOKS;
}

static int explain_refusal(const struct hold *hold, int error, struct problem *problem)
{
    problem_set(problem, error, "process %d may not be attached to: %s", hold->pid, strerror(-error));
    problem_remedy(problem, "Is a debugger attached? Otherwise run sonde as root or with CAP_SYS_PTRACE.");
    return error;
}

/* Makes us the thread's tracer; it goes on running. A number that another process has by now is left alone:
 * once the thread is ours, its number stays its own. */
static int seize(struct hold *hold, pid_t tid, struct problem *problem)
{
    const struct timespec pause = {.tv_nsec = WAKE_MS * 1000000};
    uint64_t deadline = in_ms(SEIZE_TIMEOUT_MS);
    unsigned looks = 0;
    int r;
    do {
        if (!proc_has_thread(hold->proc, tid))
            return -ESRCH;
        r = ptrace(PTRACE_SEIZE, tid, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)) < 0 ? -errno
                                                                                                      : 0;
    } while (r == -EPERM && clock_monotonic_ns() < deadline && held_by_sonde(hold->proc, tid, &looks) &&
             nanosleep(&pause, NULL) == 0);
    if (r == 0 && !proc_has_thread(hold->proc, tid)) {
        let_stranger_go(tid);
        return -ESRCH;
    }
    return r < 0 && r != -ESRCH ? explain_refusal(hold, r, problem) : r;
}

/* Seized threads that did not stop in time cannot be let go before they have: then they are, at once, each as
 * soon as it stops. Aside there is no need to wait: our end, which is near, lets them go. */
static void await_late(struct hold *late)
{
    while (late->threads.count && !aside_is_within()) {
        size_t kept = 0;
        array_foreach (&late->threads, t) {
            int status, r = stop_wait(t->tid, in_ms(1), &status);
            bool done = r == -ESRCH || (r == 0 && ptrace(PTRACE_DETACH, t->tid, NULL,
                                                         (void *)(long)stop_signal(status)) == 0);
            if (!done)
                late->threads.at[kept++] = *t;
        }
        late->threads.count = kept;
    }
}

static void await_late_thread(pid_t tid)
{
    struct hold_thread thread = {.tid = tid};
    struct hold late = {.threads = {.at = &thread, .count = 1, .capacity = 1}};
    await_late(&late);
}

/* Somebody else's thread, seized by a number that changed hands in that very moment. */
static void let_stranger_go(pid_t tid)
{
    int status;
    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
    if (stop_wait_interrupted(tid, in_ms(STOP_TIMEOUT_MS), &status) == 0)
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
    else
        await_late_thread(tid);
}

/* One thread, which is ours and runs: the first of a hold. */
static int stop_thread(struct hold *hold, pid_t tid, int *ret_status, struct problem *problem)
{
    int r;
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 ||
        array_add(&hold->threads, (struct hold_thread){.tid = tid}) < 0) {
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
        return -ESRCH;
    }
    r = stop_wait_interrupted(tid, in_ms(STOP_TIMEOUT_MS), ret_status);
    if (r == 0)
        return 0;
    hold->threads.count--;
    if (r == -ESRCH)
        return r;
    await_late_thread(tid);
    return problem_set(problem, r, "thread %d did not stop: %s", tid, strerror(-r));
}

/* *next: where it probably stands. The kernel lists threads in the same order each time, and of thousands
 * each would be looked for among all. */
static bool holds(const struct hold *hold, pid_t tid, size_t *next)
{
    if (*next < hold->threads.count && hold->threads.at[*next].tid == tid) {
        ++*next;
        return true;
    }
    array_foreach (&hold->threads, t)
        if (t->tid == tid)
            return true;
    return false;
}

/* Seizes the threads that are not ours yet; how many there were, or a negative errno. */
static int seize_others(struct hold *hold, struct problem *problem)
{
    DIR *tasks = proc_list(hold->proc, "task");
    if (!tasks)
        return -ESRCH;
    int found = 0, r = 0;
    size_t next = 0;
    for (struct dirent *entry; r >= 0 && (entry = readdir(tasks));) {
        pid_t tid = (pid_t)atoi(entry->d_name);
        if (tid <= 0 || holds(hold, tid, &next))
            continue;
        r = seize(hold, tid, problem);
        if (r == 0) {
            r = array_add(&hold->threads, (struct hold_thread){.tid = tid});
            found++;
        } else if (r == -ESRCH) {
            r = 0;
        }
    }
    closedir(tasks);
    return r < 0 ? r : found;
}

/* Is everybody ours? Who is held makes no threads and does not end, so that counting them is enough. */
static bool holds_everybody(const struct hold *hold)
{
    return proc_status_number(hold->proc, "Threads") == (long)hold->threads.count;
}

/* What is known of a seized thread before it is interrupted: how often it had run, and, if it slept then,
 * where it will go on. */
struct look {
    pid_t tid;
    unsigned long long times;
    uint64_t at; /* 0: it did not sleep, or that is not known */
};

/* Looks at the threads from the first on, which is most of what there is to do for them, while all of them
 * run. NULL (no memory): nothing is known of any. */
static struct look *look_at_threads(const struct hold *hold, size_t first)
{
    size_t count = hold->threads.count - first;
    struct look *looks = count ? calloc(count, sizeof(*looks)) : NULL;
    long call;
    for (size_t i = 0; looks && i < count; i++) {
        looks[i].tid = hold->threads.at[first + i].tid;
        looks[i].times = thread_runs(hold->proc, looks[i].tid).times;
        if (!looks[i].times || !thread_is_asleep(hold->proc, looks[i].tid, &call, &looks[i].at))
            looks[i].at = 0;
    }
    return looks;
}

/* Waits until a thread that was interrupted has stopped. One that slept in a system call and has not run
 * since need not be waited for: it executes nothing of its program before it stops, and with more programs
 * than CPUs its turn may be far. */
static int await_stop(const struct hold *hold, struct hold_thread *thread, const struct look *look,
                      uint64_t deadline, uint64_t last)
{
    int r = stop_wait_interrupted(thread->tid, STOP_AT_ONCE, NULL);
    if (r != -ETIMEDOUT)
        return r;
    if (look && look->tid == thread->tid && look->at &&
        thread_runs(hold->proc, thread->tid).times == look->times) {
        thread->asleep_at = look->at;
        return 0;
    }
    r = stop_wait_interrupted(thread->tid, deadline, NULL);
    while (r == -ETIMEDOUT && clock_monotonic_ns() < last && !thread_is_unstoppable(hold->proc, thread->tid))
        r = stop_wait_interrupted(thread->tid, in_ms(1), NULL);
    return r;
}

/* Interrupts threads that were seized and looked at, and waits for them together: the main thread or all but
 * it, from the first on. Who did not stop in time is moved to late, who is gone forgotten. */
static void interrupt(struct hold *hold, size_t first, const struct look *looks, bool main, struct hold *late)
{
    size_t kept = first;
    struct pace pace = pace_of(hold);
    for (size_t i = first; i < hold->threads.count; i++) {
        pid_t tid = hold->threads.at[i].tid;
        if ((tid == hold->pid) != main)
            continue;
        ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
        if (!main)
            give_way(&pace, i);
    }
    uint64_t deadline = in_ms(STOP_ALL_TIMEOUT_MS), last = in_ms(STOP_ALL_RUNNABLE_MS);
    for (size_t i = first; i < hold->threads.count; i++) {
        struct hold_thread thread = hold->threads.at[i];
        bool awaited = (thread.tid == hold->pid) == main;
        int r = awaited ? await_stop(hold, &thread, looks ? &looks[i - first] : NULL, deadline, last) : 0;
        if (r == 0)
            hold->threads.at[kept++] = thread;
        else if (r != -ESRCH && array_add(&late->threads, thread) < 0)
            await_late_thread(thread.tid);
    }
    hold->threads.count = kept;
}

/* A thread that did not stop in time keeps nobody waiting: all others go on, and it does when it stops. */
static int give_up(struct hold *hold, struct hold *late, struct problem *problem)
{
    int r = problem_set(problem, -EAGAIN, "thread %d of process %d does not stop (it waits for a disk?)",
                        late->threads.at[0].tid, hold->pid);
    size_t seized = hold->threads.count;
    for (size_t i = 0; i < seized; i++)
        if (ptrace(PTRACE_DETACH, hold->threads.at[i].tid, NULL, NULL) < 0 && errno == ESRCH) {
            ptrace(PTRACE_INTERRUPT, hold->threads.at[i].tid, NULL, NULL); /* it was not stopped yet */
            (void)array_add(&late->threads, hold->threads.at[i]);
        }
    hold->threads.count = 0;
    hold_release(hold);
    await_late(late);
    return r;
}

int hold_all(const struct proc *proc, struct hold *ret_hold, struct problem *problem)
{
    const pid_t pid = proc->pid;
    struct hold hold = {.proc = proc, .pid = pid}, late = {0};
    int r;
    /* Again until a pass finds nobody new: threads that were not stopped yet may have made more. The main
     * thread, which serves requests, stops last. */
    do {
        size_t held = hold.threads.count;
        r = seize_others(&hold, problem);
        _cleanup_(freep) struct look *looks = look_at_threads(&hold, held);
        if (!hold.since_ns)
            begin(&hold);
        interrupt(&hold, held, looks, false, &late);
        if (!late.threads.count)
            interrupt(&hold, held, looks, true, &late);
    } while (r > 0 && !late.threads.count && !holds_everybody(&hold));
    if (late.threads.count && aside_leaves())
        r = problem_set(problem, -EINTR, "process %d is left alone: interrupted", pid);
    else if (late.threads.count)
        r = give_up(&hold, &late, problem);
    else if (r == -ESRCH || (r >= 0 && !hold.threads.count))
        r = problem_set(problem, -ESRCH, "process %d has ended", pid);
    array_done(&late.threads);
    if (r < 0) {
        hold_release(&hold);
        return r;
    }
    *ret_hold = hold;
    return 0;
}

uint64_t hold_release(struct hold *hold)
{
    struct hold late = {0};
    struct pace pace = pace_of(hold);
    array_foreach (&hold->threads, t) {
        if (ptrace(PTRACE_DETACH, t->tid, NULL, NULL) < 0 && t->asleep_at)
            (void)array_add(&late.threads, *t); /* its turn has not come yet */
        give_way(&pace, (size_t)(t - hold->threads.at));
    }
    uint64_t held_ns = hold->since_ns ? clock_monotonic_ns() - hold->since_ns : 0;
    stop_watch_closely(false);
    await_late(&late);
    if (hold->since_ns)
        hurry(false);
    array_done(&late.threads);
    array_done(&hold->threads);
    free(hold->room);
    hold->room = NULL;
    hold->since_ns = 0;
    return held_ns;
}

/* ---- one thread ---- */

static int begin_one(const struct proc *proc, const struct hold_first *first, struct hold *ret_hold,
                     int *ret_status, struct problem *problem)
{
    struct hold hold = {.proc = proc, .pid = proc->pid, .memory = -1};
    int r = seize(&hold, hold.pid, problem);
    if (r == 0 && first)
        first->ask(proc, first->context);
    begin(&hold);
    stop_watch_closely(true);
    if (r == 0)
        r = stop_thread(&hold, hold.pid, ret_status, problem);
    if (r < 0) {
        hold_release(&hold);
        return r == -ESRCH ? problem_set(problem, r, "there is no process %d", proc->pid) : r;
    }
    *ret_hold = hold;
    return 0;
}

int hold_one(const struct proc *proc, struct hold *ret_hold, struct problem *problem)
{
    return begin_one(proc, NULL, ret_hold, NULL, problem);
}

static int explain_unsafe(pid_t pid, int error, struct problem *problem)
{
    switch (error) {
    case -ESRCH:
        return problem_set(problem, error, "process %d has ended, or executes another program", pid);
    case -EBUSY:
        problem_set(problem, error, "process %d is stopped (Ctrl-Z, SIGSTOP)", pid);
        problem_remedy(problem, "Let it go on (kill -CONT %d) and try again.", pid);
        return error;
    case -EINTR:
        return problem_set(problem, error, "process %d is left alone: interrupted", pid);
    }
    problem_set(problem, error, "process %d: its main thread reached no safe point: %s", pid,
                strerror(-error));
    problem_remedy(problem, "It is busy in native code; try again.");
    return error;
}

int hold_main(const struct proc *proc, const struct modules *modules, int memory,
              const struct hold_freely *freely, const struct hold_first *first, uint64_t timeout_ns,
              struct hold *ret_hold, struct problem *problem)
{
    struct hold hold;
    uint64_t restorer;
    int status = 0, r = call_find_restorer(modules, memory, &restorer, problem);
    if (r < 0)
        return r;
    bool may_signal = proc_status_number(proc, "Seccomp") == 0;
    struct call *room = hold_call_room();
    r = begin_one(proc, first, &hold, &status, problem);
    if (r < 0) {
        free(room);
        return r;
    }
    hold.room = room;
    hold.memory = memory;
    hold.restorer = restorer;
    hold.may_signal = may_signal;
    if (stop_is_group(status))
        r = -EBUSY;
    else if (!call_restorer_stands(memory, restorer))
        r = -ESRCH;
    else if (!safe_point_is_here(proc->pid, modules, freely))
        r = safe_point_reach(proc, modules, freely, timeout_ns);
    if (r < 0) {
        hold_release(&hold);
        return explain_unsafe(proc->pid, r, problem);
    }
    *ret_hold = hold;
    return 0;
}

/* ---- out of the way ---- */

static bool is_inside(const struct hold_range *ranges, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++) /* at the start itself the new bytes are as good */
        if (address > ranges[i].start && address < ranges[i].end)
            return true;
    return false;
}

int hold_clear(struct hold *hold, const struct hold_range *ranges, size_t count)
{
    array_foreach (&hold->threads, t) {
        struct user_regs_struct regs = {.rip = t->asleep_at};
        if ((t->asleep_at || ptrace(PTRACE_GETREGS, t->tid, NULL, &regs) == 0) &&
            is_inside(ranges, count, regs.rip))
            return -EAGAIN;
    }
    return 0;
}
