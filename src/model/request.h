/* A request as a server saw it, and its vertical span: one tree over the layers http, js, v8, libuv and
 * redis, in the terms of the vertical span model (Node Compass, 3.1 and 3.3). A request that another traced
 * service received for this one hangs below the call that sent it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_REQUEST_H
#define MODEL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "model/activity.h"
#include "base/array.h"

enum layer { LAYER_http, LAYER_code, LAYER_engine, LAYER_loop, LAYER_store, LAYER_kernel, LAYER_COUNT };

/* How it is known that an operation belongs to its request. */
enum known {
    KNOWN_NOT,       /* several requests could have started it, or none did */
    KNOWN_AMBIGUOUS, /* several requests could have */
    KNOWN_INFERRED,  /* exactly one request could have */
    KNOWN_PROVED, /* it was started inside a callback that belongs to the request, or by order on a connection
                   */
};
const char *known_name(enum known known);

enum vspan_kind {
    VSPAN_request,  /* the root: [request parsed, response written] */
    VSPAN_callback, /* JavaScript */
    VSPAN_gc,
    VSPAN_regexp,
    VSPAN_encode,   /* JSON or a buffer becomes text, or text an object */
    VSPAN_measure,  /* what the program measured (performance.measure) */
    VSPAN_function, /* a call of a chosen function (--function); work: until it returned, end: its promise's
                     */
    VSPAN_pool,     /* an operation of libuv's thread pool, from submission to its completion callback */
    VSPAN_sync,     /* the same on the thread of the event loop, which is blocked meanwhile */
    VSPAN_http,     /* a request sent to another service, from sending to the end of the response */
    VSPAN_command,  /* to a store, from sending to the callback that reads its reply */
    VSPAN_ipc,      /* bytes written to a pipe or UNIX socket, until the answer or until they are taken */
    VSPAN_other,    /* bytes sent on another connection, to the next bytes received */
    VSPAN_syscall,  /* a system call of the thread that its parent ran on */
};

#define VSPAN_NONE UINT32_MAX

/* A call whose connection was closed before its answer was read. */
enum vspan_lost {
    VSPAN_KEPT,
    VSPAN_GIVEN_UP, /* by this side */
    VSPAN_CUT_OFF,  /* by the other side */
};

struct request;

struct vspan {
    /* [start_ns, end_ns); end_ns is 0 while it has not ended. */
    uint64_t start_ns, end_ns;
    uint32_t parent;       /* index: what contains or started it; VSPAN_NONE for the root */
    uint32_t cause;        /* callback: index of the operation whose completion it is; VSPAN_NONE */
    uint8_t layer;         /* enum layer */
    uint8_t kind;          /* enum vspan_kind */
    uint8_t wire;          /* command: enum sonde_wire, what the store speaks */
    uint8_t known;         /* enum known */
    uint8_t told;          /* it is known only from a context's number */
    uint64_t polled_ns;    /* answered: the loop polled after it and there was no answer yet; 0 unknown */
    uint64_t stalled_ns;   /* message, command: of it, the other end was blocked (a finding of its own) */
    uint64_t starting_ns;  /* message: of it, the other end was still starting */
    uint8_t message;       /* http: a WebSocket message */
    uint8_t shared;        /* callback: other requests may be served in it too; call: call_waited_for() */
    uint8_t lost;          /* enum vspan_lost */
    uint16_t status;       /* http: of the answer, 0 none */
    uint8_t grpc;          /* http: grpc-status and 1; 0: no gRPC call, or it has not ended */
    uint16_t resends;      /* how often TCP sent a segment again on its connection in that time ... */
    uint64_t resent_ns;    /* ... and when last; 0: never */
    const char *name;      /* interned: resource type, kind of operation, command, collection */
    const char *peer;      /* interned: the other end's address; NULL */
    const char *statement; /* interned: command: of SQL, without values; NULL */
    const char *detail;    /* interned: function, peer, how the operation was asked for; NULL */
    /* The operation at work: pool: on a pool thread; redis: executing; 0 unknown or not begun. The ATTL of
     * the paper is end_ns - start_ns, the run time worked_ns(), the rest is waiting. */
    uint64_t work_start_ns, work_end_ns;
    uint64_t replied_ns; /* command: the store has written its reply, or the first part of it; 0 unknown */
    uint64_t gc_ns;      /* callback, operation: garbage collection meanwhile */
    float unusual;       /* operation: its duration as a multiple of the median of its kind; 0: as usual */
    /* What the thread did in it (pool: the pool's thread, at work); timed: it is known. */
    struct activity_times spent;
    int64_t result; /* syscall, pool: a negative errno when it failed */
    int32_t fd;     /* syscall: -1 for none */
    bool timed;
    uint32_t calls_left_out; /* system calls beyond those that have a span; they are the shortest */
    uint32_t times; /* sync: calls in a row; the work is theirs together, work_start_ns the first one's */
    /* redis: number of the command on its connection, client id at the server, process of the server;
     * bytes of the write that carried it (all its commands), bytes of the arguments as Redis saw them. */
    uint64_t sequence, client_id, written_bytes, argument_bytes;
    uint32_t write_messages;    /* commands in that write */
    int64_t peer_pid, peer_tid; /* message over a pipe: the process at its other end; 0: not traced */
    struct request *child;      /* http: the request as the other service saw it; a reference */
};

/* "js"; of a store its name: "redis". */
const char *layer_name(const struct vspan *span);
/* What its name is said with: "call ", "measure "; "" for one that says what it is by itself. */
const char *vspan_prefix(const struct vspan *span);

/* One step of the critical path: what the request waited for in [start_ns, end_ns). Times in which somebody
 * worked for it: PATH_RUN, PATH_POOL, PATH_STORE, PATH_PEER; the others are waiting. */
enum path_class {
    PATH_RUN,        /* its JavaScript runs */
    PATH_LOOP,       /* what it waited for is there, the event loop is not */
    PATH_POOL_QUEUE, /* for a thread of the pool */
    PATH_POOL,       /* a thread of the pool works for it */
    PATH_QUEUE,      /* on its way to another service or store, or queued there */
    PATH_STORE,      /* Redis, Memcached or the like executes its command */
    PATH_PEER,       /* the other end of a connection works, unseen */
    PATH_OTHER,      /* a timer, or something that was not seen */
    PATH_FREE,       /* until one of a few connections or workers was free */
    PATH_CUT,        /* before so many steps that it is not followed further back */
    PATH_CLASSES
};
const char *path_class_name(enum path_class class);
bool path_works(enum path_class class);

struct path_step {
    uint64_t start_ns, end_ns;
    const char *name;    /* interned: the operation, callback or call; NULL */
    const char *service; /* interned: where, when it is not this request's own */
    uint32_t span;       /* index of the own span that it lies in; VSPAN_NONE */
    uint8_t class;       /* enum path_class */
    bool of_child;       /* a step of the request that another service received for it, which has it, too */
    /* What the thread did that it waits for: the loop's, the pool's; timed: the kernel's events tell. */
    bool timed;
    struct activity_times spent;
};

/* Of the request's latency, what its path explains: all but what is not followed back. */
uint64_t path_followed_ns(const struct request *request);

/* For how long in it somebody worked: a thread without a CPU does not. */
uint64_t path_work_ns(const struct path_step *step);

enum request_state {
    REQUEST_OPEN,
    REQUEST_ANSWERED, /* the response is written; its callback may still run */
    REQUEST_FINISHED,
    REQUEST_UNFINISHED, /* the trace or the process ended before the response */
    REQUEST_ABORTED,    /* the connection was closed without a response */
};
const char *request_state_name(enum request_state state);

struct process;
struct connection;

/* Whether an answer says that the server failed: by HTTP, or by gRPC's own status (and 1; 0: of no gRPC
 * call), of which those count that OpenTelemetry's conventions take for a server's errors. */
static inline bool status_is_error(uint16_t http, uint8_t grpc)
{
    enum { UNKNOWN = 2, DEADLINE_EXCEEDED = 4, UNIMPLEMENTED = 12, DATA_LOSS = 15 };
    unsigned status = grpc ? grpc - 1u : 0;
    return http >= 500 || status == UNKNOWN || status == DEADLINE_EXCEEDED ||
           (status >= UNIMPLEMENTED && status <= DATA_LOSS);
}

struct request {
    uint64_t serial; /* in this analysis */
    uint32_t refs;
    uint8_t state;
    uint8_t method_number;
    uint16_t status;              /* 0 unknown */
    uint8_t grpc;                 /* grpc-status and 1; 0: no gRPC call, or it has not ended */
    uint32_t messages;            /* WebSocket: those that came in one read; 0 for HTTP */
    uint32_t stream;              /* HTTP/2: its number on the connection; 0 for HTTP/1 */
    char name[32];                /* "PID-N": the N-th request that the process received */
    const char *service, *method; /* interned */
    const char *route;            /* interned */
    char *path;
    int64_t pid, tid;
    uint64_t start_ns, response_ns, end_ns;       /* response_ns: first bytes of the response; 0 none */
    ARRAY(struct vspan) spans;                    /* spans.at[0] is the request itself */
    ARRAY(struct path_step) path_steps;           /* in order of time; found when it has ended */
    uint32_t spans_left_out;                      /* beyond REQUEST_SPANS_MAX */
    uint32_t ambiguous;                           /* operations that may be of this request */
    uint64_t trace_high, trace_low, trace_parent; /* W3C trace context that it came with, 0 none */
    uint64_t pool_wait_ns, blocked_ns;
    /* Lost to garbage collection and to encoding in turns that were no stalls; encodes: its own encoding. */
    uint64_t gc_ns, encode_ns;
    bool encodes;
    /* Turns for it that were no stalls, without collections (short.c), and what was seen in them. */
    uint64_t short_ns, short_turns;
    struct seen *seen; /* NULL: no sample was taken */
    bool first; /* once it has ended: the first of its endpoint, which may have loaded and compiled code */
    bool timed; /* spent is known: what the loop's thread did meanwhile */
    struct activity_times spent;
    /* While it is open: */
    ARRAY(uint64_t) async_ids;
    uint32_t context;        /* its number there, 0 none */
    uint64_t last_active_ns; /* when it started the newest one */
    uint64_t last_done_ns;   /* when a call or operation of its own ended last */
    struct process *process;
    struct process *finishing; /* it has ended, what was called for it has not been read to its end */
    struct request *caller;    /* borrowed: the request that sent this one, as far as known */
    struct fault *failure;     /* borrowed: why it was answered with an error; NULL: it was not (failure.c) */
    uint32_t open_calls;       /* calls of its own that have not ended */
    uint32_t
        answered_generation; /* in a turn that read that connection; answered_fd: 1 + its descriptor, 0 */
    int32_t answered_fd;
    uint64_t answered_io_ns; /* when that read began */
    bool answered_by_timer;  /* the response was written while timers ran */
};

enum { REQUEST_SPANS_MAX = 2000 };

/* Of the path's steps, the one that together with those like it took most; NULL when there is no path. */
const struct path_step *path_dominant(const struct request *request);

static inline uint64_t request_latency_ns(const struct request *request)
{
    return request->end_ns > request->start_ns ? request->end_ns - request->start_ns : 0;
}

#endif
