/* Connections whose number and end are known: "ready" and its three ports, then, after a line of input, 30 by
 * IPv4 in one function, 7 by IPv6 in another, 12 where nobody listens, and one that gets no answer, because
 * the queue of who listens is full. "done"; it ends with its input. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    perror(what);
    exit(1);
}

/* A socket at a port of the kernel's choice. backlog -1: it does not listen. */
static union address at_port(int family, int backlog)
{
    union address a = {.any = {.sa_family = (sa_family_t)family}};
    socklen_t size = sizeof(a);
    int fd = socket(family, SOCK_STREAM, 0);
    if (family == AF_INET)
        a.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        a.v6.sin6_addr = in6addr_loopback;
    check(fd >= 0 && bind(fd, &a.any, sizeof(a)) == 0, "bind");
    check(backlog < 0 || listen(fd, backlog) == 0, "listen");
    check(getsockname(fd, &a.any, &size) == 0, "getsockname");
    return a;
}

static int fresh(const union address *to, int flags)
{
    int fd = socket(to->any.sa_family, SOCK_STREAM | flags, 0);
    check(fd >= 0, "socket");
    return fd;
}

__attribute__((noinline)) static void open_many(const union address *to)
{
    for (int i = 0; i < 30; i++)
        check(connect(fresh(to, 0), &to->any, sizeof(*to)) == 0, "connect");
}

__attribute__((noinline)) static void open_v6(const union address *to)
{
    for (int i = 0; i < 7; i++)
        check(connect(fresh(to, 0), &to->any, sizeof(*to)) == 0, "connect");
}

__attribute__((noinline)) static void open_refused(const union address *to)
{
    for (int i = 0; i < 12; i++)
        check(connect(fresh(to, 0), &to->any, sizeof(*to)) < 0 && errno == ECONNREFUSED, "refused");
}

__attribute__((noinline)) static void open_late(const union address *to)
{
    check(connect(fresh(to, SOCK_NONBLOCK), &to->any, sizeof(*to)) < 0 && errno == EINPROGRESS, "no answer");
}

int main(void)
{
    char line[8];
    union address v4 = at_port(AF_INET, 64), v6 = at_port(AF_INET6, 64), nobody = at_port(AF_INET, -1),
                  full = at_port(AF_INET, 0);
    check(connect(fresh(&full, 0), &full.any, sizeof(full)) == 0, "the first of the queue");
    printf("ready %d %d %d %d\n", ntohs(v4.v4.sin_port), ntohs(v6.v6.sin6_port), ntohs(nobody.v4.sin_port),
           ntohs(full.v4.sin_port));
    fflush(stdout);
    check(fgets(line, sizeof(line), stdin) != NULL, "a line");
    open_many(&v4);
    open_v6(&v6);
    open_refused(&nobody);
    open_late(&full);
    puts("done");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        ;
    return 0;
}
