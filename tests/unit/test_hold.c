/* Threads of another process are held, called and let go; those that cannot stop keep nobody waiting. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold.h"
#include "attach/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/back.h"
#include "held.h"
#include "test.h"

/* What the child and we share. */
struct board {
    volatile uint64_t turns[3]; /* of each thread */
    volatile pid_t stuck;       /* the child of vfork */
    volatile uint64_t called_with;
    volatile bool leave;
};
static struct board *board;

/* Where calls return to. */
extern const char stub[SONDE_BACK_BYTES];
SONDE_BACK(stub);

static int memory_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Called again and again by the child's main thread: it looks for events, as loops do. */
__attribute__((noinline)) static void turn(void)
{
    board->turns[0]++;
    poll(NULL, 0, 0);
}

__attribute__((noinline)) static uint64_t called(uint64_t value, const char *text)
{
    board->called_with = value;
    return value + (uint64_t)text[0];
}

static void *count(void *place)
{
    volatile uint64_t *turns = place;
    while (!board->leave)
        (*turns)++;
    return NULL;
}

/* A thread that waits for its child of vfork() cannot be stopped before that ends. */
static void *wait_for_vfork(void *unused)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t pid = vfork();
#pragma GCC diagnostic pop
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        board->stuck = getpid();
        while (!board->leave)
            ;
        _exit(0);
    }
    return unused;
}

static pid_t start_child(bool with_vfork)
{
    memset(board, 0, sizeof(*board));
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_t thread;
    for (int i = 1; i < 3; i++)
        pthread_create(&thread, NULL, count, (void *)&board->turns[i]);
    if (with_vfork)
        pthread_create(&thread, NULL, wait_for_vfork, NULL);
    while (!board->leave)
        turn();
    _exit(0);
}

static void wait_for(volatile uint64_t *value, uint64_t more_than)
{
    while (*value <= more_than)
        usleep(1000);
}

static void end_child(pid_t pid)
{
    board->leave = true;
    waitpid(pid, NULL, 0);
}

static void kill_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* On a busy machine a thread may not get the CPU that it needs to stop on. */
static int hold_soon(pid_t pid, struct hold *hold, struct problem *problem)
{
    int r = -EAGAIN;
    for (int i = 0; i < 1000 && r == -EAGAIN; i++)
        r = hold_all(held(pid), hold, problem);
    return r;
}

static bool may_trace(pid_t pid)
{
    struct hold hold;
    struct problem problem = {0};
    int r = hold_all(held(pid), &hold, &problem);
    if (r == 0)
        hold_release(&hold);
    return r != -EPERM;
}

static void test_all_are_held_and_let_go(void **state)
{
    pid_t pid = start_child(false);
    struct problem problem = {0};
    struct hold hold;
    for (int i = 0; i < 3; i++)
        wait_for(&board->turns[i], 0);
    if (!may_trace(pid)) {
        end_child(pid);
        skip();
    }
    for (int round = 0; round < 20; round++) {
        assert_int_equal(hold_soon(pid, &hold, &problem), 0);
        assert_int_equal(hold.threads.count, 3);
        assert_int_equal(hold.threads.at[0].tid, pid);
        uint64_t turns[3];
        for (int i = 0; i < 3; i++)
            turns[i] = board->turns[i];
        usleep(2000);
        for (int i = 0; i < 3; i++)
            assert_int_equal(board->turns[i], turns[i]);
        assert_true(hold_release(&hold) > 0);
        for (int i = 0; i < 3; i++)
            wait_for(&board->turns[i], turns[i]);
    }
    end_child(pid);
}

static pid_t tracer_of(pid_t pid, const char *tid)
{
    char path[300], line[256];
    pid_t tracer = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, tid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    if (file)
        fclose(file);
    return tracer;
}

/* Is the main thread free while another is still ours? */
static bool was_given_up(pid_t pid)
{
    char path[64], main[16];
    bool others = false;
    snprintf(main, sizeof(main), "%d", pid);
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, main) != 0)
            others |= tracer_of(pid, entry->d_name) != 0;
    if (tasks)
        closedir(tasks);
    return others && tracer_of(pid, main) == 0;
}

static bool over; /* hold_all() has returned */

/* Ends what keeps a thread from stopping once the others have been seen to go on. */
static void *end_soon(void *child)
{
    pid_t pid = *(pid_t *)child;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE) && !was_given_up(pid))
        usleep(1000);
    if (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        wait_for(&board->turns[0], board->turns[0] + 1000);
    kill(board->stuck, SIGKILL);
    return NULL;
}

static void test_threads_that_do_not_stop(void **state)
{
    pid_t pid = start_child(true);
    struct problem problem = {0};
    struct hold hold;
    pthread_t helper;
    while (!board->stuck)
        usleep(1000);
    over = false;
    pthread_create(&helper, NULL, end_soon, &pid);
    int r = hold_all(held(pid), &hold, &problem);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(helper, NULL);
    if (r == -EPERM) {
        end_child(pid);
        skip();
    }
    assert_int_equal(r, -EAGAIN);
    assert_non_null(strstr(problem.what, "does not stop"));
    for (int i = 0; i < 3; i++) /* nobody was left behind */
        wait_for(&board->turns[i], board->turns[i]);
    assert_int_equal(hold_soon(pid, &hold, &problem), 0);
    hold_release(&hold);
    end_child(pid);
}

/* hold_call(), which must succeed: it is said why it did not. */
static void must_call(struct hold *hold, const uint64_t *arguments, uint64_t *ret_result)
{
    struct problem problem = {0};
    int r = hold_call(hold, (uint64_t)(uintptr_t)called, arguments, 2, "A", 2, ret_result, &problem);
    if (r < 0)
        fail_msg("hold_call: %d (%s), %zu threads held", r, problem.what, hold->threads.count);
}

static void test_a_call_in_the_main_thread(void **state)
{
    pid_t pid = start_child(false);
    struct problem problem = {0};
    struct modules modules;
    struct hold hold;
    wait_for(&board->turns[0], 0);
    int memory = memory_of(pid);
    assert_int_equal(modules_read(held(pid), &modules, &problem), 0);
    int r = hold_main(held(pid), &modules, memory, NULL, NULL, 60 * NS_PER_S, &hold, &problem);
    if (r == -EPERM) {
        modules_done(&modules);
        end_child(pid);
        skip();
    }
    assert_int_equal(r, 0);
    assert_int_equal(hold.threads.count, 1);
    hold.stub = (uint64_t)(uintptr_t)stub;
    uint64_t turns = board->turns[0], others = board->turns[1], result = 0;
    const uint64_t arguments[] = {4711, HOLD_DATA};
    must_call(&hold, arguments, &result);
    assert_int_equal(result, 4711 + 'A');
    assert_int_equal(board->called_with, 4711);
    assert_int_equal(board->turns[0], turns);
    wait_for(&board->turns[1], others); /* only the main thread stands still */
    const uint64_t nowhere[] = {0};
    assert_int_equal(hold_call(&hold, 0x10, nowhere, 1, NULL, 0, &result, &problem), -EFAULT);
    hold_release(&hold);
    wait_for(&board->turns[0], turns); /* it goes on as if nothing had been */
    modules_done(&modules);
    close(memory);
    end_child(pid);
}

static uint64_t stack_of(pid_t pid, const struct modules *modules)
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
    return modules_mapping_at(modules, start) ? start : 0;
}

/* A main thread that never waits for events: it computes twice in two ways, and sleeps in calls that the
 * kernel goes on with. Told on the board when anything came out differently. */
static pid_t start_calculator(void)
{
    memset(board, 0, sizeof(*board));
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const struct timespec short_while = {.tv_nsec = 20000};
    while (!board->leave) {
        double sum = 0;
        uint64_t whole = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            sum += (double)i * 0.5;
            whole += i;
        }
        uint64_t before = clock_monotonic_ns();
        errno = 0;
        bool slept = nanosleep(&short_while, NULL) == 0 && clock_monotonic_ns() - before >= 20000;
        board->turns[1] += sum * 2 != (double)whole || !slept || errno;
        board->turns[0]++;
    }
    _exit(0);
}

static void test_calls_wherever_the_main_thread_is(void **state)
{
    pid_t pid = start_calculator();
    struct problem problem = {0};
    struct modules modules;
    struct hold hold;
    wait_for(&board->turns[0], 0);
    if (!may_trace(pid)) {
        end_child(pid);
        skip();
    }
    int memory = memory_of(pid);
    assert_int_equal(modules_read(held(pid), &modules, &problem), 0);
    const struct hold_freely freely = {.stack = stack_of(pid, &modules)},
                             elsewhere = {.stack = (uint64_t)(uintptr_t)board},
                             nowhere = {freely.stack, {0, UINT64_MAX}};
    const struct hold_freely *const vain[] = {NULL, &elsewhere, &nowhere};
    for (size_t i = 0; i < ARRAY_SIZE(vain); i++)
        assert_int_equal(hold_main(held(pid), &modules, memory, vain[i], NULL, NS_PER_MS, &hold, &problem),
                         -ETIMEDOUT);
    for (uint64_t i = 0; i < 300; i++) {
        const uint64_t arguments[] = {i, HOLD_DATA};
        uint64_t result = 0, turns = board->turns[0];
        assert_int_equal(
            hold_main(held(pid), &modules, memory, &freely, NULL, 60 * NS_PER_S, &hold, &problem), 0);
        hold.stub = (uint64_t)(uintptr_t)stub;
        must_call(&hold, arguments, &result);
        assert_int_equal(result, i + 'A');
        hold_release(&hold);
        wait_for(&board->turns[0], turns);
    }
    assert_int_equal(board->turns[1], 0);
    modules_done(&modules);
    close(memory);
    end_child(pid);
}

static void stay_on_one_cpu(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Many system calls, and only then code that was generated: a tenth of a CPU is left to it. */
static pid_t start_crowded_out(int cpu)
{
    static const uint8_t JUMP_TO_ITSELF[] = {0xeb, 0xfe};
    enum { CALLS = 50000 };
    memset(board, 0, sizeof(*board));
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    stay_on_one_cpu(cpu);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, JUMP_TO_ITSELF, sizeof(JUMP_TO_ITSELF));
    (void)!nice(10);
    board->turns[0] = 1;
    for (int i = 0; i < CALLS; i++)
        (void)getppid();
    ((void (*)(void))code)();
    _exit(0);
}

static void test_a_thread_that_seldom_gets_a_cpu(void **state)
{
    int cpu = sched_getcpu();
    pid_t rival = fork();
    if (rival == 0) {
        stay_on_one_cpu(cpu);
        for (;;)
            ;
    }
    pid_t pid = start_crowded_out(cpu);
    struct problem problem = {0};
    struct modules modules;
    struct hold hold;
    wait_for(&board->turns[0], 0);
    if (!may_trace(pid)) {
        kill_child(rival);
        kill_child(pid);
        skip();
    }
    int memory = memory_of(pid);
    assert_int_equal(modules_read(held(pid), &modules, &problem), 0);
    assert_int_equal(hold_main(held(pid), &modules, memory, NULL, NULL, 60 * NS_PER_S, &hold, &problem), 0);
    hold_release(&hold);
    modules_done(&modules);
    close(memory);
    kill_child(rival);
    kill_child(pid);
}

static int take_end(pid_t pid)
{
    int status, r;
    while ((r = stop_take(pid, &status)) >= 0)
        usleep(1000);
    return r;
}

static void *make_a_signal(void *tid)
{
    for (int i = 0; i < 2000; i++) {
        syscall(SYS_tgkill, *(pid_t *)tid, *(pid_t *)tid, SIGURG);
        if (i % 64 == 0)
            usleep(50);
    }
    return NULL;
}

/* However a stop falls in with our looks for it: it is no end. */
static void test_a_stop_is_no_end(void **state)
{
    pid_t pid = start_child(false);
    pthread_t thread;
    int status, r = 0;
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0) {
        end_child(pid);
        skip();
    }
    pthread_create(&thread, NULL, make_a_signal, &pid);
    for (int stops = 0; stops < 200 && r >= 0; stops++) {
        while ((r = stop_take(pid, &status)) == 0)
            kill(pid, SIGURG);
        if (r < 0 || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGURG)
            break;
        ptrace(PTRACE_CONT, pid, NULL, 0);
    }
    kill(pid, SIGKILL);
    pthread_join(thread, NULL);
    waitpid(pid, NULL, __WALL);
    assert_int_equal(r, 1);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(WSTOPSIG(status), SIGURG);
}

/* A traced child's end is there for who waits for the child; of anybody else's child its parent is told. */
static void test_an_end_while_traced(void **state)
{
    pid_t pid = start_child(false);
    int status;
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0) {
        end_child(pid);
        skip();
    }
    assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
    while (stop_take(pid, &status) == 0)
        usleep(1000);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(status >> 16, PTRACE_EVENT_STOP);
    kill(pid, SIGKILL);
    assert_int_equal(take_end(pid), -ESRCH);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGKILL);

    board->stuck = 0;
    pid_t parent = fork();
    if (parent == 0) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        board->stuck = child;
        _exit(waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : 1);
    }
    while (!board->stuck)
        usleep(1000);
    assert_int_equal(ptrace(PTRACE_SEIZE, board->stuck, NULL, NULL), 0);
    kill(board->stuck, SIGTERM);
    while (stop_take(board->stuck, &status) == 0) /* about to be given the signal */
        usleep(1000);
    assert_int_equal(WSTOPSIG(status), SIGTERM);
    assert_int_equal(ptrace(PTRACE_CONT, board->stuck, NULL, SIGTERM), 0);
    assert_int_equal(take_end(board->stuck), -ESRCH);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_int_equal(WEXITSTATUS(status), SIGTERM);
}

int main(void)
{
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_held_and_let_go),
        cmocka_unit_test(test_threads_that_do_not_stop),
        cmocka_unit_test(test_a_call_in_the_main_thread),
        cmocka_unit_test(test_calls_wherever_the_main_thread_is),
        cmocka_unit_test(test_a_thread_that_seldom_gets_a_cpu),
        cmocka_unit_test(test_a_stop_is_no_end),
        cmocka_unit_test(test_an_end_while_traced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
