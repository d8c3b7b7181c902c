/* Functions called in a held thread; see hold.h. How the thread gets back is in call.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/call.h"
#include "attach/stop.h"
#include "base/clock.h"

enum {
    STACK_GAP = 4096, /* below the thread's own stack: red zone and more */
    CALL_TIMEOUT_MS = 10000,
    STOP_TIMEOUT_MS = 2000,
    RESTART_BLOCK = 516, /* rax of a system call that only the kernel knows how to go on with */
};
/* What the kernel clears for a signal handler: TF, DF, RF. */
static const uint64_t CLEARED_FLAGS = 0x100 | 0x400 | 0x10000;
#ifndef NT_X86_SHSTK
#define NT_X86_SHSTK 0x204
#endif

/* What an instruction can raise. Such a signal must not be blocked: the kernel would take the program's
 * handler away (force_sig_info_to_task()). */
static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};

static uint64_t bit(int signal)
{
    return 1ull << (signal - 1);
}

static uint64_t fault_signals(void)
{
    uint64_t set = 0;
    for (size_t i = 0; i < ARRAY_SIZE(FAULTS); i++)
        set |= bit(FAULTS[i]);
    return set;
}

struct call {
    pid_t tid;
    struct hold *hold;
    struct call_state state;
    struct call_frame frame;
    uint64_t blocked;
    uint64_t back;  /* where it returns to */
    bool tells;     /* there it sends itself a signal, so that its system calls need not be followed */
    bool restarted; /* a system call of the called function has taken the kernel's note of the thread's own */
    uint64_t result;
};

static int write_stack(const struct call *call, uint64_t address, const void *data, size_t size)
{
    ssize_t n = pwrite(call->hold->memory, data, size, (off_t)address);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EFAULT;
}

/* A return address that was not pushed by a call is refused by the CPU. */
static bool has_shadow_stack(pid_t tid)
{
    uint64_t pointer;
    struct iovec area = {&pointer, sizeof(pointer)};
    return ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_SHSTK, &area) == 0;
}

/* Whenever we are killed in here the thread is either as it was or in the call with its way back: registers
 * come first, and the rest of its state is taken from the frame. */
static int enter(struct call *call, struct user_regs_struct *regs)
{
    int r = write_stack(call, call->frame.address, call->frame.data, call->frame.bytes);
    if (r < 0)
        return r;
    if (ptrace(PTRACE_SETREGS, call->tid, NULL, regs) < 0)
        return -errno;
    r = call_state_begin(call->tid, &call->state);
    if (r == 0 && ptrace(PTRACE_SETSIGMASK, call->tid, (void *)sizeof(call->blocked), &call->blocked) < 0)
        r = -errno;
    if (r < 0)
        (void)call_state_restore(call->tid, &call->state);
    return r;
}

static uint64_t stop_deadline(void)
{
    return clock_monotonic_ns() + STOP_TIMEOUT_MS * NS_PER_MS;
}

static int next_event_stop(pid_t tid, uint64_t deadline)
{
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || ptrace(PTRACE_CONT, tid, NULL, NULL) < 0)
        return -errno;
    return stop_wait_interrupted(tid, deadline, NULL);
}

/* At the entry of the frame's rt_sigreturn. That restores all but two things: that a system call is under way
 * which a signal may still end, and the kernel's note of how it goes on (restart_block). So it is let run,
 * and the state then written again. With such a note it must not run: the call that goes on is put in its
 * place. Both are calls that the program's filters let through, as a cancelled one (-1) need not be. */
static int come_back(struct call *call)
{
    const struct user_regs_struct *saved = &call->state.regs;
    bool goes_on = (int)saved->orig_rax >= 0 && (int64_t)saved->rax == -RESTART_BLOCK && !call->restarted;
    int r;
    if (goes_on) {
        struct call_state state = call->state;
        state.regs.orig_rax = SYS_restart_syscall;
        state.regs.rax = (unsigned long long)-ENOSYS;
        r = call_state_restore(call->tid, &state);
    } else {
        r = write_stack(call, call->frame.address, call->frame.data, call->frame.bytes);
    }
    if (r >= 0)
        r = next_event_stop(call->tid, stop_deadline());
    if (r == -ETIMEDOUT || r == -EINTR) { /* a freezer has come: what is to be done it does alone */
        call->hold->threads.count = 0;
        return 0;
    }
    if (r >= 0 && !goes_on)
        r = call_state_restore(call->tid, &call->state);
    return r;
}

/* A signal that somebody has sent waits with the others until the call is over: being blocked now it is put
 * back into the queue. */
static int keep_for_later(struct call *call, int signal)
{
    call->blocked |= bit(signal);
    if (ptrace(PTRACE_SETSIGMASK, call->tid, (void *)sizeof(call->blocked), &call->blocked) < 0)
        return -errno;
    return signal;
}

/* What becomes of a signal that the thread is about to be given: the signal to go on with, or -EFAULT. */
static int take_signal(struct call *call, int signal)
{
    siginfo_t info;
    if (signal == SIGURG) { /* not ours: that could not be told from it any more */
        call->tells = false;
        return keep_for_later(call, signal);
    }
    if (!(fault_signals() & bit(signal)))
        return signal; /* SIGSTOP: the process stops, and this thread with it once it is let go */
    if (ptrace(PTRACE_GETSIGINFO, call->tid, NULL, &info) < 0)
        return -errno;
    return info.si_code > 0 ? -EFAULT : keep_for_later(call, signal);
}

/* Is the thread about to enter the frame's rt_sigreturn? Then the result is taken from where a stub of ours
 * has put it; without one it is that of the last system call. */
static bool is_over(struct call *call, const struct user_regs_struct *regs)
{
    bool over = call_is_over(regs, &call->frame, call->back);
    if (over && call->back != call->hold->restorer)
        call->result = regs->rdi;
    return over;
}

/* Has it returned and said so? Then it is as good as back, where its frame would lead it. */
static bool has_told(struct call *call, const struct user_regs_struct *regs)
{
    bool told = call->tells && !call->restarted && call_has_told(regs, &call->frame, call->hold->stub);
    if (told)
        call->result = regs->rbx;
    return told;
}

/* Takes too long, and is let go: once it stops, or, where it does not (a freezer), with our end. Then it goes
 * on alone. */
static int leave(struct call *call)
{
    struct user_regs_struct regs;
    int status, r = -EINTR;
    if (!aside_leaves()) {
        ptrace(PTRACE_INTERRUPT, call->tid, NULL, NULL);
        r = stop_wait(call->tid, stop_deadline(), &status);
    }
    if (r == -ESRCH)
        return r;
    if (r == 0 && ptrace(PTRACE_GETREGS, call->tid, NULL, &regs) == 0 && is_over(call, &regs))
        return 0;
    call->hold->threads.count = 0;
    if (r == 0) {
        int signal = status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
        ptrace(PTRACE_DETACH, call->tid, NULL, (void *)(long)signal);
    }
    return r == -EINTR ? r : -ETIMEDOUT;
}

/* From its first instruction to the entry of rt_sigreturn, or to where it has told that it has returned: each
 * system call that is followed makes two stops, and a stop takes as long as a hundred system calls.
 * *ret_told: which of the two. */
static int run_call(struct call *call, bool *ret_told)
{
    uint64_t deadline = clock_monotonic_ns() + CALL_TIMEOUT_MS * NS_PER_MS;
    for (int signal = 0;;) {
        struct user_regs_struct regs;
        int status;
        if (ptrace(call->tells ? PTRACE_CONT : PTRACE_SYSCALL, call->tid, NULL, (void *)(long)signal) < 0)
            return -errno;
        int r = stop_wait(call->tid, deadline, &status);
        if (r == -ETIMEDOUT || r == -EINTR)
            return leave(call);
        if (r < 0)
            return r;
        signal = 0;
        if (status >> 16 == PTRACE_EVENT_EXEC) {
            ptrace(PTRACE_DETACH, call->tid, NULL, NULL);
            return -ESRCH;
        }
        if (ptrace(PTRACE_GETREGS, call->tid, NULL, &regs) < 0)
            return -errno;
        call->restarted |= (int64_t)regs.rax == -RESTART_BLOCK;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (is_over(call, &regs))
                return 0;
            call->result = regs.rax;
        } else if (!(status >> 16)) {
            *ret_told = WSTOPSIG(status) == SIGURG && has_told(call, &regs);
            if (*ret_told)
                return 0;
            signal = take_signal(call, WSTOPSIG(status));
            if (signal < 0)
                return signal;
        }
    }
}

static int prepare(struct call *call, uint64_t function, const uint64_t *arguments, int count,
                   const void *data, size_t size, struct user_regs_struct *ret_regs)
{
    int r = call_state_save(call->tid, &call->state);
    if (r < 0)
        return r;
    struct user_regs_struct regs = call->state.regs;
    uint64_t at = call->hold->data = (regs.rsp - STACK_GAP - size) & ~63ull;
    unsigned long long *const places[] = {&regs.rdi, &regs.rsi, &regs.rdx, &regs.rcx, &regs.r8, &regs.r9};
    for (int i = 0; i < count; i++)
        *places[i] = arguments[i] == HOLD_DATA ? at : arguments[i];
    call_frame_make(&call->state, at, call->back, &call->frame);
    regs.rsp = call->frame.address;
    regs.rip = function;
    regs.rax = 0;
    regs.orig_rax = (unsigned long long)-1; /* no system call to restart */
    regs.eflags &= ~CLEARED_FLAGS;
    *ret_regs = regs;
    return size ? write_stack(call, at, data, size) : 0;
}

static int make(struct call *call, struct user_regs_struct *regs)
{
    int r = enter(call, regs);
    if (r < 0)
        return r;
    bool told = false;
    r = run_call(call, &told);
    if (r == 0)
        return told ? call_state_restore(call->tid, &call->state) : come_back(call);
    if (!call->hold->threads.count || r == -ESRCH)
        return r;
    int restored = call_state_restore(call->tid, &call->state);
    return restored < 0 ? restored : r;
}

static int explain(const struct hold *hold, int error, struct problem *problem)
{
    switch (error) {
    case -ETIMEDOUT:
        problem_set(problem, error,
                    "process %d: a call inside it takes more than %d s; it goes on alone, without harm",
                    hold->pid, CALL_TIMEOUT_MS / 1000);
        problem_remedy(problem, "One of its threads holds the loader's lock (a slow library?); try again.");
        return error;
    case -EINTR:
        return problem_set(problem, error, "process %d is left alone: interrupted", hold->pid);
    case -ENOSYS:
        problem_set(problem, error, "process %d has a shadow stack: nothing can be called inside it",
                    hold->pid);
        problem_remedy(problem,
                       "Start it without (GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK), or under sonde run.");
        return error;
    }
    return problem_set(problem, error, "process %d: a call inside it failed: %s", hold->pid,
                       strerror(-error));
}

struct call *hold_call_room(void)
{
    enum { PAGE = 4096 };
    struct call *room = calloc(1, sizeof(*room));
    volatile char *bytes = (volatile char *)room;
    for (size_t i = 0; room && i < sizeof(*room); i += PAGE) /* each page is there then */
        bytes[i] = 0;
    return room;
}

int hold_call(struct hold *hold, uint64_t function, const uint64_t *arguments, int count, const void *data,
              size_t size, uint64_t *ret_result, struct problem *problem)
{
    struct user_regs_struct regs;
    struct call *call = hold->room;
    if (!hold->threads.count || !call)
        return problem_set(problem, hold->threads.count ? -ENOMEM : -ESRCH, "process %d: %s", hold->pid,
                           hold->threads.count ? "no memory for a call inside it" : "it is not held");
    call->hold = hold;
    call->tid = hold->threads.at[0].tid;
    call->restarted = false;
    call->result = 0;
    call->tells = hold->stub && hold->may_signal;
    call->back = !hold->stub ? hold->restorer : hold->stub + (call->tells ? SONDE_BACK_TELLS : 0);
    call->blocked = ~fault_signals() & ~(call->tells ? bit(SIGURG) : 0);
    int r = !call_restorer_stands(hold->memory, hold->restorer) ? -ESRCH
            : has_shadow_stack(call->tid)                       ? -ENOSYS
                                                                : 0;
    if (r == 0)
        r = prepare(call, function, arguments, count, data, size, &regs);
    if (r == 0)
        r = make(call, &regs);
    if (r == 0)
        *ret_result = call->result;
    return r < 0 ? explain(hold, r, problem) : 0;
}
