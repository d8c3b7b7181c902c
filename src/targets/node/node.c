/* Reads one turn of a Node.js event loop: whose callback it was, and so whose operations it started.
 *
 * The nested bounded context (NBCA, Node Compass 3.5) gives the tree: a resource created inside a callback
 * belongs to whom the callback belongs to. Node before 24 does not tell of promises, so what an await
 * continues is found by the bounded context (BCTA, 3.6): a callback on a connection belongs to the request
 * whose answer it brings, when it can be the answer of one request only; else what it starts is ambiguous,
 * and counted as such. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "protocols/exchange.h"
#include "protocols/ipc.h"
#include "protocols/messages.h"
#include "protocols/websocket.h"
#include "targets/node/node.h"
#include "targets/node/resource.h"

enum {
    LOADING_CALLS = 20,
    ASYNC_IDS_MAX = 100000,
    MISSED_MIN_NS = 1000000,
    LONG_TURN_NS = 2000000,
};

/* What a turn was about outlives it: contexts point to it, though a request may end within its own turn. */
static struct request *hold(struct turn *t, struct request *request)
{
    size_t n = t->held.count;
    if (!request || (n && t->held.at[n - 1] == request))
        return request;
    if (array_add(&t->held, request) < 0) {
        t->a->failed = true;
        return NULL;
    }
    return request_ref(request);
}

static void release(struct turn *t)
{
    array_foreach (&t->held, request)
        request_unref(t->a, *request);
    array_done(&t->held);
}

/* ---- who ---- */

/* No number says whose it is, but the probe saw that it came from the code that the innermost callback called
 * first, or could not see anything (recordings of before). In the callback that a request came with, that is
 * this request; in any other it may be whoever waits for what this one has: a connection of a pool, a lock, a
 * place in a queue. */
static struct context unsaid(const struct turn *t, const struct item *item, const struct context *c)
{
    bool none = item->context == CONTEXT_NONE;
    struct context answer = *c;
    if (!c->owner && c->known == KNOWN_NOT && !none && t->thread->open.count)
        answer.known = KNOWN_AMBIGUOUS;
    if (!c->owner || c->begins)
        return answer;
    /* A number that is not there is not its either. */
    if (!(none && c->owner->context) && only_request(t->thread, c->owner, t->start_ns))
        return answer;
    answer = decided(NULL, KNOWN_AMBIGUOUS, VSPAN_NONE);
    answer.in_callback = c->in_callback;
    return answer;
}

struct context turn_told(const struct turn *t, const struct item *item, const struct context *c)
{
    if (item->context <= CONTEXT_NONE)
        return unsaid(t, item, c);
    if (item->context == SONDE_CONTEXT_LOST) /* nor would what stands around it say */
        return decided(NULL, KNOWN_AMBIGUOUS, VSPAN_NONE);
    struct request *owner = context_owner(t->a, t->thread, item->context);
    struct context answer =
        owner && owner == c->owner ? *c : decided(owner, owner ? KNOWN_PROVED : KNOWN_NOT, VSPAN_NONE);
    answer.in_callback = c->in_callback;
    answer.told = owner != c->owner || c->known != KNOWN_PROVED; /* also of a request that is over */
    if (owner)
        answer.known = KNOWN_PROVED;
    if (c->late_write && item->event != SONDE_EVENT_uv_submit && answer.told)
        return decided(NULL, KNOWN_AMBIGUOUS, VSPAN_NONE);
    return answer;
}

static void claim_op(struct turn *t, struct pool_op *op, const struct item *done)
{
    bool several = false;
    struct request *owner = answered_in(t->a, t->thread, done, &several);
    if (!owner || op->owner || !op->submit_ns || op->submit_ns < owner->start_ns ||
        !only_request(t->thread, owner, op->submit_ns))
        return;
    if (op->known == KNOWN_AMBIGUOUS) {
        t->a->counts.ambiguous--;
        owner->ambiguous -= owner->ambiguous > 0;
    } else {
        t->a->counts.outside--;
    }
    t->a->counts.inferred++;
    add_pool_span(t, op, owner, KNOWN_INFERRED, 0);
}

static void read_done(struct turn *t, const struct item *done)
{
    struct pool_op *op = done->pointer;
    struct context context = UNDECIDED;
    uint64_t serial = 0;
    uint32_t span = VSPAN_NONE;
    if (op) {
        const struct call answer = {.owner = op->owner, .told = op->told};
        check_answers(t->a, t->thread, &answer, 1, done, done);
        claim_op(t, op, done);
        struct request *owner = request_open(t->a, op->owner);
        if (owner)
            context = decided(owner, op->known, op->span);
        serial = owner ? owner->serial : 0;
        span = op->span;
        pool_done(t->a, t->thread, op, done->start_ns);
    }
    foreach_child(t, done, i) read_item(t, i, &context);
    /* What an addon's operation calls at its end need not be a callback of Node's. */
    uint64_t took_ns = done->end_ns - done->start_ns;
    if (serial && serial != t->culprit && took_ns > t->longest_ns) {
        t->longest_ns = took_ns;
        t->culprit = serial;
        t->culprit_span = span;
    }
}

/* ---- callbacks ---- */

static const struct item *request_begun_in(const struct turn *t, const struct item *callback)
{
    foreach_child(t, callback, i)
    {
        const struct item *child = item_at(t, i);
        if ((child->event == SONDE_EVENT_http_request && child->small == 0) ||
            (child->event == SONDE_EVENT_ws_message && child->small == MESSAGE_ASKS) ||
            (child->event == SONDE_EVENT_queue_message && child->small == SONDE_queue_step_taken))
            return child;
    }
    return NULL;
}

static const char *type_of(const struct thread *thread, uint64_t async_id)
{
    const struct async_type *place =
        node_thread(thread)->types ? &node_thread(thread)->types[async_id % TYPES_KEPT] : NULL;
    return place && place->async_id == async_id ? place->type : NULL;
}

static bool type_is(const struct thread *thread, uint64_t async_id, const char *type)
{
    const char *known = type_of(thread, async_id);
    return known && strcmp(known, type) == 0;
}

static const char *cause_name(const struct context *c)
{
    if (!c->owner || c->cause == VSPAN_NONE || c->cause >= c->owner->spans.count)
        return NULL;
    const struct vspan *cause = &c->owner->spans.at[c->cause];
    switch (cause->kind) {
    case VSPAN_command:
        return cause->wire == SONDE_wire_resp ? "Redis reply" : "reply";
    case VSPAN_http:
        return "response handler";
    case VSPAN_pool:
        return "completion";
    case VSPAN_other:
        return "data received";
    }
    return NULL;
}

static uint32_t add_callback(struct turn *t, const struct item *item, struct context *c, const char *name)
{
    bool open = t->thread->unfinished && item->end_ns >= t->thread->finish_ns;
    struct vspan span = {.start_ns = item->start_ns,
                         .end_ns = open ? 0 : item->end_ns,
                         .parent = c->parent,
                         .cause = c->cause,
                         .layer = LAYER_code,
                         .kind = VSPAN_callback,
                         .known = c->known,
                         .shared = c->shared,
                         .name = name,
                         .detail = item->name};
    c->cause = VSPAN_NONE;
    return request_add_span(t->a, c->owner, &span);
}

static void own_async_id(struct turn *t, uint64_t async_id, const struct context *c, enum known known)
{
    if (!async_id || c->owner->async_ids.count >= ASYNC_IDS_MAX)
        return;
    uint64_t *place = map_put(&t->thread->async, async_id, NULL);
    if (!place || array_add(&c->owner->async_ids, async_id) < 0) {
        t->a->failed = true;
        return;
    }
    *place = async_pack(c->owner->serial, known);
}

/* A synchronous child process runs a loop of its own inside the callback, whose turns had what came before
 * read without the callback around it: the request that began in it has no callback yet. */
static struct request *request_missed_in(const struct turn *t, const struct item *callback)
{
    if (callback->end_ns - callback->start_ns < MISSED_MIN_NS)
        return NULL;
    array_foreach (&t->thread->open, request)
        if ((*request)->spans.count == 1 && (*request)->start_ns >= callback->start_ns &&
            (*request)->start_ns < callback->end_ns)
            return *request;
    return NULL;
}

static void end_resource(struct turn *t, const struct item *callback, struct context *c);

/* The system calls in a callback, but for those in callbacks within it, which have an owner of their own. */
static void add_calls(struct turn *t, const struct item *item, struct request *owner, uint32_t span)
{
    uint64_t from_ns = item->start_ns;
    foreach_child(t, item, i)
    {
        const struct item *child = item_at(t, i);
        if (child->event != SONDE_EVENT_node_callback)
            continue;
        if (child->start_ns > from_ns)
            below_callback(t->a, t->thread, owner, span, from_ns, child->start_ns);
        from_ns = MAX(from_ns, child->end_ns);
    }
    if (item->end_ns > from_ns)
        below_callback(t->a, t->thread, owner, span, from_ns, item->end_ns);
}

static void read_callback(struct turn *t, const struct item *item, struct context *outer)
{
    const struct item *beginning = request_begun_in(t, item);
    struct request *begun = beginning ? request_open(t->a, beginning->id) : NULL;
    if (!begun && !outer->owner)
        begun = request_missed_in(t, item);
    struct context c = *outer;
    if (outer->once) {
        uint64_t *own = map_get(&t->thread->async, item->id);
        *outer = UNDECIDED;
        if ((own && (!c.owner || async_serial(*own) != c.owner->serial)) ||
            (!own && type_is(t->thread, item->id, "HTTP2STREAM")))
            c = UNDECIDED;
    }
    c.in_callback = 1;
    c.late_write = type_is(t->thread, item->id, "WRITEWRAP");
    if (begun) {
        c = decided(begun, KNOWN_PROVED, VSPAN_NONE);
        c.begins = 1;
        if (beginning && beginning->count) /* 0: HTTP/1 */
            own_async_id(t, beginning->trigger, &c,
                         KNOWN_PROVED); /* its stream's callbacks; others' come in this turn too */
        else
            *outer = c; /* the parser's next callbacks in this turn are about it */
    } else if (!c.decided) {
        uint64_t *owner = map_get(&t->thread->async, item->id);
        c.owner = owner ? request_open(t->a, async_serial(*owner)) : NULL;
        c.known = c.owner ? (uint8_t)async_known(*owner) : KNOWN_NOT;
        c.decided = c.owner != NULL;
        /* What an HTTP/2 stream calls back goes on with its request. */
        c.begins = c.owner && c.owner->stream && c.owner->async_ids.at[0] == item->id;
    }
    c.in_callback = 1;
    c.callback = item->id;
    c.owner = hold(t, c.owner);
    const char *name = begun ? "request handler" : cause_name(&c);
    if (!name)
        name = resource_callback(type_of(t->thread, item->id));
    uint32_t span = VSPAN_NONE;
    if (c.owner) {
        end_resource(t, item, &c);
        span = add_callback(t, item, &c, name);
        outer->cause = VSPAN_NONE;
        if (span != VSPAN_NONE)
            c.parent = span;
    }
    uint64_t took_ns = item->end_ns - item->start_ns, gc_before = t->gc_ns;
    if (took_ns > t->longest_ns) {
        t->longest_ns = took_ns;
        t->culprit = c.owner ? c.owner->serial : 0;
        t->culprit_span = span;
        t->callback = name;
    }
    foreach_child(t, item, i) read_item(t, i, &c);
    if (c.owner && span < c.owner->spans.count) { /* a request that ended in it has none any more */
        c.owner->spans.at[span].gc_ns = t->gc_ns - gc_before;
        add_calls(t, item, c.owner, span);
    }
    if (c.owner && c.owner->process)
        websocket_handled(c.owner, item->end_ns);
}

/* ---- what happens inside ---- */

static void count_known(struct analysis *a, const struct context *c)
{
    a->counts.proved += c->owner && c->known == KNOWN_PROVED;
    a->counts.inferred += c->owner && c->known == KNOWN_INFERRED;
    a->counts.ambiguous += !c->owner && c->known == KNOWN_AMBIGUOUS;
    a->counts.outside += !c->owner && c->known != KNOWN_AMBIGUOUS;
}

static void read_submit(struct turn *t, const struct item *item, const struct context *c)
{
    uint64_t *known = map_get(&node_process(t->thread->process)->pool, item->id);
    struct pool_op *op = known ? (struct pool_op *)(uintptr_t)*known : NULL;
    const struct context whose = turn_told(t, item, c);
    count_known(t->a, &whose);
    if (whose.told && whose.owner)
        context_counted(t->a, t->thread->process);
    if (whose.owner)
        whose.owner->last_active_ns = item->start_ns;
    if (!op)
        return;
    op->known = whose.known;
    op->told = whose.told;
    if (whose.owner)
        add_pool_span(t, op, whose.owner, whose.known, whose.parent);
}

/* An agent keeps requests until a connection is free, which may be in another request's callback. What asked
 * for it has an async id: if that was created before this turn, the request is not this callback's. */
static void settle_http(struct turn *t, struct call *call, const struct context *c)
{
    uint64_t trigger = t->client_trigger;
    t->client_trigger = 0;
    if (!trigger || trigger > node_thread(t->thread)->newest_id) {
        bool kept = !trigger && call->after_other && c->known == KNOWN_PROVED;
        call_settle(t->a, call, c->owner, kept ? KNOWN_INFERRED : c->known, c->parent);
        return;
    }
    uint64_t *known = map_get(&t->thread->async, trigger);
    struct request *owner = known ? request_open(t->a, async_serial(*known)) : NULL;
    if (owner && async_known(*known) != KNOWN_AMBIGUOUS)
        call_settle(t->a, call, owner, async_known(*known), 0);
    else
        call_settle(t->a, call, NULL, KNOWN_AMBIGUOUS, 0);
}

static void read_calls(struct turn *t, const struct item *item, const struct context *c)
{
    struct connection *connection = connection_get(t->thread->process, item->fd, item->generation);
    const struct context whose = turn_told(t, item, c);
    if (exchange_joins(connection, item->id)) {
        uint64_t first = connection->calls.at[connection->first_call].owner;
        connection->overlaps |= whose.owner && first && first != whose.owner->serial;
        return;
    }
    if (whose.owner)
        whose.owner->last_active_ns = item->start_ns;
    for (uint32_t i = 0; connection && i < item->count; i++) {
        struct call *call = call_at(connection, item->id + i);
        if (!call)
            continue;
        call->told = whose.told;
        if (call->kind == VSPAN_http && item->context <= CONTEXT_NONE)
            settle_http(t, call, &whose);
        else
            call_settle(t->a, call, whose.owner, whose.known, whose.parent);
        if (connection->protocol && connection->protocol->settled)
            connection->protocol->settled(t->a, connection, call);
        const struct call *oldest = call_at(connection, connection->calls_gone + connection->answering);
        connection->pipelined |= oldest && oldest->owner && call->owner && oldest->owner != call->owner;
    }
}

/* A response written in a callback of unknown owner: at this moment it served that request. */
static void read_response(struct turn *t, uint64_t serial, const struct context *c)
{
    struct request *request = request_open(t->a, serial);
    if (request)
        request->answered_by_timer = t->phase == SONDE_uv_phase_timers;
    if (request && t->io) {
        request->answered_fd = t->io->fd + 1;
        request->answered_generation = t->io->generation;
        request->answered_io_ns = t->io_ns;
    }
    if (!request || c->owner || !c->in_callback)
        return;
    if (c->late_write && t->io && connection_is_pipe(t->io))
        ipc_wrote_behind(t->a, t->io, request, only_request(t->thread, request, request->start_ns), t->io_ns);
    request_add_span(t->a, request,
                     &(struct vspan){.start_ns = request->response_ns,
                                     .end_ns = request->response_ns,
                                     .parent = 0,
                                     .cause = VSPAN_NONE,
                                     .layer = LAYER_code,
                                     .kind = VSPAN_callback,
                                     .known = KNOWN_INFERRED,
                                     .shared = 1,
                                     .name = "response written in a shared callback"});
}

/* What the program measured, however many callbacks that took. Measures of what began before the request, as
 * its process's start, are not its own. */
static void read_measure(struct turn *t, const struct item *item, const struct context *c)
{
    const struct context whose = turn_told(t, item, c);
    struct request *owner = whose.owner;
    uint64_t start_ns = item->trigger;
    if (!owner || start_ns < owner->start_ns)
        return;
    bool within = whose.parent < owner->spans.count && owner->spans.at[whose.parent].start_ns <= start_ns;
    request_add_span(t->a, owner,
                     &(struct vspan){.start_ns = start_ns,
                                     .end_ns = item->id,
                                     .parent = within ? whose.parent : 0,
                                     .cause = VSPAN_NONE,
                                     .layer = LAYER_code,
                                     .kind = VSPAN_measure,
                                     .known = whose.known,
                                     .told = whose.told,
                                     .name = item->name ? item->name : "(unnamed)"});
}

static void read_init(struct turn *t, const struct item *item, const struct context *c)
{
    const char *operation = resource_operation(item->name);
    if (item->name && strcmp(item->name, "WRITEWRAP") == 0)
        t->write_wrap = item->id;
    if (!c->owner)
        return;
    /* What this callback's own code makes has its id as trigger. */
    bool sure =
        (item->trigger && item->trigger == c->callback) || only_request(t->thread, c->owner, t->start_ns);
    enum known known = sure ? (enum known)c->known : KNOWN_AMBIGUOUS;
    /* A session that a request opened serves others too. */
    if (!item->name || strcmp(item->name, "HTTP2SESSION") != 0)
        own_async_id(t, item->id, c, known);
    if (!operation)
        return;
    c->owner->open_calls++;
    request_add_span(t->a, c->owner,
                     &(struct vspan){.start_ns = item->start_ns,
                                     .parent = c->parent,
                                     .cause = VSPAN_NONE,
                                     .layer = LAYER_loop,
                                     .kind = VSPAN_other,
                                     .known = (uint8_t)known,
                                     .name = operation,
                                     .sequence = item->id});
}

/* The operation that this callback completes. */
static void end_resource(struct turn *t, const struct item *callback, struct context *c)
{
    const char *type = type_of(t->thread, callback->id);
    bool write = type && strcmp(type, "WRITEWRAP") == 0;
    if (!write && !resource_operation(type))
        return;
    for (uint32_t i = (uint32_t)c->owner->spans.count; i-- > 1;) {
        struct vspan *span = &c->owner->spans.at[i];
        if (span->kind != (write ? VSPAN_ipc : VSPAN_other) || span->sequence != callback->id || span->end_ns)
            continue;
        span->end_ns = callback->start_ns;
        c->owner->open_calls -= !write && c->owner->open_calls > 0;
        c->cause = i;
        span->unusual = attl_add(t->a, t->thread->process->service, span);
        return;
    }
}

static void read_ipc_write(struct turn *t, const struct item *item, const struct context *c)
{
    struct connection *connection = connection_get(t->thread->process, item->fd, item->generation);
    const struct context whose = turn_told(t, item, c);
    if (connection)
        ipc_wrote(t->a, connection, &whose, item->start_ns, item->id, item->trigger ? t->write_wrap : 0);
    t->write_wrap = 0;
}

/* A client writes the messages of several callbacks at once: of which request one is, is then known only
 * where there is no other. */
static void read_message(struct turn *t, const struct item *item, const struct context *c)
{
    struct context whose = turn_told(t, item, c);
    if (item->context == SONDE_CONTEXT_LOST && t->thread->open.count == 1)
        whose = decided(t->thread->open.at[0], KNOWN_INFERRED, VSPAN_NONE);
    uint32_t parent = whose.owner && whose.parent < whose.owner->spans.count ? whose.parent : 0;
    queue_sent_for(t->a, item->id, whose.owner, (enum known)whose.known, parent);
}

/* The requests but one whose responses are written in this part of the turn, in their order. */
static size_t answered_all(const struct turn *t, const struct item *item, const struct request *except,
                           struct request **list, size_t count, uint64_t *last_ns)
{
    foreach_child_of(t->thread, item, child)
    {
        if (child->event != SONDE_EVENT_http_response || child->small != SONDE_side_server) {
            count = answered_all(t, child, except, list, count, last_ns);
            continue;
        }
        struct request *request = request_open(t->a, child->id);
        bool known = !request || request == except;
        for (size_t i = 0; i < count && !known; i++)
            known = list[i] == request;
        if (known || count == PORT_ANSWERS_MAX)
            continue;
        list[count++] = request;
        *last_ns = child->start_ns;
    }
    return count;
}

/* Whose answer it was is known since the message was posted, or shows in who is answered in the turn. A pool
 * may take the answers of its other threads in the same turn: then as many requests are answered, in that
 * order. */
static void read_receive(struct turn *t, const struct item *item, struct context *c)
{
    struct request *owner = item->fd == 1 ? request_open(t->a, item->id) : NULL, *list[PORT_ANSWERS_MAX];
    struct channel *own = owner ? NULL : item->pointer;
    uint64_t last_ns = 0;
    size_t first = own != NULL, count = 0;
    *c = owner ? decided(owner, KNOWN_INFERRED, item->count) : UNDECIDED;
    if (item->fd == 1 && (owner || own))
        count = answered_all(t, item_at(t, t->port_turn), owner, list, 0, &last_ns);
    if (count < first || (count > first && !ports_claim_taken(t->a, t->thread, own, item->start_ns, last_ns,
                                                              list + first, count - first)))
        return;
    enum known known = KNOWN_NOT;
    uint32_t span = own ? port_claim(t->a, t->thread, own, list[0], &known) : VSPAN_NONE;
    if (span != VSPAN_NONE && known == KNOWN_INFERRED)
        *c = decided(list[0], known, span);
}

void read_item(struct turn *t, uint32_t index, struct context *c)
{
    const struct item *item = item_at(t, index);
    c->owner = hold(t, c->owner);
    switch (item->event) {
    case SONDE_EVENT_node_callback:
        read_callback(t, item, c);
        break;
    case SONDE_EVENT_node_async_init:
        read_init(t, item, c);
        t->newest_id = MAX(t->newest_id, item->id);
        if (item->name && strcmp(item->name, "HTTPCLIENTREQUEST") == 0)
            t->client_trigger = item->trigger;
        break;
    case SONDE_EVENT_uv_submit:
        read_submit(t, item, c);
        break;
    case SONDE_EVENT_stream_write:
        if (item->small == ITEM_IPC)
            read_ipc_write(t, item, c);
        else
            read_calls(t, item, c);
        break;
    case SONDE_EVENT_http_request:
        if (item->small == 1)
            read_calls(t, item, c);
        break;
    case SONDE_EVENT_port_post: {
        const struct context whose = turn_told(t, item, c);
        port_owned(t->a, item->pointer, item->trigger, &whose);
        break;
    }
    case SONDE_EVENT_port_receive:
        read_receive(t, item, c);
        break;
    case SONDE_EVENT_ws_message:
        if (item->small == MESSAGE_SENT)
            read_calls(t, item, c);
        else if (item->small == MESSAGE_ANSWERS)
            websocket_answered(t->a, t->thread, turn_told(t, item, c).owner, item->start_ns);
        else if (item->small == MESSAGE_BACK)
            *c = decided(request_open(t->a, item->id), (enum known)item->fd, item->count), c->once = 1;
        break;
    case SONDE_EVENT_queue_message:
        if (item->small == SONDE_queue_step_sent)
            read_message(t, item, c);
        break;
    case SONDE_EVENT_http_response:
    case SONDE_EVENT_http_end:
        if (item->small == 1)
            *c = decided(request_open(t->a, item->id), (enum known)item->fd, item->count),
            c->once = item->trigger != 0;
        else
            read_response(t, item->id, c);
        break;
    case SONDE_EVENT_js_measure:
        read_measure(t, item, c);
        break;
    case SONDE_EVENT_js_function:
        function_read(t, item, c);
        break;
    case SONDE_EVENT_js_settled:
        function_settled(t, item);
        break;
    case SONDE_EVENT_v8_gc:
    case SONDE_EVENT_v8_regexp:
    case SONDE_EVENT_v8_encode:
    case SONDE_EVENT_uv_run:
        read_runtime_span(t, item, c);
        break;
    case SONDE_EVENT_stream_io:
        read_io(t, item);
        break;
    case SONDE_EVENT_uv_done:
        read_done(t, item);
        break;
    case SONDE_EVENT_port_turn: {
        uint32_t outer = t->port_turn;
        t->port_turn = index;
        foreach_child(t, item, i) read_item(t, i, c);
        t->port_turn = outer;
        break;
    }
    default:
        foreach_child(t, item, i) read_item(t, i, c);
    }
}

/* ---- the turn ---- */

/* Who could have gone on meanwhile lost the time in which the loop collected or encoded. */
static void charge(struct analysis *a, struct thread *thread, const struct turn *turn, uint64_t start_ns,
                   uint64_t end_ns)
{
    array_foreach (&thread->open, place) {
        struct request *request = *place;
        bool own = request->serial == turn->culprit;
        uint64_t held_ns = own ? end_ns - start_ns : request_held_up_ns(request, start_ns, end_ns);
        request->gc_ns += MIN(held_ns, turn->gc_ns);
        request->encode_ns += MIN(held_ns, turn->encode_ns);
    }
}

void node_read_turn(struct analysis *a, struct thread *thread, uint32_t root, uint8_t phase)
{
    struct turn turn = {.a = a,
                        .thread = thread,
                        .port_turn = root,
                        .phase = phase,
                        .start_ns = thread->items.at[root].start_ns};
    struct context context = UNDECIDED;
    uint64_t start_ns = thread->items.at[root].start_ns, end_ns = thread->items.at[root].end_ns;
    bool main_script =
        !node_thread(thread)->had_phase && thread->items.at[root].event == SONDE_EVENT_node_callback;
    read_item(&turn, root, &context);
    release(&turn);
    node_thread(thread)->newest_id = MAX(node_thread(thread)->newest_id, turn.newest_id);
    if (end_ns == start_ns)
        return;
    uint64_t net_ns = activity_net_ns(thread, start_ns, end_ns), own_ns = net_ns - MIN(turn.gc_ns, net_ns);
    stretch_active(thread, start_ns, end_ns);
    loop_turn(a, thread, start_ns, end_ns, net_ns);
    if (end_ns - start_ns >= LONG_TURN_NS)
        thread->long_turns[thread->long_turn_count++ % LONG_TURNS] = (struct long_turn){start_ns, end_ns, 0};
    /* What waited for a CPU most of its time is short, and tells of the machine's load besides. */
    bool encodes = encode_turn(thread->process, own_ns, turn.encode_ns);
    if (net_ns < a->options.stall_ns) {
        if (turn.gc_ns || turn.encode_ns)
            charge(a, thread, &turn, start_ns, end_ns);
        short_turn(a, thread, request_open(a, turn.culprit), start_ns, end_ns, own_ns, encodes);
    }
    if (end_ns - start_ns < a->options.stall_ns)
        return;
    struct stretch *s = stretch_turn(a, thread, start_ns, end_ns, turn.culprit);
    if (!s)
        return;
    array_foreach (&s->looks, look)
        if (encodes)
            seen_add(a, &thread->process->encode_seen, look);
    const struct request *culprit = request_open(a, turn.culprit);
    s->culprit = turn.culprit;
    s->culprit_span = turn.culprit_span;
    s->encodes = encodes;
    s->phase = phase;
    s->gc_ns = turn.gc_ns;
    s->sync_ns = turn.sync_ns;
    s->sync_kind = turn.sync_kind;
    s->encode_ns = turn.encode_ns;
    s->encode_what = turn.encode_what;
    s->callback = main_script ? "main script" : turn.callback;
    s->route = culprit ? node_endpoint_name(a, culprit) : NULL;
    s->unfinished = thread->unfinished;
    /* What runs before the loop's first phase is the main script; a turn full of synchronous calls loads
     * modules. */
    stretch_say_place(a, s);
    s->starting = main_script;
    s->many_calls = turn.sync_count >= LOADING_CALLS;
    s->first = culprit ? endpoint_is_new(a, culprit) : !thread->process->answered_count;
}
