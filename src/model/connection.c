/* Connections: the two ends of one TCP connection found by their mirrored addresses (net:connection, written
 * at a descriptor's first use), and the calls that wait on the client's end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "model/model.h"

/* Closed connections whose other end is still open, or was not seen, are kept for late readers. */
enum { LINGERING_MAX = 4096 };

static uint64_t place_key(int32_t fd, uint32_t generation)
{
    return (uint64_t)(uint32_t)fd << 32 | generation;
}

bool connection_is_pipe(const struct connection *c)
{
    return c && (c->family == AF_UNIX || (c->family == 0 && c->inode));
}

struct connection *connection_get(const struct process *process, int32_t fd, uint32_t generation)
{
    uint64_t *known = map_get(&process->connections, place_key(fd, generation));
    return known ? (struct connection *)(uintptr_t)*known : NULL;
}

struct connection *connection_need(struct analysis *a, struct process *process, int32_t fd,
                                   uint32_t generation, uint64_t now_ns)
{
    uint64_t *place = map_put(&process->connections, place_key(fd, generation), NULL);
    if (!place) {
        a->failed = true;
        return NULL;
    }
    if (*place)
        return (struct connection *)(uintptr_t)*place;
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        map_remove(&process->connections, place_key(fd, generation));
        a->failed = true;
        return NULL;
    }
    connection->process = process;
    connection->fd = fd;
    connection->generation = generation;
    connection->opened_ns = now_ns;
    *place = (uint64_t)(uintptr_t)connection;
    return connection;
}

/* ---- the two ends ---- */

static uint64_t tuple_key(const struct address *from, const struct address *to)
{
    uint64_t words[] = {from->high, from->low, to->high, to->low, (uint64_t)from->port << 16 | to->port};
    return map_hash(words, sizeof(words));
}

static bool same_address(const struct address *x, const struct address *y)
{
    return x->high == y->high && x->low == y->low && x->port == y->port;
}

static void forget_tuple(struct analysis *a, struct connection *connection)
{
    uint64_t key = tuple_key(&connection->local, &connection->peer);
    uint64_t *known = map_get(&a->tuples, key);
    if (known && *known == (uint64_t)(uintptr_t)connection)
        map_remove(&a->tuples, key);
    if (connection->mirror) {
        connection->mirror->mirror = NULL;
        connection->mirror = NULL;
    }
}

/* The newest traced connection between these two addresses, at the first of them; NULL: there is none. */
static struct connection *find_by_ends(const struct analysis *a, const struct address *local,
                                       const struct address *peer)
{
    uint64_t *known = map_get(&a->tuples, tuple_key(local, peer));
    struct connection *c = known ? (struct connection *)(uintptr_t)*known : NULL;
    return c && same_address(&c->local, local) && same_address(&c->peer, peer) ? c : NULL;
}

static void find_mirror(struct analysis *a, struct connection *connection)
{
    uint64_t *place = map_put(&a->tuples, tuple_key(&connection->local, &connection->peer), NULL);
    if (!place) {
        a->failed = true;
        return;
    }
    *place = (uint64_t)(uintptr_t)connection; /* the newest holder of these ports */
    struct connection *mirror = find_by_ends(a, &connection->peer, &connection->local);
    if (!mirror || mirror == connection)
        return;
    /* Ports are used again: an end that is already joined with its other end belongs to an older connection.
     */
    if (mirror->mirror)
        return;
    connection->mirror = mirror;
    mirror->mirror = connection;
}

const char *address_name(struct analysis *a, const struct address *address)
{
    char host[INET6_ADDRSTRLEN] = "", name[INET6_ADDRSTRLEN + 16];
    if (address->high == 0 && address->low >> 32 == 0xffff) {
        struct in_addr v4 = {htonl((uint32_t)address->low)};
        inet_ntop(AF_INET, &v4, host, sizeof(host));
        snprintf(name, sizeof(name), "%s:%u", host, address->port);
    } else {
        struct in6_addr v6;
        for (int i = 0; i < 8; i++) {
            v6.s6_addr[i] = (uint8_t)(address->high >> (56 - 8 * i));
            v6.s6_addr[8 + i] = (uint8_t)(address->low >> (56 - 8 * i));
        }
        inet_ntop(AF_INET6, &v6, host, sizeof(host));
        snprintf(name, sizeof(name), "[%s]:%u", host, address->port);
    }
    return intern_string(a, name);
}

void connection_serves(struct analysis *a, const struct connection *c)
{
    if (!c->local.port || !c->peer.port)
        return;
    uint64_t *place = map_put(&a->served, (uintptr_t)address_name(a, &c->local), NULL);
    if (place)
        *place = (uint64_t)(uintptr_t)c->process;
    else
        a->failed = true;
}

void peer_spoke(struct analysis *a, struct connection *c, bool asked)
{
    uint32_t unasked = asked ? c->asked ? 0 : c->unasked : 1;
    c->asked += asked;
    c->unasked += !asked;
    if (!c->asked || !c->peer_name)
        return;
    uint64_t *counts = map_put(&a->speakers, (uintptr_t)c->peer_name, NULL);
    if (counts)
        *counts += (uint64_t)asked << 32 | ((uint32_t)*counts < INT32_MAX ? unasked : 0);
    else
        a->failed = true;
}

void peer_speaks(struct analysis *a, const struct connection *c)
{
    uint64_t *counts = c->peer_name ? map_put(&a->speakers, (uintptr_t)c->peer_name, NULL) : NULL;
    if (counts)
        *counts |= INT32_MAX;
    else if (c->peer_name)
        a->failed = true;
}

bool peer_speaks_unasked(const struct analysis *a, const char *address)
{
    enum { UNASKED_MIN = 2 };
    const uint64_t *counts = address ? map_get(&a->speakers, (uintptr_t)address) : NULL;
    uint32_t asked = counts ? (uint32_t)(*counts >> 32) : 0, unasked = counts ? (uint32_t)*counts : 0;
    return unasked >= UNASKED_MIN && unasked >= asked / 2;
}

const struct process *process_serving(const struct analysis *a, const char *address)
{
    const uint64_t *known = address ? map_get(&a->served, (uintptr_t)address) : NULL;
    return known ? (const struct process *)(uintptr_t)*known : NULL;
}

bool peer_is_itself(const struct process *process, const char *peer)
{
    map_foreach (&process->connections, slot) {
        const struct connection *c = (const struct connection *)(uintptr_t)slot->value;
        if (peer && c->peer_name == peer && c->mirror && c->mirror->process == process)
            return true;
    }
    return false;
}

static void connection_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct process *process = thread->process;
    int32_t fd = (int32_t)I(e, net_connection_fd);
    uint32_t generation = (uint32_t)U(e, net_connection_generation);
    struct connection *c = connection_need(a, process, fd, generation, e->time_ns);
    if (!c)
        return;
    /* Told again once connected: the address of the peer is known only then. */
    forget_tuple(a, c);
    c->local = (struct address){U(e, net_connection_local_high), U(e, net_connection_local_low),
                                (uint16_t)U(e, net_connection_local_port)};
    c->peer = (struct address){U(e, net_connection_peer_high), U(e, net_connection_peer_low),
                               (uint16_t)U(e, net_connection_peer_port)};
    c->family = (uint16_t)U(e, net_connection_family);
    c->key = U(e, net_connection_key);
    c->inode = U(e, net_connection_inode);
    bool taken = process->analyzer && process->analyzer->connection_opened &&
                 process->analyzer->connection_opened(a, c);
    for (const struct protocol *const *p = a->protocols; *p && !taken; p++)
        if ((*p)->opened)
            (*p)->opened(a, c);
    if (c->local.port && !c->client && process->connecting && !taken &&
        !map_get(&process->server_ports, c->local.port)) {
        c->client = 1;
        process->connecting--;
    }
    if (c->local.port && c->peer.port) {
        find_mirror(a, c);
        c->peer_name = address_name(a, &c->peer);
    }
}

/* ---- end ---- */

void connection_free(struct analysis *a, struct connection *c)
{
    forget_tuple(a, c);
    for (const struct protocol *const *p = a->protocols; *p; p++)
        if ((*p)->forget)
            (*p)->forget(a, c);
    map_remove(&c->process->connections, place_key(c->fd, c->generation));
    ANALYZERS_CALL(a, connection_forget, c);
    for (size_t i = c->first_call; i < c->calls.count; i++)
        request_unref(a, c->calls.at[i].child);
    request_unref(a, c->ended.child);
    array_done(&c->calls);
    array_done(&c->waiting);
    array_done(&c->early);
    array_done(&c->ipc_waiting);
    free(c);
}

/* Whether every call of the client's end was taken up; a stalled server reads long after its client gave up.
 */
void connection_close(struct analysis *a, struct connection *c)
{
    if (c->closed)
        return;
    c->closed = 1;
    if (array_add(&a->lingering, c) < 0) {
        a->failed = true;
        return;
    }
    while (a->lingering.count - a->first_lingering > LINGERING_MAX)
        connection_free(a, a->lingering.at[a->first_lingering++]);
    if (a->first_lingering > LINGERING_MAX) {
        a->lingering.count -= a->first_lingering;
        memmove(a->lingering.at, a->lingering.at + a->first_lingering,
                a->lingering.count * sizeof(*a->lingering.at));
        a->first_lingering = 0;
    }
}

/* ---- calls ---- */

struct call *call_at(struct connection *c, uint64_t index)
{
    if (index < c->calls_gone || index - c->calls_gone >= calls_open(c))
        return NULL;
    return &c->calls.at[c->first_call + (index - c->calls_gone)];
}

size_t calls_open(const struct connection *c)
{
    return c->calls.count - c->first_call;
}

struct call *call_add(struct analysis *a, struct connection *c, const struct call *call, uint64_t *ret_index)
{
    if (calls_open(c) >= CALLS_MAX) /* the other side never answers, or the trace is damaged */
        call_finish_first(a, c, call->sent_ns);
    if (array_add(&c->calls, *call) < 0) {
        a->failed = true;
        return NULL;
    }
    c->calls.at[c->calls.count - 1].span = VSPAN_NONE;
    c->calls.at[c->calls.count - 1].peer = c->peer_name;
    *ret_index = c->calls_gone + calls_open(c) - 1;
    return &c->calls.at[c->calls.count - 1];
}

struct vspan *call_span(const struct analysis *a, const struct call *call)
{
    struct request *owner = call->span != VSPAN_NONE ? request_open(a, call->owner) : NULL;
    return owner ? &owner->spans.at[call->span] : NULL;
}

void call_worked(struct analysis *a, struct call *call)
{
    struct vspan *span = call_span(a, call);
    if (!span)
        return;
    span->work_start_ns = call->work_start_ns;
    span->work_end_ns = call->work_end_ns;
    span->argument_bytes = call->argument_bytes;
    span->client_id = call->client_id;
    span->peer_pid = call->peer_pid;
    span->peer_tid = call->peer_tid;
    span->name = call->name;
}

static void calls_resent(struct analysis *a, struct connection *c, uint64_t now_ns)
{
    for (size_t i = c->first_call; i < c->calls.count; i++) {
        struct call *call = &c->calls.at[i];
        if (call->ended || call->sent_ns > now_ns)
            continue;
        call->resends += call->resends < UINT16_MAX;
        call->resent_ns = now_ns;
        struct vspan *span = call_span(a, call);
        if (span) {
            span->resends = call->resends;
            span->resent_ns = now_ns;
        }
    }
}

/* A segment is sent again: all that waits for an answer on the connection, of whichever end, waits for it. */
static void retransmit_event(struct analysis *a, struct thread *none, const struct event *e)
{
    const struct address local = {U(e, tcp_retransmit_local_high), U(e, tcp_retransmit_local_low),
                                  (uint16_t)U(e, tcp_retransmit_local_port)},
                         peer = {U(e, tcp_retransmit_peer_high), U(e, tcp_retransmit_peer_low),
                                 (uint16_t)U(e, tcp_retransmit_peer_port)};
    struct connection *ends[] = {find_by_ends(a, &local, &peer), find_by_ends(a, &peer, &local)};
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        if (!ends[i])
            continue;
        calls_resent(a, ends[i], e->time_ns);
        if (ends[i]->session)
            calls_resent(a, ends[i]->session, e->time_ns);
    }
}

void call_answered(const struct analysis *a, struct call *call, uint16_t status)
{
    struct vspan *span = call_span(a, call);
    call->status = status;
    if (span)
        span->status = status;
}

void call_ready(struct analysis *a, struct call *call, uint64_t ready_ns)
{
    struct vspan *span = call_span(a, call);
    call->ready_ns = ready_ns;
    if (span)
        span->replied_ns = ready_ns;
}

static void call_ended(struct analysis *a, const struct connection *c, const struct call *call,
                       struct vspan *span, uint64_t end_ns)
{
    struct vspan own = {.start_ns = call->sent_ns,
                        .end_ns = MAX(end_ns, call->sent_ns),
                        .kind = call->kind,
                        .name = call->name,
                        .work_start_ns = call->work_start_ns,
                        .work_end_ns = call->work_end_ns};
    uint64_t *slot = map_get(&c->process->threads, (uint64_t)c->process->pid);
    for (const struct analyzer *const *p = a->analyzers; slot && *p; p++)
        if ((*p)->paused_ns)
            own.gc_ns += (*p)->paused_ns((const struct thread *)(uintptr_t)*slot, own.start_ns, own.end_ns);
    float unusual = attl_add(a, c->process->service, &own);
    if (call->statement) {
        own.name = call->statement;
        own.kind = ATTL_STATEMENT;
        attl_add(a, c->process->service, &own);
    }
    if (span) {
        span->gc_ns = own.gc_ns;
        span->unusual = unusual;
    }
}

/* When the loop that reads an answer for this request now had not got it when it last polled, as far as is
 * surely known: each iteration polls once, and phases are recorded only of iterations that did something. */
static uint64_t polled_ns(const struct connection *c, const struct request *owner)
{
    uint64_t *slot = owner ? map_get(&c->process->threads, (uint64_t)owner->tid) : NULL;
    const struct thread *thread = slot ? (const struct thread *)(uintptr_t)*slot : NULL;
    return thread ? thread->phases_end_ns[thread->last_phase < SONDE_uv_phase_poll ? 2 : 1] : 0;
}

static void end_call(struct analysis *a, struct connection *c, struct call *call, uint64_t end_ns)
{
    call->ended = 1;
    struct vspan *span = call_span(a, call);
    if (span && !span->end_ns) {
        span->end_ns = MAX(end_ns, span->start_ns);
        span->polled_ns = polled_ns(c, request_open(a, call->owner));
    }
    call_ended(a, c, call, span, end_ns);
    ANALYZERS_CALL(a, call_ended, a, c, call, end_ns);
    if (c->protocol && c->protocol->call_ended)
        c->protocol->call_ended(a, c, call, end_ns);
    struct request *owner = request_open(a, call->owner);
    if (owner && call->settled && owner->open_calls)
        owner->open_calls--;
    if (owner)
        owner->last_done_ns = end_ns;
    request_unref(a, c->ended.child);
    c->ended = *call;
    call->child = NULL;
    c->last_call_end_ns = end_ns;
}

void call_finish(struct analysis *a, struct connection *c, struct call *call, uint64_t end_ns)
{
    if (!call->ended)
        end_call(a, c, call, end_ns);
    while (calls_open(c) && c->calls.at[c->first_call].ended)
        call_finish_first(a, c, end_ns);
}

void call_finish_first(struct analysis *a, struct connection *c, uint64_t end_ns)
{
    if (!calls_open(c))
        return;
    struct call *call = &c->calls.at[c->first_call];
    if (!call->ended)
        end_call(a, c, call, end_ns);
    c->first_call++;
    c->calls_gone++;
    if (c->first_call >= 64 && c->first_call * 2 >= c->calls.count) {
        c->calls.count -= c->first_call;
        memmove(c->calls.at, c->calls.at + c->first_call, c->calls.count * sizeof(*c->calls.at));
        c->first_call = 0;
    }
}

static const enum layer LAYER_OF[] = {
    [VSPAN_http] = LAYER_http, [VSPAN_command] = LAYER_store, [VSPAN_other] = LAYER_loop};

static struct vspan span_of_call(const struct call *call)
{
    return (struct vspan){.start_ns = call->sent_ns,
                          .cause = VSPAN_NONE,
                          .layer = (uint8_t)LAYER_OF[call->kind],
                          .kind = call->kind,
                          .wire = call->wire,
                          .message = call->message,
                          .status = call->status,
                          .grpc = call->grpc,
                          .resends = call->resends,
                          .resent_ns = call->resent_ns,
                          .name = call->name,
                          .statement = call->statement,
                          .peer = call->peer,
                          .work_start_ns = call->work_start_ns,
                          .work_end_ns = call->work_end_ns,
                          .replied_ns = call->ready_ns,
                          .sequence = call->number,
                          .client_id = call->client_id,
                          .written_bytes = call->written_bytes,
                          .write_messages = call->write_messages,
                          .argument_bytes = call->argument_bytes,
                          .peer_pid = call->peer_pid,
                          .peer_tid = call->peer_tid};
}

void call_settle(struct analysis *a, struct call *call, struct request *owner, enum known known,
                 uint32_t parent)
{
    if (call->settled)
        return;
    call->settled = 1;
    call->known = (uint8_t)known;
    if (known == KNOWN_AMBIGUOUS)
        a->counts.ambiguous++;
    if (!owner) {
        a->counts.outside += known != KNOWN_AMBIGUOUS;
        return;
    }
    a->counts.proved += known == KNOWN_PROVED;
    a->counts.inferred += known == KNOWN_INFERRED;
    if (call->told && known == KNOWN_PROVED)
        context_counted(a, owner->process);
    call->owner = owner->serial;
    owner->open_calls++;
    struct vspan span = span_of_call(call);
    span.parent = parent;
    span.known = (uint8_t)known;
    span.told = call->told;
    call->span = request_add_span(a, owner, &span);
    if (call->child) {
        call->child->caller = owner;
        if (call->span != VSPAN_NONE)
            owner->spans.at[call->span].child = request_ref(call->child);
    }
}

void call_claim(struct analysis *a, struct call *call, struct request *owner)
{
    if (!call->settled || call->owner || call->sent_ns < owner->start_ns)
        return;
    if (call->known == KNOWN_AMBIGUOUS) {
        a->counts.ambiguous--;
        owner->ambiguous -= owner->ambiguous > 0;
    } else {
        a->counts.outside--;
    }
    call->settled = 0;
    call_settle(a, call, owner, KNOWN_INFERRED, 0);
}

void call_claim_ended(struct analysis *a, struct call *call, struct request *owner, uint64_t end_ns)
{
    call_claim(a, call, owner);
    if (call->owner != owner->serial)
        return;
    if (call->span != VSPAN_NONE)
        owner->spans.at[call->span].end_ns = MAX(end_ns, call->sent_ns);
    owner->open_calls--;
}

/* ---- whom a request waited for whose call it is not known to be ---- */

static bool ends_with_own_call(const struct request *request, uint64_t since_ns)
{
    array_foreach (&request->spans, span)
        if ((span->kind == VSPAN_http || span->kind == VSPAN_command || span->kind == VSPAN_other) &&
            span->end_ns >= since_ns)
            return true;
    return false;
}

/* When the request was last seen to do something of its own, or to have it done, before until_ns: what it
 * waited for afterwards it may have begun to wait for then only. */
static uint64_t last_active_ns(const struct request *request, uint64_t until_ns)
{
    uint64_t active_ns = request->start_ns;
    for (size_t i = 1; i < request->spans.count; i++) {
        uint64_t end_ns = request->spans.at[i].end_ns;
        if (end_ns <= until_ns)
            active_ns = MAX(active_ns, end_ns);
    }
    return active_ns;
}

void call_waited_for(struct analysis *a, struct request *request)
{
    const struct connection *c =
        request->answered_fd
            ? connection_get(request->process, request->answered_fd - 1, request->answered_generation)
            : NULL;
    const struct call *call = c ? &c->ended : NULL;
    bool answered = call && call->kind && c->last_call_end_ns >= request->answered_io_ns &&
                    c->last_call_end_ns <= request->end_ns;
    /* What several requests ask at once on one connection is answered in parts of a turn, and what a traced
     * service did of it hangs below one request only. */
    bool one = answered && call->peer && !call->message && !call->child &&
               !(c->protocol && c->protocol->parallel) &&
               !(call->kind == VSPAN_command && call->wire == SONDE_wire_resp);
    if (!one || call->owner == request->serial || ends_with_own_call(request, request->answered_io_ns))
        return;
    struct vspan span = span_of_call(call);
    span.start_ns = MAX(call->sent_ns, last_active_ns(request, request->answered_io_ns));
    span.end_ns = c->last_call_end_ns;
    span.known = KNOWN_AMBIGUOUS;
    span.shared = 1;
    span.polled_ns = polled_ns(c, request);
    if (span.end_ns > span.start_ns)
        request_add_span(a, request, &span);
}

const struct event_reading CONNECTION_EVENTS[] = {
    {SONDE_EVENT_net_connection, connection_event}, {SONDE_EVENT_tcp_retransmit, retransmit_event}, {0}};
