/* What a process may name as its end of a pair of sockets, and what is sent over it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hand_over.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "held.h"
#include "test.h"

/* A child that has the descriptor that make() gives, waits to be looked at, and ends. */
static int take_from_child(int (*make)(void), struct problem *problem)
{
    int ready[2], done[2], theirs = -1, ours = -1;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        int fd = make();
        close(done[1]);
        _exit(write(ready[1], &fd, sizeof(fd)) == sizeof(fd) && read(done[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &theirs, sizeof(theirs)), sizeof(theirs));
    int r = hand_over_socket(held(child), theirs, &ours, problem);
    if (r == 0)
        close(ours);
    close(done[0]);
    close(done[1]);
    close(ready[0]);
    close(ready[1]);
    waitpid(child, NULL, 0);
    return r;
}

static int make_pair(void)
{
    int pair[2];
    return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0 ? pair[0] : -1;
}

static int make_other_pair(void)
{
    int pair[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 ? pair[0] : -1;
}

static int make_file(void)
{
    return open("/", O_PATH);
}

static int make_pipe(void)
{
    int ends[2];
    return pipe(ends) == 0 ? ends[1] : -1;
}

static int make_nothing(void)
{
    return 12345;
}

/* A pair of the parent's: its other end is read by somebody else. */
static int inherited = -1;
static int make_inherited(void)
{
    return inherited;
}

/* Connected to a server by its name. */
static int make_connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0sonde-test-hand-over"};
    int server = socket(AF_UNIX, SOCK_SEQPACKET, 0), client = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (bind(server, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(server, 1) < 0 ||
        connect(client, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -1;
    return client;
}

static void only_an_end_of_its_own_pair_is_taken(void **state)
{
    struct problem problem = {0};
    int pair[2];
    if (take_from_child(make_pair, &problem) == -EPERM)
        skip(); /* Yama, or a container without ptrace */
    assert_int_equal(take_from_child(make_pair, &problem), 0);
    assert_int_equal(take_from_child(make_other_pair, &problem), -EBADF);
    assert_int_equal(take_from_child(make_file, &problem), -EBADF);
    assert_int_equal(take_from_child(make_pipe, &problem), -EBADF);
    assert_int_equal(take_from_child(make_connected, &problem), -EBADF);
    assert_non_null(strstr(problem.what, "no end of a pair"));
    assert_int_equal(take_from_child(make_nothing, &problem), -EBADF);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    inherited = pair[0];
    assert_int_equal(take_from_child(make_inherited, &problem), -EBADF);
    close(pair[0]);
    close(pair[1]);
}

static void a_descriptor_is_sent(void **state)
{
    int pair[2], received = -1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    int fd = memfd_create("sent", MFD_CLOEXEC);
    assert_int_equal(hand_over_send(pair[0], "word", 4, fd), 0);
    char text[8];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {text, sizeof(text)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    assert_int_equal(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC), 4);
    memcpy(&received, CMSG_DATA(&control.header), sizeof(received));
    struct stat one, other;
    assert_int_equal(fstat(fd, &one), 0);
    assert_int_equal(fstat(received, &other), 0);
    assert_int_equal(one.st_ino, other.st_ino);
    close(received);
    close(fd);
    close(pair[1]);
    assert_int_equal(hand_over_send(pair[0], "word", 4, 0), -EPIPE);
    close(pair[0]);
}

/* Somebody who does not read keeps nobody waiting. */
static void sending_does_not_wait(void **state)
{
    int pair[2], r = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    for (int i = 0; i < 100000 && r == 0; i++)
        r = hand_over_send(pair[0], "word", 4, pair[0]);
    assert_true(r == -EAGAIN || r == -ETOOMANYREFS);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_an_end_of_its_own_pair_is_taken),
                                       cmocka_unit_test(a_descriptor_is_sent),
                                       cmocka_unit_test(sending_does_not_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
