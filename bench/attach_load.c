/* Load for services that are attached to: keeps requests in flight on some connections of one of several
 * services of one kind at a time, checks every answer, and records every latency.
 *
 *   attach_load redis|http CONNECTIONS[/PAUSE_MS] PORT...
 *
 * redis: SET and GET of the value that was set, in one write. http: GET /thing/N, whose answer holds the
 * path. After a round of answers it pauses, by default not at all. Each line on standard input makes it print
 * a line of JSON about the time since the line before, with one object for each port; it ends with its input.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SERVICES_MAX = 8, CONNECTIONS_MAX = 256, OCTAVES = 40, SUB = 64, ROOM = 4096 };

struct service {
    int port;
    uint64_t answers, errors, max_ns, gap_ns, last_ns;
    uint64_t histogram[OCTAVES * SUB];
};

struct connection {
    struct service *service;
    int fd, number;
    uint64_t serial, sent_ns;
    char wanted[256]; /* redis: the whole answer; http: what the body must hold */
    char got[ROOM];
    size_t length;
    bool idle;
};

static bool http;
static int poller;
static struct service services[SERVICES_MAX];
static struct connection connections[CONNECTIONS_MAX];
static int service_count, connection_count;
static struct service *active = services;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- what was seen ---- */

static int bucket_of(uint64_t ns)
{
    if (ns < SUB)
        return (int)ns;
    int octave = 63 - __builtin_clzll(ns);
    int index = (octave - 5) * SUB + (int)(ns >> (octave - 6) & (SUB - 1));
    return index < OCTAVES * SUB ? index : OCTAVES * SUB - 1;
}

/* The upper end of a bucket. */
static uint64_t bucket_ns(int index)
{
    if (index < SUB)
        return (uint64_t)index;
    int octave = index / SUB + 5;
    return ((uint64_t)(SUB + index % SUB) + 1) << (octave - 6);
}

static uint64_t quantile(const struct service *s, double q)
{
    uint64_t rank = (uint64_t)((double)s->answers * q), seen = 0;
    for (int i = 0; i < OCTAVES * SUB; i++) {
        seen += s->histogram[i];
        if (seen > rank)
            return bucket_ns(i);
    }
    return s->max_ns;
}

static void tell(void)
{
    printf("[");
    for (int i = 0; i < service_count; i++) {
        struct service *s = &services[i];
        printf("%s{\"port\":%d,\"answers\":%llu,\"errors\":%llu,\"p50_ns\":%llu,\"p99_ns\":%llu,\"p999_ns\":%"
               "llu,"
               "\"max_ns\":%llu,\"gap_ns\":%llu}",
               i ? "," : "", s->port, (unsigned long long)s->answers, (unsigned long long)s->errors,
               (unsigned long long)quantile(s, 0.5), (unsigned long long)quantile(s, 0.99),
               (unsigned long long)quantile(s, 0.999), (unsigned long long)s->max_ns,
               (unsigned long long)s->gap_ns);
        s->answers = s->errors = s->max_ns = s->gap_ns = 0;
        memset(s->histogram, 0, sizeof(s->histogram));
    }
    printf("]\n");
    fflush(stdout);
}

/* ---- requests ---- */

static void send_next(struct connection *c);

static void open_connection(struct connection *c)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)c->service->port),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        fprintf(stderr, "port %d: %s\n", c->service->port, strerror(errno));
        exit(1);
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = c}};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    c->idle = c->service != active;
    if (!c->idle)
        send_next(c);
}

static void failed(struct connection *c, const char *why)
{
    if (c->service->errors++ == 0)
        fprintf(stderr, "port %d: %s: %.*s\n", c->service->port, why, (int)c->length, c->got);
    close(c->fd);
    open_connection(c);
}

static void send_next(struct connection *c)
{
    char request[512];
    int length;
    c->serial++;
    c->length = 0;
    if (http) {
        length = snprintf(request, sizeof(request), "GET /thing/%d.%llu HTTP/1.1\r\nHost: load\r\n\r\n",
                          c->number, (unsigned long long)c->serial);
        snprintf(c->wanted, sizeof(c->wanted), "/thing/%d.%llu", c->number, (unsigned long long)c->serial);
    } else {
        char key[32], value[64];
        int k = snprintf(key, sizeof(key), "key%d", c->number);
        int v = snprintf(value, sizeof(value), "value %d %llu", c->number, (unsigned long long)c->serial);
        length = snprintf(request, sizeof(request),
                          "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", k,
                          key, v, value, k, key);
        snprintf(c->wanted, sizeof(c->wanted), "+OK\r\n$%d\r\n%s\r\n", v, value);
    }
    c->sent_ns = now_ns();
    if (send(c->fd, request, (size_t)length, MSG_NOSIGNAL) != length)
        failed(c, "cannot be written to");
}

/* 1: the answer is whole and right; 0: more is to come; -1: it is wrong. */
static int check(struct connection *c)
{
    c->got[c->length] = '\0';
    if (!http) {
        size_t want = strlen(c->wanted);
        if (c->length > want || memcmp(c->got, c->wanted, c->length) != 0)
            return -1;
        return c->length == want;
    }
    const char *body = strstr(c->got, "\r\n\r\n"), *size = strstr(c->got, "Content-Length: ");
    if (!body)
        return c->length < ROOM - 1 ? 0 : -1;
    if (strncmp(c->got, "HTTP/1.1 200 ", 13) != 0 || !size)
        return -1;
    size_t have = c->length - (size_t)(body + 4 - c->got), want = strtoul(size + 16, NULL, 10);
    if (have < want)
        return 0;
    return have == want && strncmp(body + 4, c->wanted, strlen(c->wanted)) == 0 ? 1 : -1;
}

static void receive(struct connection *c)
{
    ssize_t n = recv(c->fd, c->got + c->length, ROOM - 1 - c->length, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        failed(c, n ? strerror(errno) : "closed the connection");
        return;
    }
    c->length += (size_t)n;
    int r = check(c);
    if (r < 0) {
        failed(c, "answers wrongly");
    } else if (r > 0) {
        struct service *s = c->service;
        uint64_t now = now_ns(), took = now - c->sent_ns;
        s->answers++;
        s->histogram[bucket_of(took)]++;
        if (took > s->max_ns)
            s->max_ns = took;
        if (s->last_ns && now - s->last_ns > s->gap_ns)
            s->gap_ns = now - s->last_ns;
        s->last_ns = now;
        c->idle = s != active;
        if (!c->idle)
            send_next(c);
    }
}

static void move_to(int number)
{
    active = &services[number % service_count];
    active->last_ns = now_ns();
    for (int i = 0; i < connection_count; i++)
        if (connections[i].service == active && connections[i].idle) {
            connections[i].idle = false;
            send_next(&connections[i]);
        }
}

/* false: the input has ended. */
static bool obey(void)
{
    char lines[256];
    ssize_t n = read(0, lines, sizeof(lines) - 1);
    if (n <= 0)
        return false;
    lines[n] = '\0';
    for (char *line = lines, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (*line >= '0' && *line <= '9')
            move_to(atoi(line));
        else
            tell();
    }
    return true;
}

int main(int argc, char **argv)
{
    int width = argc > 3 ? atoi(argv[2]) : 0;
    const char *slash = argc > 3 ? strchr(argv[2], '/') : NULL;
    const struct timespec pause = {.tv_nsec = slash ? atol(slash + 1) * 1000000 : 0};
    service_count = argc - 3;
    if (width < 1 || service_count > SERVICES_MAX || width * service_count > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: attach_load redis|http CONNECTIONS[/PAUSE_MS] PORT...\n");
        return 2;
    }
    http = strcmp(argv[1], "http") == 0;
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event input = {.events = EPOLLIN};
    epoll_ctl(poller, EPOLL_CTL_ADD, 0, &input);
    for (int i = 0; i < service_count; i++)
        services[i].port = atoi(argv[3 + i]);
    for (int k = 0; k < width; k++) /* in turns, so that the services are treated alike */
        for (int i = 0; i < service_count; i++) {
            struct connection *c = &connections[connection_count];
            c->service = &services[i];
            c->number = connection_count++;
            open_connection(c);
        }
    for (;;) {
        struct epoll_event events[64];
        int n = epoll_wait(poller, events, 64, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                receive(events[i].data.ptr);
            else if (!obey())
                return 0;
        }
        if (slash)
            nanosleep(&pause, NULL);
    }
}
