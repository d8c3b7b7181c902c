/* See server.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "http/deadline.h"
#include "http/guard.h"
#include "http/listen.h"

#define THREADS         8
#define BODY_MAX        ((size_t)64 << 20)
#define HELD_MAX        ((size_t)512 << 20)
#define CONNECTIONS_MAX 4096
#define POOL_BYTES      ((size_t)32 << 10) /* of a connection: its header and what was read of its body */
#define COMPRESS_FROM   1024               /* bytes; less is not worth it */
#define TIMEOUT_S       30                 /* without a byte in either direction */
#define HEADER_MS       30000  /* from a connection's start, or its last request, to a whole header */
#define REQUEST_MS      600000 /* from there to the answer's last byte */

struct http_server {
    struct http_settings settings;
    struct http_guard guard;
    struct MHD_Daemon *daemon;
    uint16_t port;
    struct deadlines *deadlines;
    size_t held;               /* atomic: bytes of bodies being received */
    struct http_counts counts; /* atomic */
};

/* One request while its body arrives. */
struct incoming {
    char *body;
    size_t length, capacity;
    unsigned refused; /* a status, once it is clear that the body will not be used */
};

static void set_text(struct http_response *response, const char *text)
{
    response->content_type = "text/plain; charset=utf-8";
    response->body = strdup(text);
    response->length = response->body ? strlen(response->body) : 0;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value ? value : "";
}

/* zlib's levels. A tile is one of many that are asked for while somebody moves through a view, and metrics
 * are asked for all day: packing them well would take as long as making them. */
static int level_of(const struct http_response *response)
{
    const char *type = response->content_type ? response->content_type : "";
    return strcmp(type, "application/octet-stream") == 0 || strcmp(type, HTTP_METRICS) == 0 ? 1 : 5;
}

/* Replaces the body by what gzip makes of it, when that is smaller and the client takes it. */
static bool compress_body(struct MHD_Connection *connection, struct http_response *response)
{
    z_stream z = {0};
    if (response->length < COMPRESS_FROM || !strstr(header(connection, "Accept-Encoding"), "gzip") ||
        deflateInit2(&z, level_of(response), Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    char *packed = malloc(response->length);
    z.next_in = (unsigned char *)response->body;
    z.avail_in = (uInt)response->length;
    z.next_out = (unsigned char *)packed;
    z.avail_out = (uInt)response->length;
    bool smaller = packed && response->length < UINT32_MAX && deflate(&z, Z_FINISH) == Z_STREAM_END;
    size_t length = z.total_out;
    deflateEnd(&z);
    if (!smaller) {
        free(packed);
        return false;
    }
    free(response->body);
    response->body = packed;
    response->length = length;
    return true;
}

static void add_headers(struct MHD_Connection *connection, struct MHD_Response *r,
                        const struct http_response *response)
{
    const char *etag = response->etag[0] ? response->etag : NULL;
    char seconds[16];
    snprintf(seconds, sizeof(seconds), "%u", response->retry_after_s);
    const struct {
        const char *name, *value;
    } headers[] = {{"Content-Type", response->content_type},
                   {"Retry-After", response->retry_after_s ? seconds : NULL},
                   {"ETag", etag},
                   {"Cache-Control", response->immutable ? "private, max-age=31536000, immutable"
                                     : etag              ? "private, no-cache"
                                                         : "no-store"},
                   {"Location", response->location},
                   {"Access-Control-Allow-Origin", response->allow_origin},
                   {"Access-Control-Allow-Methods", response->allow_origin ? "GET, POST, PUT, DELETE" : NULL},
                   {"Access-Control-Allow-Headers", response->allow_origin ? "Content-Type, Accept" : NULL},
                   {"Content-Security-Policy",
                    response->policy ? response->policy : "default-src 'none'; frame-ancestors 'none'"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Resource-Policy", response->allow_origin ? "cross-origin" : "same-origin"},
                   {"Vary", "Accept-Encoding, Origin"}};
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
        if (headers[i].value)
            MHD_add_response_header(r, headers[i].name, headers[i].value);
}

static enum MHD_Result send_response(struct MHD_Connection *connection, struct http_response *response)
{
    bool known = response->etag[0] && strstr(header(connection, "If-None-Match"), response->etag);
    bool compressed = false;
    if (known) {
        free(response->body);
        response->body = NULL;
        response->length = 0;
        response->status = MHD_HTTP_NOT_MODIFIED;
    } else {
        compressed = compress_body(connection, response);
    }
    struct MHD_Response *r =
        MHD_create_response_from_buffer(response->length, response->body, MHD_RESPMEM_MUST_FREE);
    if (!r) {
        free(response->body);
        return MHD_NO;
    }
    add_headers(connection, r, response);
    if (compressed)
        MHD_add_response_header(r, "Content-Encoding", "gzip");
    enum MHD_Result result = MHD_queue_response(connection, response->status, r);
    MHD_destroy_response(r);
    return result;
}

static void take_body(struct http_server *server, struct incoming *in, const char *data, size_t size)
{
    if (in->refused)
        return;
    if (size > server->settings.body_max - in->length) {
        in->refused = MHD_HTTP_CONTENT_TOO_LARGE;
        return;
    }
    if (in->length + size > in->capacity) {
        size_t capacity = MAX(in->length + size, MIN(in->capacity * 2, server->settings.body_max));
        size_t more = capacity - in->capacity;
        if (__atomic_add_fetch(&server->held, more, __ATOMIC_RELAXED) > server->settings.held_max) {
            __atomic_sub_fetch(&server->held, more, __ATOMIC_RELAXED);
            in->refused = MHD_HTTP_SERVICE_UNAVAILABLE;
            return;
        }
        char *grown = realloc(in->body, capacity);
        if (!grown) {
            __atomic_sub_fetch(&server->held, more, __ATOMIC_RELAXED);
            in->refused = MHD_HTTP_SERVICE_UNAVAILABLE;
            return;
        }
        in->body = grown;
        in->capacity = capacity;
    }
    memcpy(in->body + in->length, data, size);
    in->length += size;
}

/* A program sends the token in a header; a browser that follows a link cannot, and has it in the path:
 * "/t/TOKEN/...", which is taken off. */
static bool token_matches(const char *token, struct http_request *request)
{
    const char *bearer = request->authorization;
    if (strncmp(request->path, "/t/", 3) == 0) {
        const char *given = request->path + 3;
        size_t length = strcspn(given, "/");
        if (given[length] != '/' || !http_same_token(token, given, length))
            return false;
        request->path = given + length;
        return true;
    }
    return strncmp(bearer, "Bearer ", 7) == 0 && http_same_token(token, bearer + 7, strlen(bearer + 7));
}

static void count(uint64_t *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* Who sends spans need not be one who may read them, nor the other way round. */
static bool has_token(const struct http_settings *settings, struct http_request *request)
{
    bool sends = strncmp(request->path, "/v1/", 4) == 0;
    const char *token = sends && settings->send_token ? settings->send_token : settings->token;
    return !token || token_matches(token, request);
}

/* Whether the request may be handled; a refusal is written into the response. */
static bool admit(struct http_server *server, struct MHD_Connection *connection, struct http_request *request,
                  struct http_response *response)
{
    bool known = has_token(&server->settings, request);
    const char *open = server->settings.open_path;
    const struct http_asker asker = {.host = header(connection, "Host"),
                                     .origin = header(connection, "Origin"),
                                     .fetch_site = header(connection, "Sec-Fetch-Site"),
                                     .fetch_mode = header(connection, "Sec-Fetch-Mode"),
                                     .open = open && strncmp(request->path, open, strlen(open)) == 0};
    enum http_verdict verdict = http_guard_check(&server->guard, &asker);
    if (verdict == HTTP_FOREIGN_HOST) {
        count(&server->counts.refused_hosts);
        response->status = MHD_HTTP_MISDIRECTED_REQUEST;
        set_text(response, "not a name of this server; sonde serve --allow-host NAME adds one\n");
    } else if (verdict == HTTP_FOREIGN_ORIGIN) {
        count(&server->counts.refused_origins);
        response->status = MHD_HTTP_FORBIDDEN;
        set_text(response, "pages of other sites are not answered\n");
    } else if (!known) {
        count(&server->counts.refused_tokens);
        response->status = MHD_HTTP_UNAUTHORIZED;
        set_text(response, "a token is needed: open /t/TOKEN/, or send Authorization: Bearer TOKEN\n");
    }
    return response->status == MHD_HTTP_OK;
}

static enum MHD_Result answer(struct http_server *server, struct MHD_Connection *connection, const char *path,
                              const char *method, struct incoming *in)
{
    struct http_response response = {.status = MHD_HTTP_OK};
    struct http_request request = {.method = method,
                                   .path = path,
                                   .content_type = header(connection, "Content-Type"),
                                   .content_encoding = header(connection, "Content-Encoding"),
                                   .authorization = header(connection, "Authorization"),
                                   .body = in->body,
                                   .length = in->length,
                                   .connection = connection};
    if (!admit(server, connection, &request, &response))
        return send_response(connection, &response);
    if (in->refused) {
        response.status = in->refused;
        response.retry_after_s = in->refused == MHD_HTTP_SERVICE_UNAVAILABLE;
        set_text(&response, in->refused == MHD_HTTP_CONTENT_TOO_LARGE ? "the body is too large\n"
                                                                      : "too much is being received\n");
    } else {
        server->settings.handle(server->settings.context, &request, &response);
    }
    return send_response(connection, &response);
}

/* Of the connection's socket; NULL when there was no memory for it. */
static struct deadline *deadline_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static int fd_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *size,
                                  void **state)
{
    struct http_server *server = context;
    struct incoming *in = *state;
    if (!in) {
        *state = in = calloc(1, sizeof(*in));
        deadline_set(deadline_of(connection), server->settings.request_ms * NS_PER_MS);
        return in ? MHD_YES : MHD_NO;
    }
    if (*size) {
        take_body(server, in, data, *size);
        *size = 0;
        return MHD_YES;
    }
    return answer(server, connection, url, method, in);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = context;
    struct incoming *in = *state;
    deadline_set(deadline_of(connection), server->settings.header_ms * NS_PER_MS);
    if (!in)
        return;
    __atomic_sub_fetch(&server->held, in->capacity, __ATOMIC_RELAXED);
    free(in->body);
    free(in);
    *state = NULL;
}

/* The threads may let in a few more than the limit at the same moment; room for those is kept. */
static enum MHD_Result on_accept(void *context, const struct sockaddr *address, socklen_t length)
{
    struct http_server *server = context;
    if (__atomic_load_n(&server->counts.connections, __ATOMIC_RELAXED) < server->counts.connections_max)
        return MHD_YES;
    count(&server->counts.refused_connections);
    return MHD_NO;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;
    __atomic_add_fetch(&server->counts.connections, begins ? 1 : -1, __ATOMIC_RELAXED);
    if (begins)
        *state = deadline_add(server->deadlines, fd_of(connection), server->settings.header_ms * NS_PER_MS);
    else
        deadline_remove(server->deadlines, *state);
}

int http_server_start(const struct http_settings *settings, struct http_server **ret_server,
                      struct problem *problem)
{
    struct http_server *server = calloc(1, sizeof(*server));
    int fd = -1;
    if (!server)
        return -ENOMEM;
    server->settings = *settings;
    server->settings.threads = settings->threads ? settings->threads : THREADS;
    server->settings.body_max = settings->body_max ? settings->body_max : BODY_MAX;
    server->settings.held_max = settings->held_max ? settings->held_max : HELD_MAX;
    server->settings.header_ms = settings->header_ms ? settings->header_ms : HEADER_MS;
    server->settings.request_ms = settings->request_ms ? settings->request_ms : REQUEST_MS;
    server->counts.connections_max =
        http_connections_allowed(settings->connections_max ? settings->connections_max : CONNECTIONS_MAX);
    int r =
        http_listen(settings->address, settings->token != NULL, &server->guard, &server->port, &fd, problem);
    server->guard.names = settings->names;
    if (r == 0)
        r = deadlines_new(MIN(server->settings.header_ms, server->settings.request_ms) * NS_PER_MS / 8,
                          &server->deadlines);
    if (r < 0) {
        if (fd >= 0)
            close(fd);
        free(server);
        return r;
    }
    /* The library's own limit makes connections wait without end, so it is never reached: each of its threads
     * may have as many as we allow altogether. */
    unsigned library_max = (unsigned)(server->counts.connections_max + 64) * server->settings.threads;
    /* Not epoll: the library asks it for changes only, and when a client's last bytes and its end come
     * together it reads the bytes and never learns of the end. Such connections would stay until they are
     * idle for too long. */
    server->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD, 0, on_accept, server, on_request, server, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_THREAD_POOL_SIZE, server->settings.threads, MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        server, MHD_OPTION_CONNECTION_LIMIT, library_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES,
        MHD_OPTION_END);
    if (!server->daemon) {
        close(fd);
        deadlines_free(server->deadlines);
        free(server);
        return problem_set(problem, -EIO, "%s: the HTTP server does not start", settings->address);
    }
    *ret_server = server;
    return 0;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

void http_server_get_counts(const struct http_server *server, struct http_counts *ret_counts)
{
    const uint64_t *from = (const uint64_t *)&server->counts;
    for (size_t i = 0; i < sizeof(*ret_counts) / sizeof(*from); i++)
        ((uint64_t *)ret_counts)[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    ret_counts->slow_connections = deadlines_count(server->deadlines);
}

const char *http_header(const struct http_request *request, const char *name)
{
    return header(request->connection, name);
}

const char *http_query(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

bool http_client_gone(const struct http_request *request)
{
    struct pollfd client = {.fd = fd_of(request->connection), .events = POLLRDHUP};
    return poll(&client, 1, 0) > 0;
}

void http_server_stop(struct http_server *server)
{
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    deadlines_free(server->deadlines);
    free(server);
}
