/* The core: the processes, threads, connections and operations that are alive now. For those that take part
 * in the analysis: protocols, the search for faults, targets, the driver.
 *
 * Two kinds of work happen at different times. What a protocol says (a request arrived, a command was sent,
 * bytes were written) is taken when its event arrives, because another process may refer to it at once. Whose
 * work it is, is known only when the callback around it has ended, since a span's record is written at its
 * end: turn.c keeps the events of a thread until the outermost span closes and then hands them to node.c as a
 * tree.
 *
 * Requests are referred to by serial number: 0 is none, and one that is gone is found no more. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <jansson.h>

#include "model/activity.h"
#include "model/analysis.h"
#include "model/analyzer.h"
#include "model/breakdown.h"
#include "model/protocol.h"
#include "model/stack.h"
#include "base/arena.h"
#include "base/map.h"
#include "event/event.h"

/* ---- connections and what is asked over them (connection.c, http.c, redis.c) ---- */

struct address {
    uint64_t high, low;
    uint16_t port;
};

/* One request on a connection, as its client sees it. */
struct call {
    uint8_t kind;  /* VSPAN_http, VSPAN_command or VSPAN_other */
    uint8_t wire;  /* command: enum sonde_wire */
    uint8_t known; /* how owner is known */
    uint8_t settled, done;
    uint8_t told;        /* only a context's number shows whose it is */
    uint8_t message;     /* of a WebSocket connection */
    uint8_t ended;       /* it has its end, and waits for those before it to be taken from the list */
    uint8_t after_other; /* http: sent in the turn that ended another call on this connection */
    uint16_t status;
    uint8_t grpc;       /* grpc-status and 1; 0: no gRPC call, or it has not ended */
    uint16_t resends;   /* how often TCP sent a segment again on its connection in that time ... */
    uint64_t resent_ns; /* ... and when last */
    uint32_t span;      /* in the owner's tree; VSPAN_NONE when it has none */
    uint64_t owner;     /* serial of the request that it belongs to */
    uint64_t number;    /* redis: of the command on this connection, from 1; 0 unknown */
    uint64_t sent_ns;
    uint64_t work_start_ns, work_end_ns; /* redis: executing */
    uint64_t ready_ns;                   /* when the answer was given by the other side */
    uint64_t answer_end; /* command: the other end's told_bytes behind its answer; 0 unknown */
    uint64_t written_bytes, argument_bytes, client_id;
    uint32_t write_messages;
    int64_t peer_pid, peer_tid;
    const char *name, *peer; /* peer: its address */
    const char *statement;   /* interned: of SQL, without values; NULL: not known */
    struct request *child;   /* http: a reference */
};

/* A message that goes through a broker (messages.c). */
struct queue_message {
    uint64_t sequence; /* which of those that were ever seen; 0: none */
    uint64_t identity; /* the same at both ends */
    uint64_t next;     /* sequence of the next that was sent with the same identity and not taken; 0 */
    uint64_t sent_ns, taken_ns, done_ns; /* 0: not yet, or not known */
    uint64_t owner, job;    /* serials of the request that sent it, and that it is where it was taken */
    uint64_t delivery, key; /* its number there, and its place in messages_taken */
    uint64_t bytes;
    int64_t sender_pid; /* 0: not known */
    int64_t pid;        /* where it was taken, on that connection */
    int32_t connection_fd;
    uint32_t connection_generation;
    uint32_t span; /* of the owner's */
    const char *name, *peer, *queue;
    bool is_job;
    struct consumer *consumer;
    /* The fault that it waited for, for busy_share of the time; NULL: why it waited is not known. */
    const struct process *waited_at;
    const char *waited_key; /* interned */
    double busy_share;
};
enum { QUEUE_MESSAGES = 16384 };

/* A command that a server has executed. The record of its sending may come later: the sender writes that down
 * after the write, when the server may already be done. */
struct executed_command {
    uint64_t number, start_ns, end_ns, ready_ns, client_id, argument_bytes;
    uint64_t answer_end; /* as a call's */
    int64_t tid;
    const char *name;
};

/* A message on a pipe or UNIX socket that may be answered. */
struct ipc_message {
    uint64_t sent_ns, owner; /* owner: serial */
    uint32_t span;
};

/* A message to another thread, until it is answered. */
struct port_message {
    uint64_t sent_ns, owner; /* owner: serial */
    uint64_t work_start_ns;  /* when it was received */
    uint64_t number;         /* on its channel, from 1 */
    uint32_t span;
    uint8_t answer; /* to one of the other way */
};

/* The name of a message's span. */
#define THREAD_MESSAGE "message to a thread and answer"

/* A message that was answered: when it was posted, begun, answered, and when the answer was read. */
struct port_task {
    uint64_t sent_ns, begun_ns, answer_ns, read_ns;
};

/* One way from a message port to another thread's (port.c). */
struct channel {
    uint64_t from, target; /* the ports' handles; target 0: not known yet */
    int64_t from_tid, to_tid;
    struct channel *back;
    ARRAY(struct port_message) messages;
    uint64_t posts, receipts, answers, answer_ns, worst_answer_ns;
    uint64_t answered_ns;  /* when the last answer was posted, the other way */
    struct port_task last; /* the newest that was answered */
    struct lane *lane;     /* when it was at work for messages (lanes.c); NULL: never */
};

struct connection {
    struct process *process;
    struct connection *mirror; /* the other end, where it is traced */
    struct address local, peer;
    uint64_t key;                    /* redis: client id */
    const struct protocol *protocol; /* NULL: not known; see connection_protocol() */
    uint64_t opened_ns, closed_ns;
    int32_t fd;
    uint32_t generation;
    uint16_t family;
    uint8_t closed, lingering;
    uint8_t client; /* this process connected it */
    uint64_t inode;
    ARRAY(struct ipc_message)
    ipc_waiting; /* pipes, UNIX sockets: written and not followed by a read, in order */
    uint64_t ipc_writes, ipc_bytes, ipc_answers, ipc_first_answer_ns;
    uint64_t ipc_taken; /* of the other end's writes, those that were there at the last read */
    uint64_t ipc_answer_ns, ipc_worst_answer_ns; /* from each message to its answer */
    const char *peer_name;                       /* interned "127.0.0.1:6379" */
    /* Client side: calls in order; calls.at[first_call] is number calls_gone of this connection. */
    ARRAY(struct call) calls;
    size_t first_call;
    uint64_t calls_gone;
    uint64_t last_call_end_ns;
    struct lane *lane; /* when it was in use (lanes.c); NULL: never */
    struct call ended; /* the newest call that ended, with its child's reference; kind 0: none */
    /* Server side: serials of requests without complete response, in order. */
    ARRAY(uint64_t) waiting;
    size_t first_waiting;
    uint64_t unclaimed; /* serial of the newest request whose sender's record has not come yet */
    struct sql_statements *statements;    /* sql.c: of commands whose write is not read yet; NULL */
    struct sql_transaction *transaction;  /* sql.c: the newest that was begun on it; NULL: none */
    ARRAY(struct executed_command) early; /* a store's: executed, and the client's call is not known yet */
    uint8_t tells; /* a store's: it numbers the commands that it executes as the client does */
    /* A store's, which tells of each answer before it is written: bytes of those so far. Its client's: what
     * it has read of them, while in_step; and how many events had been lost when that began. */
    uint64_t told_bytes, taken_bytes, step_losses;
    uint64_t replied_ns; /* a store's: when it last wrote answers; 0: it has not */
    uint8_t in_step;
    uint64_t current; /* the newest request read: what the parser's next callbacks are about */
    uint64_t bytes_written, last_write_ns;
    uint64_t response_needs; /* bytes_written at which the response is complete; UINT64_MAX unknown */
    uint8_t responding;
    uint8_t had_io;         /* a turn on it was read */
    size_t answering;       /* calls that the turn which is read now brings the answers of */
    uint8_t pipelined;      /* calls of two requests waited on it at a time */
    uint8_t takes_messages; /* its commands ask for them: they are no request's */
    uint8_t overlaps;       /* an exchange: several requests sent something before the first was answered */
    /* An exchange: when the last bytes came, how often that was an answer which a request waited for, and how
     * often nothing had been asked. */
    uint64_t last_read_ns;
    uint32_t asked, unasked;
    uint64_t rest_ns; /* when more of a reply was written than its client had taken at once; 0: not since the
                         client read that, UINT64_MAX: the server does not say */
    ARRAY(uint64_t) deliveries; /* messages.c: messages that were taken on it and not dealt with */
    /* http2.c: a session is a connection of its own, which another one carries. */
    struct connection *session, *carrier;
    uint64_t session_key;
    const char *upgraded; /* websocket.c: the path that it was asked for with; interned, NULL unknown */
    struct map streams;   /* of a session: number -> serial of its request, or number of its call */
};

enum { CALLS_MAX = 65536 }; /* waiting on one connection */

/* ---- processes and threads ---- */

/* An operation of the thread pool. */
struct pool_op {
    uint64_t request; /* the probe's key */
    uint64_t submit_ns, run_start_ns, run_end_ns;
    uint64_t owner;
    int64_t submit_tid, run_tid;
    int64_t result;           /* of its run: a negative errno, else 0 */
    struct kept_calls *calls; /* of its run, until its span is there; NULL */
    const char *type;         /* async resource: "PBKDF2REQUEST"; NULL unknown */
    const char *route;        /* interned "GET /x" of the owner; NULL */
    uint32_t span;
    uint8_t kind; /* uv_kind */
    uint8_t known;
    uint8_t told;           /* known from a context's number, and from nothing else */
    uint8_t waited_behind;  /* the thread that ran it had just ended other work */
    struct pool_op *before; /* has run, and its completion submitted this one with the same key; NULL */
};

enum { SEVERAL_SUBMITTERS = 1 };

struct item {
    uint64_t start_ns, end_ns;
    uint64_t trigger;           /* async init; js:measure: when it began */
    uint32_t first_child, next; /* indices, UINT32_MAX for none */
    uint32_t low;               /* index of the first item of its subtree */
    uint16_t event;             /* enum sonde_event_id */
    uint8_t small;              /* kind, type, phase or side */
    int32_t fd;
    uint32_t generation, count;
    uint32_t context; /* operations: the number that the probe read, as CONTEXT_NONE */
    union {
        uint64_t id; /* async id, request serial, number of the first call, bytes read; js:measure: its end */
        void *pointer; /* uv:done: the operation, owned until the turn is read; port:post: the channel */
    };
    const char *name;
};

enum { ITEM_IPC = 9 }; /* small of an item for uv:write: to a pipe or UNIX socket */

struct sched_sample {
    uint64_t time_ns, run_ns, wait_ns;
    uint64_t active_ns; /* what the thread did since the previous sample */
};
enum { SCHED_KEPT = 512 };

/* One result of the stall sampler, with how often it was seen. */
struct look {
    uint64_t since_ns, first_ns, last_ns, run_ns;
    uint32_t count, line, column;
    uint8_t cause;
    uint8_t loading;  /* the stack was loading a module */
    uint8_t internal; /* the script is the runtime's own */
    uint8_t stood;    /* it was off the CPU, or got one only to be sampled, and was in a system call */
    /* As the stack has them: no function of the application was on it; a package's had called it. */
    uint8_t packaged, by_package;
    const char *function, *script, *detail;
    const struct look_stack *stack; /* NULL: not known */
    const char *called;   /* by its public name, what the function called; NULL: itself, or not known */
    const char *variants; /* of a place: shares of what it did, in words; NULL: one thing */
};

/* Who lost time, copied, since the request may be gone when the verdict is written. */
struct victim {
    uint64_t serial, start_ns, delay_ns;
    const char *service, *method, *route;
    char *path;
    char name[32];
    uint8_t role; /* enum victim_role */
};
enum victim_role { VICTIM_WAITED, VICTIM_CAUSED, VICTIM_UPSTREAM, VICTIM_ROLES };

/* Iterations that are long enough to have made others wait. */
struct long_turn {
    uint64_t start_ns, end_ns;
    uint64_t polled_ns; /* when the first poll phase that began after it ended; 0: not yet */
};
enum { LONG_TURNS = 32 };

/* In place of a kind of span: calls with the same statement of SQL, which is their name. */
enum { ATTL_STATEMENT = 255 };

struct attl {
    const char *service, *name;
    uint8_t kind;
    uint64_t count, total_ns, worst_ns, gc_ns, gc_hits;
    struct sketch latency, work;
};

/* Where samples of short callbacks found them. */
enum { SEEN_PLACES = 16 };
struct seen {
    uint64_t looks;   /* in total, including places beyond those kept */
    uint64_t loading; /* of these, in which modules were loaded */
    struct look places[SEEN_PLACES];
};

enum { LOOKS_MAX = 64 };

struct thread {
    struct process *process;
    int64_t tid;
    void *own[SONDE_RUNTIMES]; /* what each target keeps of it (struct analyzer) */
    struct activity *activity; /* NULL until the kernel has reported it */
    /* turn.c */
    ARRAY(struct item) items;
    ARRAY(uint32_t) roots;
    struct map contexts;      /* number of a request's context -> its serial */
    struct map async;         /* async id -> async_pack() */
    ARRAY(uint64_t) answered; /* serials whose response was written in the open turn */
    ARRAY(struct request *) open;
    uint64_t left_ns; /* when the newest of those that are not open any more ended, 0 none */
    uint64_t last_turn_end_ns;
    uint64_t phases_end_ns[3]; /* of its event loop's present iteration and the two before: the last's end */
    uint8_t last_phase;
    /* stretch.c */
    uint64_t queue_told_ns; /* until then, its waits for a CPU are in a fault */
    struct sched_sample sched[SCHED_KEPT];
    size_t sched_count; /* ever; the last SCHED_KEPT are kept */
    uint64_t active_ns; /* since the last sample */
    ARRAY(struct look) looks;
    ARRAY(struct stretch *) stretches; /* not judged yet */
    struct stretch *last_stretch;      /* still collecting who waited for it; in stretches */
    uint32_t polls_since_stretch;      /* poll phases that ended since last_stretch did */
    uint64_t loops_since_ns;           /* when its event loop first ran; 0: it did not */
    struct long_turn long_turns[LONG_TURNS];
    size_t long_turn_count;         /* ever; the last LONG_TURNS are kept */
    struct short_turn *short_turns; /* SHORT_TURNS of them; NULL: none */
    size_t short_turn_count;        /* ever */
    uint8_t serves;                 /* requests were received on it */
    uint8_t collects;               /* garbage: its collections are seen */
    uint8_t unfinished;             /* its last turn had not ended when the trace or the process did */
    uint64_t finish_ns;             /* when that was */
    uint64_t newest_ns;             /* its newest event */
};

struct process {
    int64_t pid, parent;             /* parent: its pid, 0 unknown */
    const char *service;             /* interned */
    const struct analyzer *analyzer; /* its target's; NULL: of none */
    void *own[SONDE_RUNTIMES];       /* what each target keeps of it (struct analyzer) */
    uint8_t runtime;                 /* enum sonde_runtime */
    uint8_t gone;
    uint8_t has_waits;       /* its threads' times off the CPU are recorded */
    uint8_t has_calls;       /* and each of their system calls */
    uint64_t waits_since_ns; /* times before that are not complete */
    uint64_t started_ns, ended_ns;
    uint64_t request_count, answered_count, first_request_ns, last_request_ns;
    uint64_t latency_ns;    /* of all its requests together, without what the machine took of it */
    uint64_t told_count;    /* operations that a context's number alone proves */
    uint64_t handovers;     /* turns that contradict the numbers */
    struct map endpoints;   /* hash of (method, route) of what it has answered */
    struct map names;       /* probe:name id -> interned const char * */
    struct map threads;     /* tid -> struct thread * */
    struct map connections; /* fd << 32 | generation -> struct connection * */
    ARRAY(struct channel *) channels;
    struct map sessions;       /* http2: its key -> struct connection * */
    uint32_t session_count;    /* ever */
    uint32_t connecting;       /* connects that were begun and whose descriptor is not known yet */
    struct map server_ports;   /* local ports of connections on which requests were received */
    struct map submitters;     /* resource type -> the endpoint known to submit it, or SEVERAL_SUBMITTERS */
    struct seen *encode_seen;  /* samples of those; NULL: none */
    struct quota_watch *quota; /* quota.c; NULL: it has none */
    struct connects *connects; /* failure.c; NULL: none was seen */
    int exit_status;           /* as wait() has it; -1: not known, or it runs */
};

/* ---- the analysis ---- */

struct keeper {
    ARRAY(struct request *) at; /* slowest first, references */
};

struct kept_endpoint {
    struct endpoint endpoint;
    struct keeper slowest;
};

/* Where events were lost: between the newest one before and when the loss was noticed. pid and tid are 0 for
 * all. */
struct lost_stretch {
    uint64_t from_ns, to_ns, count;
    int64_t pid, tid;
    uint8_t reason; /* loss_reason */
};

enum { LOST_STRETCHES = 4096 };

struct open_span {
    uint64_t since_ns, argument;
    int64_t pid, tid;
    uint32_t event, name;
    uint8_t depth;
};

enum { MACHINE_STALLS = 64, ANALYZERS_MAX = 16 };

struct machine_stall {
    uint64_t start_ns, end_ns;
};

/* What the machine's CPUs did between two readings (machine:cpu): stolen from all of them together; how long
 * the one was idle that was idle longest. */
struct machine_times {
    uint64_t start_ns, end_ns, stolen_ns, idlest_ns;
};
enum { MACHINE_TIMES = 512 };

struct analysis {
    struct analyze_options options;
    event_reader *readers[SONDE_EVENT_COUNT]; /* by event; NULL: nobody reads it */
    const struct analyzer *const *analyzers;  /* in the order in which they are asked; ends with NULL */
    const struct analyzer *order[ANALYZERS_MAX];
    const struct protocol *const *protocols; /* PROTOCOLS; ends with NULL */
    struct analysis_counts counts;
    bool failed;        /* memory ran out */
    bool so_far;        /* a report is made in the middle (so_far.c): faults are copies, all else stays */
    bool requests_only; /* at least for a time nothing but requests was recorded */
    bool over;          /* the programs' own events are incomplete from here on: nothing more is concluded */
    struct arena arena;
    struct map interned;   /* hash -> const char * */
    struct map processes;  /* pid -> struct process * */
    struct thread *recent; /* the newest event's; NULL: look it up */
    ARRAY(struct process *) all_processes;
    struct map requests;    /* serial -> struct request * */
    struct map tuples;      /* hash of (local, peer) -> struct connection * */
    struct map endpoint_of; /* hash -> index */
    ARRAY(struct kept_endpoint) endpoints;
    ARRAY(struct endpoint)
    endpoint_list;                 /* for the caller, sorted; their sketches are endpoints' or folded's */
    ARRAY(struct endpoint) folded; /* several endpoints that are one (routes.c) */
    struct map folds;              /* hash of service, method and route -> the route that it is part of */
    ARRAY(const struct request *) kept;
    struct keeper slowest;
    uint64_t next_serial;
    ARRAY(struct connection *) lingering;
    size_t first_lingering;
    ARRAY(struct open_span) open_spans;
    struct breakdown *breakdown; /* NULL: not wanted */
    struct map inodes;           /* of pipes and UNIX sockets -> struct connection *, the newest */
    ARRAY(struct attl) attl;
    struct map attl_of; /* hash of service, kind and name -> index */
    /* Hash of service, address, what it was asked and the route of the requests -> how many answers of a peer
     * on this machine were waited for by requests, and, from bit 32 on, how many of these were late by
     * themselves (slow.c); of requests that used connections to it, how many waited for one (lanes.c). */
    struct map peer_answers;
    struct map faults;   /* hash of the key -> struct fault * */
    struct map pieces;   /* serial of a request that waited for threads of a pool -> struct pieces * */
    struct map speakers; /* interned "address:port" of a peer, of which it is not known what it speaks ->
                            connection.asked << 32 | .unasked, of all connections that requests use */
    struct map served; /* interned "address:port" on which a traced process answers -> its struct process * */
    ARRAY(struct consumer *) consumers; /* consumers.c */
    struct queue_message *messages;     /* QUEUE_MESSAGES of them, by sequence modulo; NULL: none was seen */
    uint64_t message_count;             /* ever */
    struct map messages_sent,
        messages_early;        /* identity -> sequence: sent and not taken; taken, and not yet sent */
    struct map messages_taken; /* delivery -> sequence */
    struct map stacks;         /* hash of a sample's stack -> struct look_stack * */
    struct map source_maps;    /* interned script -> struct source_map *, 0: it has none */
    ARRAY(struct fault *) fault_list;
    struct {
        uint64_t count[16];
    } losses;                                  /* by loss_reason */
    ARRAY(struct lost_stretch) lost_stretches; /* the first LOST_STRETCHES, in time order */
    uint64_t newest_unowned_ns;                /* the newest event that is of no thread */
    uint64_t sched_events;
    struct profile *samples; /* of a profile that was taken meanwhile; NULL: none. samples.c */
    size_t samples_sorted;   /* how many, from the first */
    /* Times in which the machine was stopped (machine:stall), the newest at stall_count - 1, modulo
     * MACHINE_STALLS. */
    struct machine_stall stalls[MACHINE_STALLS];
    size_t stall_count;
    /* The newest at machine_count - 1, modulo MACHINE_TIMES. */
    struct machine_times machine[MACHINE_TIMES];
    size_t machine_count;
    uint64_t machine_read_ns, machine_stolen_ns; /* the last reading; 0: there was none */
};

/* The message of that sequence; NULL: it is none, or long ago. */
static inline struct queue_message *queue_message_at(const struct analysis *a, uint64_t sequence)
{
    if (!sequence || !a->messages || a->message_count - sequence >= QUEUE_MESSAGES)
        return NULL;
    struct queue_message *m = &a->messages[sequence % QUEUE_MESSAGES];
    return m->sequence == sequence ? m : NULL;
}

/* process.c. A string that lives as long as the analysis; equal strings have equal addresses. What is not
 * UTF-8 has U+FFFD in its place. */
const char *intern(struct analysis *a, const char *string, size_t length);
const char *intern_string(struct analysis *a, const char *string);
struct process *process_new(struct analysis *a, int64_t pid);
struct process *process_get(struct analysis *a, int64_t pid);
void processes_free(struct analysis *a);
struct thread *thread_get(struct analysis *a, struct process *process, int64_t tid);
/* The text of a probe:name; NULL: not known. */
const char *process_name_of(const struct process *process, uint64_t name_id);

#define LIST_ADD(a, array, ...)                \
    do {                                       \
        if (array_add(array, __VA_ARGS__) < 0) \
            (a)->failed = true;                \
    } while (0)

/* samples.c */
void samples_event(struct analysis *a, const struct event *e);

/* request.c */
struct request *request_get(const struct analysis *a, uint64_t serial); /* also a finished one that is kept */
struct request *request_open(const struct analysis *a, uint64_t serial); /* not one that is finished */
struct request *request_new(struct analysis *a, struct thread *thread, uint64_t start_ns, uint8_t method,
                            const char *path, size_t path_length);

/* A copy of what a verdict needs of a request that lost delay_ns. Its path is the caller's to free; NULL
 * without memory. */
struct victim request_victim(const struct request *request, uint64_t delay_ns, enum victim_role role);

struct request *request_ref(struct request *request);
void request_unref(struct analysis *a, struct request *request);
uint32_t request_add_span(struct analysis *a, struct request *request, const struct vspan *span);
/* Its latency without what its loop's thread waited for a CPU meanwhile, where the kernel reported it. */
uint64_t request_net_latency_ns(const struct process *process, const struct request *request);
void request_finish(struct analysis *a, struct request *request, enum request_state state, uint64_t end_ns);
void requests_settle(struct analysis *a, struct thread *thread); /* finishes those answered in the turn */
bool endpoint_is_new(const struct analysis *a, const struct request *request); /* none was answered yet */
const char *route_of(struct analysis *a, const char *path);
const char *method_name(uint8_t method);
void keeper_done(struct analysis *a, struct keeper *keeper);

/* routes.c: endpoints of endpoint_list that differ in somebody's value become one. */
void routes_fold(struct analysis *a);
/* Of an endpoint, the route that it became one with by the last analysis_endpoints(), or its own. */
const char *route_folded(const struct analysis *a, const char *service, const char *method,
                         const char *route);
void routes_forget(struct analysis *a);

/* connection.c */
extern const struct event_reading CONNECTION_EVENTS[];
bool connection_is_pipe(const struct connection *connection); /* or a UNIX socket; NULL is none */
struct connection *connection_get(const struct process *process, int32_t fd, uint32_t generation);
/* Bytes came on a connection of which it is not known what it speaks: the answer that a request waited for
 * (asked), or by themselves. */
void peer_spoke(struct analysis *a, struct connection *connection, bool asked);
/* It has turned out to be a broker. */
void peer_speaks(struct analysis *a, const struct connection *connection);
/* Of a peer at an address (interned), on the connections that requests use: whether it speaks by itself
 * nearly as often as it answers. Then what comes need not be an answer to what was sent before. */
bool peer_speaks_unasked(const struct analysis *a, const char *address);
/* Requests are received on it: who calls its address calls this process. */
void connection_serves(struct analysis *a, const struct connection *connection);
/* The traced process that answers at an address ("127.0.0.1:80", interned); NULL: none. */
const struct process *process_serving(const struct analysis *a, const char *address);
/* Whether both ends of a connection to that address (interned) are the process's own. */
bool peer_is_itself(const struct process *process, const char *peer);
struct connection *connection_need(struct analysis *a, struct process *process, int32_t fd,
                                   uint32_t generation, uint64_t now_ns);
void connection_close(struct analysis *a, struct connection *connection);
/* "127.0.0.1:80", interned. */
const char *address_name(struct analysis *a, const struct address *address);
void connection_free(struct analysis *a, struct connection *connection);
struct call *call_add(struct analysis *a, struct connection *connection, const struct call *call,
                      uint64_t *ret_index);
struct call *call_at(struct connection *connection, uint64_t index);
size_t calls_open(const struct connection *connection);
/* The other side has executed it. */
void call_worked(struct analysis *a, struct call *call);
/* Its span in the owner's tree; NULL: it has none, or that request has ended. */
struct vspan *call_span(const struct analysis *a, const struct call *call);
/* The answer begins to be read. */
void call_answered(const struct analysis *a, struct call *call, uint16_t status);
/* The answer is there, at the other side. */
void call_ready(struct analysis *a, struct call *call, uint64_t ready_ns);
/* A call ends: its span is closed. The oldest are taken from the list. */
void call_finish(struct analysis *a, struct connection *connection, struct call *call, uint64_t end_ns);
void call_finish_first(struct analysis *a, struct connection *connection, uint64_t end_ns);
/* Gives a call without an owner to a request, once that is known: because the callback which brought its
 * answer answered the request, or by what followed on its connection. call_claim_ended() does this with a
 * copy of a call that has ended, at end_ns. */
void call_claim(struct analysis *a, struct call *call, struct request *owner);
void call_claim_ended(struct analysis *a, struct call *call, struct request *owner, uint64_t end_ns);
/* Whose it is: adds its span to the owner's tree. */
void call_settle(struct analysis *a, struct call *call, struct request *owner, enum known known,
                 uint32_t parent);
/* The request's answer was written in a callback that brought the answer of a call which is not known to be
 * its own: another request's, that made it for several or held what this one waited for, or one of nobody who
 * is known. Whosever it was, until then the request waited for that answer: a span says so (shared), which
 * begins no sooner than the request was last seen to do something else. */
void call_waited_for(struct analysis *a, struct request *request);

/* context.c */
enum { CONTEXT_UNKNOWN, CONTEXT_NONE };
void context_begins(struct analysis *a, struct thread *thread, struct request *request, uint32_t number);
void context_ends(struct thread *thread, const struct request *request);
struct request *context_owner(const struct analysis *a, const struct thread *thread, uint32_t number);
extern const struct event_reading CONTEXT_EVENTS[];
void context_counted(struct analysis *a, struct process *process);
/* A request went on in a turn that began at turn_start_ns and brought these answers. */
void context_check(struct analysis *a, struct process *process, const struct call *answers, size_t count,
                   const struct request *went_on, uint64_t turn_start_ns);
/* All is read: what rests on numbers that were contradicted is ambiguous. */
void contexts_judge(struct analysis *a);
/* The same, for the counts only. */
void contexts_doubt(struct analysis *a);

/* below.c: the kernel layer below a span. */
struct kept_calls *below_keep(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
void below_pool(struct analysis *a, struct pool_op *op, struct request *owner);
void below_callback(struct analysis *a, const struct thread *thread, struct request *owner, uint32_t span,
                    uint64_t start_ns, uint64_t end_ns);
void below_times(const struct thread *thread, struct vspan *span);

/* reading.c: a new item of the turn that the thread is in. The items within a span are already there. NULL
 * without memory. */
struct item *turn_item(struct analysis *a, struct thread *thread, uint16_t event, uint64_t start_ns,
                       uint64_t end_ns);

/* critical.c: after the request has ended; its own operations' requests in other services have theirs
 * already. */
void critical_find(struct analysis *a, struct request *request, const struct thread *thread);

/* attl.c: an operation has ended. service is interned. Returns how many times the middle of those before it
 * took, 0 when that is nothing unusual. */
float attl_add(struct analysis *a, const char *service, const struct vspan *span);
const struct attl *attl_of(const struct analysis *a, const char *service, const char *name);
void attl_free(struct analysis *a);

/* Whose work an async id is: serial and how it is known. */
static inline uint64_t async_pack(uint64_t serial, enum known known)
{
    return serial << 2 | (uint64_t)known;
}
static inline uint64_t async_serial(uint64_t packed)
{
    return packed >> 2;
}
static inline enum known async_known(uint64_t packed)
{
    return packed & 3;
}

/* A field of the event, 0 when this trace does not have it. */
#define U(e, field)   ((e)->present >> FIELD_##field & 1 ? (e)->values[FIELD_##field].u : 0)
#define I(e, field)   ((e)->present >> FIELD_##field & 1 ? (e)->values[FIELD_##field].i : 0)
#define HAS(e, field) ((e)->present >> FIELD_##field & 1)

static inline uint64_t event_duration(const struct event *e)
{
    uint64_t d = e->present & 1 ? e->values[FIELD_DURATION].u : 0;
    return d < e->time_ns ? d : e->time_ns;
}

#endif
