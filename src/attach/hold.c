/* See hold.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold.h"

#include <dirent.h>
#include <elf.h>
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

#include "base/clock.h"

enum {
    XSTATE_MAX = 16 << 10,
    STACK_GAP = 4096,   /* below the thread's own stack: red zone and more */
    RETURN_TO = 0x5d0f, /* never mapped: a call that is done faults here */
    STOP_TIMEOUT_MS = 2000,
    CALL_TIMEOUT_MS = 10000,
};

static void pause_us(long us)
{
    const struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

/* ---- stopping ---- */

/* Waits for a thread's next stop; its wait status, or a negative errno (-ESRCH: gone). */
static int wait_stop(pid_t tid, uint64_t deadline_ns, int *ret_status)
{
    for (;;) {
        pid_t r = waitpid(tid, ret_status, __WALL | WNOHANG);
        if (r < 0)
            return errno == ECHILD ? -ESRCH : -errno;
        if (r == tid)
            return WIFSTOPPED(*ret_status) ? 0 : -ESRCH;
        if (clock_monotonic_ns() > deadline_ns)
            return -ETIMEDOUT;
        pause_us(20);
    }
}

static bool is_syscall_stop(int status)
{
    return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* The signal to give back when the thread goes on: 0 for the stops that ptrace makes itself. */
static int pending_signal(int status)
{
    int signal = WSTOPSIG(status);
    return status >> 16 || signal == SIGTRAP || is_syscall_stop(status) ? 0 : signal;
}

static int seize(struct hold *hold, pid_t tid, struct problem *problem)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0) {
        int r = -errno;
        if (r == -ESRCH)
            return r;
        problem_set(problem, r, "process %d may not be attached to: %s", hold->pid, strerror(-r));
        problem_remedy(problem,
                       "Is a debugger attached? Otherwise run sonde as root or with CAP_SYS_PTRACE.");
        return r;
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
        int r = -errno;
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
        return r;
    }
    return 0;
}

/* Waits until a seized thread is stopped by our interrupt; signals that come before are passed on. */
static int wait_interrupted(pid_t tid)
{
    uint64_t deadline = clock_monotonic_ns() + STOP_TIMEOUT_MS * NS_PER_MS;
    for (;;) {
        int status, r = wait_stop(tid, deadline, &status);
        if (r < 0)
            return r;
        if (status >> 16 == PTRACE_EVENT_STOP)
            return 0;
        ptrace(PTRACE_CONT, tid, NULL, (void *)(long)pending_signal(status));
    }
}

static int stop_thread(struct hold *hold, pid_t tid, struct problem *problem)
{
    int r = seize(hold, tid, problem);
    if (r < 0)
        return r;
    r = wait_interrupted(tid);
    if (r < 0)
        return r == -ESRCH ? r : problem_set(problem, r, "thread %d did not stop: %s", tid, strerror(-r));
    if (array_add(&hold->threads, tid) < 0) {
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
        return -ENOMEM;
    }
    return 0;
}

static bool holds(const struct hold *hold, pid_t tid)
{
    array_foreach (&hold->threads, t)
        if (*t == tid)
            return true;
    return false;
}

int hold_rest(struct hold *hold, struct problem *problem)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/task", hold->pid);
    /* Again until a pass finds nobody new: threads that were not stopped yet may have made more. */
    for (bool found = true; found;) {
        found = false;
        DIR *tasks = opendir(path);
        if (!tasks)
            return problem_set(problem, -ESRCH, "process %d has ended", hold->pid);
        for (struct dirent *entry; (entry = readdir(tasks));) {
            pid_t tid = (pid_t)atoi(entry->d_name);
            if (tid <= 0 || holds(hold, tid))
                continue;
            int r = stop_thread(hold, tid, problem);
            found |= r == 0;
            if (r < 0 && r != -ESRCH) {
                closedir(tasks);
                return r;
            }
        }
        closedir(tasks);
    }
    return 0;
}

int hold_all(pid_t pid, struct hold *ret_hold, struct problem *problem)
{
    struct hold hold = {.pid = pid, .since_ns = clock_monotonic_ns()};
    int r = stop_thread(&hold, pid, problem);
    if (r >= 0)
        r = hold_rest(&hold, problem);
    if (r < 0) {
        if (r == -ESRCH)
            problem_set(problem, r, "process %d has ended", pid);
        hold_release(&hold);
        return r;
    }
    *ret_hold = hold;
    return 0;
}

void hold_release(struct hold *hold)
{
    array_foreach (&hold->threads, t)
        ptrace(PTRACE_DETACH, *t, NULL, NULL);
    array_done(&hold->threads);
}

/* ---- the safe point ---- */

static bool waits_for_events(const struct user_regs_struct *regs)
{
    switch ((long)regs->orig_rax) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
        return true;
    }
    return false;
}

/* Code without a file behind it: what V8 generated. It holds no lock of libc. */
static bool in_generated_code(const struct modules *modules, uint64_t address)
{
    const struct mapping *mapping = modules_mapping_at(modules, address);
    return mapping && mapping->executable && mapping->module == UINT32_MAX;
}

/* Runs from system call to system call until one that waits for events returns. */
static int run_to_wait(pid_t pid, uint64_t deadline_ns)
{
    int deliver = 0;
    bool entering = true; /* the first stop we see is an entry */
    for (;;) {
        struct user_regs_struct regs;
        int status, r;
        if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)deliver) < 0)
            return -errno;
        r = wait_stop(pid, deadline_ns, &status);
        if (r < 0)
            return r;
        deliver = pending_signal(status);
        if (!is_syscall_stop(status))
            continue;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
            return -errno;
        entering = (long)regs.rax == -ENOSYS;
        if (!entering && waits_for_events(&regs))
            return 0;
    }
}

int hold_main(pid_t pid, const struct modules *modules, uint64_t timeout_ns, struct hold *ret_hold,
              struct problem *problem)
{
    struct hold hold = {.pid = pid, .since_ns = clock_monotonic_ns()};
    struct user_regs_struct regs;
    int r = stop_thread(&hold, pid, problem);
    if (r < 0)
        return r == -ESRCH ? problem_set(problem, r, "there is no process %d", pid) : r;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
        r = -errno;
    else if (!waits_for_events(&regs) && !in_generated_code(modules, regs.rip))
        r = run_to_wait(pid, clock_monotonic_ns() + timeout_ns);
    if (r == -ETIMEDOUT) { /* it computes: is it in generated code now? */
        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
        r = wait_interrupted(pid);
        if (r == 0 && (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0 || !in_generated_code(modules, regs.rip)))
            r = -ETIMEDOUT;
    }
    if (r < 0) {
        hold_release(&hold);
        problem_set(problem, r, "process %d: its main thread reached no safe point: %s", pid, strerror(-r));
        problem_remedy(problem, "It is busy in native code; try again.");
        return r;
    }
    *ret_hold = hold;
    return 0;
}

/* ---- calls ---- */

struct saved_state {
    struct user_regs_struct regs;
    char xstate[XSTATE_MAX];
    struct iovec xstate_area;
    uint64_t signals;
};

static int save_state(pid_t tid, struct saved_state *state)
{
    state->xstate_area = (struct iovec){state->xstate, sizeof(state->xstate)};
    if (ptrace(PTRACE_GETREGS, tid, NULL, &state->regs) < 0 ||
        ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &state->xstate_area) < 0 ||
        ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(state->signals), &state->signals) < 0)
        return -errno;
    return 0;
}

static int restore_state(pid_t tid, struct saved_state *state)
{
    int r = 0;
    if (ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &state->xstate_area) < 0)
        r = -errno;
    if (ptrace(PTRACE_SETREGS, tid, NULL, &state->regs) < 0)
        r = -errno;
    if (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(state->signals), &state->signals) < 0)
        r = -errno;
    return r;
}

static int write_memory(pid_t pid, uint64_t address, const void *data, size_t size)
{
    struct iovec local = {(void *)(uintptr_t)data, size}, remote = {(void *)(uintptr_t)address, size};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -errno;
}

/* Runs until the fault at RETURN_TO that says the call is done. */
static int run_call(pid_t tid, uint64_t *ret_result)
{
    uint64_t deadline = clock_monotonic_ns() + CALL_TIMEOUT_MS * NS_PER_MS;
    for (;;) {
        struct user_regs_struct regs;
        int status;
        if (ptrace(PTRACE_CONT, tid, NULL, NULL) < 0)
            return -errno;
        int r = wait_stop(tid, deadline, &status);
        if (r < 0)
            return r;
        int signal = WSTOPSIG(status);
        if (status >> 16 || is_syscall_stop(status) ||
            (signal != SIGSEGV && signal != SIGBUS && signal != SIGILL))
            continue;
        if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
            return -errno;
        *ret_result = regs.rax;
        return regs.rip == RETURN_TO ? 0 : -EFAULT;
    }
}

int hold_call(struct hold *hold, uint64_t function, const uint64_t *arguments, int count, const void *data,
              size_t size, uint64_t *ret_result, struct problem *problem)
{
    pid_t tid = hold->threads.at[0];
    struct saved_state *state = malloc(sizeof(*state));
    if (!state)
        return -ENOMEM;
    int r = save_state(tid, state);
    uint64_t at = (state->regs.rsp - STACK_GAP - size) & ~63ull, result = 0;
    struct user_regs_struct regs = state->regs;
    unsigned long long *const places[] = {&regs.rdi, &regs.rsi, &regs.rdx, &regs.rcx, &regs.r8, &regs.r9};
    for (int i = 0; i < count; i++)
        *places[i] = arguments[i] == HOLD_DATA ? at : arguments[i];
    /* As at a function's entry: the return address on a stack that is 16-byte aligned above it. */
    regs.rsp = at - 64 - 8;
    regs.rip = function;
    regs.rax = 0;
    regs.orig_rax = (unsigned long long)-1; /* no system call to restart */
    const uint64_t back = RETURN_TO,
                   blocked = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGILL - 1));
    if (r == 0 && size)
        r = write_memory(tid, at, data, size);
    if (r == 0)
        r = write_memory(tid, regs.rsp, &back, sizeof(back));
    if (r == 0 && (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(blocked), &blocked) < 0 ||
                   ptrace(PTRACE_SETREGS, tid, NULL, &regs) < 0))
        r = -errno;
    if (r == 0)
        r = run_call(tid, &result);
    if (r != -ESRCH) {
        int restored = restore_state(tid, state);
        r = r < 0 ? r : restored;
    }
    free(state);
    if (r < 0)
        return problem_set(problem, r, "process %d: a call inside it failed: %s", hold->pid, strerror(-r));
    *ret_result = result;
    return 0;
}

/* ---- out of the way ---- */

int hold_clear(struct hold *hold, uint64_t start, uint64_t end)
{
    array_foreach (&hold->threads, t) {
        for (int steps = 0;; steps++) {
            struct user_regs_struct regs;
            int status;
            if (ptrace(PTRACE_GETREGS, *t, NULL, &regs) < 0)
                break;                                /* it is gone */
            if (regs.rip <= start || regs.rip >= end) /* at the start itself the new bytes are as good */
                break;
            if (steps == 16)
                return -EAGAIN;
            if (ptrace(PTRACE_SINGLESTEP, *t, NULL, NULL) < 0 ||
                wait_stop(*t, clock_monotonic_ns() + NS_PER_S, &status) < 0)
                return -EAGAIN;
        }
    }
    return 0;
}
