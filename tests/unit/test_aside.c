/* Work that is done aside comes back, and is ended also when its parent is stopped or killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/aside.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

struct errand {
    int given, made;
    pid_t by;
};

static int double_it(void *context)
{
    struct errand *errand = context;
    errand->made = 2 * errand->given;
    errand->by = getpid();
    return errand->given;
}

static void test_results_come_back(void **state)
{
    struct errand errand = {.given = 21};
    assert_int_equal(aside_run(double_it, &errand, sizeof(errand), NULL, NULL), 21);
    assert_int_equal(errand.made, 42);
    assert_int_not_equal(errand.by, getpid());
}

static int be_killed(void *context)
{
    raise(SIGKILL);
    return 0;
}

static void test_a_killed_child_is_told(void **state)
{
    struct errand errand = {0};
    assert_int_equal(aside_run(be_killed, &errand, sizeof(errand), NULL, NULL), -ECHILD);
}

struct board {
    volatile bool begun, parent_is_gone, ended;
};

static int take_long(void *context)
{
    struct board *board = *(struct board **)context;
    board->begun = true;
    while (!board->parent_is_gone)
        usleep(1000);
    board->ended = true;
    return 0;
}

static int run_aside(struct board *board)
{
    return aside_run(take_long, &board, sizeof(board), NULL, NULL);
}

static int share_aside(struct board *board)
{
    return aside_share(take_long, &board, NULL, NULL);
}

/* sent: to a parent that waits for take_long(), and to its group, as a terminal or a supervisor does. */
static void ends_what_it_has_begun(int (*aside)(struct board *board), int sent)
{
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = fork();
    if (parent == 0) {
        setpgid(0, 0);
        (void)aside(board);
        _exit(0);
    }
    while (!board->begun)
        usleep(1000);
    kill(parent, sent);
    kill(-parent, sent);
    if (sent == SIGKILL)
        waitpid(parent, NULL, 0);
    board->parent_is_gone = true;
    for (int i = 0; i < 30000 && !board->ended; i++)
        usleep(1000);
    assert_true(board->ended);
    kill(parent, SIGCONT);
    if (sent != SIGKILL)
        waitpid(parent, NULL, 0);
    munmap(board, sizeof(*board));
}

static void test_it_ends_what_it_has_begun(void **state)
{
    ends_what_it_has_begun(run_aside, SIGKILL);
    ends_what_it_has_begun(run_aside, SIGSTOP);
    ends_what_it_has_begun(share_aside, SIGKILL);
    ends_what_it_has_begun(share_aside, SIGSTOP);
}

static void test_our_memory_is_shared(void **state)
{
    struct errand errand = {.given = 21};
    assert_int_equal(aside_share(double_it, &errand, NULL, NULL), 21);
    assert_int_equal(errand.made, 42);
    assert_int_not_equal(errand.by, getpid());
    assert_int_equal(aside_share(be_killed, &errand, NULL, NULL), -ECHILD);
}

static int precedence(void *context)
{
    (void)context;
    return sched_getscheduler(0);
}

/* What the child's parent says, and work that begins with its precedence. */
static int precede_with(int nice)
{
    if (setpriority(PRIO_PROCESS, 0, nice) < 0)
        return -EPERM;
    return aside_share(precedence, NULL, NULL, NULL);
}

/* A thread that is held waits until its holder gets a CPU. Among the nice values of one session only, that
 * took up to 600 ms beside 24 busy programs. The child may get its priority when it works already, so it is
 * asked until it has it. */
static void test_who_holds_goes_first(void **state)
{
    if (geteuid() != 0)
        skip();
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        int r = SCHED_OTHER;
        for (int i = 0; i < 1000 && r != SCHED_RR; i++)
            r = precede_with(-10);
        _exit(r == SCHED_RR && precede_with(0) == SCHED_OTHER && sched_getscheduler(0) == SCHED_OTHER ? 0
                                                                                                      : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

struct meanwhile {
    volatile int calls;
};

static int wait_for_calls(void *context)
{
    const struct meanwhile *meanwhile = context;
    const struct timespec pause = {.tv_nsec = NS_PER_MS};
    while (meanwhile->calls < 3)
        (void)aside_call(SYS_nanosleep, (long)(uintptr_t)&pause, 0, 0, 0, 0, 0);
    return meanwhile->calls;
}

static void count_call(void *context)
{
    ((struct meanwhile *)context)->calls++;
}

/* Rings are drained while a thread does not stop, as in a long read of a file. */
static void test_others_go_on_meanwhile(void **state)
{
    struct meanwhile meanwhile = {0};
    assert_true(aside_share(wait_for_calls, &meanwhile, count_call, &meanwhile) >= 3);
}

static int wait_to_be_told(void *context)
{
    (void)context;
    while (!aside_leaves())
        usleep(1000);
    return 0;
}

static int wait_for_ever(void *context)
{
    (void)context;
    for (;;)
        pause();
    return 0;
}

/* In a child, since who ends does so for good: 0 when all is as it should be. */
static int end_with_one_deadline(void)
{
    struct errand errand = {0};
    uint64_t before_ns = clock_monotonic_ns();
    if (aside_is_ending() || aside_deadline_ns(60 * NS_PER_S) < before_ns + 60 * NS_PER_S)
        return 1;
    aside_end();
    uint64_t deadline_ns = aside_deadline_ns(60 * NS_PER_S);
    if (!aside_is_ending() || deadline_ns > clock_monotonic_ns() + ASIDE_END_NS)
        return 2;
    /* One after the other: nobody asks them to end but we, and none adds to the deadline. */
    if (aside_share(wait_for_ever, &errand, NULL, NULL) != -EINTR ||
        aside_run(wait_for_ever, &errand, sizeof(errand), NULL, NULL) != -EINTR)
        return 3;
    int r = -EINTR; /* one that is told leaves by itself, unless it gets no CPU for 20 ms */
    for (int i = 0; i < 200 && r == -EINTR; i++)
        r = aside_share(wait_to_be_told, &errand, NULL, NULL);
    if (r != 0)
        return 6;
    if (aside_deadline_ns(60 * NS_PER_S) != deadline_ns)
        return 4;
    while (clock_monotonic_ns() <= deadline_ns)
        usleep(1000);
    /* However many there are, one moment is all that they have together, and none is left without. */
    const uint64_t first_ns = aside_moment_end_ns();
    if (first_ns < deadline_ns)
        return 7;
    while (clock_monotonic_ns() < first_ns) {
        uint64_t now_ns = clock_monotonic_ns(), end_ns = aside_moment_end_ns();
        if (end_ns < now_ns || (end_ns > first_ns && end_ns > clock_monotonic_ns() + ASIDE_SHORT_NS))
            return 8;
        usleep(1000);
    }
    uint64_t before_late_ns = clock_monotonic_ns(), late_ns = aside_moment_end_ns(),
             after_late_ns = clock_monotonic_ns();
    if (late_ns < before_late_ns || late_ns > after_late_ns + ASIDE_SHORT_NS)
        return 9;
    /* What still works does so after it, too, unless it gets no CPU at all. */
    r = -EINTR;
    for (int i = 0; i < 200 && r == -EINTR; i++)
        r = aside_share(double_it, &errand, NULL, NULL);
    return r == 0 ? 0 : 5;
}

static void test_one_deadline_for_all(void **state)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(end_with_one_deadline());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Nobody asks it to end: a recording of a given length, whose programs may be frozen by then. */
static int end_by_itself(void)
{
    struct errand errand = {0};
    aside_end_within(100 * NS_PER_MS);
    if (aside_deadline_ns(60 * NS_PER_S) > clock_monotonic_ns() + 100 * NS_PER_MS + ASIDE_END_NS)
        return 1;
    if (aside_run(wait_for_ever, &errand, sizeof(errand), NULL, NULL) != -EINTR)
        return 2;
    return aside_is_ending() ? 0 : 3;
}

static void test_an_end_that_was_not_asked_for(void **state)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(end_by_itself());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int where_it_is(void *context)
{
    const pid_t *session = context;
    return getsid(0) != *session ? 1 : getpgrp() != getpid() ? 2 : 0;
}

/* Signals to our group do not reach it, and it does not wait for a CPU as the only process of a new scheduler
 * group, which a new session would be. */
static void test_it_has_a_group_of_its_own_in_our_session(void **state)
{
    pid_t session = getsid(0);
    assert_int_equal(aside_run(where_it_is, &session, sizeof(session), NULL, NULL), 0);
    assert_int_equal(aside_share(where_it_is, &session, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_come_back),
        cmocka_unit_test(test_a_killed_child_is_told),
        cmocka_unit_test(test_our_memory_is_shared),
        cmocka_unit_test(test_who_holds_goes_first),
        cmocka_unit_test(test_others_go_on_meanwhile),
        cmocka_unit_test(test_it_ends_what_it_has_begun),
        cmocka_unit_test(test_one_deadline_for_all),
        cmocka_unit_test(test_an_end_that_was_not_asked_for),
        cmocka_unit_test(test_it_has_a_group_of_its_own_in_our_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
