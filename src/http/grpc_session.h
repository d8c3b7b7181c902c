/* One connection of gRPC over HTTP/2 without TLS, apart from its socket: bytes come in, calls come out,
 * answers go in and bytes come out. Unary calls only, of one message each. Not safe from several threads;
 * nothing of a session is called by others than its owner.
 *
 * A message is framed as (grpc.io, "gRPC over HTTP2"):
 *
 *     0   u8   1: the message is compressed as the header grpc-encoding says
 *     1   u32  its length, big-endian
 *     5        the message
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_GRPC_SESSION_H
#define HTTP_GRPC_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

/* grpc.io, "Status codes". */
enum grpc_status {
    GRPC_OK = 0,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
};

/* A call whose message is complete. Whoever takes it frees it with grpc_call_free(). */
struct grpc_call {
    int32_t stream;
    char path[128];          /* "/package.Service/Method"; one that is longer names nothing */
    char authorization[512]; /* "" when absent; one that is longer matches nothing */
    bool gzip;               /* the message is compressed */
    char *framed;            /* as it came: the message is behind its frame of five bytes */
    const void *message;
    size_t length, capacity; /* of the message; of what was allocated */
    size_t *held;            /* what capacity is counted in; borrowed */
};

void grpc_call_free(struct grpc_call *call);

struct grpc_limits {
    size_t message_max; /* bytes. Above: GRPC_RESOURCE_EXHAUSTED */
    size_t
        held_max; /* of all messages of all sessions that are received or handled. Above: GRPC_UNAVAILABLE */
    size_t *held; /* atomic; borrowed */
    unsigned calls_max; /* of one session at once. Above: GRPC_UNAVAILABLE */
};

struct grpc_session;

/* take() gets each complete call, and owns it; it is called by grpc_session_receive(). -ENOMEM. */
int grpc_session_new(const struct grpc_limits *limits, void (*take)(void *context, struct grpc_call *call),
                     void *context, struct grpc_session **ret_session);

/* 0, or a negative errno when the connection is to be closed: what came is no HTTP/2. */
int grpc_session_receive(struct grpc_session *session, const void *bytes, size_t length);

/* Answers a call: the message (copied) with GRPC_OK, or what went wrong in words. A stream that the other
 * side gave up meanwhile is passed over. */
void grpc_session_answer(struct grpc_session *session, int32_t stream, enum grpc_status status,
                         const char *words, const void *message, size_t length);

/* The next bytes to be sent, valid until the next call; 0 when there are none, or a negative errno. */
ssize_t grpc_session_send(struct grpc_session *session, const uint8_t **ret_bytes);

/* Asks the other side to open no more streams. */
void grpc_session_end(struct grpc_session *session);

/* Whether anything is left to be said in either direction. */
bool grpc_session_is_over(struct grpc_session *session);

void grpc_session_free(struct grpc_session *session);

#endif
