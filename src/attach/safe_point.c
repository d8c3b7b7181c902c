/* See safe_point.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/safe_point.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "attach/stop.h"
#include "attach/thread_state.h"
#include "base/clock.h"

enum {
    STACK_ROOM = 16 << 10, /* that a call finds below the stack pointer */
    STOP_TIMEOUT_MS = 2000,
    WAKE_MS = 1,       /* how often one looks whether a thread waits */
    STEPPED_MS = 5,    /* a round: from system call to system call, each of which costs two stops, */
    FREE_MS = 20,      /* then freely, each time for twice as long, */
    FREE_MAX_MS = 200, /* up to this, */
    LOOK_MS = 4,       /* and interrupted as often as that */
};

static uint64_t in_ms(uint64_t ms)
{
    return clock_monotonic_ns() + ms * NS_PER_MS;
}

static bool waits_for_events(long call)
{
    switch (call) {
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

/* A restartable sequence (rseq) goes on as if nothing had come between. Kernels before 5.13 do not tell. */
static bool in_restartable_sequence(pid_t pid)
{
    enum { REQUEST = 0x420f }; /* PTRACE_GET_RSEQ_CONFIGURATION */
    struct {
        uint64_t area;
        uint32_t size, signature, flags, pad;
    } rseq = {0};
    struct {
        uint32_t processors[2];
        uint64_t sequence;
    } area = {{0}, 1};
    if (ptrace((enum __ptrace_request)REQUEST, pid, (void *)sizeof(rseq), &rseq) < 0)
        return true;
    struct iovec local = {&area, sizeof(area)}, remote = {(void *)(uintptr_t)rseq.area, sizeof(area)};
    return rseq.area && (process_vm_readv(pid, &local, 1, &remote, 1, 0) != sizeof(area) || area.sequence);
}

/* On the stack it began on, with room below. A stack that has grown since is not recognised. */
static bool is_on_stack(const struct modules *modules, uint64_t stack, uint64_t pointer)
{
    const struct mapping *mapping = modules_mapping_at(modules, pointer);
    return mapping && mapping == modules_mapping_at(modules, stack) && pointer - mapping->start >= STACK_ROOM;
}

bool safe_point_is_here(pid_t pid, const struct modules *modules, const struct hold_freely *freely)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
        return false;
    if (waits_for_events((long)regs.orig_rax) || in_generated_code(modules, regs.rip))
        return true;
    return freely && (regs.rip < freely->avoid.start || regs.rip >= freely->avoid.end) &&
           is_on_stack(modules, freely->stack, regs.rsp) && !in_restartable_sequence(pid);
}

struct patience {
    uint64_t begin_ns, timeout_ns, deadline_ns;
    uint64_t waited_ns; /* for a CPU, until it began */
};

static struct patience patience_of(const struct proc *proc, pid_t pid, uint64_t timeout_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    return (struct patience){now_ns, timeout_ns, now_ns + timeout_ns, thread_runs(proc, pid).waited_ns};
}

/* Is time up? What the thread waits for a CPU puts the deadline off. */
static bool is_over(struct patience *p, const struct proc *proc, pid_t pid)
{
    enum { LONGEST = 6 };
    if (clock_monotonic_ns() < p->deadline_ns)
        return false;
    uint64_t waited_ns = thread_runs(proc, pid).waited_ns, more_ns = waited_ns - MIN(p->waited_ns, waited_ns);
    p->deadline_ns = p->begin_ns + p->timeout_ns + MIN(more_ns, (LONGEST - 1) * p->timeout_ns);
    return clock_monotonic_ns() >= p->deadline_ns;
}

/* Has it not run since it was let go? With more programs than CPUs its turn may be far, and until then it is
 * where it was: who interrupts it sees nothing new, and keeps it there. */
static bool still_waits(const struct proc *proc, pid_t pid, const struct proc_runs *before)
{
    struct proc_runs runs = thread_runs(proc, pid);
    return runs.times && runs.times == before->times && runs.ran_ns == before->ran_ns;
}

/* Waits until it stops, 0, or is to be interrupted, -ETIMEDOUT: time is up, it waits for events (libraries
 * expect such a wait to end early), or it was to be looked at and is neither where it was nor asleep in
 * another call, which is not cut short. *ret_waited: it was. */
static int next_stop(const struct proc *proc, pid_t pid, uint64_t look_ns, struct patience *patience,
                     bool *ret_waited, int *ret_status)
{
    const struct proc_runs before = thread_runs(proc, pid);
    *ret_waited = false;
    for (;;) {
        uint64_t at;
        long call;
        int r = stop_wait(pid, MIN(MIN(look_ns, in_ms(WAKE_MS)), patience->deadline_ns), ret_status);
        if (r != -ETIMEDOUT || is_over(patience, proc, pid))
            return r;
        bool asleep = thread_is_asleep(proc, pid, &call, &at);
        if (asleep && waits_for_events(call))
            return r;
        if (clock_monotonic_ns() < look_ns)
            continue;
        if (!asleep && !still_waits(proc, pid, &before))
            return r;
        look_ns = in_ms(WAKE_MS);
        *ret_waited = true;
    }
}

/* To a safe point: from system call to system call until one that waits for events returns, or wherever it
 * computes: it is looked at again and again. A program that makes one short call after the other would be
 * slowed down ten times and more by being stopped at each, so that its callback does not end in time: most of
 * the time it runs freely. A call that waits for anything but events is cut short only when time is up.
 * Breakpoints of the CPU would find a function without stepping from call to call, but the kernel leaves them
 * in place when we are killed, and then they kill the program. */
int safe_point_reach(const struct proc *proc, const struct modules *modules, const struct hold_freely *freely,
                     uint64_t timeout_ns)
{
    const pid_t pid = proc->pid;
    struct patience patience = patience_of(proc, pid, timeout_ns);
    int deliver = 0;
    uint64_t stepped_until_ns = in_ms(STEPPED_MS), free_ns = FREE_MS * NS_PER_MS;
    for (;;) {
        struct user_regs_struct regs;
        int status = 0;
        const bool runs_freely = clock_monotonic_ns() >= stepped_until_ns;
        bool waited;
        if (ptrace(runs_freely ? PTRACE_CONT : PTRACE_SYSCALL, pid, NULL, (void *)(long)deliver) < 0)
            return -errno;
        int r = next_stop(proc, pid, runs_freely ? in_ms(LOOK_MS) : stepped_until_ns, &patience, &waited,
                          &status);
        bool interrupted = r == -ETIMEDOUT;
        if (interrupted) {
            ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
            r = stop_wait_interrupted(pid, in_ms(STOP_TIMEOUT_MS), &status);
        }
        if (r < 0)
            return r;
        if (stop_is_exec(status))
            return -ESRCH;
        if (stop_is_group(status))
            return -EBUSY;
        if (interrupted && safe_point_is_here(pid, modules, freely))
            return 0;
        if (interrupted && is_over(&patience, proc, pid))
            return -ETIMEDOUT;
        if (runs_freely ? interrupted && clock_monotonic_ns() >= stepped_until_ns + free_ns
                        : interrupted || waited) { /* while it waits it is not slowed down */
            stepped_until_ns = in_ms(STEPPED_MS);
            free_ns = runs_freely ? MIN(2 * free_ns, FREE_MAX_MS * NS_PER_MS) : free_ns;
        }
        deliver = interrupted ? 0 : stop_signal(status);
        if (interrupted || !stop_is_syscall(status))
            continue;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
            return -errno;
        bool entering = (long)regs.rax == -ENOSYS;
        if (!entering && waits_for_events((long)regs.orig_rax))
            return 0;
    }
}
