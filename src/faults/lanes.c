/* Pools of any kind, found from connections and the order of events rather than from the names of libraries:
 * a request waits for nothing that is seen, and then goes on with one of a few connections to an address, all
 * of which were busy with others for all that time. So do the tasks of a pool of worker threads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"
#include "base/sort.h"

enum { LANE_USES = 48, LANES_MAX = 1024, CHAIN_MAX = 16, EDGES_MAX = 8192 };

static const uint64_t WAIT_MIN_NS = 10 * NS_PER_MS;
/* Between two uses the pool hands the connection on. */
static const uint64_t HANDOVER_NS = 2 * NS_PER_MS;
/* Busy for so much of the wait, each of them. */
static const double BUSY_SHARE = 0.85;
/* Where more of an endpoint's requests wait, the connections are too few, whatever the peer lacks: in a pool
 * that is too small only the first requests find one free. */
static const double EXCUSED_SHARE = 0.5;
/* So many calls for each of those in progress show that there is a limit. */
enum { LIMIT_SHOWN = 4 };
/* In front of an address' connections: what machine_answers() counts the requests of an endpoint by. */
static const char IN_FRONT[] = "connections";

struct lane_use {
    uint64_t start_ns, end_ns, owner; /* owner: serial, 0 unknown */
    uint64_t longest_ns;              /* of several statements: that one's */
    const char *route, *statement;
    uint64_t answered; /* unknown owner: serial of a request that was answered when it ended, 0 none */
};

struct lane {
    struct lane_use uses[LANE_USES]; /* the newest at count - 1, modulo */
    size_t count, owned;             /* ever; of them those of requests */
};

static const char *route_name(struct analysis *a, uint64_t serial)
{
    const struct request *owner = request_get(a, serial);
    char name[320];
    if (!owner)
        return NULL;
    snprintf(name, sizeof(name), "%s %.256s", owner->method, owner->route);
    return intern_string(a, name);
}

static void use(struct analysis *a, struct lane **lane, uint64_t serial, uint64_t start_ns, uint64_t end_ns,
                const char *statement)
{
    if (!*lane && !(*lane = calloc(1, sizeof(**lane)))) {
        a->failed = true;
        return;
    }
    struct lane *l = *lane;
    struct lane_use *last = l->count ? &l->uses[(l->count - 1) % LANE_USES] : NULL;
    l->owned += serial != 0;
    if (last && last->owner == serial && serial && start_ns >= last->start_ns) {
        if (statement && end_ns - start_ns >= last->longest_ns) {
            last->statement = statement;
            last->longest_ns = end_ns - start_ns;
        }
        last->end_ns = MAX(last->end_ns, end_ns); /* it keeps the connection, as for a transaction */
        return;
    }
    l->uses[l->count++ % LANE_USES] = (struct lane_use){.start_ns = start_ns,
                                                        .end_ns = end_ns,
                                                        .owner = serial,
                                                        .longest_ns = statement ? end_ns - start_ns : 0,
                                                        .route = route_name(a, serial),
                                                        .statement = statement};
}

void lane_add(struct analysis *a, struct lane **lane, uint64_t serial, uint64_t start_ns, uint64_t end_ns)
{
    use(a, lane, serial, start_ns, end_ns, NULL);
}

void lane_used(struct analysis *a, struct connection *c, const struct call *call, uint64_t end_ns)
{
    if (c->peer_name && !call->message && !(c->protocol && c->protocol->parallel))
        use(a, &c->lane, call->owner, call->sent_ns, end_ns, call->statement);
}

void lane_worked(struct analysis *a, struct channel *c, uint64_t serial)
{
    const struct port_task *task = &c->last;
    struct lane *l = c->lane;
    struct lane_use *last = l && l->count ? &l->uses[(l->count - 1) % LANE_USES] : NULL;
    if (last && last->start_ns == task->sent_ns && !last->owner) { /* it is known now */
        l->owned += serial != 0;
        last->owner = serial;
        last->route = route_name(a, serial);
        return;
    }
    /* For its pool it is free once its answer has been read. */
    use(a, &c->lane, serial, task->sent_ns, task->read_ns, NULL);
}

/* ---- how busy ---- */

struct sum {
    uint64_t from_ns, to_ns, covered_to_ns, busy_ns;
    const struct thread *loop; /* whose pool it is; NULL: not known */
};

/* A pool hands a connection on at once, that is, as soon as its event loop has a CPU. One that
 * served no request when the wait began was free. */
static bool is_handed_on(const struct sum *sum, uint64_t start_ns)
{
    return sum->covered_to_ns && (start_ns < sum->covered_to_ns + HANDOVER_NS ||
                                  (sum->loop && sum->busy_ns &&
                                   activity_net_ns(sum->loop, sum->covered_to_ns, start_ns) < HANDOVER_NS));
}

static void cover(struct sum *sum, uint64_t start_ns, uint64_t end_ns)
{
    start_ns = MAX(start_ns, MAX(sum->from_ns, sum->covered_to_ns));
    if (is_handed_on(sum, start_ns))
        start_ns = sum->covered_to_ns;
    end_ns = MIN(end_ns, sum->to_ns);
    if (end_ns > start_ns)
        sum->busy_ns += end_ns - start_ns;
    sum->covered_to_ns = MAX(sum->covered_to_ns, end_ns);
}

static void cover_uses(struct sum *sum, const struct lane *l)
{
    for (size_t i = l && l->count > LANE_USES ? l->count - LANE_USES : 0; l && i < l->count; i++) {
        const struct lane_use *u = &l->uses[i % LANE_USES];
        if (u->end_ns > sum->from_ns && u->start_ns < sum->to_ns)
            cover(sum, u->start_ns, u->end_ns);
    }
}

/* Where the loop had no CPU for nearly all of a wait, that is what was waited for. */
static const struct thread *handing_on(const struct thread *loop, uint64_t from_ns, uint64_t to_ns)
{
    return loop && activity_net_ns(loop, from_ns, to_ns) >= WAIT_MIN_NS ? loop : NULL;
}

static double share_of(struct sum *sum)
{
    if (sum->loop && sum->busy_ns && sum->covered_to_ns < sum->to_ns && is_handed_on(sum, sum->to_ns))
        sum->busy_ns += sum->to_ns - sum->covered_to_ns;
    return (double)sum->busy_ns / (double)(sum->to_ns - sum->from_ns);
}

static double busy_share(const struct connection *c, const struct thread *loop, uint64_t from_ns,
                         uint64_t to_ns)
{
    struct sum sum = {.from_ns = from_ns,
                      .to_ns = to_ns,
                      .covered_to_ns = from_ns,
                      .loop = handing_on(loop, from_ns, to_ns)};
    cover_uses(&sum, c->lane);
    for (size_t i = c->first_call; i < c->calls.count; i++)
        if (!c->calls.at[i].ended && c->calls.at[i].sent_ns < to_ns)
            cover(&sum, c->calls.at[i].sent_ns, to_ns);
    return share_of(&sum);
}

double lane_busy_share(const struct lane *lane, uint64_t open_since_ns, uint64_t from_ns, uint64_t to_ns)
{
    struct sum sum = {.from_ns = from_ns, .to_ns = to_ns, .covered_to_ns = from_ns};
    cover_uses(&sum, lane);
    if (open_since_ns)
        cover(&sum, open_since_ns, to_ns);
    return share_of(&sum);
}

static double work_share(const struct channel *c, const struct thread *loop, uint64_t from_ns, uint64_t to_ns)
{
    struct sum sum = {.from_ns = from_ns,
                      .to_ns = to_ns,
                      .covered_to_ns = from_ns,
                      .loop = handing_on(loop, from_ns, to_ns)};
    cover_uses(&sum, c->lane);
    array_foreach (&c->messages, m)
        if (!m->answer && m->sent_ns < to_ns)
            cover(&sum, m->sent_ns, to_ns);
    return share_of(&sum);
}

/* ---- who held them ---- */

static void add_holder(struct holder holders[8], const char *route, uint64_t held_ns, uint64_t use_ns)
{
    for (size_t i = 0; i < 8; i++) {
        struct holder *h = &holders[i];
        if (h->route != route && h->total_ns)
            continue;
        h->route = route;
        h->total_ns += held_ns;
        h->worst_ns = MAX(h->worst_ns, use_ns);
        return;
    }
}

static void add_holders(struct fault *fault, const struct lane *l, uint64_t from_ns, uint64_t to_ns,
                        bool known)
{
    for (size_t i = l && l->count > LANE_USES ? l->count - LANE_USES : 0; l && i < l->count; i++) {
        const struct lane_use *u = &l->uses[i % LANE_USES];
        uint64_t held_ns = MIN(u->end_ns, to_ns) - MAX(u->start_ns, from_ns);
        if (u->end_ns <= from_ns || u->start_ns >= to_ns)
            continue;
        add_holder(fault->holders, known ? u->route : NULL, held_ns, u->end_ns - u->start_ns);
        if (u->statement)
            add_holder(fault->statements, u->statement, held_ns, u->end_ns - u->start_ns);
    }
}

void lane_add_holders(struct fault *fault, const struct lane *lane, uint64_t from_ns, uint64_t to_ns)
{
    add_holders(fault, lane, from_ns, to_ns, true);
}

/* ---- the verdict ---- */

/* net_ns: of that time, what is not the machine's doing. */
static struct fault *charge(struct analysis *a, enum finding_kind kind, const struct process *process,
                            const char *key, struct request *request, uint64_t from_ns, uint64_t to_ns,
                            uint64_t net_ns)
{
    struct fault *fault = fault_get(a, kind, process, key);
    if (!fault)
        return NULL;
    uint64_t took_ns = to_ns - from_ns;
    fault->process = process;
    fault->command = key;
    fault->count++;
    fault->total_ns += took_ns;
    fault->run_queue_ns += took_ns - net_ns;
    fault->worst_ns = MAX(fault->worst_ns, took_ns);
    fault->from_ns = MIN(fault->from_ns, from_ns);
    fault->to_ns = MAX(fault->to_ns, to_ns);
    fault_add_request(a, fault, request, net_ns, VICTIM_WAITED);
    const struct request *up = request->caller;
    for (int i = 0; up && i < CHAIN_MAX; i++, up = up->caller)
        fault_add_request(a, fault, up, net_ns, VICTIM_UPSTREAM);
    return fault;
}

static const struct thread *loop_of(const struct process *process, const struct request *request)
{
    const uint64_t *thread = map_get(&process->threads, (uint64_t)request->tid);
    return thread ? (const struct thread *)(uintptr_t)*thread : NULL;
}

/* Of [from, to), the time in which the event loop had a CPU when it had work: else it could not have handed a
 * connection on. */
static uint64_t loop_net_ns(const struct thread *loop, uint64_t from_ns, uint64_t to_ns)
{
    return loop ? activity_net_ns(loop, from_ns, to_ns) : to_ns - from_ns;
}

/* Who is on this machine and not traced holds connections for longer when it lacks a CPU (machine.c): such
 * waits are counted, and are no reason for a warning. They are told from a pool that is too small as late
 * answers are from a slow peer's, by how many of an endpoint's requests waited, and for how long. */
static void excuse(struct analysis *a, const struct process *process, const struct request *request,
                   struct fault *fault, const char *peer, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t net_ns = loop_net_ns(loop_of(process, request), from_ns, to_ns);
    uint64_t *waits = machine_answers(a, process, peer, IN_FRONT, request->route);
    if (waits)
        *waits += 1ull << 32;
    if (!process_serving(a, peer) &&
        machine_lacked_cpu(a, process, peer, waits, EXCUSED_SHARE, from_ns, to_ns, net_ns)) {
        fault->excused_count++;
        fault->excused_ns += net_ns;
    } else {
        fault->blamed_worst_ns = MAX(fault->blamed_worst_ns, to_ns - from_ns);
    }
}

/* The connections to that address, when none of them was free in [from, to). One that no request ever used is
 * nobody's to wait for, such as a subscriber's. */
static size_t all_busy(const struct process *process, const struct thread *loop, const char *peer,
                       uint64_t from_ns, uint64_t to_ns, const struct connection **ret_list)
{
    size_t count = 0;
    map_foreach (&process->connections, slot) {
        const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
        if (c->peer_name != peer || !c->lane || c->opened_ns >= to_ns)
            continue;
        if (c->overlaps) /* it serves several at once */
            return 0;
        double share = busy_share(c, loop, from_ns, to_ns);
        if (share >= BUSY_SHARE && count < LANES_MAX)
            ret_list[count++] = c;
        else if (!c->closed && c->lane->owned)
            return 0;
    }
    return count;
}

const char *lanes_busy_peer(const struct process *process, uint64_t from_ns, uint64_t to_ns,
                            uint32_t *ret_count)
{
    static const struct connection *busy[LANES_MAX];
    map_foreach (&process->connections, slot) {
        const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
        size_t count = c->peer_name && c->lane && busy_share(c, NULL, from_ns, to_ns) >= BUSY_SHARE
                           ? all_busy(process, NULL, c->peer_name, from_ns, to_ns, busy)
                           : 0;
        if (!count)
            continue;
        *ret_count = (uint32_t)count;
        return c->peer_name;
    }
    return NULL;
}

void lanes_add_peers(struct holder peers[8], const struct process *process, const char *but, uint64_t from_ns,
                     uint64_t to_ns)
{
    map_foreach (&process->connections, slot) {
        const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
        if (!c->peer_name || c->peer_name == but)
            continue;
        double share = busy_share(c, NULL, from_ns, to_ns);
        if (share > 0)
            add_holder(peers, c->peer_name, (uint64_t)(share * (double)(to_ns - from_ns)), 0);
    }
}

/* Where a use of a connection begins or ends. */
struct edge {
    uint64_t at_ns;
    bool ends;
};

static uint64_t edge_key(const void *item)
{
    const struct edge *edge = item;
    return edge->at_ns * 2 + !edge->ends; /* a use that ends makes room for one that begins */
}

/* How many uses were in progress at once at most. */
static uint32_t most_at_once(struct analysis *a, struct edge *edges, size_t count)
{
    uint32_t now = 0, most = 0;
    if (sort_by_key(edges, count, sizeof(*edges), edge_key) < 0) {
        a->failed = true;
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        now = edges[i].ends ? now - 1 : now + 1;
        most = MAX(most, now);
    }
    return most;
}

/* A limit on the calls in progress (such as p-limit's) leaves some connections free: what is given back is
 * used again before the other side's answer has been read to its end, with another connection. It is known by
 * this: no more calls than that are ever in progress, so many were in [from, to), and when one of them ended
 * this request went on. Returns the limit, 0 when there is none, and the connections used meanwhile.
 * One call at a time says too little: what waits for the result of another's call does so as well. */
static uint32_t limited(struct analysis *a, const struct process *process, const struct thread *loop,
                        const char *peer, uint64_t from_ns, uint64_t to_ns,
                        const struct connection **ret_list, size_t *ret_count)
{
    static struct edge edges[EDGES_MAX];
    size_t count = 0, used = 0;
    double busy = 0;
    bool handed_on = false;
    map_foreach (&process->connections, slot) {
        const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
        const struct lane *l = c->lane;
        if (c->peer_name != peer || !l)
            continue;
        size_t first = l->count > LANE_USES ? l->count - LANE_USES : 0;
        if (c->overlaps || used == LANES_MAX ||
            count + 2 * (l->count - first) + c->calls.count - c->first_call > EDGES_MAX)
            return 0;
        for (size_t i = first; i < l->count; i++) {
            const struct lane_use *u = &l->uses[i % LANE_USES];
            edges[count++] = (struct edge){u->start_ns, false};
            edges[count++] = (struct edge){u->end_ns, true};
            handed_on |= u->end_ns <= to_ns && u->end_ns > from_ns &&
                         (to_ns - u->end_ns < HANDOVER_NS ||
                          (loop && activity_net_ns(loop, u->end_ns, to_ns) < HANDOVER_NS));
        }
        for (size_t i = c->first_call; i < c->calls.count; i++)
            if (!c->calls.at[i].ended)
                edges[count++] = (struct edge){c->calls.at[i].sent_ns, false};
        double share = busy_share(c, loop, from_ns, to_ns);
        if (share > 0)
            ret_list[used++] = c;
        busy += share;
    }
    *ret_count = used;
    if (!handed_on || busy < 2 * BUSY_SHARE)
        return 0;
    uint32_t most = most_at_once(a, edges, count);
    return most > 1 && busy >= BUSY_SHARE * most && count / 2 >= LIMIT_SHOWN * most ? most : 0;
}

/* The connection that it went on with served nobody that is known in [from, to), and this request before, or
 * it is the only one: then what it served may have been asked by this request itself (as in a transaction),
 * and that it waited for others is not shown. */
static bool held_for_nobody(const struct connection *const *list, size_t count, const struct request *request,
                            uint64_t from_ns, uint64_t to_ns)
{
    for (size_t k = 0; k < count; k++) {
        const struct lane *l = list[k]->lane;
        bool before = false, after = false, others = false;
        for (size_t i = l->count > LANE_USES ? l->count - LANE_USES : 0; i < l->count; i++) {
            const struct lane_use *u = &l->uses[i % LANE_USES];
            bool own = u->owner == request->serial;
            before |= own && u->start_ns < from_ns;
            after |= own && u->end_ns > to_ns;
            others |= !own && u->owner && u->end_ns > from_ns && u->start_ns < to_ns;
        }
        if (after && !others && (before || count == 1))
            return true;
    }
    return false;
}

/* Some of what they served in [from, to) is surely not this request's: another one's, or nobody's who is
 * known and begun before this one came, or with whose end another one was answered. Anything else that began
 * later may have been asked by this request itself. */
static bool held_for_others(const struct connection *const *list, size_t count, const struct request *request,
                            uint64_t from_ns, uint64_t to_ns)
{
    for (size_t k = 0; k < count; k++) {
        const struct lane *l = list[k]->lane;
        for (size_t i = l->count > LANE_USES ? l->count - LANE_USES : 0; i < l->count; i++) {
            const struct lane_use *u = &l->uses[i % LANE_USES];
            bool others =
                u->owner ? u->owner != request->serial
                         : u->start_ns < request->start_ns || (u->answered && u->answered != request->serial);
            if (others && u->end_ns > from_ns && u->start_ns < to_ns)
                return true;
        }
    }
    return false;
}

/* A pool that hands a connection on in the callback of whoever gives it back (pg's pool.query) sends what the
 * next one asks in the wrong context: that one's call is not known as its own (shared), and who has the
 * connections is not known either. But the call shows when a connection was free. */
static void waited_for_connection(struct analysis *a, const struct process *process, struct request *request,
                                  struct path_step *step, const struct vspan *next)
{
    static const struct connection *busy[LANES_MAX];
    const struct thread *loop = loop_of(process, request);
    const char *peer = next->peer;
    size_t count = all_busy(process, loop, peer, step->start_ns, step->end_ns, busy);
    uint32_t lanes = (uint32_t)count;
    bool by_limit = !count;
    if (by_limit)
        lanes = limited(a, process, loop, peer, step->start_ns, step->end_ns, busy, &count);
    bool shown =
        lanes && (next->shared ? held_for_others(busy, count, request, step->start_ns, step->end_ns)
                               : !held_for_nobody(busy, count, request, step->start_ns, step->end_ns));
    struct fault *fault =
        shown ? charge(a, FINDING_connection_pool_starved, process, peer, request, step->start_ns,
                       step->end_ns, loop_net_ns(loop, step->start_ns, step->end_ns))
              : NULL;
    if (!fault)
        return;
    excuse(a, process, request, fault, peer, step->start_ns, step->end_ns);
    step->class = PATH_FREE;
    step->name = peer;
    fault->lanes = MAX(fault->lanes, lanes);
    fault->limited |= by_limit;
    for (size_t i = 0; i < count; i++)
        add_holders(fault, busy[i]->lane, step->start_ns, step->end_ns, !next->shared);
}

/* The workers that this thread gives tasks of requests to, when none of them was free; only: the one that has
 * the message already. A worker may have several channels (its own, one of its pool's, one for its output):
 * it is at work when one of them is. */
static size_t all_at_work(const struct process *process, const struct request *request, int64_t only,
                          uint64_t from_ns, uint64_t to_ns, const struct channel **ret_list)
{
    const struct thread *loop = loop_of(process, request);
    size_t count = 0, busy = 0;
    array_foreach (&process->channels, place) {
        const struct channel *c = *place;
        if (c->from_tid != request->tid || !c->lane || !c->lane->owned || (only && c->to_tid != only))
            continue;
        size_t i = 0;
        while (i < count && (!c->to_tid || ret_list[i]->to_tid != c->to_tid))
            i++;
        if (i == LANES_MAX)
            break;
        bool known_busy = i < count && work_share(ret_list[i], loop, from_ns, to_ns) >= BUSY_SHARE;
        if (i == count)
            count++;
        if (known_busy)
            continue;
        ret_list[i] = c;
        busy += work_share(c, loop, from_ns, to_ns) >= BUSY_SHARE;
    }
    return busy == count ? count : 0;
}

/* Of [from, to), what the threads behind the channels did not lose to the machine, on average. */
static uint64_t worked_ns(const struct process *process, const struct channel *const *list, size_t count,
                          uint64_t from_ns, uint64_t to_ns)
{
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *thread = map_get(&process->threads, (uint64_t)list[i]->to_tid);
        sum_ns += thread ? activity_net_ns((const struct thread *)(uintptr_t)*thread, from_ns, to_ns)
                         : to_ns - from_ns;
    }
    return sum_ns / count;
}

/* Most of them were at their first task in [from, to), for which they had to be started. */
static bool are_starting(const struct channel *const *list, size_t count, uint64_t from_ns, uint64_t to_ns)
{
    size_t starting = 0;
    for (size_t i = 0; i < count; i++) {
        const struct lane *lane = list[i]->lane;
        const struct lane_use *first = lane->count && lane->count <= LANE_USES ? &lane->uses[0] : NULL;
        uint64_t start_ns = first ? MAX(first->start_ns, from_ns) : 0;
        uint64_t end_ns = first ? MIN(first->end_ns, to_ns) : 0;
        starting += end_ns > start_ns && (end_ns - start_ns) * 2 > to_ns - from_ns;
    }
    return starting * 2 > count;
}

static void waited_for_worker(struct analysis *a, const struct process *process, struct request *request,
                              struct path_step *step, int64_t only)
{
    static const struct channel *busy[LANES_MAX];
    size_t count = all_at_work(process, request, only, step->start_ns, step->end_ns, busy);
    if (!count)
        return;
    step->class = PATH_FREE;
    step->name = intern_string(a, "worker thread");
    /* Workers that had no CPU are busy for longer than their tasks are: their stretches tell of that
     * (fault.c). */
    uint64_t net_ns = worked_ns(process, busy, count, step->start_ns, step->end_ns);
    struct fault *fault =
        charge(a, FINDING_worker_pool_starved, process, "", request, step->start_ns, step->end_ns, net_ns);
    if (!fault)
        return;
    fault->later |= !are_starting(busy, count, step->start_ns, step->end_ns);
    fault->lanes = MAX(fault->lanes, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        lane_add_holders(fault, busy[i]->lane, step->start_ns, step->end_ns);
}

bool is_thread_message(const struct vspan *span)
{
    return span->kind == VSPAN_ipc && span->name && strcmp(span->name, THREAD_MESSAGE) == 0;
}

/* Stores such as Redis take commands at any time; a database works on one at a time for a connection. */
static bool is_on_connection(const struct vspan *span)
{
    bool database = span->wire == SONDE_wire_postgresql || span->wire == SONDE_wire_mysql;
    return span->peer && (span->kind == VSPAN_http || span->kind == VSPAN_other ||
                          (span->kind == VSPAN_command && database));
}

/* Counts the request once for each address on this machine of which it used connections. */
static void count_users(struct analysis *a, const struct process *process, const struct request *request)
{
    const char *counted = NULL;
    array_foreach (&request->path_steps, step) {
        const struct vspan *span = step->span == VSPAN_NONE ? NULL : &request->spans.at[step->span];
        if (!span || step->of_child || !is_on_connection(span) || span->peer == counted)
            continue;
        counted = span->peer;
        uint64_t *waits = machine_answers(a, process, counted, IN_FRONT, request->route);
        if (waits && (uint32_t)*waits < UINT32_MAX)
            ++*waits;
    }
}

/* With the end of a call of nobody who is known this request was answered (call_waited_for()). */
static void count_answered(const struct process *process, const struct request *request)
{
    const struct connection *c =
        request->answered_fd ? connection_get(process, request->answered_fd - 1, request->answered_generation)
                             : NULL;
    struct lane *l = c ? c->lane : NULL;
    struct lane_use *last = l && l->count ? &l->uses[(l->count - 1) % LANE_USES] : NULL;
    array_foreach (&request->spans, span)
        if (last && span->shared && span->kind != VSPAN_callback && span->end_ns == last->end_ns &&
            !last->owner && !last->answered)
            last->answered = request->serial;
}

void lanes_request_done(struct analysis *a, const struct process *process, struct request *request)
{
    count_users(a, process, request);
    count_answered(process, request);
    for (size_t i = 0; i + 1 < request->path_steps.count; i++) {
        struct path_step *step = &request->path_steps.at[i], *next = step + 1;
        if (step->class == PATH_QUEUE && !step->service && step->span != VSPAN_NONE &&
            step->end_ns - step->start_ns >= WAIT_MIN_NS && is_thread_message(&request->spans.at[step->span]))
            waited_for_worker(a, process, request, step, request->spans.at[step->span].peer_tid);
        if (step->class != PATH_OTHER || step->of_child || step->span != VSPAN_NONE ||
            step->end_ns - step->start_ns < WAIT_MIN_NS)
            continue;
        if (next->span == VSPAN_NONE || next->class == PATH_RUN)
            continue;
        const struct vspan *span = &request->spans.at[next->span];
        if (is_on_connection(span))
            waited_for_connection(a, process, request, step, span);
        else if (is_thread_message(span))
            waited_for_worker(a, process, request, step, 0);
    }
}
