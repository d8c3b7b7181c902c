/* Messages that go through a broker (AMQP, NATS, MQTT, streams of Redis): each that is taken is a request of
 * its own, from then until it is dealt with, and is joined to the request that sent it by the message's
 * identity, whether or not the broker is traced. Several with the same text are taken in the order in which
 * they were sent. Messages that one read brings are handed to JavaScript at once and are one request.
 *
 * A message that nobody acknowledges or answers ends as a WebSocket's: with the last that was seen of its
 * handler. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "faults/faults.h"
#include "protocols/http.h"
#include "protocols/protocols.h"
#include "protocols/messages.h"
#include "protocols/exchange.h"
#include "protocols/websocket.h"
#include "base/clock.h"

enum { METHOD_OTHER = 255, DELIVERIES_MAX = 256 };

/* How much later than it was taken its sending may be written down: a time slice or two. */
static const uint64_t EARLY_NS = 100 * NS_PER_MS;

/* ---- the messages that are known ---- */

static void forget_in(struct map *map, uint64_t key, uint64_t number)
{
    uint64_t *head = key ? map_get(map, key) : NULL;
    if (head && *head == number)
        map_remove(map, key);
}

static struct queue_message *message_new(struct analysis *a, uint64_t identity)
{
    if (!a->messages && !(a->messages = calloc(QUEUE_MESSAGES, sizeof(*a->messages)))) {
        a->failed = true;
        return NULL;
    }
    uint64_t number = ++a->message_count;
    struct queue_message *m = &a->messages[number % QUEUE_MESSAGES];
    forget_in(&a->messages_sent, m->identity, m->sequence);
    forget_in(&a->messages_early, m->identity, m->sequence);
    forget_in(&a->messages_taken, m->key, m->sequence);
    *m = (struct queue_message){.sequence = number, .identity = identity, .span = VSPAN_NONE};
    return m;
}

static void note(struct analysis *a, struct map *map, uint64_t key, uint64_t number)
{
    uint64_t *head = map_put(map, key, NULL);
    if (head)
        *head = number;
    else
        a->failed = true;
}

/* The oldest of those that were sent with this identity and not taken. */
static struct queue_message *untaken(struct analysis *a, uint64_t identity)
{
    uint64_t *head = map_get(&a->messages_sent, identity);
    struct queue_message *m = head ? queue_message_at(a, *head) : NULL;
    if (head && (!m || !m->next))
        map_remove(&a->messages_sent, identity);
    else if (head)
        *head = m->next;
    return m;
}

static void add_untaken(struct analysis *a, struct queue_message *m)
{
    uint64_t *head = map_get(&a->messages_sent, m->identity);
    struct queue_message *last = head ? queue_message_at(a, *head) : NULL;
    if (!last) {
        note(a, &a->messages_sent, m->identity, m->sequence);
        return;
    }
    for (struct queue_message *next; (next = queue_message_at(a, last->next));)
        last = next;
    last->next = m->sequence;
}

/* ---- joining ---- */

/* Both ends are known, or one of them has changed. */
static void join(struct analysis *a, struct queue_message *m)
{
    struct request *owner = request_open(a, m->owner), *job = request_get(a, m->job);
    struct vspan *span = owner && m->span != VSPAN_NONE ? &owner->spans.at[m->span] : NULL;
    if (!span || !job || job == owner)
        return;
    if (!span->child) {
        span->child = request_ref(job);
        job->caller = job->caller ? job->caller : owner;
    }
    if (m->done_ns && span->end_ns == span->start_ns)
        span->end_ns = MAX(m->done_ns, span->start_ns);
}

void queue_sent_for(struct analysis *a, uint64_t number, struct request *owner, enum known known,
                    uint32_t parent)
{
    struct queue_message *m = queue_message_at(a, number);
    if (!m || !owner || m->owner)
        return;
    m->owner = owner->serial;
    m->span = request_add_span(a, owner,
                               &(struct vspan){.start_ns = m->sent_ns,
                                               .end_ns = m->sent_ns,
                                               .parent = parent,
                                               .cause = VSPAN_NONE,
                                               .layer = LAYER_http,
                                               .kind = VSPAN_http,
                                               .known = (uint8_t)known,
                                               .message = 1,
                                               .name = m->name,
                                               .peer = m->peer,
                                               .sequence = m->sequence,
                                               .written_bytes = m->bytes});
    join(a, m);
}

/* ---- sending ---- */

static const char *name_of(struct analysis *a, const char *queue)
{
    char name[320] = "message to ";
    strncat(name, queue ? route_of(a, queue) : "a queue", 256);
    return intern_string(a, name);
}

static void sent(struct analysis *a, struct thread *thread, const struct connection *c, const struct event *e)
{
    const char *queue = process_name_of(thread->process, U(e, queue_message_queue));
    uint64_t identity = U(e, queue_message_identity), *early = map_get(&a->messages_early, identity);
    struct queue_message *m = early ? queue_message_at(a, *early) : NULL;
    if (early)
        map_remove(&a->messages_early, identity);
    if (m && m->taken_ns + EARLY_NS < e->time_ns)
        m = NULL;
    bool taken = m != NULL;
    if (!m && !(m = message_new(a, identity)))
        return;
    m->sent_ns = taken ? MIN(e->time_ns, m->taken_ns) : e->time_ns;
    m->queue = queue;
    m->name = name_of(a, queue);
    m->peer = c->peer_name;
    m->sender_pid = thread->process->pid;
    m->bytes = U(e, queue_message_bytes);
    if (!taken)
        add_untaken(a, m);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = SONDE_queue_step_sent;
        item->context = (uint32_t)U(e, queue_message_context);
        item->id = m->sequence;
    }
}

/* ---- taking ---- */

/* What this process takes was sent while its sender had one message of this process in hand: that is dealt
 * with as far as its sender waits for it, also where it is acknowledged later. */
static void answers(struct analysis *a, struct thread *thread, const struct queue_message *m)
{
    struct queue_message *asked = NULL;
    array_foreach (&a->consumers, place) {
        const struct connection *c = consumer_connection(*place, m->sender_pid);
        for (size_t i = 0; c && i < c->deliveries.count; i++) {
            struct queue_message *open = queue_message_at(a, c->deliveries.at[i]);
            const struct request *owner = open && !open->done_ns ? request_open(a, open->owner) : NULL;
            if (!owner || owner->process != thread->process || open->taken_ns > m->sent_ns)
                continue;
            if (asked && asked != open)
                return;
            asked = open;
        }
    }
    struct request *owner = asked ? request_open(a, asked->owner) : NULL;
    if (owner && asked->span != VSPAN_NONE)
        owner->spans.at[asked->span].end_ns = m->taken_ns;
}

/* Settlements name a delivery of the connection (AMQP), of any of its process, or of a queue (jobs; NULL). */
static uint64_t delivery_key(const struct connection *c, uint64_t number, const char *queue)
{
    uint64_t words[] = {(uint64_t)c->process->pid, c->protocol == &protocol_amqp ? (uintptr_t)c : 0, number,
                        (uintptr_t)queue};
    return map_hash(words, sizeof(words));
}

static struct request *job_of(struct analysis *a, struct thread *thread, struct connection *c,
                              const struct event *e, const char *queue)
{
    uint32_t context = (uint32_t)U(e, queue_message_context);
    struct request *same = context > CONTEXT_NONE ? context_owner(a, thread, context) : NULL;
    if (same && same->messages) {
        same->messages++;
        return same;
    }
    const char *path = queue ? queue : "";
    struct request *job = request_new(a, thread, e->time_ns, METHOD_OTHER, path, strlen(path));
    if (!job)
        return NULL;
    job->messages = 1;
    job->method = job->spans.at[0].name = intern_string(a, "MESSAGE");
    LIST_ADD(a, &c->waiting, job->serial);
    if (context > CONTEXT_NONE)
        context_begins(a, thread, job, context);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (item) {
        item->small = SONDE_queue_step_taken;
        item->id = job->serial;
        item->count = 1;
    }
    return job;
}

/* Of those that are never dealt with, or long after, the oldest are forgotten. */
static void add_delivery(struct analysis *a, struct connection *c, uint64_t sequence)
{
    if (c->deliveries.count >= DELIVERIES_MAX) {
        c->deliveries.count -= DELIVERIES_MAX / 2;
        memmove(c->deliveries.at, c->deliveries.at + DELIVERIES_MAX / 2,
                c->deliveries.count * sizeof(*c->deliveries.at));
    }
    LIST_ADD(a, &c->deliveries, sequence);
}

static void taken(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e)
{
    websocket_end_old(a, thread, c, e->time_ns);
    const char *queue = process_name_of(thread->process, U(e, queue_message_queue));
    uint64_t identity = U(e, queue_message_identity), number = U(e, queue_message_number);
    struct queue_message *m = untaken(a, identity);
    if (!m && !(m = message_new(a, identity)))
        return;
    if (!m->sent_ns)
        note(a, &a->messages_early, identity, m->sequence);
    m->is_job = U(e, queue_message_step) == SONDE_queue_step_begun;
    if (!queue && m->is_job)
        queue = m->queue;
    struct request *job = job_of(a, thread, c, e, queue);
    m->taken_ns = e->time_ns;
    m->job = job ? job->serial : 0;
    if (job && m->is_job) /* what it does goes on where the job was asked for, as what other jobs do */
        job->ambiguous++;
    m->connection_fd = c->fd;
    m->connection_generation = c->generation;
    m->pid = c->process->pid;
    m->delivery = number;
    m->consumer = consumer_of(a, c, queue, e->time_ns);
    if (m->sent_ns)
        consumers_judge(a, m->consumer, m);
    bool ends = number && (queue || !m->is_job); /* it can be said that it is dealt with */
    if (ends && m->is_job)
        consumer_begins(a, m->consumer, thread->tid, m->sequence, e->time_ns);
    else if (ends)
        consumer_takes(m->consumer, e->time_ns);
    if (ends) {
        m->key = delivery_key(c, number, m->is_job ? queue : NULL);
        note(a, &a->messages_taken, m->key, m->sequence);
        add_delivery(a, c, m->sequence);
    }
    join(a, m);
    if (m->sender_pid)
        answers(a, thread, m);
}

/* ---- the end ---- */

static bool is_open(struct analysis *a, const struct connection *c, uint64_t job)
{
    array_foreach (&c->deliveries, sequence) {
        const struct queue_message *m = queue_message_at(a, *sequence);
        if (m && m->job == job && !m->done_ns)
            return true;
    }
    return false;
}

static void is_done(struct analysis *a, struct thread *thread, struct connection *c, struct queue_message *m,
                    uint64_t now_ns)
{
    if (m->done_ns)
        return;
    m->done_ns = MAX(now_ns, m->taken_ns);
    consumer_is_done(a, m->consumer, m);
    struct request *job = request_open(a, m->job);
    if (job && !is_open(a, c, m->job)) {
        uint64_t *slot = map_get(&job->process->threads, (uint64_t)job->tid);
        websocket_answered(a, slot ? (struct thread *)(uintptr_t)*slot : thread, job, m->done_ns);
    }
    join(a, m);
}

/* Those of the connection's deliveries that are dealt with; all: every one, else those of a channel (the
 * upper bits of number) up to it. */
static void are_done(struct analysis *a, struct thread *thread, struct connection *c, bool all,
                     uint64_t number, uint64_t now_ns)
{
    const uint64_t TAG = ((uint64_t)1 << 48) - 1;
    array_foreach (&c->deliveries, sequence) {
        struct queue_message *m = queue_message_at(a, *sequence);
        if (m &&
            (all || ((m->delivery & ~TAG) == (number & ~TAG) && (!(number & TAG) || m->delivery <= number))))
            is_done(a, thread, c, m, now_ns);
    }
}

static void clear_done(struct analysis *a, struct connection *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->deliveries.count; i++) {
        const struct queue_message *m = queue_message_at(a, c->deliveries.at[i]);
        if (m && !m->done_ns)
            c->deliveries.at[kept++] = c->deliveries.at[i];
    }
    c->deliveries.count = kept;
}

static void settled(struct analysis *a, struct thread *thread, struct connection *c, const struct event *e)
{
    bool may_be_job = U(e, queue_message_wire) == SONDE_wire_resp;
    const char *queue = may_be_job ? process_name_of(thread->process, U(e, queue_message_queue)) : NULL;
    uint64_t *known = map_get(&a->messages_taken, delivery_key(c, U(e, queue_message_number), queue));
    struct queue_message *m = known ? queue_message_at(a, *known) : NULL;
    if (!m)
        return;
    struct connection *taker = connection_get(thread->process, m->connection_fd, m->connection_generation);
    if (!taker)
        return;
    is_done(a, thread, taker, m, e->time_ns);
    clear_done(a, taker);
}

static void message_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *c = connection_need(a, thread->process, (int32_t)I(e, queue_message_fd),
                                           (uint32_t)U(e, queue_message_generation), e->time_ns);
    if (!c)
        return;
    if (!c->protocol)
        exchange_is_of(a, c, command_protocol((uint8_t)U(e, queue_message_wire)));
    switch (U(e, queue_message_step)) {
    case SONDE_queue_step_sent:
        sent(a, thread, c, e);
        break;
    case SONDE_queue_step_taken:
    case SONDE_queue_step_begun:
        taken(a, thread, c, e);
        break;
    case SONDE_queue_step_settled:
        settled(a, thread, c, e);
        break;
    case SONDE_queue_step_settled_all:
    case SONDE_queue_step_asked:
        c->takes_messages |= U(e, queue_message_step) == SONDE_queue_step_asked;
        are_done(a, thread, c, U(e, queue_message_step) == SONDE_queue_step_asked, U(e, queue_message_number),
                 e->time_ns);
        clear_done(a, c);
        break;
    }
}

/* The broker gives back what was not dealt with. */
static void closed(struct analysis *a, struct thread *thread, struct connection *c, uint64_t now_ns)
{
    if (!c->deliveries.count)
        return;
    are_done(a, thread, c, true, 0, now_ns);
    clear_done(a, c);
}

static void forget(struct analysis *a, struct connection *c)
{
    array_done(&c->deliveries);
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_queue_message, message_event}, {0}};

/* Nothing is an answer to what was written: the messages say whose they are. */
const struct protocol protocol_amqp = {.name = "amqp",
                                       .wire = SONDE_wire_amqp,
                                       .command = "message",
                                       .events = EVENTS,
                                       .closed = closed,
                                       .forget = forget};
const struct protocol protocol_nats = {.name = "nats", .wire = SONDE_wire_nats, .command = "message"};
const struct protocol protocol_mqtt = {.name = "mqtt", .wire = SONDE_wire_mqtt, .command = "message"};
