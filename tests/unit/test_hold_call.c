/* Calls in a held thread: whatever it is in the midst of, and whatever happens meanwhile, it goes on as if
 * there had been none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold.h"
#include "attach/thread_state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "event/back.h"
#include "held.h"
#include "test.h"

/* What the child, its tracer and we share. */
struct board {
    volatile uint64_t turns, wrong, handled, calls;
    volatile bool in_call, word, leave, about_to;
    volatile uint64_t sleep_ms; /* how long sleep_in_...() lasts when nothing ends it */
    volatile int result, error;
};
static struct board *board;
static int pipe_ends[2];

/* ---- inside the child ---- */

extern const char stub[SONDE_BACK_BYTES];
SONDE_BACK(stub);

static uint64_t add_one(uint64_t value)
{
    board->calls++;
    return value + 1;
}

enum { MANY = 200 };

static uint64_t make_many_calls(uint64_t value)
{
    for (int i = 0; i < MANY; i++)
        syscall(SYS_getppid);
    return value + 1;
}

/* As somebody else might, while a call goes on. */
static uint64_t send_urgent(uint64_t value)
{
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGURG);
    return make_many_calls(value);
}

/* Until it is told to go on; floating-point state and flags are used on the way. */
static uint64_t wait_for_word(uint64_t value)
{
    volatile double x = (double)value;
    board->in_call = true;
    while (!board->word)
        x = x * 1.5 - x * 0.5;
    __asm__ volatile("vxorps %%ymm6, %%ymm6, %%ymm6\n\tfldz\n\tfstp %%st(0)" ::: "memory");
    board->calls++;
    return (uint64_t)x + 1;
}

static uint64_t divide_by_zero(uint64_t value)
{
    __asm__ volatile("xor %%edx, %%edx; xor %%ecx, %%ecx; div %%ecx" ::: "eax", "ecx", "edx", "cc");
    return value;
}

static uint64_t be_trapped(uint64_t value)
{
    __asm__ volatile("int3");
    return value;
}

static uint64_t be_illegal(uint64_t value)
{
    __asm__ volatile("ud2");
    return value;
}

static uint64_t leave_the_map(uint64_t value)
{
    return *(volatile uint64_t *)(value & 8);
}

static void handle(int signal)
{
    board->handled++;
}

static const int HANDLED[] = {SIGSEGV, SIGFPE, SIGTRAP, SIGILL, SIGUSR1};

static void set_handlers(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(HANDLED); i++)
        signal(HANDLED[i], handle);
}

static bool has_handlers(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(HANDLED); i++) {
        struct sigaction is;
        if (sigaction(HANDLED[i], NULL, &is) < 0 || is.sa_handler != handle)
            return false;
    }
    return true;
}

static void compute(void);

static void be_urgent(void)
{
    signal(SIGURG, handle);
    compute();
}

/* Everything that a call might leave behind: vector, x87 and control registers, flags, the signal mask, the
 * alternate stack. */
static void compute(void)
{
    static char alternate[64 << 10];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGWINCH);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    sigaltstack(&stack, NULL);
    uint32_t rounding = 0x1f80 | 0x6000; /* to zero */
    __asm__ volatile("ldmxcsr %0" ::"m"(rounding));
    while (!board->leave) {
        uint64_t in[4] = {1, 2, 3, 4711}, out[4] = {0}, count = 300000, flags;
        uint32_t control;
        double seven = 7, back = 0;
        __asm__ volatile(
            "vmovdqu (%[in]), %%ymm6\n\t"
            "fldl %[seven]\n\t"
            "std\n"
            "1: dec %[count]\n\t"
            "jnz 1b\n\t"
            "pushfq\n\t"
            "cld\n\t"
            "pop %[flags]\n\t"
            "fstpl %[back]\n\t"
            "stmxcsr %[control]\n\t"
            "vmovdqu %%ymm6, (%[out])"
            : [count] "+r"(count), [flags] "=r"(flags), [back] "=m"(back), [control] "=m"(control)
            : [in] "r"(in), [out] "r"(out), [seven] "m"(seven)
            : "cc", "memory", "xmm6");
        stack_t now;
        sigset_t blocked;
        sigaltstack(NULL, &now);
        sigprocmask(SIG_BLOCK, NULL, &blocked);
        board->wrong += memcmp(in, out, sizeof(in)) != 0 || back != 7 || !(flags & 0x400) ||
                        (control & 0x6000) != 0x6000 || now.ss_sp != alternate || now.ss_flags ||
                        !sigismember(&blocked, SIGWINCH) || sigismember(&blocked, SIGTERM) || !has_handlers();
        board->turns++;
    }
}

static void note(long result)
{
    board->error = result < 0 ? errno : 0;
    board->result = (int)result;
    board->turns++;
}

static void sleep_in_read(void)
{
    char byte;
    board->about_to = true;
    note(read(pipe_ends[0], &byte, 1));
}

static void sleep_in_poll(void)
{
    struct pollfd fd = {.fd = pipe_ends[0], .events = POLLIN};
    board->about_to = true;
    uint64_t before = clock_monotonic_ns();
    int r = poll(&fd, 1, (int)board->sleep_ms);
    board->wrong += r == 0 && clock_monotonic_ns() - before < board->sleep_ms * NS_PER_MS;
    note(r);
}

static void sleep_in_nanosleep(void)
{
    const struct timespec time = {(time_t)(board->sleep_ms / 1000),
                                  (long)(board->sleep_ms % 1000 * NS_PER_MS)};
    board->about_to = true;
    uint64_t before = clock_monotonic_ns();
    int r = nanosleep(&time, NULL);
    board->wrong += r == 0 && clock_monotonic_ns() - before < board->sleep_ms * NS_PER_MS;
    note(r);
}

static void sleep_in_pause(void)
{
    board->about_to = true;
    note(pause());
}

/* Anything that it does not list kills the process, a cancelled call (-1) too. */
static void sleep_behind_a_filter(void)
{
    static const int ALLOWED[] = {SYS_poll, SYS_restart_syscall, SYS_rt_sigreturn, SYS_exit_group,
                                  SYS_clock_gettime};
    struct sock_filter code[2 * ARRAY_SIZE(ALLOWED) + 2];
    size_t n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (size_t i = 0; i < ARRAY_SIZE(ALLOWED); i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    const struct sock_fprog program = {(unsigned short)n, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(2);
    sleep_in_poll();
}

static void *execute(void *unused)
{
    while (!board->word)
        usleep(1000);
    execl("/bin/sleep", "sleep", "1000", NULL);
    return unused;
}

static void sleep_beside_an_exec(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, execute, NULL);
    for (board->about_to = true;;)
        poll(NULL, 0, 1000);
}

/* ---- outside ---- */

struct child {
    pid_t pid;
    int memory;
    struct modules modules;
    struct hold_freely freely;
};

static uint64_t stack_of(pid_t pid)
{
    char path[64], line[512];
    unsigned long long start = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        if (strstr(line, "[stack]"))
            sscanf(line, "%llx", &start);
    if (file)
        fclose(file);
    return start;
}

static char state_of(pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *stat = NULL;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const char *end = file_read(path, 4096, &stat, NULL) == 0 ? strrchr(stat, ')') : NULL;
    return end ? end[2] : '?';
}

enum { A_WHILE_MS = 400, FOR_EVER_MS = 3600 * 1000 };

static struct child start_for(void (*work)(void), uint64_t sleep_ms)
{
    struct child child = {0};
    char path[64];
    memset(board, 0, sizeof(*board));
    board->sleep_ms = sleep_ms;
    assert_int_equal(pipe(pipe_ends), 0);
    child.pid = fork();
    if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        set_handlers();
        work();
        while (!board->leave)
            poll(NULL, 0, 1);
        _exit(0);
    }
    while (!board->about_to && !board->turns)
        usleep(1000);
    while (board->about_to && state_of(child.pid) != 'S')
        usleep(1000);
    snprintf(path, sizeof(path), "/proc/%d/mem", child.pid);
    child.memory = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(modules_read(held(child.pid), &child.modules, NULL), 0);
    child.freely = (struct hold_freely){.stack = stack_of(child.pid)};
    return child;
}

static struct child start(void (*work)(void))
{
    return start_for(work, A_WHILE_MS);
}

static int hold_child(struct child *child, struct hold *ret_hold)
{
    struct problem problem = {0};
    int r = hold_main(held(child->pid), &child->modules, child->memory, &child->freely, NULL, 60 * NS_PER_S,
                      ret_hold, &problem);
    if (r == 0)
        ret_hold->stub = (uint64_t)(uintptr_t)stub;
    return r;
}

/* All threads. On a busy machine one may not get the CPU that it needs to stop on. */
static int hold_soon(struct child *child, struct hold *ret_hold)
{
    int r = -EAGAIN;
    for (int i = 0; i < 1000 && r == -EAGAIN; i++)
        r = hold_all(held(child->pid), ret_hold, NULL);
    return r;
}

static int call(struct hold *hold, uint64_t (*function)(uint64_t), uint64_t *ret_result)
{
    const uint64_t argument[] = {41};
    return hold_call(hold, (uint64_t)(uintptr_t)function, argument, 1, "data", 5, ret_result, NULL);
}

static bool may_trace(struct child *child)
{
    struct hold hold;
    int r = hold_one(held(child->pid), &hold, NULL);
    if (r == 0)
        hold_release(&hold);
    return r != -EPERM;
}

static void end(struct child *child)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    modules_done(&child->modules);
    close(child->memory);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static void end_and_skip(struct child *child)
{
    end(child);
    skip();
}

/* A tracer that is killed amid a call, or after the call has begun and before it has run. */
static void kill_a_tracer(struct child *child)
{
    board->in_call = board->word = false;
    pid_t tracer = fork();
    if (tracer == 0) {
        struct hold hold;
        uint64_t result;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (hold_child(child, &hold) == 0)
            (void)call(&hold, wait_for_word, &result);
        _exit(0);
    }
    while (!board->in_call)
        usleep(100);
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    board->word = true;
}

static void test_a_tracer_that_is_killed(void **state)
{
    struct child child = start(compute);
    if (!may_trace(&child))
        end_and_skip(&child);
    for (uint64_t round = 0; round < 20; round++) {
        kill_a_tracer(&child);
        uint64_t turns = board->turns;
        while (board->turns < turns + 2)
            usleep(100);
        assert_int_equal(board->calls, round + 1);
        assert_int_equal(board->wrong, 0);
    }
    end(&child);
}

static void test_a_thread_that_computes(void **state)
{
    struct child child = start(compute);
    if (!may_trace(&child))
        end_and_skip(&child);
    for (uint64_t round = 0; round < 50; round++) {
        struct hold hold;
        uint64_t result = 0;
        assert_int_equal(hold_child(&child, &hold), 0);
        assert_int_equal(call(&hold, add_one, &result), 0);
        assert_int_equal(result, 42);
        assert_int_equal(call(&hold, add_one, &result), 0);
        hold_release(&hold);
        uint64_t turns = board->turns;
        while (board->turns < turns + 2)
            usleep(100);
        assert_int_equal(board->wrong, 0);
    }
    end(&child);
}

/* A thread runs once more after each stop. */
static unsigned long long runs_of(const struct child *child)
{
    return thread_runs(held(child->pid), child->pid).times;
}

static void test_system_calls_do_not_stop_it(void **state)
{
    struct child child = start(compute);
    struct hold hold;
    uint64_t result = 0;
    if (!may_trace(&child) || !runs_of(&child))
        end_and_skip(&child);
    assert_int_equal(hold_child(&child, &hold), 0);
    if (!hold.may_signal) { /* we are under a filter ourselves, and so is it */
        hold_release(&hold);
        end_and_skip(&child);
    }
    unsigned long long before = runs_of(&child);
    assert_int_equal(call(&hold, make_many_calls, &result), 0);
    assert_int_equal(result, 42);
    assert_true(runs_of(&child) - before <
                MANY / 2); /* of 2 * MANY stops; it may have lost its CPU as well */
    hold_release(&hold);
    end(&child);
}

static void test_the_signal_that_tells_may_come_from_others(void **state)
{
    struct child child = start(be_urgent);
    if (!may_trace(&child))
        end_and_skip(&child);
    for (uint64_t round = 0; round < 50; round++) {
        struct hold hold;
        uint64_t result = 0;
        assert_int_equal(hold_child(&child, &hold), 0);
        assert_int_equal(call(&hold, send_urgent, &result), 0);
        assert_int_equal(result, 42);
        assert_int_equal(board->handled, round); /* it waits until the call is over */
        assert_int_equal(call(&hold, add_one, &result), 0);
        assert_int_equal(result, 42);
        hold_release(&hold);
        uint64_t turns = board->turns;
        while (board->turns < turns + 2)
            usleep(100);
        assert_int_equal(board->handled, round + 1);
        assert_int_equal(board->wrong, 0);
    }
    end(&child);
}

static void test_a_tracer_that_is_killed_anywhere(void **state)
{
    struct child child = start(compute);
    if (!may_trace(&child))
        end_and_skip(&child);
    srandom(4711);
    for (int round = 0; round < 60; round++) {
        pid_t tracer = fork();
        if (tracer == 0) {
            struct hold hold;
            uint64_t result;
            for (prctl(PR_SET_PDEATHSIG, SIGKILL); hold_child(&child, &hold) == 0; hold_release(&hold))
                for (int i = 0; i < 10; i++)
                    (void)call(&hold, add_one, &result);
            _exit(0);
        }
        for (uint64_t calls = board->calls; board->calls == calls;)
            ;
        usleep((useconds_t)(random() % 500));
        kill(tracer, SIGKILL);
        waitpid(tracer, NULL, 0);
        uint64_t turns = board->turns;
        while (board->turns < turns + 2)
            usleep(100);
        assert_int_equal(board->wrong, 0);
    }
    end(&child);
}

static void call_once(struct child *child)
{
    struct hold hold;
    uint64_t result = 0;
    assert_int_equal(hold_child(child, &hold), 0);
    assert_int_equal(call(&hold, add_one, &result), 0);
    assert_int_equal(result, 42);
    hold_release(&hold);
}

static void await_turn(void)
{
    while (!board->turns)
        usleep(1000);
}

static void goes_on_by_itself(void (*work)(void), int expected, int expected_when_killed, int killed_error)
{
    struct child child = start(work);
    if (!may_trace(&child))
        end_and_skip(&child);
    call_once(&child);
    call_once(&child);
    if (work == sleep_in_read)
        assert_int_equal(write(pipe_ends[1], "x", 1), 1);
    await_turn();
    assert_int_equal(board->result, expected);
    assert_int_equal(board->wrong, 0);
    end(&child);

    child = start_for(work, FOR_EVER_MS); /* it is still in the call when the tracer is killed */
    kill_a_tracer(&child);
    if (work == sleep_in_read)
        assert_int_equal(write(pipe_ends[1], "x", 1), 1);
    await_turn();
    assert_int_equal(board->result, expected_when_killed);
    assert_int_equal(board->error, killed_error);
    end(&child);
}

/* The kernel makes them again, or goes on with them; where only it can, and its note is lost with the tracer,
 * they end as by a signal handler. */
static void test_system_calls_that_are_cut_short(void **state)
{
    goes_on_by_itself(sleep_in_read, 1, 1, 0);
    goes_on_by_itself(sleep_in_poll, 0, -1, EINTR);
    goes_on_by_itself(sleep_in_nanosleep, 0, -1, EINTR);
}

static void test_a_signal_while_it_waits_for_one(void **state)
{
    struct child child = start(sleep_in_pause);
    struct hold hold;
    uint64_t result;
    if (!may_trace(&child))
        end_and_skip(&child);
    assert_int_equal(hold_child(&child, &hold), 0);
    assert_int_equal(call(&hold, add_one, &result), 0);
    kill(child.pid, SIGUSR1);
    assert_int_equal(call(&hold, add_one, &result), 0);
    assert_int_equal(board->handled, 0);
    hold_release(&hold);
    await_turn();
    assert_int_equal(board->handled, 1);
    assert_int_equal(board->error, EINTR);
    end(&child);
}

static void test_a_filter_that_kills(void **state)
{
    struct child child = start(sleep_behind_a_filter);
    if (!may_trace(&child))
        end_and_skip(&child);
    call_once(&child);
    await_turn();
    assert_int_equal(board->result, 0);
    assert_int_equal(board->wrong, 0);
    end(&child);
}

static void test_a_call_that_crashes(void **state)
{
    uint64_t (*const crashes[])(uint64_t) = {divide_by_zero, be_trapped, be_illegal, leave_the_map};
    struct child child = start(compute);
    if (!may_trace(&child))
        end_and_skip(&child);
    for (size_t i = 0; i < ARRAY_SIZE(crashes); i++) {
        struct hold hold;
        uint64_t result = 0;
        assert_int_equal(hold_child(&child, &hold), 0);
        assert_int_equal(call(&hold, crashes[i], &result), -EFAULT);
        assert_int_equal(call(&hold, add_one, &result), 0);
        assert_int_equal(result, 42);
        hold_release(&hold);
        uint64_t turns = board->turns;
        while (board->turns < turns + 2)
            usleep(100);
        assert_int_equal(board->wrong, 0);
        assert_int_equal(board->handled, 0);
    }
    end(&child);
}

/* In a process of its own, so that we can do something meanwhile. */
static pid_t call_aside(struct child *child)
{
    board->in_call = board->word = false;
    pid_t tracer = fork();
    if (tracer == 0) {
        struct hold hold;
        uint64_t result = 0;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int r = hold_child(child, &hold);
        if (r == 0) {
            r = call(&hold, wait_for_word, &result);
            hold_release(&hold);
        }
        _exit(-r);
    }
    while (!board->in_call)
        usleep(100);
    return tracer;
}

static int result_of(pid_t tracer)
{
    int status;
    waitpid(tracer, &status, 0);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

static void test_signals_that_somebody_sends(void **state)
{
    struct child child = start(compute);
    if (!may_trace(&child))
        end_and_skip(&child);
    for (size_t i = 0; i < ARRAY_SIZE(HANDLED); i++) {
        uint64_t handled = board->handled;
        pid_t tracer = call_aside(&child);
        kill(child.pid, HANDLED[i]);
        usleep(10000);
        assert_int_equal(board->handled, handled);
        board->word = true;
        assert_int_equal(result_of(tracer), 0);
        while (board->handled == handled)
            usleep(100);
        assert_int_equal(board->handled, handled + 1);
        assert_int_equal(board->wrong, 0);
    }
    end(&child);
}

static void test_a_process_that_is_stopped(void **state)
{
    struct child child = start(compute);
    struct hold hold;
    if (!may_trace(&child))
        end_and_skip(&child);
    pid_t tracer = call_aside(&child);
    kill(child.pid, SIGSTOP);
    usleep(10000);
    board->word = true;
    assert_int_equal(result_of(tracer), 0);
    while (state_of(child.pid) != 'T')
        usleep(1000);
    uint64_t turns = board->turns;
    assert_int_equal(hold_child(&child, &hold), -EBUSY);
    while (state_of(child.pid) != 'T')
        usleep(1000);
    assert_int_equal(hold_soon(&child, &hold), 0);
    hold_release(&hold);
    while (state_of(child.pid) != 'T')
        usleep(1000);
    assert_int_equal(board->turns, turns);
    kill(child.pid, SIGCONT);
    while (board->turns < turns + 2)
        usleep(100);
    assert_int_equal(board->wrong, 0);
    end(&child);
}

static bool is_sleep(pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *name = NULL;
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    return file_read(path, 64, &name, NULL) == 0 && strcmp(name, "sleep\n") == 0;
}

/* Of what it executes now nothing is known: it is neither called nor given the registers of before. */
static void test_an_exec(void **state)
{
    struct child child = start(sleep_beside_an_exec);
    struct hold hold;
    uint64_t result;
    if (!may_trace(&child))
        end_and_skip(&child);
    board->in_call = false;
    pid_t tracer = fork();
    if (tracer == 0) {
        struct hold held;
        int r = hold_child(&child, &held);
        board->in_call = true;
        while (r == 0 && !is_sleep(child.pid))
            usleep(1000);
        if (r == 0)
            r = call(&held, add_one, &result);
        _exit(-r);
    }
    while (!board->in_call)
        usleep(100);
    board->word = true;
    assert_int_equal(result_of(tracer), -ESRCH);
    assert_int_equal(hold_child(&child, &hold), -ENOSYS); /* nothing to be read any more */
    while (state_of(child.pid) != 'S')
        usleep(1000);
    assert_true(is_sleep(child.pid));
    end(&child);
}

int main(void)
{
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_that_computes),
        cmocka_unit_test(test_system_calls_do_not_stop_it),
        cmocka_unit_test(test_the_signal_that_tells_may_come_from_others),
        cmocka_unit_test(test_a_tracer_that_is_killed),
        cmocka_unit_test(test_a_tracer_that_is_killed_anywhere),
        cmocka_unit_test(test_system_calls_that_are_cut_short),
        cmocka_unit_test(test_a_signal_while_it_waits_for_one),
        cmocka_unit_test(test_a_filter_that_kills),
        cmocka_unit_test(test_a_call_that_crashes),
        cmocka_unit_test(test_signals_that_somebody_sends),
        cmocka_unit_test(test_a_process_that_is_stopped),
        cmocka_unit_test(test_an_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
