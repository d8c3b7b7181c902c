/* What the analysis of a Node.js process keeps of its own, and its parts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_STATE_H
#define TARGETS_NODE_STATE_H

#include "faults/faults.h"
#include "model/model.h"

/* ---- what loops and collectors did over time (loop.c, gc.c, encode.c) ---- */

struct loop_bin {
    uint64_t active_ns, longest_ns, late_ns;
    uint64_t gc_ns, between_ns, heap_bytes, encode_ns;
    uint64_t gc_net_ns;       /* without what the machine took of it; 0 as long as that is not known */
    uint64_t run_ns, wait_ns; /* of the thread: on a CPU, ready to run without one */
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
    uint64_t net_ns;    /* active, and not waiting for a CPU */
    uint64_t active_ns, turns, ticks, last_poll_ns, late_timers, worst_late_ns;
    uint64_t ticked_ns, longest_tick_ns; /* active when the last tick ended; see loop_tick() */
    uint64_t callbacks, pool_queued_ns, pool_running_ns,
        pool_done_ns; /* callbacks: of streams, pool, ports */
    uint64_t last_ns;
    uint32_t ready, most_ready, pool, most_pool; /* in this tick; in the pool now */
    struct loop_bin bins[LOOP_BINS];
};

struct gc_major {
    uint64_t end_ns, heap_bytes, time_ns, between_ns;
    uint64_t memory_bytes; /* the least that the process had from then to the next; UINT64_MAX: not known */
    /* What objects hold outside of the heap, likewise, and all that they got there until then. */
    uint64_t external_bytes, external_came_bytes;
    uint64_t before_bytes;
    uint64_t peak_bytes; /* the most that the heap had until then, as far as collections tell */
};
struct gc_recent {
    uint64_t start_ns, end_ns;
};
enum { GC_RECENT = 128 };

struct gc_watch {
    uint64_t count[2], collecting_ns[2]; /* minor, major */
    uint64_t time_ns, between_ns, last_end_ns, longest_ns, heap_bytes, freed_bytes;
    uint64_t memory_bytes;         /* of the process, as last told; 0: not told */
    uint64_t external_came_bytes;  /* as struct gc_major's, so far */
    uint64_t peak_bytes;           /* the most that the heap had before a collection */
    ARRAY(struct gc_major) majors; /* at most MAJORS_MAX: the older ones thinned out */
    struct gc_recent recent[GC_RECENT];
    size_t recent_count;
    /* Of the newest js:promises; promises 0: they are not counted. */
    uint64_t promises, promises_sampled, promises_collected;
};
enum { PROMISE_SAMPLING = 128 }; /* one of so many is sampled: probe/context.js */

/* GC_LEAK_EXTERNAL: of what objects hold outside of the heap (Buffers), as V8 counts it. GC_LEAK_OUTSIDE: of
 * that or the memory of native code, as the process' memory shows. */
enum gc_verdict { GC_HEALTHY, GC_PRESSURE, GC_LEAK, GC_LEAK_EXTERNAL, GC_LEAK_OUTSIDE };

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

/* A finished run on a pool thread, for the question who held the pool (pool.c). */
struct pool_run {
    uint64_t start_ns, end_ns;
    int64_t tid;
    const char *type, *route;
    uint64_t owner; /* serial of the request that it was for; 0 unknown */
    uint8_t kind;
    bool ambiguous; /* for one of several requests */
};
enum { POOL_RUNS_KEPT = 256 };

/* ---- what is kept of a process and of a thread ---- */

struct node_process {
    uint64_t net_before_ns; /* of its loops, before the first request */
    struct map pool;        /* request pointer -> struct pool_op * */
    uint32_t pool_threads;
    struct pool_run runs[POOL_RUNS_KEPT];
    size_t run_count;
    uint64_t file_reads, file_read_ns; /* of the pool and the synchronous API, at work */
    struct encode_sum *encode;         /* ENCODE_KINDS of them, by what; NULL: none */
    uint64_t encode_turns_ns;          /* turns in which encoding was felt, without collections */
    ARRAY(struct function_sum) functions;
    ARRAY(struct chosen_function) chosen;
};

struct node_thread {
    uint64_t newest_id; /* the highest async id created in a turn that was read */
    const char *last_type;
    uint64_t last_type_ns;
    struct async_type *types;    /* TYPES_KEPT of them, by async id modulo: the newest of each; NULL: none */
    uint64_t pool_busy_until_ns; /* pool thread: end of its last run */
    struct loop_watch *loop;     /* NULL until its loop ran */
    struct gc_watch *gc;         /* NULL until it collected */
    struct map function_calls;   /* call of a chosen function -> struct pending_call * */
    uint8_t runs_pool, runs_loop;
    uint8_t had_phase; /* of its loop, one that ended */
    uint64_t kept_ns;  /* until when it is told that it had no CPU between two turns */
};

static inline struct node_process *node_process(const struct process *process)
{
    return process->own[SONDE_runtime_node];
}

static inline struct node_thread *node_thread(const struct thread *thread)
{
    return thread->own[SONDE_runtime_node];
}

/* pool.c */
void pool_event(struct analysis *a, struct thread *thread, const struct event *e);
void pool_done(struct analysis *a, struct thread *thread, struct pool_op *op, uint64_t done_ns);
const char *pool_ambiguous_work(const struct process *process, uint64_t start_ns, uint64_t end_ns);
void pool_op_free(struct pool_op *op);

/* turn.c */
void turn_event(struct analysis *a, struct thread *thread, const struct event *e);
void turn_flush(struct analysis *a, struct thread *thread);
void turn_finish(struct analysis *a, struct thread *thread, uint64_t now_ns);
/* analyzer.is_in: by samples of a callback that no turn has ended since. */
bool turn_is_in(struct analysis *a, const struct thread *thread, struct stretch *s,
                const struct request **ret_owner);

/* node.c: reads one turn, a complete tree. */
/* "GET /users/:id", interned. */
const char *node_endpoint_name(struct analysis *a, const struct request *request);
void node_read_turn(struct analysis *a, struct thread *thread, uint32_t root, uint8_t phase);

/* function.c */
void function_chosen(struct analysis *a, struct thread *thread, const struct event *e);
int functions_report(struct analysis *a, struct report *report); /* those that were asked for and not seen */
void functions_free(struct thread *thread);
void function_sums_free(struct process *process);

/* loop.c */
struct loop_bin *loop_bin_at(struct analysis *a, struct thread *thread, uint64_t at_ns);
/* net_ns: of it, without waits for a CPU. */
void loop_turn(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns,
               uint64_t net_ns);
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
/* external: what objects held outside of the heap when it began, 0: not told. */
void gc_collected(struct analysis *a, struct thread *thread, uint64_t start_ns, uint64_t end_ns, uint8_t type,
                  uint64_t heap_before, uint64_t heap_after, uint64_t external);
void gc_memory(struct analysis *a, struct thread *none, const struct event *e);
uint64_t gc_overlap_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
void gc_request_done(struct analysis *a, struct process *process, const struct request *request);
/* ret_ran: of the time in which collecting weighed, the share for which the machine had CPUs. */
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

/* port.c */
void port_posted(struct analysis *a, struct thread *thread, const struct event *e);
struct context;
void port_owned(struct analysis *a, struct channel *channel, uint64_t number, const struct context *whose);
void port_received(struct analysis *a, struct thread *thread, const struct event *e);
/* Its last answer came where this request alone was answered; the span's index, or VSPAN_NONE. *ret_known:
 * whether that makes it the request's. */
uint32_t port_claim(struct analysis *a, const struct thread *thread, struct channel *channel,
                    struct request *owner, enum known *ret_known);
/* Answers of other threads that this one took without telling, of messages whose owners are not known: the
 * requests', when there are as many. Claims each and returns true, or does nothing. except: a channel whose
 * answer is told of. */
enum { PORT_ANSWERS_MAX = 32 };
bool ports_claim_taken(struct analysis *a, const struct thread *thread, const struct channel *except,
                       uint64_t taken_ns, uint64_t before_ns, struct request **owners, size_t count);
void ports_stalled(struct analysis *a, const struct thread *thread, struct stretch *stretch);
/* Adds an object for each message port that was posted to. */
void ports_json(const struct analysis *a, json_t *array);
void channels_free(struct process *process);

/* encode.c */
/* What encoding in [start_ns, end_ns) took. It only computes: where it waits, that is for the collector's
 * threads, which may lack a CPU, or for memory. */
uint64_t encode_took_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
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

/* targets/node/findings.c */
int node_findings(struct analysis *a, struct report *report);

#endif
