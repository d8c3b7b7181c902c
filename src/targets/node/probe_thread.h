/* What the hooks in Node keep of a thread: see struct probe_thread in probe/probe.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_PROBE_THREAD_H
#define TARGETS_NODE_PROBE_THREAD_H

#include <stdint.h>

enum { PROBE_CALLBACKS = 16, PATH_BYTES = 256 };

/* One callback scope of Node that is open on this thread. */
struct probe_callback {
    uint64_t self; /* the InternalCallbackScope */
    uint64_t start_tsc;
    uint64_t written;     /* records of the thread when it began */
    uint32_t depth;       /* spans open outside it */
    uint64_t async_id;    /* of its resource, 0 unknown */
    uint64_t trigger_id;  /* of what caused that */
    uint64_t outer_value; /* what V8 carried outside it (probe_carried.c) */
};

/* The header block of the HTTP/2 stream that is being received. */
struct probe_http2 {
    uint64_t session;  /* nghttp2_session * */
    uint64_t resource; /* async id of the stream, 0 unknown */
    int32_t stream;
    uint16_t status;
    uint8_t method;
    uint8_t asked;     /* it asks for something: it has a :method */
    uint8_t grpc;      /* grpc-status and 1; 0: it has none */
    uint8_t beginning; /* the stream is made now */
};

#define PROBE_LINE_node()                                                                 \
    uint32_t node_owner;                                                                  \
    uint32_t callback_count;                                                              \
    PROBE_LINE_STREAMS()                                                                  \
    uint8_t in_write, in_submit, in_encode;                                               \
    uint8_t request_pending; /* an http:request waits for the callback that carries it */ \
    uint32_t request_stream; /* HTTP/2: of that request; 0 for HTTP/1 */                  \
    uint64_t read_parser;    /* whose request began in the read that is handled now */    \
    uint64_t request_parser;                                                              \
    uint64_t context_scope;    /* the newest scope that probe_context.c was told of */    \
    uint32_t context_entering; /* the next scope serves a request that is not entered yet */

#define PROBE_THREAD_node()                                                                             \
    struct probe_http2 http2;                                                                           \
    uint32_t http2_sending;             /* frames are collected, to be written at once */               \
    uint32_t context_counted;           /* among the threads whose script runs */                       \
    uint64_t port_posting, port_target; /* the MessagePort that is posted to; whose handle that woke */ \
    uint64_t gc_start_tsc, gc_heap_before, gc_external;                                                 \
    uint64_t named_string; /* the newest of V8's strings that was named, and its number */              \
    uint32_t named_number;                                                                              \
    uint32_t named_request;  /* that is what a request to the file system is called */                  \
    uint64_t callback_start; /* of the newest callback that was recorded */                             \
    uint64_t completed_next; /* the operation whose completion is next in libuv's queue */              \
    uint32_t stream_bytes;   /* that streams have given to JavaScript */                                \
    struct probe_callback callbacks[PROBE_CALLBACKS];                                                   \
    uint16_t path_length;                                                                               \
    uint64_t path_parser;                                                                               \
    char path[PATH_BYTES];

#endif
