/* See grpc_server.h. One thread owns all sockets and sessions; workers get whole calls from a queue and give
 * answers back over another one. A connection lives until its last call was answered, also when its socket is
 * gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/grpc_server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/listen.h"

#define THREADS         4
#define THREADS_MAX     32
#define CONNECTIONS_MAX 4096
#define MESSAGE_MAX     ((size_t)64 << 20)
#define HELD_MAX        ((size_t)256 << 20)
#define CALLS_MAX       64 /* of a connection at once */
#define IDLE_NS         (300 * NS_PER_S)
#define SWEEP_NS        (10 * NS_PER_S)
#define READ_BYTES      65536
#define READS_AT_ONCE   16 /* of one connection, before others have their turn */
#define EVENTS          64

struct connection {
    struct grpc_server *server;
    struct connection *next, **self;
    struct grpc_session *session;
    int fd; /* -1: gone */
    const uint8_t *out;
    size_t out_left;
    bool writing; /* epoll tells when it can be written to */
    unsigned calls;
    uint64_t active_ns;
};

/* A call on its way to a worker and back. */
struct job {
    struct job *next;
    struct connection *connection;
    struct grpc_call *call;
    int32_t stream;
    struct grpc_answer answer;
};

struct queue {
    struct job *first, **last;
};

struct grpc_server {
    struct grpc_settings settings;
    struct grpc_limits limits;
    struct http_guard guard; /* its address only */
    uint16_t port;
    int listener, epoll, wake, spare;
    size_t held; /* atomic */
    struct connection *connections;
    uint64_t swept_ns;
    struct grpc_counts counts; /* atomic */
    pthread_t poller, workers[THREADS_MAX];
    unsigned worker_count;
    bool polling;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    struct queue waiting, answered; /* under the lock, as all below */
    bool stopping;
};

static void count(uint64_t *counter, int64_t by)
{
    __atomic_add_fetch(counter, (uint64_t)by, __ATOMIC_RELAXED);
}

static void enqueue(struct queue *queue, struct job *job)
{
    job->next = NULL;
    *(queue->first ? queue->last : &queue->first) = job;
    queue->last = &job->next;
}

static struct job *dequeue(struct queue *queue)
{
    struct job *job = queue->first;
    if (job)
        queue->first = job->next;
    return job;
}

static void wake(struct grpc_server *server)
{
    uint64_t one = 1;
    (void)!write(server->wake, &one, sizeof(one));
}

/* ---- workers ---- */

static bool has_token(const struct grpc_server *server, const struct grpc_call *call)
{
    const char *token = server->settings.token, *given = call->authorization;
    return !token ||
           (strncmp(given, "Bearer ", 7) == 0 && http_same_token(token, given + 7, strlen(given + 7)));
}

static void handle(struct grpc_server *server, struct job *job)
{
    if (has_token(server, job->call)) {
        server->settings.handle(server->settings.context, job->call, &job->answer);
    } else {
        count(&server->counts.refused_tokens, 1);
        job->answer.status = GRPC_UNAUTHENTICATED;
        snprintf(job->answer.words, sizeof(job->answer.words),
                 "a token is needed: authorization: Bearer TOKEN");
    }
    grpc_call_free(job->call);
    job->call = NULL;
}

static void *work(void *context)
{
    struct grpc_server *server = context;
    pthread_mutex_lock(&server->lock);
    for (;;) {
        struct job *job = dequeue(&server->waiting);
        if (!job && server->stopping)
            break;
        if (!job) {
            pthread_cond_wait(&server->wanted, &server->lock);
            continue;
        }
        pthread_mutex_unlock(&server->lock);
        handle(server, job);
        pthread_mutex_lock(&server->lock);
        enqueue(&server->answered, job);
        wake(server);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

static void take_call(void *context, struct grpc_call *call)
{
    struct connection *c = context;
    struct grpc_server *server = c->server;
    struct job *job = calloc(1, sizeof(*job));
    if (!job) {
        grpc_session_answer(c->session, call->stream, GRPC_UNAVAILABLE, "out of memory", NULL, 0);
        grpc_call_free(call);
        return;
    }
    job->connection = c;
    job->call = call;
    job->stream = call->stream;
    c->calls++;
    pthread_mutex_lock(&server->lock);
    enqueue(&server->waiting, job);
    pthread_cond_signal(&server->wanted);
    pthread_mutex_unlock(&server->lock);
}

/* ---- connections ---- */

static void close_socket(struct connection *c)
{
    if (c->fd < 0)
        return;
    close(c->fd); /* leaves epoll by that */
    c->fd = -1;
    count(&c->server->counts.connections, -1);
}

/* Frees it once its socket is closed and its calls are answered. */
static void release(struct connection *c)
{
    if (c->fd >= 0 || c->calls)
        return;
    *c->self = c->next;
    if (c->next)
        c->next->self = c->self;
    grpc_session_free(c->session);
    free(c);
}

/* Sends what there is to be sent, until the socket is full. */
static void send_what_waits(struct connection *c)
{
    while (c->fd >= 0) {
        if (!c->out_left) {
            ssize_t n = grpc_session_send(c->session, &c->out);
            if (n < 0)
                close_socket(c);
            if (n <= 0)
                break;
            c->out_left = (size_t)n;
        }
        ssize_t sent = send(c->fd, c->out, c->out_left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            close_socket(c);
        if (sent < 0)
            break;
        c->out += sent;
        c->out_left -= (size_t)sent;
        c->active_ns = clock_monotonic_ns();
    }
    bool writing = c->fd >= 0 && c->out_left;
    if (c->fd >= 0 && writing != c->writing) {
        struct epoll_event event = {.events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &event);
        c->writing = writing;
    }
    if (c->fd >= 0 && !c->out_left && grpc_session_is_over(c->session))
        close_socket(c);
}

static void receive(struct connection *c)
{
    char bytes[READ_BYTES];
    for (int i = 0; i < READS_AT_ONCE && c->fd >= 0; i++) {
        ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            close_socket(c);
            break;
        }
        c->active_ns = clock_monotonic_ns();
        if (grpc_session_receive(c->session, bytes, (size_t)n) < 0) {
            count(&c->server->counts.broken_connections, 1);
            send_what_waits(c); /* why */
            close_socket(c);
        }
    }
    send_what_waits(c);
    release(c);
}

/* Without a descriptor left, a connection would wait and epoll would tell of it without end: it is let in at
 * the place of a spare one and closed. */
static void turn_away(struct grpc_server *server)
{
    close(server->spare);
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        close(fd);
    server->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    count(&server->counts.refused_connections, 1);
}

static void accept_one(struct grpc_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            turn_away(server);
        return;
    }
    struct connection *c = NULL;
    bool room =
        __atomic_load_n(&server->counts.connections, __ATOMIC_RELAXED) < server->counts.connections_max;
    if (room && (c = calloc(1, sizeof(*c)))) {
        *c = (struct connection){.server = server, .fd = fd, .active_ns = clock_monotonic_ns()};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (grpc_session_new(&server->limits, take_call, c, &c->session) < 0 ||
            epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
            grpc_session_free(c->session);
            free(c);
            c = NULL;
        }
    }
    if (!c) {
        count(&server->counts.refused_connections, 1);
        close(fd);
        return;
    }
    c->next = server->connections;
    c->self = &server->connections;
    if (c->next)
        c->next->self = &c->next;
    server->connections = c;
    count(&server->counts.connections, 1);
    send_what_waits(c); /* our settings */
}

static void take_answers(struct grpc_server *server)
{
    uint64_t times;
    (void)!read(server->wake, &times, sizeof(times));
    for (;;) {
        pthread_mutex_lock(&server->lock);
        struct job *job = dequeue(&server->answered);
        pthread_mutex_unlock(&server->lock);
        if (!job)
            return;
        struct connection *c = job->connection;
        grpc_session_answer(c->session, job->stream, job->answer.status, job->answer.words,
                            job->answer.message, job->answer.length);
        c->calls--;
        free(job->answer.message);
        free(job);
        send_what_waits(c);
        release(c);
    }
}

/* Ends what has been idle for too long. */
static void sweep(struct grpc_server *server)
{
    uint64_t now = clock_monotonic_ns();
    if (now - server->swept_ns < SWEEP_NS)
        return;
    server->swept_ns = now;
    for (struct connection *c = server->connections, *next; c; c = next) {
        next = c->next;
        if (c->fd < 0 || c->calls || now - c->active_ns < IDLE_NS)
            continue;
        grpc_session_end(c->session);
        send_what_waits(c);
        close_socket(c);
        release(c);
    }
}

static bool is_stopping(struct grpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool stopping = server->stopping;
    pthread_mutex_unlock(&server->lock);
    return stopping;
}

static void *poll_sockets(void *context)
{
    struct grpc_server *server = context;
    struct epoll_event events[EVENTS];
    while (!is_stopping(server)) {
        int n = epoll_wait(server->epoll, events, EVENTS, (int)(SWEEP_NS / NS_PER_MS));
        bool answers = false;
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &server->listener)
                accept_one(server);
            else if (events[i].data.ptr == &server->wake)
                answers = true;
            else
                receive(events[i].data.ptr);
        }
        /* Behind the events, which may name a connection that an answer frees. */
        if (answers)
            take_answers(server);
        sweep(server);
    }
    return NULL;
}

/* ---- the server ---- */

static int watch(struct grpc_server *server, int fd, void *as)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = as};
    return epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int start_threads(struct grpc_server *server)
{
    unsigned wanted = server->settings.threads ? MIN(server->settings.threads, THREADS_MAX) : THREADS;
    int r = 0;
    while (r == 0 && server->worker_count < wanted) {
        r = -pthread_create(&server->workers[server->worker_count], NULL, work, server);
        server->worker_count += r == 0;
    }
    if (r == 0)
        r = -pthread_create(&server->poller, NULL, poll_sockets, server);
    server->polling = r == 0;
    return r;
}

int grpc_server_start(const struct grpc_settings *settings, struct grpc_server **ret_server,
                      struct problem *problem)
{
    struct grpc_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->settings = *settings;
    server->listener = server->epoll = server->wake = server->spare = -1;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->wanted, NULL);
    server->limits =
        (struct grpc_limits){.message_max = settings->message_max ? settings->message_max : MESSAGE_MAX,
                             .held_max = settings->held_max ? settings->held_max : HELD_MAX,
                             .held = &server->held,
                             .calls_max = CALLS_MAX};
    server->counts.connections_max =
        http_connections_allowed(settings->connections_max ? settings->connections_max : CONNECTIONS_MAX);
    int r = http_listen(settings->address, settings->token != NULL, &server->guard, &server->port,
                        &server->listener, problem);
    if (r == 0 && ((server->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
                   (server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
                   (server->spare = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 ||
                   fcntl(server->listener, F_SETFL, O_NONBLOCK) < 0))
        r = problem_set(problem, -errno, "%s: %s", settings->address, strerror(errno));
    if (r == 0)
        r = watch(server, server->listener, &server->listener);
    if (r == 0)
        r = watch(server, server->wake, &server->wake);
    if (r == 0)
        r = start_threads(server);
    if (r < 0) {
        grpc_server_stop(server);
        return r;
    }
    *ret_server = server;
    return 0;
}

uint16_t grpc_server_port(const struct grpc_server *server)
{
    return server->port;
}

void grpc_server_get_counts(const struct grpc_server *server, struct grpc_counts *ret_counts)
{
    const uint64_t *from = (const uint64_t *)&server->counts;
    for (size_t i = 0; i < sizeof(*ret_counts) / sizeof(*from); i++)
        ((uint64_t *)ret_counts)[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void grpc_server_stop(struct grpc_server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_cond_broadcast(&server->wanted);
    pthread_mutex_unlock(&server->lock);
    for (unsigned i = 0; i < server->worker_count; i++)
        pthread_join(server->workers[i], NULL);
    if (server->wake >= 0)
        wake(server);
    if (server->polling)
        pthread_join(server->poller, NULL);
    if (server->wake >= 0)
        take_answers(server);
    for (struct connection *c = server->connections, *next; c; c = next) {
        next = c->next;
        grpc_session_end(c->session);
        send_what_waits(c);
        close_socket(c);
        release(c);
    }
    int *fds[] = {&server->listener, &server->epoll, &server->wake, &server->spare};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        if (*fds[i] >= 0)
            close(*fds[i]);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->wanted);
    free(server);
}
