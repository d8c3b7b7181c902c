/* See tcp.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tcp.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "http/curl.h"

struct tcp {
    const struct curl_library *library;
    CURL *curl;
    curl_socket_t socket;
    uint64_t deadline_ns;
};

/* What stands in a URL as a host, and nothing that would end it there. */
static bool is_host(const char *host)
{
    size_t length = strlen(host);
    return length > 0 && length < 256 &&
           strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:") == length;
}

static CURLcode set_up(const struct tcp *tcp, const struct tcp_address *to, unsigned timeout_ms)
{
    const struct curl_library *library = tcp->library;
    char url[512];
    bool v6 = strchr(to->host, ':') != NULL;
    snprintf(url, sizeof(url), "%s://%s%s%s:%u/", to->tls ? "https" : "http", v6 ? "[" : "", to->host,
             v6 ? "]" : "", to->port);
    CURL *curl = tcp->curl;
    CURLcode code = library->easy_setopt(curl, CURLOPT_URL, url);
#define SET(option, value) code = code ? code : library->easy_setopt(curl, CURLOPT_##option, value)
    SET(PROTOCOLS_STR, "http,https");
    SET(CONNECT_ONLY, 1L);
    SET(PROXY, "");
    SET(NOSIGNAL, 1L);
    SET(CONNECTTIMEOUT_MS, (long)timeout_ms);
    SET(SSL_ENABLE_ALPN, 0L);
    if (to->authorities)
        SET(CAINFO, to->authorities);
    if (to->certificate)
        SET(SSLCERT, to->certificate);
    if (to->private_key)
        SET(SSLKEY, to->private_key);
#undef SET
    return code;
}

int tcp_open(const struct tcp_address *address, unsigned timeout_ms, struct tcp **ret_tcp,
             struct problem *problem)
{
    if (!is_host(address->host) || address->port == 0 || address->port > UINT16_MAX)
        return problem_set(problem, -EINVAL, "'%s' port %u is no address", address->host, address->port);
    const struct curl_library *library = curl_library(address->host, problem);
    if (!library)
        return -ELIBACC;
    _cleanup_(tcp_freep) struct tcp *tcp = calloc(1, sizeof(*tcp));
    if (!tcp)
        return problem_set(problem, -ENOMEM, "out of memory");
    tcp->library = library;
    tcp->curl = library->easy_init();
    if (!tcp->curl)
        return problem_set(problem, -ENOMEM, "out of memory");
    CURLcode code = set_up(tcp, address, timeout_ms);
    if (code == CURLE_OK)
        code = library->easy_perform(tcp->curl);
    if (code == CURLE_OK)
        code = library->easy_getinfo(tcp->curl, CURLINFO_ACTIVESOCKET, &tcp->socket);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return problem_set(problem, -ETIMEDOUT, "%s port %u does not answer", address->host, address->port);
    if (code != CURLE_OK)
        return problem_set(problem, code == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s port %u: %s",
                           address->host, address->port, library->easy_strerror(code));
    tcp_deadline(tcp, timeout_ms);
    *ret_tcp = tcp;
    tcp = NULL;
    return 0;
}

void tcp_free(struct tcp *tcp)
{
    if (tcp && tcp->curl)
        tcp->library->easy_cleanup(tcp->curl);
    free(tcp);
}

void tcp_deadline(struct tcp *tcp, unsigned timeout_ms)
{
    tcp->deadline_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
}

/* 0 when the socket is ready for these events of poll(). */
static int wait_for(const struct tcp *tcp, short events)
{
    for (;;) {
        uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= tcp->deadline_ns)
            return -ETIMEDOUT;
        uint64_t left_ms = (tcp->deadline_ns - now_ns) / NS_PER_MS + 1;
        struct pollfd fd = {tcp->socket, events, 0};
        int ready = poll(&fd, 1, (int)MIN(left_ms, (uint64_t)INT_MAX));
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
    }
}

int tcp_send(struct tcp *tcp, const void *bytes, size_t length)
{
    for (size_t sent = 0, here = 0; sent < length; sent += here) {
        here = 0;
        CURLcode code = tcp->library->easy_send(tcp->curl, (const char *)bytes + sent, length - sent, &here);
        int r = code == CURLE_AGAIN ? wait_for(tcp, POLLOUT) : code == CURLE_OK ? 0 : -EPIPE;
        if (r < 0)
            return r;
    }
    return 0;
}

int tcp_receive(struct tcp *tcp, void *buffer, size_t size)
{
    for (;;) {
        size_t got = 0;
        CURLcode code = tcp->library->easy_recv(tcp->curl, buffer, MIN(size, (size_t)INT_MAX), &got);
        if (code == CURLE_OK)
            return (int)got;
        int r = code == CURLE_AGAIN ? wait_for(tcp, POLLIN) : code == CURLE_RECV_ERROR ? -ECONNRESET : -EIO;
        if (r < 0)
            return r;
    }
}
