/* A small HTTP server on libmicrohttpd: requests with their whole body to one handler, on a pool of threads.
 * Bodies above the limit, and requests above what may be held at once, are refused before they take memory.
 * Connections above the limit are closed at once, idle ones after 30 s, and those that take too long
 * over a request. Names and pages of others are refused (see guard.h).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"

struct http_request {
    const char *method, *path;                                   /* "POST", "/v1/traces" */
    const char *content_type, *content_encoding, *authorization; /* "" when absent */
    const void *body;
    size_t length;
    void *connection; /* for http_query() and http_header() */
};

/* Of metrics, as Prometheus reads them. */
#define HTTP_METRICS "text/plain; version=0.0.4"

/* A handler fills it in. body is freed by the server. */
struct http_response {
    unsigned status; /* 200 by default */
    const char *content_type;
    char *body;
    size_t length;
    unsigned retry_after_s; /* a header when above 0 */
    char etag[40]; /* of what may be kept and asked for again; "": it is not to be kept. A request that has it
                    * gets 304 without the body */
    bool immutable;     /* what this address answers with never changes: it need not be asked for again */
    const char *policy; /* Content-Security-Policy; NULL: nothing is allowed */
    const char *allow_origin; /* Access-Control-Allow-Origin; NULL: none */
    const char *location;     /* of a redirection */
};

struct http_settings {
    const char *address;      /* "127.0.0.1:4318", "[::1]:0" (any free port) */
    unsigned threads;         /* 0: 8 */
    size_t body_max;          /* bytes; 0: 64 MiB. Above: 413 */
    size_t held_max;          /* of all bodies being received; 0: 512 MiB. Above: 503 */
    const char *token;        /* "Authorization: Bearer TOKEN" is asked for; NULL: only on loopback */
    const char *send_token;   /* in its place for what is sent (paths that begin with /v1/); NULL: token */
    unsigned connections_max; /* 0: 4096. Never more than the process may have descriptors for */
    uint64_t header_ms;       /* limit for receiving a whole header; 0: 30 s */
    uint64_t request_ms;      /* and for its body and the answer; 0: 10 min */
    const char *const *names; /* host names it answers to beside its address, ends with NULL; or NULL */
    const char *open_path;    /* what lies below it may be read by pages of other loopback servers and by
                                 editors; or NULL */
    void (*handle)(void *context, const struct http_request *request, struct http_response *response);
    void *context;
};

struct http_counts {
    uint64_t connections, connections_max;                   /* open now, and at most */
    uint64_t refused_connections;                            /* closed at once, above the limit */
    uint64_t slow_connections;                               /* closed because they took too long */
    uint64_t refused_hosts, refused_origins, refused_tokens; /* requests that were not handled */
};

struct http_server;

/* Raises the process' soft limit of descriptors to its hard one.
 * -EPERM for an address beyond loopback without a token; -EADDRINUSE and the like with words. */
int http_server_start(const struct http_settings *settings, struct http_server **ret_server,
                      struct problem *problem);

/* The port that it listens on. */
uint16_t http_server_port(const struct http_server *server);

void http_server_get_counts(const struct http_server *server, struct http_counts *ret_counts);

/* A header's value, "" when absent; borrowed from the request. */
const char *http_header(const struct http_request *request, const char *name);

/* A query parameter's value, or NULL; borrowed from the request. */
const char *http_query(const struct http_request *request, const char *name);

/* Whether nobody waits for the answer any more: the client has closed its connection, or its end of it. */
bool http_client_gone(const struct http_request *request);

/* Requests that are being handled are finished first. */
void http_server_stop(struct http_server *server);
DEFINE_FREEP(struct http_server, http_server_stop)

#endif
