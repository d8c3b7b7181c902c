/* See aside.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/aside.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"

enum {
    LEAVE_AFTER_MS = 200, /* since we were seen to be asked to end */
    KILL_AFTER_MS = 200,  /* it was told to leave */
    KILL_LATE_MS = 20,    /* the same of one that was begun when we were to end already */
    MOMENT_MS = 250,      /* stopping threads takes so long at most, on a busy machine */
    LOOK_MS = 2,
};

/* Where work sees that it is to leave; NULL outside of work. */
static volatile const bool *leaves;

bool aside_is_within(void)
{
    return leaves;
}

bool aside_leaves(void)
{
    return leaves && *leaves;
}

/* A child that shares our memory may be using errno at the time. */
long aside_call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* When it was seen that we are to end; 0: we are not. Of what is long over the deadline is not kept: somebody
 * had more time, as a command that was to end first has. */
static uint64_t asked_ns;
static bool ends;
static uint64_t ends_at_ns; /* aside_end_within(); 0: that was not called */

static void note_asked(void)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (!asked_ns || (!ends && now_ns - asked_ns > ASIDE_END_NS)) /* another Ctrl-C gives no more time */
        asked_ns = now_ns;
}

void aside_end(void)
{
    note_asked();
    ends = true;
}

void aside_end_within(uint64_t patience_ns)
{
    ends_at_ns = clock_monotonic_ns() + patience_ns;
}

bool aside_is_ending(void)
{
    uint64_t pending = 0;
    if (ends_at_ns && !ends && clock_monotonic_ns() > ends_at_ns)
        aside_end();
    (void)aside_call(SYS_rt_sigpending, (long)(uintptr_t)&pending, sizeof(pending), 0, 0, 0, 0);
    if (!(pending & (1ull << (SIGINT - 1) | 1ull << (SIGTERM - 1) | 1ull << (SIGHUP - 1))))
        return ends;
    note_asked();
    return true;
}

uint64_t aside_deadline_ns(uint64_t patience_ns)
{
    uint64_t deadline_ns = clock_monotonic_ns() + patience_ns;
    if (ends_at_ns)
        deadline_ns = MIN(deadline_ns, ends_at_ns + ASIDE_END_NS);
    return ends ? MIN(deadline_ns, asked_ns + ASIDE_END_NS) : deadline_ns;
}

/* After the deadline the first may need the moment whole; a hundred that do not stop must not take it each.
 */
uint64_t aside_moment_end_ns(void)
{
    static uint64_t moment_ns;
    const uint64_t now_ns = clock_monotonic_ns(), deadline_ns = asked_ns + ASIDE_END_NS;
    if (now_ns < deadline_ns)
        return MAX(MIN(deadline_ns, now_ns + MOMENT_MS * NS_PER_MS), now_ns + ASIDE_SHORT_NS);
    if (moment_ns < deadline_ns)
        moment_ns = now_ns + MOMENT_MS * NS_PER_MS;
    return MAX(moment_ns, now_ns + ASIDE_SHORT_NS);
}

/* Waits until the child has ended, which is told to leave when we are to end. */
static void await_end(pid_t child, volatile bool *leave, void (*while_waiting)(void *), void *context)
{
    const bool late = ends;
    uint64_t leave_ns = late ? aside_moment_end_ns() : 0;
    uint64_t kill_ns = 0; /* counts from when it was told to leave: we may have had no CPU ourselves */
    int fd = (int)aside_call(SYS_pidfd_open, child, 0, 0, 0, 0, 0);
    while (aside_call(SYS_wait4, child, 0, WNOHANG | __WALL, 0, 0, 0) == 0) {
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        const struct timespec look = {.tv_nsec = LOOK_MS * NS_PER_MS};
        struct timespec timeout = look; /* the kernel writes what is left */
        (void)aside_call(SYS_ppoll, (long)(uintptr_t)&ended, fd >= 0, (long)(uintptr_t)&timeout, 0, 0, 0);
        uint64_t now_ns = clock_monotonic_ns();
        if (!leave_ns && aside_is_ending())
            leave_ns = now_ns + LEAVE_AFTER_MS * NS_PER_MS;
        if (!kill_ns && leave_ns && now_ns > leave_ns) {
            *leave = true;
            kill_ns = now_ns + (late ? KILL_LATE_MS : KILL_AFTER_MS) * NS_PER_MS;
        } else if (kill_ns && now_ns > kill_ns)
            (void)aside_call(SYS_kill, child, SIGKILL, 0, 0, 0, 0);
        if (while_waiting)
            while_waiting(context);
    }
    if (fd >= 0)
        (void)aside_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static int outcome(int result, bool left)
{
    return result == -ECHILD && left ? -EINTR : result;
}

/* A child that keeps a process waiting is to get a CPU as soon as we would. What is forked begins without
 * precedence (SCHED_RESET_ON_FORK), since it may be anybody's program.
 *
 * It has a process group of its own, so that what a terminal or a supervisor sends to ours does not reach it.
 * It stays in our session: a new one is a new group of the scheduler, too (autogroup), and the first process
 * of such a group has waited for up to six seconds behind busy loops (Linux 6.18). Until it got its turn it
 * could neither work nor die. */
static void begin_child(int nice)
{
    setpgid(0, 0);
    if (nice < 0)
        (void)setpriority(PRIO_PROCESS, 0, nice);
}

/* What parent and child share: the result, then the context. */
struct sheet {
    int result;
    volatile bool leave;
    _Alignas(16) char context[];
};

int aside_run(int (*work)(void *context), void *context, size_t size, void (*while_waiting)(void *),
              void *waiting_context)
{
    size_t length = sizeof(struct sheet) + size;
    struct sheet *sheet = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sheet == MAP_FAILED)
        return -ENOMEM;
    memcpy(sheet->context, context, size);
    sheet->result = -ECHILD;
    const int nice = getpriority(PRIO_PROCESS, 0);
    pid_t child = fork();
    if (child == 0) {
        begin_child(nice);
        leaves = &sheet->leave;
        sheet->result = work(sheet->context);
        _exit(0);
    }
    int r = child < 0 ? -errno : 0;
    if (child > 0) {
        await_end(child, &sheet->leave, while_waiting, waiting_context);
        memcpy(context, sheet->context, size);
        r = outcome(sheet->result, sheet->leave);
    }
    munmap(sheet, length);
    return r;
}

struct turn {
    int (*work)(void *context);
    void *context;
    int nice, result;
    volatile bool leave;
};

/* The child holds a thread for some hundredths of a millisecond, if it has a CPU: as one of many programs it
 * held it for 600 ms behind 24 busy loops. The kernel sees to it that there is time for others. */
static void put_first(pid_t child)
{
    const struct sched_param first = {.sched_priority = 1};
    (void)aside_call(SYS_sched_setscheduler, child, SCHED_RR, (long)(uintptr_t)&first, 0, 0, 0);
}

static int take_turn(void *argument)
{
    struct turn *turn = argument;
    begin_child(turn->nice);
    leaves = &turn->leave;
    turn->result = turn->work(turn->context);
    return 0;
}

/* The child has our thread-local storage too, so this thread uses nothing of it (errno) itself, and handles
 * no signal, until the child has ended. */
int aside_share(int (*work)(void *context), void *context, void (*while_waiting)(void *),
                void *waiting_context)
{
    enum { STACK = 256 << 10 };
    struct turn turn = {work, context, getpriority(PRIO_PROCESS, 0), -ECHILD, false};
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        return -ENOMEM;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = clone(take_turn, stack + STACK, CLONE_VM | SIGCHLD, &turn);
    int r = child < 0 ? -errno : 0;
    if (child > 0) {
        if (turn.nice < 0)
            put_first(child);
        await_end(child, &turn.leave, while_waiting, waiting_context);
        r = outcome(turn.result, turn.leave);
        leaves = NULL;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    munmap(stack, STACK);
    return r;
}
