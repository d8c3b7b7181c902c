/* A load that does not wait for its answers: requests come at random times (exponential gaps) at a given
 * rate, the same times in each run, and each is timed from the moment at which it was due. So while a server
 * stands still, each request that is due counts its own wait.
 *     open_loop PORT RATE SECONDS              HTTP's GET /
 *     open_loop PORT RATE SECONDS redis N      Redis' GET and SET in turns, N commands in a pipeline
 * Prints one line of JSON: answered requests, those that found no free connection, and percentiles in us. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS = 64,
    ANSWER_MAX = 1 << 16,
    ANSWERS_MAX = 1 << 22,
    GRACE_S = 2,
    COMMANDS_MAX = 64,
    REQUEST_MAX = 64 * COMMANDS_MAX,
    REQUESTS = 2, /* that are sent in turns */
};

static const char HTTP[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
/* Each is answered by one line: the key that is asked for is never there. */
static const char *const COMMANDS[REQUESTS] = {
    "*2\r\n$3\r\nGET\r\n$8\r\nopenloop\r\n",
    "*3\r\n$3\r\nSET\r\n$6\r\nopened\r\n$3\r\nabc\r\n",
};

static char requests[REQUESTS][REQUEST_MAX];
static size_t next_request;
static int commands; /* of Redis in a request; 0: it is one of HTTP */

struct connection {
    int fd;
    bool busy;
    uint64_t due_ns;
    size_t length;
    char answer[ANSWER_MAX];
};

static struct connection connections[CONNECTIONS];
static float took_us[ANSWERS_MAX];
static uint64_t waiting[ANSWERS_MAX]; /* due, and no connection was free */
static size_t answered, first_waiting, last_waiting;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "open_loop: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void connect_all(int epoll, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
            fail("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        fcntl(fd, F_SETFL, O_NONBLOCK);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        connections[i].fd = fd;
    }
}

static void make_requests(void)
{
    for (size_t r = 0; r < REQUESTS; r++) {
        if (!commands)
            strcpy(requests[r], HTTP);
        for (int i = 0; i < commands; i++)
            strcat(requests[r], COMMANDS[(r + (size_t)i) % REQUESTS]);
    }
}

static void ask(struct connection *c, uint64_t due_ns)
{
    const char *request = requests[next_request++ % REQUESTS];
    c->busy = true;
    c->due_ns = due_ns;
    c->length = 0;
    if (write(c->fd, request, strlen(request)) != (ssize_t)strlen(request))
        fail("write");
}

static void ask_or_wait(uint64_t due_ns)
{
    for (int i = 0; i < CONNECTIONS; i++)
        if (!connections[i].busy) {
            ask(&connections[i], due_ns);
            return;
        }
    if (last_waiting == ANSWERS_MAX)
        fail("too many requests wait");
    waiting[last_waiting++] = due_ns;
}

static bool is_whole(const struct connection *c)
{
    static const char LAST_CHUNK[] = "\r\n0\r\n\r\n";
    const size_t last = sizeof(LAST_CHUNK) - 1;
    if (commands) {
        int lines = 0;
        for (size_t i = 0; i < c->length; i++)
            lines += c->answer[i] == '\n';
        return lines == commands;
    }
    const char *end = memmem(c->answer, c->length, "\r\n\r\n", 4);
    const char *chunked = end ? strcasestr(c->answer, "\r\nTransfer-Encoding: chunked\r\n") : NULL;
    if (chunked && chunked < end)
        return memcmp(c->answer + c->length - last, LAST_CHUNK, last) == 0;
    const char *field = end ? strcasestr(c->answer, "\r\nContent-Length:") : NULL;
    return field && field < end &&
           c->length >=
               (size_t)(end - c->answer) + 4 + strtoul(field + strlen("\r\nContent-Length:"), NULL, 10);
}

static void read_answer(struct connection *c)
{
    ssize_t got = read(c->fd, c->answer + c->length, sizeof(c->answer) - 1 - c->length);
    if (got <= 0 && errno != EAGAIN)
        fail("read");
    c->length += got > 0 ? (size_t)got : 0;
    c->answer[c->length] = 0;
    if (!c->busy || !is_whole(c))
        return;
    if (answered < ANSWERS_MAX)
        took_us[answered++] = (float)(now_ns() - c->due_ns) / 1000;
    c->busy = false;
    if (first_waiting < last_waiting)
        ask(c, waiting[first_waiting++]);
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static double percentile(double share)
{
    return answered ? took_us[(size_t)(share * (double)(answered - 1))] : 0;
}

int main(int count, char **words)
{
    bool redis = count == 6 && strcmp(words[4], "redis") == 0;
    commands = redis ? atoi(words[5]) : 0;
    if ((count != 4 && !redis) || (redis && (commands < 1 || commands > COMMANDS_MAX))) {
        fprintf(stderr, "usage: open_loop PORT RATE SECONDS [redis COMMANDS]\n");
        return 2;
    }
    make_requests();
    double rate = atof(words[2]);
    int epoll = epoll_create1(0);
    prctl(PR_SET_TIMERSLACK, 1);
    connect_all(epoll, (uint16_t)atoi(words[1]));
    uint64_t due_ns = now_ns(), end_ns = due_ns + (uint64_t)(atof(words[3]) * 1e9), sent = 0;
    srand48(1);
    for (;;) {
        uint64_t now = now_ns();
        for (; due_ns <= now && due_ns < end_ns; sent++) {
            ask_or_wait(due_ns);
            due_ns += (uint64_t)(-log(1 - drand48()) / rate * 1e9);
        }
        if (due_ns >= end_ns && (answered == sent || now > end_ns + GRACE_S * 1000000000ull))
            break;
        uint64_t wait_ns = due_ns < end_ns ? due_ns - now : 1000000;
        struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                                .tv_nsec = (long)(wait_ns % 1000000000u)};
        struct epoll_event events[CONNECTIONS];
        int ready = epoll_pwait2(epoll, events, CONNECTIONS, &wait, NULL);
        for (int i = 0; i < ready; i++)
            read_answer(&connections[events[i].data.u32]);
    }
    qsort(took_us, answered, sizeof(took_us[0]), by_size);
    printf("{\"requests\":%zu,\"unanswered\":%zu,\"waited\":%zu,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%."
           "1f}\n",
           answered, (size_t)sent - answered, last_waiting, percentile(0.5), percentile(0.9),
           percentile(0.99));
    return 0;
}
