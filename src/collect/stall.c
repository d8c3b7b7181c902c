/* The stall sampler: stop one thread, copy its registers and the top of its stack, let it go, then have a
 * worker without rights think (stall_worker.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/stall.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/freezer.h"
#include "base/clock.h"
#include "base/macro.h"
#include "broker/broker.h"
#include "collect/stall_worker.h"
#include "symbol/memory.h"

/* On a very busy machine: a system call that takes a tenth of a second of CPU time takes two then. */
#define STOP_LIMIT_NS (4 * NS_PER_S)

struct stall_sampler {
    struct broker *broker;
    struct stall_work *work; /* with room for a stack */
    void (*while_waiting)(void *context);
    void *context;
};

static const char *const CAUSES[STALL_CAUSES] = {"regexp", "javascript", "builtin",
                                                 "gc",     "native",     "waiting"};

const char *stall_cause_name(enum stall_cause cause)
{
    return (unsigned)cause < STALL_CAUSES ? CAUSES[cause] : "unknown";
}

int stall_sampler_new(struct stall_sampler **ret_sampler)
{
    _cleanup_(stall_sampler_freep) struct stall_sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return -ENOMEM;
    sampler->work = malloc(sizeof(*sampler->work));
    int r = sampler->work ? broker_new(&stall_worker, &sampler->broker, NULL) : -ENOMEM;
    if (r < 0)
        return r;
    *ret_sampler = sampler;
    sampler = NULL;
    return 0;
}

void stall_sampler_free(struct stall_sampler *sampler)
{
    if (!sampler)
        return;
    broker_free(sampler->broker);
    free(sampler->work);
    free(sampler);
}

void stall_forget(struct stall_sampler *sampler, const struct proc *proc)
{
    broker_forget(sampler->broker, proc);
}

void stall_while_waiting(struct stall_sampler *sampler, void (*while_waiting)(void *context), void *context)
{
    sampler->while_waiting = while_waiting;
    sampler->context = context;
    broker_while_waiting(sampler->broker, while_waiting, context);
}

const struct broker *stall_broker(const struct stall_sampler *sampler)
{
    return sampler->broker;
}

/* The worker reads size bytes of the work: the stack is as long as it was copied. */
static int have_read(struct stall_sampler *sampler, struct proc *proc, struct stall_report *ret_report,
                     struct problem *problem)
{
    _cleanup_(freep) void *result = NULL;
    size_t length;
    int r = broker_work(sampler->broker, proc, sampler->work,
                        offsetof(struct stall_work, stack) + sampler->work->stack_bytes, aside_is_ending,
                        &result, &length, problem);
    if (r >= 0 && stall_report_decode(result, length, ret_report) < 0)
        r = problem_set(problem, -EIO, "process %d: the worker that reads it gave no sense", proc->pid);
    return r;
}

int stall_prepare(struct stall_sampler *sampler, struct proc *proc, struct problem *problem)
{
    struct stall_report nothing;
    sampler->work->prepares = true;
    sampler->work->stack_bytes = 0;
    int r = have_read(sampler, proc, &nothing, problem);
    if (r >= 0)
        stall_report_done(&nothing);
    return r;
}

/* ---- stopping ---- */

static int refused(pid_t tid, int r, struct problem *problem)
{
    problem_set(problem, r, "thread %d cannot be examined: %s", tid, strerror(-r));
    if (r == -EPERM)
        problem_remedy(problem,
                       "Run as root or grant CAP_SYS_PTRACE, and see that no debugger holds the process.");
    return r;
}

/* What has happened to the thread, as stop_take() says it, but without errno: 1, and *ret_status as waitpid()
 * has it; 0: nothing. */
static int take_stop(pid_t tid, int *ret_status)
{
    siginfo_t news = {0};
    long r = aside_call(SYS_waitid, P_PID, tid, (long)(uintptr_t)&news, WEXITED | WSTOPPED | WNOHANG | __WALL,
                        0, 0);
    if (r < 0 || news.si_pid != tid)
        return r == -ECHILD ? -ESRCH : (int)r;
    if (news.si_code != CLD_TRAPPED && news.si_code != CLD_STOPPED)
        return -ESRCH;
    *ret_status = news.si_status << 8 | 0x7f;
    return 1;
}

static long trace(long request, pid_t tid, long data)
{
    return aside_call(SYS_ptrace, request, tid, 0, data, 0, 0);
}

/* Waits for the stop that PTRACE_INTERRUPT asked for. Signals that arrive first are passed on to the thread.
 * A stop is announced with SIGCHLD, which is blocked here (aside_share()); a parent that ignores it gets
 * none. */
static int wait_for_stop(pid_t tid)
{
    const uint64_t deadline = clock_monotonic_ns() + STOP_LIMIT_NS, child = 1ull << (SIGCHLD - 1);
    const struct timespec pause = {.tv_nsec = NS_PER_MS};
    for (;;) {
        int status, r = take_stop(tid, &status);
        if (r < 0)
            return r;
        if (r && status >> 16 == PTRACE_EVENT_STOP)
            return 0;
        if (r) { /* a signal on its way in: deliver it when the thread goes on */
            if ((r = (int)trace(PTRACE_CONT, tid, WSTOPSIG(status))) < 0)
                return r;
            continue;
        }
        if (aside_leaves())
            return -EINTR;
        if (clock_monotonic_ns() > deadline)
            return -ETIMEDOUT;
        (void)aside_call(SYS_rt_sigtimedwait, (long)(uintptr_t)&child, 0, (long)(uintptr_t)&pause,
                         sizeof(child), 0, 0);
    }
}

/* Stops the thread, takes registers and stack, lets it go. Made aside (attach/aside.h): the thread does not
 * stay stopped because we are. In a long system call that no signal ends (a read of a large file) it stops
 * only when that returns, so rings are drained meanwhile, and nothing here uses errno or the heap. */
struct snapshot {
    const struct proc *proc;
    pid_t tid;
    char thread[32]; /* "task/TID" */
    struct user_regs_struct registers;
    uint8_t *room; /* STALL_STACK_BYTES, for the stack's bytes */
    struct stack_copy stack;
    uint64_t at_ns, stopped_ns;
};

static bool has_thread(const struct snapshot *snapshot)
{
    return aside_call(SYS_faccessat, snapshot->proc->directory, (long)(uintptr_t)snapshot->thread, F_OK, 0, 0,
                      0) == 0;
}

/* Page by page, because a part that is not wholly mapped yields nothing. Returns how much was read. */
static long copy_stack(const struct snapshot *snapshot)
{
    enum { PARTS = 64, PAGE = 4096 };
    size_t done = 0;
    while (done < STALL_STACK_BYTES) {
        struct iovec remote[PARTS];
        size_t asked = 0, parts = 0;
        for (; parts < PARTS && done + asked < STALL_STACK_BYTES; parts++) {
            uint64_t at = snapshot->registers.rsp + done + asked;
            size_t part = MIN(PAGE - (size_t)(at % PAGE), STALL_STACK_BYTES - done - asked);
            remote[parts] = (struct iovec){(void *)(uintptr_t)at, part};
            asked += part;
        }
        const struct iovec local = {snapshot->room + done, asked};
        long n = aside_call(SYS_process_vm_readv, snapshot->proc->pid, (long)(uintptr_t)&local, 1,
                            (long)(uintptr_t)remote, (long)parts, 0);
        if (n <= 0)
            return done ? (long)done : n;
        done += (size_t)n;
        if ((size_t)n < asked)
            break;
    }
    return (long)done;
}

static int take_snapshot(void *context)
{
    struct snapshot *snapshot = context;
    pid_t tid = snapshot->tid;
    if (!has_thread(snapshot))
        return -ESRCH;
    long r = trace(PTRACE_SEIZE, tid, 0);
    if (r < 0)
        return (int)r;
    snapshot->at_ns = clock_monotonic_ns();
    r = trace(PTRACE_INTERRUPT, tid, 0);
    if (r >= 0)
        r = wait_for_stop(tid);
    uint64_t stopped_at = clock_monotonic_ns();
    if (r >= 0 && !has_thread(snapshot))
        r = -ESRCH; /* its number changed hands as we seized it: the other goes on as it was */
    if (r >= 0)
        r = trace(PTRACE_GETREGS, tid, (long)(uintptr_t)&snapshot->registers);
    long copied = r >= 0 ? copy_stack(snapshot) : 0;
    /* A thread that would not stop is let go by the end of its tracer, which comes now. */
    (void)trace(PTRACE_DETACH, tid, 0);
    snapshot->stopped_ns = clock_monotonic_ns() - stopped_at;
    if (r >= 0 && copied <= 0)
        r = copied < 0 ? copied : -EFAULT;
    snapshot->stack = (struct stack_copy){
        .start = snapshot->registers.rsp, .bytes = snapshot->room, .size = r < 0 ? 0 : (size_t)copied};
    return (int)MIN(r, 0);
}

/* ---- one look ---- */

static bool in_system_call(const struct proc *proc, pid_t tid, int64_t *ret_number)
{
    char name[48];
    _cleanup_(freep) char *text = NULL;
    snprintf(name, sizeof(name), "task/%d/syscall", tid);
    if (proc_read(proc, name, 512, &text, NULL) < 0 || strncmp(text, "running", 7) == 0)
        return false;
    *ret_number = strtoll(text, NULL, 10);
    return *ret_number >= 0;
}

/* The registers of a thread that was interrupted in a system call: rip is behind a syscall instruction and
 * orig_rax holds its number. */
static bool stopped_in_system_call(pid_t pid, const struct user_regs_struct *registers)
{
    uint8_t code[2];
    return (int64_t)registers->orig_rax >= 0 && memory_read(pid, registers->rip - 2, code, 2) == 0 &&
           code[0] == 0x0f && code[1] == 0x05;
}

int stall_sample(struct stall_sampler *sampler, struct proc *proc, pid_t tid, struct stall_report *ret_report,
                 struct problem *problem)
{
    struct stall_report report;
    struct snapshot snapshot = {.proc = proc, .tid = tid, .room = sampler->work->stack};
    int64_t system_call = -1;
    int r = freezer_check(proc, problem);
    if (r >= 0)
        r = stall_prepare(sampler, proc, problem); /* what takes long is done before the thread is stopped */
    if (r < 0)
        return r;
    bool waiting = in_system_call(proc, tid, &system_call);
    snprintf(snapshot.thread, sizeof(snapshot.thread), "task/%d", tid);
    r = aside_share(take_snapshot, &snapshot, sampler->while_waiting, sampler->context);
    if (r < 0)
        return refused(tid, r, problem);
    waiting = waiting && stopped_in_system_call(proc->pid, &snapshot.registers);
    sampler->work->prepares = false;
    sampler->work->waiting = waiting;
    sampler->work->registers = snapshot.registers;
    sampler->work->stack_start = snapshot.stack.start;
    sampler->work->stack_bytes = snapshot.stack.size;
    r = have_read(sampler, proc, &report, problem);
    if (r < 0)
        return r;
    report.system_call = waiting ? system_call : -1;
    report.at_ns = snapshot.at_ns;
    report.stopped_ns = snapshot.stopped_ns;
    if (!proc_exists(proc)) { /* its instruction was read by its number: whose was that? */
        stall_report_done(&report);
        return problem_set(problem, -ESRCH, "process %d has ended", proc->pid);
    }
    *ret_report = report;
    return 0;
}

void stall_report_done(struct stall_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        free(report->frames[i].function);
        free(report->frames[i].script);
    }
    free(report->pattern);
    free(report->flags);
    free(report->builtin);
    *report = (struct stall_report){0};
}
