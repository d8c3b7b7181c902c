/* See stop.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stop.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "attach/aside.h"
#include "base/clock.h"
#include "base/proc.h"

enum {
    WAKE_MS = 1,     /* a look without having been called */
    CLOSE_US = 100,  /* looks without sleeping */
    IN_VAIN_MAX = 3, /* with nothing seen: on a busy machine the thread waits for its turn */
};

static unsigned close_looks; /* that may still be in vain; 0: none are made */

void stop_watch_closely(bool closely)
{
    cpu_set_t cpus;
    bool several = sched_getaffinity(0, sizeof(cpus), &cpus) < 0 || CPU_COUNT(&cpus) > 1;
    close_looks = closely && several ? IN_VAIN_MAX : 0;
}

/* The main thread of a child of ours, which is waited for as a child too. */
static bool is_own_child(pid_t tid)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    return proc_open(tid, &proc) == 0 && proc_status_number(proc, "PPid") == getpid();
}

int stop_take(pid_t tid, int *ret_status)
{
    siginfo_t news = {0};
    /* The kernel reports stops to a tracer whether it asks or not, so the first wait shows which it is. */
    if (waitid(P_PID, (id_t)tid, &news, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0)
        return errno == ECHILD ? -ESRCH : -errno;
    if (news.si_pid != tid)
        return 0;
    bool ended = news.si_code == CLD_EXITED || news.si_code == CLD_KILLED || news.si_code == CLD_DUMPED;
    if (ended) {
        if (!is_own_child(tid)) /* its tracer learns of its end first */
            waitid(P_PID, (id_t)tid, &news, WEXITED | WNOHANG | __WALL);
        return -ESRCH;
    }
    /* Who is stopped may be killed now, and its end take the stop's place: that is not taken here. */
    news.si_pid = 0;
    if (waitid(P_PID, (id_t)tid, &news, WSTOPPED | WNOHANG | __WALL) < 0 || news.si_pid != tid)
        return 0;
    *ret_status = news.si_status << 8 | 0x7f;
    return 1;
}

/* As stop_take(). */
static int look_closely(pid_t tid, uint64_t deadline_ns, int *ret_status)
{
    uint64_t end_ns = MIN(clock_monotonic_ns() + CLOSE_US * NS_PER_US, deadline_ns);
    int r;
    while ((r = stop_take(tid, ret_status)) == 0 && clock_monotonic_ns() < end_ns)
        __builtin_ia32_pause();
    close_looks -= r == 0;
    return r;
}

/* A stop is announced with SIGCHLD, which is taken here before anybody else sees it. */
int stop_wait(pid_t tid, uint64_t deadline_ns, int *ret_status)
{
    const struct timespec wake = {.tv_nsec = WAKE_MS * 1000000};
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    int result = -ETIMEDOUT;
    do {
        int r = close_looks && deadline_ns ? look_closely(tid, deadline_ns, ret_status)
                                           : stop_take(tid, ret_status);
        if (r != 0)
            result = MIN(r, 0);
        else if (aside_leaves())
            result = -EINTR;
        else if (deadline_ns)
            (void)sigtimedwait(&child, NULL, &wake);
    } while (result == -ETIMEDOUT && clock_monotonic_ns() < deadline_ns);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return result;
}

/* Another program: nothing that is known of the process is true any more. */
bool stop_is_exec(int status)
{
    return status >> 16 == PTRACE_EVENT_EXEC;
}

/* Stopped by a signal (SIGSTOP, Ctrl-Z), and to stay so. */
bool stop_is_group(int status)
{
    return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
}

bool stop_is_syscall(int status)
{
    return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* The signal to give back when the thread goes on: 0 for the stops that ptrace makes itself. */
int stop_signal(int status)
{
    int signal = WSTOPSIG(status);
    return status >> 16 || stop_is_syscall(status) ? 0 : signal;
}

/* Any other stop, as at the end of a system call that the interrupt cut short, has cleared the request: it is
 * made again. */
int stop_wait_interrupted(pid_t tid, uint64_t deadline, int *ret_status)
{
    for (;;) {
        int status = 0, r = stop_wait(tid, deadline, &status);
        if (r < 0)
            return r;
        if (stop_is_exec(status)) {
            ptrace(PTRACE_DETACH, tid, NULL, NULL);
            return -ESRCH;
        }
        if (status >> 16 == PTRACE_EVENT_STOP) {
            if (ret_status)
                *ret_status = status;
            return 0;
        }
        ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
        ptrace(PTRACE_CONT, tid, NULL, (void *)(long)stop_signal(status));
    }
}
