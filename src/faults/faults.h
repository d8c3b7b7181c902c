/* The search for faults: long stretches and waits, the faults that they are merged into, and verdicts in
 * words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULTS_FAULTS_H
#define FAULTS_FAULTS_H

#include "base/clock.h"
#include "model/model.h"

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
    uint64_t apart_ns; /* of it, kept from running by a CPU quota (quota.c) or the hypervisor (machine.c) */
    uint8_t sync_kind, encode_what;
    const char *callback; /* type of the longest callback in it */
    const char *route;    /* "GET /x" whose callback it was; NULL */
    ARRAY(struct look) looks;
    ARRAY(struct victim) victims;
    /* a command that kept others from being executed */
    enum finding_kind kind; /* of the fault that it is */
    const char *command, *inner;
    const char *caller; /* service that sent it; NULL unknown */
    uint64_t client_id, argument_bytes, inner_calls, queued_commands, queued_ns;
    uint64_t culprit;      /* serial of the request that sent it, or whose turn it was; 0 unknown */
    uint32_t culprit_span; /* of a turn: of its longest callback, in that request's tree */
    uint8_t encodes;       /* a turn in which a good part was encoding */
    int64_t arguments;
    /* pool: the operation that waited, and the work that held the pool most of that time */
    const char *waiting_kind, *occupant_type, *occupant_route;
    uint64_t run_ns, occupant_run_ns;
    double occupant_share;
    uint8_t occupant_kind;
    uint32_t pool_threads;
    uint64_t waiter;   /* serial of the request whose operation it was, if its waits are added up; 0: not */
    uint64_t alone_ns; /* of it, what is added */
    uint64_t again_ns; /* of it, what was in an earlier wait of that request */
};
/* Of a stretch: not in a phase of the loop that is known. */
enum { PHASE_UNKNOWN = 255 };
enum stretch_kind { STRETCH_TURN, STRETCH_COMMAND, STRETCH_POOL };

struct short_turn {
    uint64_t start_ns, end_ns, owner; /* owner: serial */
    const char *method, *route;       /* the owner's; NULL: it is not known */
    bool encodes;                     /* so long that it is felt */
};
enum { SHORT_TURNS = 256 };

/* Faults of one place, merged: what a finding is written from. */
struct fault {
    enum finding_kind kind;
    const char *service;
    int64_t pid, tid;
    struct look place; /* of the worst: cause, function, script, line, column, detail; strings may be NULL */
    const char *callback, *route;
    uint64_t count, total_ns, worst_ns, net_ns, run_queue_ns, gc_ns, looks, looks_agree, from_ns, to_ns;
    uint64_t cost_ns; /* lost by the requests on the spot; those upstream lost the same time */
    /* Requests that arrived while it lasted, at an unknown time, and the most that they can have waited, in
     * total */
    uint64_t late_count, late_most_ns;
    /* slow-peer, connection-pool-starved: of the calls or waits, those that took no longer than a program may
     * need that lacks CPUs as this one did then, on a machine that had none to spare */
    uint64_t excused_count, excused_ns, blamed_worst_ns;
    uint64_t left_ns;     /* consumers-busy: of the waits, while a consumer was between two messages */
    uint64_t idle_cpu_ns; /* run-queue-wait: of it, while another CPU was idle */
    bool unfinished, phase_differs, others_unknown, warming;
    /* pools of connections or workers: how many there are, and who had them */
    uint32_t lanes;
    bool limited; /* it is so many calls at once, on more connections than that */
    struct holder {
        const char *route; /* NULL: not known */
        uint64_t total_ns, worst_ns;
    } holders[8], statements[8]; /* and with which statements, in place of routes */
    /* of jobs: how many their workers do at a time, and what those did while others waited; 0: they are
     * messages */
    uint32_t places;
    struct busy_jobs {
        uint64_t all_ns, loop_ns; /* of the waits, and of it the event loop at work */
        struct holder peers[8];   /* addresses that they had calls to */
    } busy;
    /* stalls: the longest that had not ended with the trace, and that had; without waits for a CPU */
    uint64_t open_ns, closed_ns;
    bool worker;   /* of a thread that serves no requests: it delays only what waits for its work */
    bool unjoined; /* slow-peer: what the traced peer did is not known */
    bool later;    /* not only in first requests of endpoints, which may be slow once, unless samples agree */
    bool encodes;  /* a stall most of which was encoding */
    struct seen *seen; /* many short callbacks: where they were seen; place follows from it; else NULL */
    bool between;      /* ... a function of the application's that goes on between those of packages */
    bool absorbed;     /* another fault tells of it */
    bool proven;       /* a stall: it was the program's own at least once (lock.c) */
    uint8_t phase, sync_kind;
    const char
        *apart; /* a call that its stretches consist of, distinguished from others of its function; "" none */
    ARRAY(struct victim) victims;
    struct map victim_of; /* serial -> index into victims */
    uint64_t victims_left_out;
    /* redis */
    const char *command, *inner, *caller; /* slow-peer, slow-io: what; slow-peer: caller is the traced peer;
                                             unexplained-wait: inner is work for one of several requests */
    const char *asked;                    /* slow-peer: the call, when command is an address */
    uint64_t unnamed, prepared; /* slow-peer: of count, calls of which that is not known; that executed what
                                   was prepared before */
    const char *statement;      /* slow-peer, many-calls: what was asked, of SQL and without values; NULL */
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
     * process ended. tcp-retransmissions: attempts are segments sent again */
    uint64_t attempts, failed, most_attempts;
    int status;
    uint8_t grpc; /* and of a gRPC call its own status, and 1; 0: of none */
    struct {
        const char *kind;
        uint64_t count;
    } waiting[8];
};

/* slow.c: whom the request waited for on its path. */
void slow_request_done(struct analysis *a, const struct process *process, struct request *request);
/* machine.c: whether an address is of this machine; NULL: no. */
bool machine_is_local(const char *address);
/* What is counted of a peer's answers, or of the waits in front of it, for an endpoint (struct analysis:
 * peer_answers); NULL: there is no room for more. peer, asked, route: compared as pointers. */
uint64_t *machine_answers(struct analysis *a, const struct process *process, const char *peer,
                          const char *asked, const char *route);
/* Whether a peer on this machine that is not traced may have kept a request waiting in [start, end) because
 * it lacked a CPU, late_ns longer than is quick. answers: machine_answers() of it, or NULL. */
bool machine_lacked_cpu(const struct analysis *a, const struct process *process, const char *peer,
                        const uint64_t *answers, double most, uint64_t start_ns, uint64_t end_ns,
                        uint64_t late_ns);
/* Of [start, end), for how long the thread of an event loop was at work or had no CPU to be. */
uint64_t loop_busy_ns(const struct process *process, int64_t tid, uint64_t start_ns, uint64_t end_ns);

/* faults/analyzer.c */
extern const struct analyzer analyzer_faults, analyzer_failures, analyzer_quotas, analyzer_machine;

extern const struct event_reading STRETCH_EVENTS[];
extern const struct event_reading FAILURE_EVENTS[];
extern const struct event_reading QUOTA_EVENTS[];
extern const struct event_reading MACHINE_EVENTS[];

/* sched.c */
/* Of the time that its threads were ready to run, the part in which they did: on a busy machine what they
 * wait for takes long because none of them has a CPU. */
double process_ran_share(const struct process *process);
void stretch_active(struct thread *thread, uint64_t start_ns, uint64_t end_ns);
uint64_t stretch_run_queue_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
uint64_t stretch_ran_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
uint64_t stretch_cpu_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);
uint64_t stretch_open_cpu_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);

/* stretch.c */
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
/* The same in a report of what was read so far: copies of them are judged, and with open also the callback
 * that the thread is in. */
void stretches_so_far(struct analysis *a, struct thread *thread, uint64_t now_ns, bool open);
/* A sample of a thread is reported once it has stopped, which it does when its system call has returned, and
 * its frames are named: the turn that it fell into may have ended. Whether it did, and has not been judged.
 */
bool stretch_late_look(struct analysis *a, struct thread *thread, const struct look *look);
/* Says in the culprit's span what the samples saw. */
void stretch_say_place(struct analysis *a, const struct stretch *stretch);
/* A request read now may have waited in the socket while the loop stood. sent_ns: when its caller sent it, 0
 * unknown. */
void stretch_late_request(struct analysis *a, struct thread *thread, const struct request *request,
                          uint64_t sent_ns, uint64_t opened_ns);
uint64_t request_held_up_ns(const struct request *request, uint64_t start_ns, uint64_t end_ns);
/* Where most samples saw it, in short: "regular expression /a+/ in check (services/coupon.js:14:27)"; NULL
 * when no sample was taken. Interned. */
const char *stretch_place(struct analysis *a, const struct stretch *stretch);
void stretch_free(struct stretch *stretch);

/* place.c: the function that nearly all samples have in common, its line and what it called. false: their
 * stacks are not known. */
bool place_common(struct analysis *a, const struct look *looks, size_t count, struct look *ret_place);

/* Whether most samples saw that leaf, a function of native code. */
bool place_has_leaf(const struct look *looks, size_t count, const char *detail);

/* What people call there, by its public name, where one is known; else what the sampler saw of it. NULL: the
 * function's own work, several things, or collections. */
const char *place_called(const struct look *place);

/* Whether it was seen in what turns data into text, or back: in that itself, or in what it does, such as a
 * collection. */
bool look_encodes(const struct look *place);
/* Whether it was seen in a synchronous call. */
bool look_synchronous(const struct look *look);

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
/* Adds for how much of [from, to) the process had calls to which addresses, but one. */
void lanes_add_peers(struct holder peers[8], const struct process *process, const char *but, uint64_t from_ns,
                     uint64_t to_ns);

/* Notes a use of what serves one at a time; serial: whose, 0 unknown. Of [from, to), for how much it was in
 * use, 0 to 1; open_since_ns: since when it is, 0: it is not. Who had it, for a fault. */
void lane_add(struct analysis *a, struct lane **lane, uint64_t serial, uint64_t start_ns, uint64_t end_ns);
double lane_busy_share(const struct lane *lane, uint64_t open_since_ns, uint64_t from_ns, uint64_t to_ns);
void lane_add_holders(struct fault *fault, const struct lane *lane, uint64_t from_ns, uint64_t to_ns);
/* verdict_pool.c: who had them most; share: of all the time that they were held. */
const struct holder *holder_of_most(const struct holder holders[8], double *ret_share);

/* consumers.c: who takes messages from a queue (interned, NULL not known) over a connection; NULL without
 * memory. It takes one, or begins one as a job (message: its sequence); one that it took is dealt with. */
struct consumer;
struct consumer *consumer_of(struct analysis *a, const struct connection *c, const char *queue,
                             uint64_t now_ns);
/* Its connection, if it is of that process and still known. */
const struct connection *consumer_connection(const struct consumer *consumer, int64_t pid);
void consumer_takes(struct consumer *consumer, uint64_t now_ns);
void consumer_begins(struct analysis *a, struct consumer *consumer, int64_t tid, uint64_t message,
                     uint64_t now_ns);
void consumer_is_done(struct analysis *a, struct consumer *consumer, const struct queue_message *m);
void consumers_free(struct analysis *a);
/* Notes why a message waited that the taker takes now, and for how much of that time, when that is because
 * all consumers were busy. Who waited for messages. */
void consumers_judge(struct analysis *a, const struct consumer *taker, struct queue_message *m);
void consumers_request_done(struct analysis *a, struct request *request);

/* lock.c: whether a function waits for a lock, and surely so. Of a stretch in one that was run_queue_ns
 * without a CPU, the time that it lasted because it or another thread of its process had none (collects:
 * it waits for several threads of V8's own, so at least for the one that had none for longest); whether it is
 * the lock's doing at all. */
bool is_lock(const char *function);
bool is_named_lock(const char *function);
uint64_t lock_machine_ns(const struct thread *thread, const struct stretch *s, uint64_t run_queue_ns,
                         bool collects);
bool lock_proven(const struct thread *thread, const struct stretch *s, const struct look *place);

/* quota.c: of a stretch that was run_queue_ns without a CPU, the time that the process's CPU quota is to
 * blame for. Asked once of each stretch. */
uint64_t quota_kept_ns(const struct thread *thread, const struct stretch *stretch, uint64_t run_queue_ns);
void quota_forget(struct process *process);
/* A copy of process->quota, which is not NULL; the caller frees. NULL without memory. */
struct quota_watch *quota_copy(const struct process *process);

/* machine.c: of most_ns in [start, end) that a thread neither ran nor waited in, what the hypervisor kept
 * CPUs from this virtual machine for. */
uint64_t machine_stolen_ns(const struct analysis *a, uint64_t start_ns, uint64_t end_ns, uint64_t most_ns);
/* Whether at all times in [start, end) a CPU was idle, as far as intervals of some 100 ms tell. */
bool machine_had_idle_cpu(const struct analysis *a, uint64_t start_ns, uint64_t end_ns);
/* Whether no CPU was idle for a quarter of [start_ns, end_ns), as far as it is known; false: nothing is. */
bool machine_was_full(const struct analysis *a, uint64_t start_ns, uint64_t end_ns);

/* failure.c: answers with errors, calls and connects that failed, retries, processes that ended. */
void failure_request_done(struct analysis *a, const struct process *process, struct request *request);
/* A call that was never answered explains a wait of the request. */
bool failure_covers(const struct request *request, uint64_t start_ns, uint64_t end_ns);
/* All is read: connects that no request asked for. */
void failures_judge(struct analysis *a);
void failure_forget(struct process *process);

/* What targets whose requests or commands are judged say for `unasked` (model/analyzer.h). */
#define NOTHING_WAS_ASKED                                                                        \
    "The traced processes served no HTTP request and executed no Redis command while they were " \
    "recorded: put some load on them."

/* nothing.c: why there are no findings. */
const char *verdict_nothing(struct analysis *a);

/* verdict_failure.c: "UNAVAILABLE (gRPC status 14)", of a status and 1. */
const char *grpc_status_words(uint8_t grpc);
bool verdict_failed_often(const struct fault *fault);
enum finding_severity verdict_failure_severity(const struct fault *fault);

/* many.c: it asked the same peer many times, one after another. */
void many_request_done(struct analysis *a, const struct process *process, struct request *request);

/* unexplained.c */
void unexplained_request_done(struct analysis *a, const struct process *process, struct request *request);

/* short.c: callbacks that are none of them long and take long together. */
void short_turn(struct analysis *a, struct thread *thread, struct request *owner, uint64_t start_ns,
                uint64_t end_ns, uint64_t net_ns, bool encodes);
/* What one has seen is the other's, too. */
void seen_merge(struct seen *to, const struct seen *from);
/* Adds a sample to *seen, which is made when it is NULL. */
void seen_add(struct analysis *a, struct seen **seen, const struct look *look);
void short_look(struct analysis *a, struct thread *thread, const struct look *look);
void short_request_done(struct analysis *a, struct process *process, struct request *request);
/* The request's path is known: whose short callbacks it waited for. */
void short_request_waited(struct analysis *a, const struct process *process, const struct request *request);
void shorts_judge(struct analysis *a);

/* pieces.c: waits of a request for threads of a pool, which may be long together. */
/* Whether a wait of a thread's operation for so long is added up, however short it is by itself. */
bool pieces_count(const struct analysis *a, const struct thread *thread, uint64_t waited_ns);
/* An open request's operation waited in that stretch, which goes to pieces_judged() once it is judged.
 * others: behind operations of others for the most part; it is not added up else. */
void pieces_add(struct analysis *a, struct stretch *stretch, const struct request *request, bool others);
/* net_ns: of the stretch, without waits for a CPU. charged: it is a fault by itself. */
void pieces_judged(struct analysis *a, const struct thread *thread, const struct stretch *stretch,
                   uint64_t net_ns, bool charged);
void pieces_request_done(struct analysis *a, const struct process *process, const struct request *request);
void pieces_free(struct analysis *a);
/* The fault of what held the pool in that stretch, which names it from then on; NULL without memory. */
struct fault *pieces_fault(struct analysis *a, const struct process *process, const struct stretch *stretch);
/* So many more operations of that kind waited. */
void pieces_waited(struct fault *fault, const char *kind, uint64_t count);

/* fold.c: routes that are one endpoint by now are so in faults, and faults that differ in nothing else are
 * one. */
void faults_fold_routes(struct analysis *a);

/* fault.c: stretches and waits of the same place, merged. */
struct fault *fault_get(struct analysis *a, enum finding_kind kind, const struct process *process,
                        const char *place);
void fault_add_request(struct analysis *a, struct fault *fault, const struct request *request,
                       uint64_t delay_ns, enum victim_role role);
/* The same of a request that may be gone; share: how much of its delay is the fault's doing. */
void fault_add_victim(struct analysis *a, struct fault *fault, const struct victim *victim, double share);
/* from's victims and costs become to's, which alone is reported. */
void fault_absorb(struct analysis *a, struct fault *to, struct fault *from);
void fault_stretch(struct analysis *a, struct thread *thread, struct stretch *stretch, uint64_t run_queue_ns);
void fault_free(struct fault *fault);
void faults_free(struct analysis *a);

/* How a fault of a kind is judged and becomes a finding. Of the kinds that more than one target has, the
 * table is in verdicts.c; a target's own are in its analyzer (model/analyzer.h). */
struct verdict {
    enum finding_kind kind;
    enum finding_severity (*severity)(const struct analysis *a, const struct fault *fault);
    void (*say)(struct analysis *a, struct finding *f, const struct fault *fault); /* words and evidence */
    bool (*worth)(const struct fault *fault); /* NULL: when requests suffered, or it was long */
};

/* verdicts.c: from faults to findings. */
/* A warning from what is lost in the limit on; critical while it may never end. */
enum finding_severity verdict_by_cost(const struct fault *fault, uint64_t limit_ns);
int verdicts_report(struct analysis *a, struct report *report);
/* A finding's requests, rank and link, from its fault. */
int verdict_requests(struct analysis *a, struct finding *f, struct fault *fault);

/* "3 times, up to 1.2 s each, 2.9 s in total", as far as there is more to say than the longest; without what
 * the machine had no CPU for. */
const char *verdict_amount(struct finding *f, const struct fault *fault);
/* Title, detail, place, evidence and, where it is not the kind's, remedy of a finding, from its fault.
 * verdict.c: */
void verdict_regexp(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_blocked(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_starved(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_run_queue(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_slow_io(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_many(struct analysis *a, struct finding *f, const struct fault *fault);
/* Bytes were exchanged with a peer that also speaks by itself (peer_speaks_unasked()). */
bool verdict_is_unpaired(const struct analysis *a, const struct fault *fault);
void verdict_slow_peer(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_ipc(struct analysis *a, struct finding *f, const struct fault *fault);
/* verdict_failure.c: */
void verdict_server_errors(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_failed_calls(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_retries(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_exited(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_gave_up(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_retransmissions(struct analysis *a, struct finding *f, const struct fault *fault);
/* verdict_pool.c: pools of connections and of workers, and waits that nothing explains. */
void verdict_pool(struct analysis *a, struct finding *f, const struct fault *fault);
void verdict_unexplained(struct analysis *a, struct finding *f, const struct fault *fault);
/* consumers.c: */
void verdict_consumers(struct analysis *a, struct finding *f, const struct fault *fault);
/* quota.c: */
void verdict_throttled(struct analysis *a, struct finding *f, const struct fault *fault);
/* machine.c */
void verdict_stolen(struct analysis *a, struct finding *f, const struct fault *fault);

/* A duration in words ("1.20 s"), where finding_say() takes it from. */
struct duration {
    char text[32];
};

static inline const char *say_ns(struct duration *d, uint64_t ns)
{
    return clock_format_duration(ns, d->text, sizeof(d->text));
}

void verdict_place(struct finding *f, const struct fault *fault, const char *layer);
/* A callback that blocked the event loop or waited for a lock: long, not several short ones together. */
bool verdict_is_stall(const struct fault *fault);

#endif
