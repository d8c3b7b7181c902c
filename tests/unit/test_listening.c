/* The ports on which a process listens, of both families, in order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/listening.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held.h"
#include "test.h"

static int listen_on(int family, uint16_t *ret_port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t size = family == AF_INET ? sizeof(v4) : sizeof(v6);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, address, size) < 0 || listen(fd, 1) < 0 || getsockname(fd, address, &size) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *ret_port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    return fd;
}

static void own_sockets(void **state)
{
    uint16_t port, other, found[4] = {0};
    assert_int_equal(listening_ports(held(getpid()), found, 4), 0);
    int first = listen_on(AF_INET, &port);
    assert_true(first >= 0);
    assert_int_equal(listening_ports(held(getpid()), found, 4), 1);
    assert_int_equal(found[0], port);
    int second = listen_on(AF_INET6, &other);
    if (second < 0)
        second = listen_on(AF_INET, &other); /* a machine without the newer family */
    assert_true(second >= 0);
    found[1] = 7;
    assert_int_equal(listening_ports(held(getpid()), found, 1), 2);
    assert_int_equal(found[0], port < other ? port : other);
    assert_int_equal(found[1], 7);
    assert_int_equal(listening_ports(held(getpid()), found, 4), 2);
    assert_int_equal(found[1], port < other ? other : port);
    close(first);
    close(second);
    found[0] = 7;
    assert_int_equal(listening_ports(held(getpid()), found, 4), 0);
    assert_int_equal(found[0], 7);
}

/* Who listens on a port is found through its sockets. */
static void sockets_of_a_port(void **state)
{
    uint16_t port, other;
    uint64_t inodes[4] = {0}, others[4] = {0};
    int first = listen_on(AF_INET, &port), second = listen_on(AF_INET, &other);
    assert_true(first >= 0 && second >= 0);
    assert_int_equal(listening_sockets(held(getpid()), port, inodes, 4), 1);
    assert_int_equal(listening_sockets(held(getpid()), other, others, 4), 1);
    assert_true(inodes[0] && inodes[0] != others[0]);
    assert_true(listening_holds(held(getpid()), inodes, 1));
    assert_false(listening_holds(held(getpid()), inodes, 0));
    close(first);
    assert_false(listening_holds(held(getpid()), inodes, 1));
    assert_true(listening_holds(held(getpid()), others, 1));
    assert_int_equal(listening_sockets(held(getpid()), port, inodes, 4), 0);
    close(second);
}

/* A child in a network namespace of its own says on which port it listens there, and ends with its input. */
static void live_elsewhere(int in, int out)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof(address);
    uint16_t port = 0;
    char byte;
    int fd = unshare(CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_STREAM, 0) : -1;
    if (fd >= 0 && listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    if (write(out, &port, sizeof(port)) == sizeof(port))
        (void)!read(in, &byte, 1);
    _exit(0);
}

static void in_another_namespace(void **state)
{
    uint16_t ours, theirs = 0, found = 0;
    uint64_t inodes[2];
    int in[2], out[2], fd = listen_on(AF_INET, &ours);
    assert_true(fd >= 0 && pipe(in) == 0 && pipe(out) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        close(in[1]);
        live_elsewhere(in[0], out[1]);
    }
    assert_int_equal(read(out[0], &theirs, sizeof(theirs)), sizeof(theirs));
    if (theirs) { /* 0: without root there is no such namespace */
        assert_int_equal(listening_ports(held(child), &found, 1), 1);
        assert_int_equal(found, theirs);
        assert_int_equal(listening_sockets(held(child), theirs, inodes, 2), 1);
        assert_true(listening_holds(held(child), inodes, 1));
        assert_int_equal(listening_sockets(held(child), ours, inodes, 2), theirs == ours);
    }
    close(in[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(listening_ports(held(getpid()), &found, 1), 1); /* we are where we were */
    assert_int_equal(found, ours);
    close(in[0]);
    close(out[0]);
    close(out[1]);
    close(fd);
}

static void nobody(void **state)
{
    uint16_t port;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    struct proc *proc = held(child);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(listening_ports(proc, &port, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_sockets), cmocka_unit_test(sockets_of_a_port),
                                       cmocka_unit_test(in_another_namespace), cmocka_unit_test(nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
