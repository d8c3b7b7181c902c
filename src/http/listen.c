/* See listen.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"

static int parse_address(const char *text, struct sockaddr_storage *ret_address, char host[64],
                         bool *ret_loopback)
{
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    size_t length = colon ? (size_t)(colon - text) : 0;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    char *end;
    unsigned long number = strtoul(port, &end, 10);
    if (!*port || *end || number > 65535 || length >= 64)
        return -EINVAL;
    if (length && text[0] == '[' && text[length - 1] == ']')
        snprintf(host, 64, "%.*s", (int)length - 2, text + 1);
    else
        snprintf(host, 64, "%.*s", (int)length, text);
    if (!length || strcmp(host, "localhost") == 0)
        snprintf(host, 64, "127.0.0.1");
    memset(ret_address, 0, sizeof(*ret_address));
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        v4.sin_port = htons((uint16_t)number);
        memcpy(ret_address, &v4, sizeof(v4));
        *ret_loopback = ntohl(v4.sin_addr.s_addr) >> 24 == 127;
        return 0;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
        return -EINVAL;
    v6.sin6_port = htons((uint16_t)number);
    memcpy(ret_address, &v6, sizeof(v6));
    *ret_loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    return 0;
}

int http_listen(const char *where, bool guarded, struct http_guard *ret_guard, uint16_t *ret_port,
                int *ret_fd, struct problem *problem)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    bool loopback;
    int on = 1;
    char host[64];
    if (parse_address(where, &address, host, &loopback) < 0) {
        problem_set(problem, -EINVAL, "'%s' is no address to listen on", where);
        problem_remedy(problem, "Use ADDRESS:PORT, such as 127.0.0.1:4318 or [::1]:4318.");
        return -EINVAL;
    }
    if (!loopback && !guarded) {
        problem_set(problem, -EPERM, "%s is reachable by others, and no token guards it", where);
        problem_remedy(problem, "Name a file with a token (--token-file), or listen on 127.0.0.1.");
        return -EPERM;
    }
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return problem_set(problem, -errno, "%s: %s", where, strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address,
             address.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) < 0 ||
        listen(fd, 512) < 0 || getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
        int error = -errno;
        close(fd);
        return problem_set(problem, error, "%s: %s", where, strerror(-error));
    }
    *ret_port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                                   : ((struct sockaddr_in6 *)&address)->sin6_port);
    *ret_fd = fd;
    memcpy(ret_guard->address, host, sizeof(host));
    ret_guard->any_address = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    return 0;
}

uint64_t http_connections_allowed(unsigned wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return wanted;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {limit.rlim_max, limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    rlim_t others = MIN(limit.rlim_cur / 4, 256);
    return MAX(MIN(wanted, limit.rlim_cur - others), 1);
}

bool http_same_token(const char *token, const char *given, size_t length)
{
    unsigned char different = 0;
    if (length != strlen(token))
        return false;
    for (size_t i = 0; i < length; i++)
        different |= (unsigned char)(token[i] ^ given[i]);
    return !different;
}
