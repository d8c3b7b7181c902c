/* A gRPC server without TLS: calls to one handler on a pool of threads. HTTP/2 is spoken by one thread, so
 * that connections that say nothing take no thread. Connections above the limit are closed at once, idle ones
 * after five minutes. No guard of names as in server.h: browsers speak no HTTP/2 without TLS. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_GRPC_SERVER_H
#define HTTP_GRPC_SERVER_H

#include "base/problem.h"
#include "http/grpc_session.h"

struct grpc_answer {
    enum grpc_status status;
    char words[128]; /* unless GRPC_OK */
    char *message;   /* with GRPC_OK; freed by the server */
    size_t length;
};

struct grpc_settings {
    const char *address;      /* as http_settings.address */
    const char *token;        /* "authorization: Bearer TOKEN" is asked for; NULL: only on loopback */
    unsigned threads;         /* of handlers; 0: 4 */
    unsigned connections_max; /* 0: 4096. Never more than the process may have descriptors for */
    size_t message_max;       /* bytes; 0: 64 MiB */
    size_t held_max;          /* of all messages at once; 0: 256 MiB */
    void (*handle)(void *context, const struct grpc_call *call, struct grpc_answer *answer);
    void *context;
};

struct grpc_counts {
    uint64_t connections, connections_max; /* open now, and at most */
    uint64_t refused_connections;          /* closed at once, above the limit */
    uint64_t broken_connections;           /* closed because what came was no HTTP/2 */
    uint64_t refused_tokens;               /* calls that were not handled */
};

struct grpc_server;

/* As http_server_start(). */
int grpc_server_start(const struct grpc_settings *settings, struct grpc_server **ret_server,
                      struct problem *problem);

uint16_t grpc_server_port(const struct grpc_server *server);
void grpc_server_get_counts(const struct grpc_server *server, struct grpc_counts *ret_counts);

/* Calls that are being handled are finished first; their answers are sent as far as that does not have to be
 * waited for. */
void grpc_server_stop(struct grpc_server *server);
DEFINE_FREEP(struct grpc_server, grpc_server_stop)

#endif
