/* What the passes share: the processes, threads, connections and operations that are alive now. Private to
 * this folder.
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
    uint8_t told;        /* a context's number says whose it is, and nothing else does */
    uint8_t message;     /* of a WebSocket connection */
    uint8_t ended;       /* it has its end, and waits for those before it to be taken from the list */
    uint8_t after_other; /* http: sent in the turn that ended another call on this connection */
    uint16_t status;
    uint32_t span;   /* in the owner's tree; VSPAN_NONE when it has none */
    uint64_t owner;  /* serial of the request that it belongs to */
    uint64_t number; /* redis: of the command on this connection, from 1; 0 unknown */
    uint64_t sent_ns;
    uint64_t work_start_ns, work_end_ns; /* redis: executing */
    uint64_t ready_ns;                   /* when the answer was given by the other side */
    uint64_t written_bytes, argument_bytes, client_id;
    uint32_t write_messages;
    int64_t peer_pid, peer_tid;
    const char *name, *peer; /* peer: its address */
    struct request *child;   /* http: a reference */
};

/* A command that a server has executed. The record of its sending may come later: the sender writes that down
 * after the write, when the server may already be done. */
struct executed_command {
    uint64_t number, start_ns, end_ns, ready_ns, client_id, argument_bytes;
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
    const struct protocol *protocol; /* NULL: nothing tells it; see connection_protocol() */
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
    ARRAY(struct executed_command) early; /* redis */
    uint64_t current; /* the newest request read: what the parser's next callbacks are about */
    uint64_t bytes_written, last_write_ns;
    uint64_t response_needs; /* bytes_written at which the response is complete; UINT64_MAX unknown */
    uint8_t responding;
    uint8_t had_io;    /* a turn on it was read */
    size_t answering;  /* calls that the turn which is read now brings the answers of */
    uint8_t pipelined; /* calls of two requests waited on it at a time */
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
    uint8_t told;          /* known from a context's number, and from nothing else */
    uint8_t waited_behind; /* the thread that ran it had just ended other work */
};

/* A finished run on a pool thread, for the question who held the pool. */
struct pool_run {
    uint64_t start_ns, end_ns;
    int64_t tid;
    const char *type, *route;
    uint8_t kind;
};
enum { POOL_RUNS_KEPT = 256, SEVERAL_SUBMITTERS = 1 };

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
        uint64_t id;   /* async id, request serial, number of the first call; js:measure: its end */
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

/* One answer of the stall sampler, with how often it was given. */
struct look {
    uint64_t since_ns, first_ns, last_ns, run_ns;
    uint32_t count, line, column;
    uint8_t cause;
    uint8_t loading; /* the stack was loading a module */
    uint8_t stood;   /* it had no processor, or got it back for the look, and stood in a system call */
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

/* A long stretch that is a fault unless the machine's load explains it; that is known at the next
 * thread:sched.
 */
struct stretch {
    uint8_t what; /* enum stretch_kind */
    uint8_t phase, unfinished;
    uint8_t starting;   /* the main script */
    uint8_t many_calls; /* so many synchronous ones that modules may have been loaded */
    uint8_t first;      /* the first request of its endpoint, or the process's first work */
    uint64_t start_ns, end_ns;
    uint64_t gc_ns, sync_ns, encode_ns;
    uint8_t sync_kind, encode_what;
    const char *callback; /* type of the longest callback in it */
    const char *route;    /* "GET /x" whose callback it was; NULL */
    ARRAY(struct look) looks;
    ARRAY(struct victim) victims;
    /* redis */
    const char *command, *inner;
    const char *caller; /* service that sent it; NULL unknown */
    uint64_t client_id, argument_bytes, inner_calls, queued_commands, queued_ns;
    uint64_t culprit; /* serial of the request that sent it; 0 unknown */
    int64_t arguments;
    /* pool: the operation that waited, and the work that held the pool most of that time */
    const char *waiting_kind, *occupant_type, *occupant_route;
    uint64_t run_ns, occupant_run_ns;
    double occupant_share;
    uint8_t occupant_kind;
    uint32_t pool_threads;
};
enum stretch_kind { STRETCH_TURN, STRETCH_COMMAND, STRETCH_POOL };

/* ---- what loops and collectors did over time (loop.c, gc.c, encode.c) ---- */

struct loop_bin {
    uint64_t active_ns, longest_ns, late_ns;
    uint64_t gc_ns, between_ns, heap_bytes, encode_ns;
    uint64_t gc_net_ns;       /* without what the machine took of it; 0 as long as that is not known */
    uint64_t run_ns, wait_ns; /* of the thread: on a processor, ready to run without one */
    /* Sums over the operations that it gave to the thread pool: waiting for a thread, at work, done and
     * waiting for the loop. Divided by the bin's width, the mean number of them. */
    uint64_t pool_queued_ns, pool_running_ns, pool_done_ns;
    uint32_t turns, ticks, collections, majors;
    uint32_t ready, pool; /* at most: callbacks due in one tick; operations in the pool, waiting or at work */
};
enum { LOOP_BINS = 256 };

struct loop_watch {
    uint64_t from_ns, width_ns;
    uint64_t before_ns; /* of turns, what lies before from_ns: the first had begun then */
    uint64_t active_ns, turns, ticks, last_poll_ns, longest_tick_ns, late_timers, worst_late_ns;
    uint64_t callbacks, pool_queued_ns, pool_running_ns,
        pool_done_ns; /* callbacks: of streams, pool, ports */
    uint64_t last_ns;
    uint32_t ready, most_ready, pool, most_pool; /* in this tick; in the pool now */
    struct loop_bin bins[LOOP_BINS];
};

struct gc_major {
    uint64_t end_ns, heap_bytes, time_ns, between_ns;
    uint64_t memory_bytes; /* the least that the process had from then to the next; UINT64_MAX: not known */
    uint64_t before_bytes;
};
struct gc_recent {
    uint64_t start_ns, end_ns;
};
enum { GC_RECENT = 128 };

struct gc_watch {
    uint64_t count[2], collecting_ns[2]; /* minor, major */
    uint64_t time_ns, between_ns, last_end_ns, longest_ns, heap_bytes, freed_bytes;
    uint64_t memory_bytes;         /* of the process, as last told; 0: not told */
    ARRAY(struct gc_major) majors; /* at most MAJORS_MAX: the older ones thinned out */
    struct gc_recent recent[GC_RECENT];
    size_t recent_count;
    /* Of the newest js:promises; promises 0: they are not counted. */
    uint64_t promises, promises_sampled, promises_collected;
};
enum { PROMISE_SAMPLING = 128 }; /* one of so many is sampled: probe/context.js */

/* GC_LEAK_OUTSIDE: of what is not in the heap, Buffers and the memory of native code. */
enum gc_verdict { GC_HEALTHY, GC_PRESSURE, GC_LEAK, GC_LEAK_OUTSIDE };

/* Turns that are long enough to have kept others waiting. */
struct long_turn {
    uint64_t start_ns, end_ns;
    uint64_t polled_ns; /* when the first poll phase that began after it ended; 0: not yet */
};
enum { LONG_TURNS = 32 };

struct attl {
    const char *service, *name;
    uint8_t kind;
    uint64_t count, worst_ns, gc_ns, gc_hits;
    struct sketch latency, work;
};

struct encode_sum {
    uint64_t count, total_ns, bytes, worst_ns, worst_bytes;
    /* Calls that take long enough to be felt; felt_bytes: the smallest of them. */
    uint64_t felt_count, felt_ns, felt_bytes, from_ns, to_ns;
};
enum { ENCODE_KINDS = 3 };

enum { TYPES_KEPT = 16384 };

struct async_type {
    uint64_t async_id;
    const char *type;
};

/* Where looks into short callbacks saw them. */
enum { SEEN_PLACES = 16 };
struct seen {
    uint64_t looks; /* in all, also of places beyond those kept */
    struct look places[SEEN_PLACES];
};

struct short_turn {
    uint64_t start_ns, end_ns, owner; /* owner: serial */
    bool encodes;                     /* so long that it is felt */
};
enum { SHORT_TURNS = 256, LOOKS_MAX = 64 };

struct thread {
    struct process *process;
    int64_t tid;
    struct activity *activity; /* NULL until the kernel tells of it */
    /* turn.c */
    ARRAY(struct item) items;
    ARRAY(uint32_t) roots;
    struct map contexts; /* number of a request's context -> its serial */
    struct map async;    /* async id -> async_pack() */
    uint64_t newest_id;  /* the highest async id created in a turn that was read */
    const char *last_type;
    uint64_t last_type_ns;
    struct async_type *types; /* TYPES_KEPT of them, by async id modulo: the newest of each; NULL: none */
    ARRAY(uint64_t) answered; /* serials whose response was written in the open turn */
    ARRAY(struct request *) open;
    uint64_t last_turn_end_ns;
    /* stretch.c */
    struct sched_sample sched[SCHED_KEPT];
    size_t sched_count; /* ever; the last SCHED_KEPT are kept */
    uint64_t active_ns; /* since the last sample */
    ARRAY(struct look) looks;
    ARRAY(struct stretch *) stretches; /* not judged yet */
    struct stretch *last_stretch;      /* still collecting who waited for it; in stretches */
    uint32_t polls_since_stretch;      /* poll phases that ended since last_stretch did */
    uint64_t pool_busy_until_ns;       /* pool thread: end of its last run */
    struct loop_watch *loop;           /* NULL until its loop ran */
    struct gc_watch *gc;               /* NULL until it collected */
    struct long_turn long_turns[LONG_TURNS];
    size_t long_turn_count;         /* ever; the last LONG_TURNS are kept */
    struct short_turn *short_turns; /* SHORT_TURNS of them; NULL: none */
    size_t short_turn_count;        /* ever */
    struct map function_calls;      /* call of a chosen function -> struct pending_call * */
    uint8_t runs_pool, runs_loop;
    uint8_t serves;     /* requests were received on it */
    uint8_t had_phase;  /* of its loop, one that ended */
    uint8_t unfinished; /* its last turn had not ended when the trace or the process did */
    uint64_t finish_ns; /* when that was */
};

/* The calls of a chosen function (function.c). */
struct function_sum {
    const char *name;
    uint64_t count, threw, rejected, not_awaited, pending; /* pending: their promise is not settled */
    uint64_t total_ns, worst_ns, self_ns; /* self: on the loop, without others called by it */
    struct sketch took, self;
};

struct pending_call {
    uint64_t start_ns, end_ns, owner; /* end_ns: when it returned; owner: serial */
    uint32_t span, sum;               /* in the owner's tree; index into the process's functions */
};

/* What was asked for with --function. */
struct chosen_function {
    const char *asked, *words; /* words: where it was found, or what looks like it */
    uint32_t places;
    uint8_t state; /* as js:chosen's */
};

struct inner_command {
    const char *name;
    uint64_t calls, time_ns;
};

struct process {
    int64_t pid, parent;             /* parent: its pid, 0 unknown */
    const char *service;             /* interned */
    const struct analyzer *analyzer; /* its target's; NULL: of none */
    uint8_t runtime;                 /* enum sonde_runtime */
    uint8_t gone;
    uint8_t has_waits;       /* its threads' times off a processor are told */
    uint8_t has_calls;       /* and each of their system calls */
    uint64_t waits_since_ns; /* times before that are not complete */
    uint64_t started_ns, ended_ns;
    uint64_t request_count, answered_count, first_request_ns, last_request_ns;
    uint64_t latency_ns;       /* of all its requests together, without what the machine took of it */
    uint64_t active_before_ns; /* of its loops, before the first request */
    uint64_t told_count;       /* operations that a context's number alone proves */
    uint64_t handovers;        /* turns that contradict the numbers */
    struct map endpoints;      /* hash of (method, route) of what it has answered */
    struct map names;          /* probe:name id -> interned const char * */
    struct map threads;        /* tid -> struct thread * */
    struct map connections;    /* fd << 32 | generation -> struct connection * */
    struct map clients;        /* redis client id -> struct connection * */
    ARRAY(struct channel *) channels;
    struct map sessions;    /* http2: its key -> struct connection * */
    uint32_t session_count; /* ever */
    struct map pool;        /* request pointer -> struct pool_op * */
    uint32_t pool_threads;
    uint32_t connecting;     /* connects that were asked for and whose descriptor has not shown itself */
    struct map server_ports; /* local ports of connections on which requests were received */
    struct map submitters;   /* resource type -> the endpoint known to submit it, or SEVERAL_SUBMITTERS */
    struct pool_run runs[POOL_RUNS_KEPT];
    size_t run_count;
    ARRAY(struct inner_command) inner;
    uint64_t file_reads, file_read_ns; /* of the pool and the synchronous API, at work */
    struct encode_sum *encode;         /* ENCODE_KINDS of them, by what; NULL: none */
    uint64_t encode_turns_ns;          /* turns in which encoding was felt, without collections */
    struct seen *encode_seen;          /* looks into those; NULL: none */
    struct connects *connects;         /* failure.c; NULL: none was seen */
    int exit_status;                   /* as wait() has it; -1: not known, or it runs */
    ARRAY(struct function_sum) functions;
    ARRAY(struct chosen_function) chosen;
};

/* ---- the analysis ---- */

struct keeper {
    ARRAY(struct request *) at; /* slowest first, references */
};

struct kept_endpoint {
    struct endpoint endpoint;
    struct keeper slowest;
};

struct open_span {
    uint64_t since_ns, argument;
    int64_t pid, tid;
    uint32_t event, name;
    uint8_t depth;
};

/* Faults of one place, merged: what a finding is written from. */
struct fault {
    enum finding_kind kind;
    const char *service;
    int64_t pid, tid;
    struct look place; /* of the worst: cause, function, script, line, column, detail; strings may be NULL */
    const char *callback, *route;
    uint64_t count, total_ns, worst_ns, net_ns, run_queue_ns, gc_ns, looks, looks_agree, from_ns, to_ns;
    uint64_t cost_ns; /* lost by the requests on the spot; those upstream lost the same time */
    bool unfinished, phase_differs, others_unknown, warming;
    /* pools of connections or workers: how many there are, and who had them */
    uint32_t lanes;
    struct holder {
        const char *route; /* NULL: not known */
        uint64_t total_ns, worst_ns;
    } holders[8];
    uint64_t open_ns, closed_ns; /* stalls: the longest that had not ended with the trace, and that had */
    bool worker;   /* of a thread that serves no requests: it keeps nobody but those who wait for its work */
    bool unjoined; /* slow-peer: what the traced peer did is not known */
    bool later;    /* not only in first requests of endpoints, which may be slow once, unless looks agree */
    bool encodes;  /* a stall most of which was encoding */
    struct seen *seen; /* many short callbacks: where they were seen; place follows from it; else NULL */
    bool absorbed;     /* another fault tells of it */
    uint8_t phase, sync_kind;
    const char
        *apart; /* a call that its stretches consist of, told apart from others of its function; "" none */
    ARRAY(struct victim) victims;
    struct map victim_of; /* serial -> index into victims */
    uint64_t victims_left_out;
    /* redis */
    const char *command, *inner, *caller; /* slow-peer, slow-io: what; slow-peer: caller is the traced peer */
    const char *asked;                    /* slow-peer: the call, when command is an address */
    uint64_t client_id, argument_bytes, inner_calls, queued_commands, queued_ns;
    struct map clients;
    int64_t arguments;
    /* pool */
    const char *occupant_type, *occupant_route;
    const struct process *process;
    uint8_t occupant_kind;
    uint32_t pool_threads;
    uint64_t run_ns, occupant_run_ns;
    double occupant_share_sum;
    /* failure.c: attempts in all, of them failed, the most for one request; the answer's status, or how the
     * process ended */
    uint64_t attempts, failed, most_attempts;
    int status;
    struct {
        const char *kind;
        uint64_t count;
    } waiting[8];
};

enum { MACHINE_STALLS = 64, ANALYZERS_MAX = 16 };

struct machine_stall {
    uint64_t start_ns, end_ns;
};

struct analysis {
    struct analyze_options options;
    event_reader *readers[SONDE_EVENT_COUNT]; /* by event; NULL: nobody reads it */
    const struct analyzer *const *analyzers;  /* in the order in which they are asked; ends with NULL */
    const struct analyzer *order[ANALYZERS_MAX];
    const struct protocol *const *protocols; /* PROTOCOLS; ends with NULL */
    struct analysis_counts counts;
    bool failed;        /* memory ran out */
    bool requests_only; /* at least for a time nothing but requests was recorded */
    bool over;          /* the programs' own events are incomplete from here on: nothing more is concluded */
    struct arena arena;
    struct map interned;  /* hash -> const char * */
    struct map processes; /* pid -> struct process * */
    ARRAY(struct process *) all_processes;
    struct map requests;    /* serial -> struct request * */
    struct map tuples;      /* hash of (local, peer) -> struct connection * */
    struct map endpoint_of; /* hash -> index */
    ARRAY(struct kept_endpoint) endpoints;
    ARRAY(struct endpoint)
    endpoint_list;                 /* for the caller, sorted; their sketches are endpoints' or folded's */
    ARRAY(struct endpoint) folded; /* several endpoints that are one (routes.c) */
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
    struct map faults;  /* hash of the key -> struct fault * */
    struct map served; /* interned "address:port" on which a traced process answers -> its struct process * */
    struct map stacks; /* hash of a look's stack -> struct look_stack * */
    struct map source_maps; /* interned script -> struct source_map *, 0: it has none */
    ARRAY(struct fault *) fault_list;
    struct {
        uint64_t count[16];
    } losses; /* by loss_reason */
    uint64_t sched_events;
    struct profile *samples; /* of a profile that was taken meanwhile; NULL: none. samples.c */
    size_t samples_sorted;   /* how many, from the first */
    /* Times in which the machine stood still (machine:stall), the newest at stall_count - 1, modulo
     * MACHINE_STALLS. */
    struct machine_stall stalls[MACHINE_STALLS];
    size_t stall_count;
};

/* process.c. A string that lives as long as the analysis; equal strings have equal addresses. */
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
/* Its latency without what its loop's thread waited for a processor meanwhile, where the kernel told. */
uint64_t request_net_latency_ns(const struct process *process, const struct request *request);
void request_finish(struct analysis *a, struct request *request, enum request_state state, uint64_t end_ns);
void requests_settle(struct analysis *a, struct thread *thread); /* finishes those answered in the turn */
bool endpoint_is_new(const struct analysis *a, const struct request *request); /* none was answered yet */
const char *route_of(struct analysis *a, const char *path);
const char *method_name(uint8_t method);
void keeper_done(struct analysis *a, struct keeper *keeper);

/* routes.c: endpoints of endpoint_list that differ in somebody's value become one. */
void routes_fold(struct analysis *a);
void routes_forget(struct analysis *a);

/* connection.c */
extern const struct event_reading CONNECTION_EVENTS[];
bool connection_is_pipe(const struct connection *connection); /* or a UNIX socket; NULL is none */
struct connection *connection_get(const struct process *process, int32_t fd, uint32_t generation);
/* Requests are received on it: who calls its address calls this process. */
void connection_serves(struct analysis *a, const struct connection *connection);
/* The traced process that answers at an address ("127.0.0.1:80", interned); NULL: none. */
const struct process *process_serving(const struct analysis *a, const char *address);
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
/* Whose it was, found when it ended: the callback that it continued in answered this request. */
void call_claim(struct analysis *a, struct call *call, struct request *owner);
/* Whose it is: adds its span to the owner's tree. */
void call_settle(struct analysis *a, struct call *call, struct request *owner, enum known known,
                 uint32_t parent);

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

/* pool.c */
void pool_event(struct analysis *a, struct thread *thread, const struct event *e);
void pool_done(struct analysis *a, struct thread *thread, struct pool_op *op, uint64_t done_ns);
void pool_op_free(struct pool_op *op);

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

/* turn.c */
void turn_event(struct analysis *a, struct thread *thread, const struct event *e);
void turn_flush(struct analysis *a, struct thread *thread);
void turn_finish(struct analysis *a, struct thread *thread, uint64_t now_ns);

/* node.c: reads one turn, a complete tree. */
void node_read_turn(struct analysis *a, struct thread *thread, uint32_t root, uint8_t phase);

/* function.c */
void function_chosen(struct analysis *a, struct thread *thread, const struct event *e);
int functions_report(struct analysis *a, struct report *report); /* those that were asked for and not seen */
void functions_free(struct thread *thread);
void function_sums_free(struct process *process);

/* loop.c */
struct loop_bin *loop_bin_at(struct analysis *a, struct thread *thread, uint64_t at_ns);
void loop_turn(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns);
/* A poll phase: a turn of the loop as a whole. timeout_ms: how long it was willing to wait. */
void loop_tick(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns,
               int32_t timeout_ms);

/* It has polled: what had come during the long turns before it is read. */
void loop_polled(struct thread *thread, uint64_t start_ns, uint64_t end_ns);
/* Something that was ready when the loop polled is handled. */
void loop_callback(struct analysis *a, struct thread *thread, uint64_t at_ns);
/* The queue of the thread pool: an operation that this loop gave it is there, has run, has come back. */
void loop_submitted(struct analysis *a, struct thread *thread, uint64_t at_ns);
void loop_ran(struct thread *thread);
/* The kernel's account of the loop's thread. */
void loop_scheduled(struct analysis *a, struct thread *thread, uint64_t now_ns, uint64_t run_ns,
                    uint64_t wait_ns);
void loop_completed(struct analysis *a, struct thread *thread, const struct pool_op *op, uint64_t done_ns);

/* gc.c */
void gc_collected(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns, uint8_t type,
                  uint64_t heap_before, uint64_t heap_after);
void gc_memory(struct analysis *a, struct thread *none, const struct event *e);
uint64_t gc_overlap_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
void gc_request_done(struct analysis *a, struct process *process, const struct request *request);
/* ret_ran: of the time in which collecting weighed, the share for which the machine had processors. */
enum gc_verdict gc_judge(const struct thread *thread, uint64_t end_ns, double *ret_ran);
/* The major collections since there are requests, or all where there are none. */
const struct gc_major *gc_majors_serving(const struct thread *thread, size_t *ret_count);
/* By the clock, since there are requests: in collections, and what the loop was at work. */
void gc_serving(const struct thread *thread, uint64_t *ret_gc_ns, uint64_t *ret_active_ns);
void gc_balance(const struct gc_watch *g, uint64_t *ret_in_ns, uint64_t *ret_between_ns);
void gc_promises(struct analysis *a, struct thread *thread, const struct event *e);
/* About how many promises are still in memory; false: too few were sampled to say. */
bool gc_promises_alive(const struct gc_watch *g, uint64_t *ret_alive);
json_t *gc_json(const struct thread *thread);
void gc_free(struct gc_watch *gc);

/* critical.c: after the request has ended; its own operations' requests in other services have theirs
 * already. */
void critical_find(struct analysis *a, struct request *request, const struct thread *thread);

/* slow.c: whom the request waited for on its path. */
void slow_request_done(struct analysis *a, const struct process *process, struct request *request);

/* port.c */
void port_posted(struct analysis *a, struct thread *thread, const struct event *e);
void port_owned(struct analysis *a, struct channel *channel, uint64_t number, struct request *owner,
                enum known known, uint32_t parent);
void port_received(struct analysis *a, struct thread *thread, const struct event *e);
/* Its last answer was this request's; the span's index. */
uint32_t port_claim(struct analysis *a, struct channel *channel, struct request *owner);
void ports_stalled(struct analysis *a, const struct thread *thread, struct stretch *stretch);
/* Adds an object for each message port that was posted to. */
void ports_json(const struct analysis *a, json_t *array);
void channels_free(struct process *process);

/* attl.c: an operation has ended. service is interned. Returns how many times the middle of those before it
 * took, 0 when that is nothing unusual. */
float attl_add(struct analysis *a, const char *service, const struct vspan *span);
const struct attl *attl_of(const struct analysis *a, const char *service, const char *name);
void attl_free(struct analysis *a);

/* encode.c */
void encode_done(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns, uint8_t what,
                 uint64_t bytes);
/* The first request: what was encoded before is no request's time. */
void encode_serves(struct process *process);
/* A turn in which encoding took encode_ns; looks: of it. Returns whether it was felt. */
bool encode_turn(struct process *process, uint64_t took_ns, uint64_t encode_ns);
/* A function that encodes, too. */
bool encode_around(const struct process *process, const struct look *place);
const struct look *encode_place(const struct process *process);
/* Of the time of those turns, what the functions that encode took, whatever else they did to it (copying
 * bytes into arrays); 0 when too few looks tell. */
uint64_t encode_seen_ns(const struct process *process);
void encode_request_done(struct analysis *a, struct process *process, const struct request *request);
struct fault *encode_fault(struct analysis *a, const struct process *process);
void encode_total(const struct process *process, struct encode_sum *ret_all, uint8_t *ret_most);

/* faults/analyzer.c */
extern const struct analyzer analyzer_faults, analyzer_failures;

/* stretch.c */
extern const struct event_reading STRETCH_EVENTS[];
extern const struct event_reading FAILURE_EVENTS[];
/* Of the time that its threads were ready to run, the part in which they did: on a busy machine what they
 * wait for takes long because nobody has a processor. */
double process_ran_share(const struct process *process);
void stretch_active(struct thread *thread, uint64_t start_ns, uint64_t end_ns);
/* A turn that took too long: who waited for it, and what the sampler saw. culprit is the request whose turn
 * it was, 0 unknown. */
struct stretch *stretch_turn(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns,
                             uint64_t culprit);
struct stretch *stretch_new(struct analysis *a, struct thread *thread, enum stretch_kind what,
                            uint64_t start_ns, uint64_t end_ns);
void stretch_victim(struct analysis *a, struct stretch *stretch, const struct request *request,
                    uint64_t delay_ns, enum victim_role role);
/* The victim and the requests that wait for it in other services. */
void stretch_victim_chain(struct analysis *a, struct stretch *stretch, const struct request *request,
                          uint64_t delay_ns, enum victim_role role);
void stretches_judge(struct analysis *a, struct thread *thread, uint64_t now_ns, bool finish);
uint64_t stretch_run_queue_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
/* A request read now may have waited in the socket while the loop stood. sent_ns: when its caller sent it, 0
 * unknown. */
void stretch_late_request(struct analysis *a, struct thread *thread, const struct request *request,
                          uint64_t sent_ns, uint64_t opened_ns);
uint64_t request_held_up_ns(const struct request *request, uint64_t start_ns, uint64_t end_ns);
uint64_t stretch_ran_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
uint64_t stretch_cpu_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
/* Where most looks saw it, in short: "regular expression /a+/ in check (services/coupon.js:14:27)"; NULL when
 * nobody looked. Interned. */
const char *stretch_place(struct analysis *a, const struct stretch *stretch);
void stretch_free(struct stretch *stretch);

/* place.c: the function that nearly all looks have in common, its line and what it called. false: their
 * stacks are not known. */
bool place_common(struct analysis *a, const struct look *looks, size_t count, struct look *ret_place);

/* Whether it was seen in what turns data into text, or back. */
bool look_encodes(const struct look *place);

/* lanes.c: what used a connection until now; the waits of a request for a connection of a few. */
void lane_used(struct analysis *a, struct connection *c, const struct call *call, uint64_t end_ns);
/* The last task of a channel to a worker, whose it was: serial, 0 not known yet. */
void lane_worked(struct analysis *a, struct channel *channel, uint64_t owner);
bool is_thread_message(const struct vspan *span);
/* The address all of whose connections were busy in [from, to), and how many there are; NULL: there is none.
 */
const char *lanes_busy_peer(const struct process *process, uint64_t from_ns, uint64_t to_ns,
                            uint32_t *ret_count);
void lanes_request_done(struct analysis *a, const struct process *process, struct request *request);

/* failure.c: answers with errors, calls and connects that failed, retries, processes that ended. */
void failure_request_done(struct analysis *a, const struct process *process, struct request *request);
/* A call that was never answered explains a wait of the request. */
bool failure_covers(const struct request *request, uint64_t start_ns, uint64_t end_ns);
/* All is read: connects that no request asked for. */
void failures_judge(struct analysis *a);
void failure_forget(struct process *process);

/* nothing.c: why there are no findings. */
const char *verdict_nothing(struct analysis *a);

/* verdict_failure.c: words for them. */
bool verdict_is_failure(enum finding_kind kind);
bool verdict_failure_matters(const struct fault *fault);
enum finding_severity verdict_failure_severity(const struct fault *fault);
void verdict_failure(struct analysis *a, struct finding *f, const struct fault *fault);

/* unexplained.c */
void unexplained_request_done(struct analysis *a, const struct process *process, struct request *request);

/* short.c: callbacks that are none of them long and take long together. */
void short_turn(struct analysis *a, struct thread *thread, struct request *owner, uint64_t start_ns,
                uint64_t end_ns, uint64_t net_ns, bool encodes);
/* Adds a look to *seen, which is made when it is NULL. */
void seen_add(struct analysis *a, struct seen **seen, const struct look *look);
void short_look(struct analysis *a, struct thread *thread, const struct look *look);
void short_request_done(struct analysis *a, struct process *process, struct request *request);
void shorts_judge(struct analysis *a);

/* fault.c: stretches and waits of the same place, merged. */
struct fault *fault_get(struct analysis *a, enum finding_kind kind, const struct process *process,
                        const char *place);
void fault_add_request(struct analysis *a, struct fault *fault, const struct request *request,
                       uint64_t delay_ns, enum victim_role role);
/* from's victims and costs become to's, which alone is told of. */
void fault_absorb(struct analysis *a, struct fault *to, struct fault *from);
void fault_stretch(struct analysis *a, struct thread *thread, struct stretch *stretch, uint64_t run_queue_ns);
void faults_free(struct analysis *a);

/* verdict.c: words for the faults. */
int verdicts_report(struct analysis *a, struct report *report);
/* A finding's requests, rank, place and link, from its fault. */
int verdict_requests(struct analysis *a, struct finding *f, struct fault *fault);
void verdict_place(struct finding *f, const struct fault *fault, const char *layer);

/* verdict_pool.c: words for pools of connections and workers. */
void verdict_pool(const struct analysis *a, struct finding *f, const struct fault *fault);
/* Words for what is left over (unexplained.c). */
void verdict_unexplained(struct finding *f, const struct fault *fault);

/* targets/node/findings.c */
int node_findings(struct analysis *a, struct report *report);

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
