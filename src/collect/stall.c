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
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/freezer.h"
#include "attach/stop.h"
#include "base/clock.h"
#include "broker/broker.h"
#include "collect/stall_worker.h"
#include "symbol/memory.h"

#define STOP_LIMIT_NS NS_PER_S /* of a machine that is very busy */

struct stall_sampler {
    struct broker *broker;
    struct stall_work *work; /* with room for a stack */
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

/* Waits for the stop that PTRACE_INTERRUPT asked for. Signals that arrive first are passed on to the thread.
 */
static int wait_for_stop(pid_t tid)
{
    uint64_t deadline = clock_monotonic_ns() + STOP_LIMIT_NS;
    for (;;) {
        int status, r = stop_take(tid, &status);
        if (r < 0)
            return r;
        if (r && status >> 16 == PTRACE_EVENT_STOP)
            return 0;
        if (r) { /* a signal on its way in: deliver it when the thread goes on */
            if (ptrace(PTRACE_CONT, tid, NULL, (void *)(uintptr_t)WSTOPSIG(status)) < 0)
                return -errno;
            continue;
        }
        if (clock_monotonic_ns() > deadline)
            return -ETIMEDOUT;
        struct timespec pause = {0, 10000};
        nanosleep(&pause, NULL);
    }
}

/* Stops the thread, takes registers and stack, lets it go. Made aside (attach/aside.h): the thread does not
 * stay stopped because we are. */
struct snapshot {
    const struct proc *proc;
    pid_t tid;
    struct user_regs_struct registers;
    uint8_t *room; /* STALL_STACK_BYTES, for the stack's bytes */
    struct stack_copy stack;
    uint64_t at_ns, stopped_ns;
};

static int take_snapshot(void *context)
{
    struct snapshot *snapshot = context;
    pid_t tid = snapshot->tid;
    if (!proc_has_thread(snapshot->proc, tid))
        return -ESRCH;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
        return -errno;
    int r = 0;
    snapshot->at_ns = clock_monotonic_ns();
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
        r = -errno;
    if (r == 0)
        r = wait_for_stop(tid);
    uint64_t stopped_at = clock_monotonic_ns();
    if (r == 0 && !proc_has_thread(snapshot->proc, tid))
        r = -ESRCH; /* its number changed hands as we seized it: the other goes on as it was */
    if (r == 0 && ptrace(PTRACE_GETREGS, tid, NULL, &snapshot->registers) < 0)
        r = -errno;
    ssize_t copied = 0;
    if (r == 0)
        copied =
            memory_read_some(snapshot->proc->pid, snapshot->registers.rsp, snapshot->room, STALL_STACK_BYTES);
    /* A thread that would not stop can only be let go by the end of the tracer; asking again costs nothing.
     */
    if (ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0 && r == -ETIMEDOUT && wait_for_stop(tid) == 0)
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
    snapshot->stopped_ns = clock_monotonic_ns() - stopped_at;
    if (r == 0 && copied <= 0)
        r = copied < 0 ? (int)copied : -EFAULT;
    snapshot->stack = (struct stack_copy){
        .start = snapshot->registers.rsp, .bytes = snapshot->room, .size = r < 0 ? 0 : (size_t)copied};
    return r;
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
    r = aside_share(take_snapshot, &snapshot);
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
