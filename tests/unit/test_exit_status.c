/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/exit_status.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* A child that ends as it is told, not waited for yet; its pidfd in *ret_pidfd. */
static pid_t ended_child(int signal, int code, int *ret_pidfd)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (signal)
            kill(getpid(), signal);
        _exit(code);
    }
    siginfo_t news;
    *ret_pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(*ret_pidfd >= 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &news, WEXITED | WNOWAIT), 0);
    return pid;
}

static void nobody_has_waited_for_it(void **state)
{
    int pidfd;
    pid_t pid = ended_child(SIGKILL, 0, &pidfd);
    int status = exit_status_of(pidfd, pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    waitpid(pid, NULL, 0);
    close(pidfd);
    pid = ended_child(0, 7, &pidfd);
    status = exit_status_of(pidfd, pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    waitpid(pid, NULL, 0);
    close(pidfd);
}

static void its_parent_was_faster(void **state)
{
    int pidfd;
    pid_t pid = ended_child(SIGABRT, 0, &pidfd);
    waitpid(pid, NULL, 0);
    int status = exit_status_of(pidfd, pid);
    close(pidfd);
    if (status == -1)
        skip(); /* Linux before 6.15 */
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void it_runs(void **state)
{
    assert_int_equal(exit_status_of(-1, getpid()), -1);
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
