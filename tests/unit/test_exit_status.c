/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/exit_status.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* A child that ends as it is told, not waited for yet; its handle in *ret_proc. */
static pid_t ended_child(int signal, int code, struct proc **ret_proc)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (signal)
            kill(getpid(), signal);
        _exit(code);
    }
    siginfo_t news;
    assert_int_equal(proc_open(pid, ret_proc), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &news, WEXITED | WNOWAIT), 0);
    return pid;
}

static void nobody_has_waited_for_it(void **state)
{
    struct proc *proc;
    pid_t pid = ended_child(SIGKILL, 0, &proc);
    int status = exit_status_of(proc);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    waitpid(pid, NULL, 0);
    proc_unref(proc);
    pid = ended_child(0, 7, &proc);
    status = exit_status_of(proc);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    waitpid(pid, NULL, 0);
    proc_unref(proc);
}

static void its_parent_was_faster(void **state)
{
    struct proc *proc;
    pid_t pid = ended_child(SIGABRT, 0, &proc);
    waitpid(pid, NULL, 0);
    int status = exit_status_of(proc);
    proc_unref(proc);
    if (status == -1)
        skip(); /* Linux before 6.15 */
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void it_runs(void **state)
{
    struct proc *proc;
    assert_int_equal(proc_open(getpid(), &proc), 0);
    assert_int_equal(exit_status_of(proc), -1);
    proc_unref(proc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_has_waited_for_it),
        cmocka_unit_test(its_parent_was_faster),
        cmocka_unit_test(it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
