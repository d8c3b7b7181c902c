/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

/* A process that waits on a pipe and uses its CPU for a while for each byte that comes. */
struct worker {
    pid_t pid;
    int orders, answers;
};

static struct session session;
static struct target target;
static struct program program;
static struct worker worker;
static uint64_t now_ns; /* time is passed in */

static void work(int orders, int answers)
{
    char byte;
    while (read(orders, &byte, 1) == 1) {
        for (volatile int i = 0; i < 1000000; i++)
            ;
        if (write(answers, &byte, 1) != 1)
            break;
    }
    _exit(0);
}

/* Until it waits for an order: from then on it uses no CPU before one comes. */
static void await_sleep(void)
{
    struct proc_stat stat;
    while (proc_read_stat(program.proc, 0, &stat) == 0 && stat.state != 'S')
        usleep(1000);
}

static int set_up(void **state)
{
    int orders[2], answers[2];
    if (pipe(orders) < 0 || pipe(answers) < 0)
        return -1;
    worker = (struct worker){fork(), orders[1], answers[0]};
    if (worker.pid == 0) {
        close(orders[1]);
        close(answers[0]);
        work(orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    session = (struct session){.listener = -1, .child_pidfd = -1, .idle_us = 1000};
    program = (struct program){.pid = worker.pid, .target = &target};
    program.quota.find_next_ns = UINT64_MAX; /* it has none */
    now_ns = clock_monotonic_ns();
    session.listener = dup(answers[0]); /* anything to wait for */
    if (worker.pid < 0 || proc_open(worker.pid, &program.proc) < 0 || session_news_begin(&session) < 0)
        return -1;
    await_sleep();
    return session_add_program(&session, &program);
}

static int tear_down(void **state)
{
    kill(worker.pid, SIGKILL);
    waitpid(worker.pid, NULL, 0);
    close(worker.orders);
    close(worker.answers);
    close(session.news);
    close(session.listener);
    proc_unref(program.proc);
    array_done(&session.programs);
    return 0;
}

/* Looks at the program at intervals until it is quiet; how often. */
static int look_until_quiet(void)
{
    int looks = 0;
    for (; !program.quiet; looks++) {
        now_ns += 150 * NS_PER_MS;
        session_notice_quiet(&session, now_ns);
        assert_true(looks < 1000000);
    }
    return looks;
}

static void have_it_work(void)
{
    char byte = 0;
    assert_int_equal(write(worker.orders, &byte, 1), 1);
    assert_int_equal(read(worker.answers, &byte, 1), 1);
    await_sleep();
}

static void who_does_nothing_is_quiet_and_who_works_is_not(void **state)
{
    have_it_work();
    session_notice_quiet(&session, now_ns += 150 * NS_PER_MS);
    assert_false(program.quiet);
    assert_true(look_until_quiet() >= 1200 / 150);
    have_it_work();
    session_notice_quiet(&session, now_ns += 150 * NS_PER_MS);
    assert_false(program.quiet);
    assert_true(program.checks_slots);
}

static void a_record_ends_quiet_at_once(void **state)
{
    look_until_quiet();
    program.drained = true;
    session_notice_quiet(&session, ++now_ns);
    assert_false(program.quiet);
}

/* Nobody tells that it works: its account is read, though not as often as at first. */
static void who_has_long_been_quiet_is_looked_at_seldom(void **state)
{
    look_until_quiet();
    uint64_t first_ns = program.cpu_next_ns - now_ns;
    session_notice_quiet(&session, now_ns += 3600 * NS_PER_S);
    assert_true(program.quiet);
    assert_true(program.cpu_next_ns - now_ns > first_ns);
    have_it_work();
    session_notice_quiet(&session, now_ns = program.cpu_next_ns);
    assert_false(program.quiet);
}

static void an_end_is_noticed(void **state)
{
    kill(worker.pid, SIGKILL);
    while (!program.gone)
        (void)session_wait_for_news(&session, false);
}

static void who_was_removed_is_not_waited_for(void **state)
{
    siginfo_t news;
    session_news_remove(&session, program.proc->pidfd);
    kill(worker.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)worker.pid, &news, WEXITED | WNOWAIT), 0);
    (void)session_wait_for_news(&session, false);
    assert_false(program.gone);
    assert_int_equal(session_news_add(&session, program.proc->pidfd, &program), 0);
    (void)session_wait_for_news(&session, false);
    assert_true(program.gone);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {T(who_does_nothing_is_quiet_and_who_works_is_not),
                                       T(a_record_ends_quiet_at_once),
                                       T(who_has_long_been_quiet_is_looked_at_seldom), T(an_end_is_noticed),
                                       T(who_was_removed_is_not_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
