/* A process beside this one: what it is not to have of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "broker/protocol.h"
#include "test.h"

struct found {
    pid_t pid, session;
    int descriptors; /* above standard error */
    char name[16];
    void (*handler)(int);
    int blocked; /* SIGUSR1 */
};

static int inherited = -1;

static void look(void *context, int socket)
{
    struct found found = {.pid = getpid(), .session = getsid(0)};
    struct sigaction action;
    sigset_t mask;
    for (int fd = 3; fd < 200; fd++)
        found.descriptors += fcntl(fd, F_GETFD) >= 0;
    prctl(PR_GET_NAME, found.name, 0, 0, 0);
    sigaction(SIGUSR1, NULL, &action);
    found.handler = action.sa_handler;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    found.blocked = sigismember(&mask, SIGUSR1);
    struct broker_head head = {.verb = BROKER_ANSWER, .start = *(const uint64_t *)context};
    (void)broker_send(socket, head, &found, sizeof(found), -1);
    (void)broker_receive(socket, &head, NULL, 0, NULL); /* until the other end is closed */
}

static void say_precedence(void *context, int socket)
{
    char text[64] = "";
    apart_go_first();
    _cleanup_(file_closep) int fd = open("/proc/self/autogroup", O_RDONLY);
    struct broker_head head = {.verb = BROKER_ANSWER, .result = getpriority(PRIO_PROCESS, 0)};
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
        text[0] = '\0';
    (void)broker_send(socket, head, text, sizeof(text), -1);
}

/* A nice value counts among the processes of a session only: the session's has to change. */
static void it_goes_first_with_its_session(void **state)
{
    struct problem problem = {0};
    struct broker_head head;
    char text[64];
    int fd;
    if (geteuid() != 0)
        skip();
    assert_int_equal(apart_start("sonde:test", say_precedence, NULL, &fd, &problem), 0);
    assert_int_equal(broker_receive(fd, &head, text, sizeof(text), NULL), (ptrdiff_t)sizeof(text));
    close(fd);
    assert_int_equal(head.result, -10);
    if (text[0]) /* there are groups */
        assert_non_null(strstr(text, " nice -10"));
}

static void ignore(int number)
{
}

static void it_has_nothing_of_ours_and_ends_with_us(void **state)
{
    struct problem problem = {0};
    struct broker_head head;
    struct found found = {0};
    uint64_t word = 4711;
    sigset_t usr1;
    int fd;
    inherited = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
    signal(SIGUSR1, ignore);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    assert_int_equal(apart_start("sonde:test", look, &word, &fd, &problem), 0);
    assert_int_equal(broker_receive(fd, &head, &found, sizeof(found), NULL), (ptrdiff_t)sizeof(found));
    assert_int_equal(head.start, 4711);
    assert_string_equal(found.name, "sonde:test");
    assert_int_equal(found.descriptors, 1); /* the socket */
    assert_int_equal(found.session, found.pid);
    assert_true(found.handler == SIG_DFL);
    assert_int_equal(found.blocked, 0);
    assert_true(waitpid(-1, NULL, 0) < 0 && errno == ECHILD); /* it is no child */
    _cleanup_(file_closep) int pidfd = (int)syscall(SYS_pidfd_open, found.pid, 0);
    assert_true(pidfd >= 0);
    close(fd);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, 60000), 1);
    close(inherited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_goes_first_with_its_session),
                                       cmocka_unit_test(it_has_nothing_of_ours_and_ends_with_us)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
