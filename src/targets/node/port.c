/* Messages between the threads of a process (worker_threads): who posts to whom, who waits for whom, how long
 * an answer takes. A port is known by its handle; the way back of a channel has the same two, changed round.
 * What a thread without requests posts while the other one waits for an answer is that answer, of the oldest
 * message: nothing says so, as on pipes (ipc.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "model/reading.h"
#include "targets/node/state.h"

enum { WAITING_MAX = 1024, CHANNELS_MAX = 4096 };

static struct channel *find(const struct process *process, uint64_t from, uint64_t target)
{
    array_foreach (&process->channels, c)
        if ((*c)->from == from && (*c)->target == target)
            return *c;
    return NULL;
}

static struct channel *channel_need(struct analysis *a, struct process *process, uint64_t from,
                                    uint64_t target)
{
    struct channel *c = find(process, from, target);
    if (!c && (c = find(process, from, 0)))
        c->target = target; /* posted to before the other end was there */
    if (c)
        return c;
    c = process->channels.count < CHANNELS_MAX ? calloc(1, sizeof(*c)) : NULL;
    if (!c)
        return NULL;
    *c = (struct channel){.from = from, .target = target};
    if (array_add(&process->channels, c) < 0) {
        a->failed = true;
        free(c);
        return NULL;
    }
    return c;
}

/* The two ways of a pair of ports. */
static void pair(struct analysis *a, struct process *process, struct channel *c)
{
    if (c->back || !c->from || !c->target)
        return;
    c->back = channel_need(a, process, c->target, c->from);
    if (c->back)
        c->back->back = c;
}

void channels_free(struct process *process)
{
    array_foreach (&process->channels, c) {
        array_done(&(*c)->messages);
        free((*c)->lane);
        free(*c);
    }
    array_done(&process->channels);
}

static void drop(struct channel *c, size_t at)
{
    memmove(c->messages.at + at, c->messages.at + at + 1,
            (--c->messages.count - at) * sizeof(*c->messages.at));
}

static struct port_message *oldest_question(const struct channel *c, uint64_t before_ns)
{
    for (size_t i = 0; c && i < c->messages.count && c->messages.at[i].sent_ns < before_ns; i++)
        if (!c->messages.at[i].answer)
            return &c->messages.at[i];
    return NULL;
}

static const char *name_of(struct analysis *a, const struct channel *c)
{
    char name[64];
    if (!c->to_tid)
        return intern_string(a, "another thread");
    snprintf(name, sizeof(name), "thread %lld of the same process", (long long)c->to_tid);
    return intern_string(a, name);
}

/* port:post. Its item finds the message again when the turn is read. */
void port_posted(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct channel *c = channel_need(a, thread->process, U(e, port_post_from), U(e, port_post_target));
    if (!c)
        return;
    pair(a, thread->process, c);
    c->from_tid = thread->tid;
    if (c->back)
        c->back->to_tid = thread->tid;
    if (c->messages.count == WAITING_MAX) /* a channel that is only posted to */
        drop(c, 0);
    struct port_message message = {.sent_ns = e->time_ns, .span = VSPAN_NONE, .number = ++c->posts};
    message.answer = !thread->open.count && oldest_question(c->back, e->time_ns);
    LIST_ADD(a, &c->messages, message);
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (!item)
        return;
    item->context = (uint32_t)U(e, port_post_context);
    item->pointer = c;
    item->trigger = c->posts;
}

/* Whose the message is. */
void port_owned(struct analysis *a, struct channel *c, uint64_t number, const struct context *whose)
{
    struct request *owner = whose->owner;
    struct port_message *m = NULL;
    for (size_t i = c->messages.count; i-- > 0 && !m;)
        if (c->messages.at[i].number == number)
            m = &c->messages.at[i];
    if (!owner || !m || m->answer)
        return;
    m->owner = owner->serial;
    m->span = request_add_span(a, owner,
                               &(struct vspan){.start_ns = m->sent_ns,
                                               .parent = whose->parent,
                                               .cause = VSPAN_NONE,
                                               .layer = LAYER_loop,
                                               .kind = VSPAN_ipc,
                                               .known = whose->known,
                                               .told = whose->told,
                                               .name = THREAD_MESSAGE,
                                               .peer = name_of(a, c),
                                               .peer_tid = c->to_tid,
                                               .work_start_ns = m->work_start_ns});
}

static struct vspan *span_of(const struct analysis *a, const struct port_message *m)
{
    struct request *owner = m->span != VSPAN_NONE ? request_open(a, m->owner) : NULL;
    return owner ? &owner->spans.at[m->span] : NULL;
}

/* A thread that is in its turn takes what is posted meanwhile without telling; a receipt after the answer is
 * of a turn that found nothing more. Then it began when both were there, the message and the thread. */
static uint64_t begun_ns(const struct channel *c, const struct port_message *m, uint64_t answer_sent_ns)
{
    bool told = m->work_start_ns && m->work_start_ns <= answer_sent_ns;
    return told ? m->work_start_ns : MIN(MAX(m->sent_ns, c->answered_ns), answer_sent_ns);
}

/* A task whose owner was not known when it was posted, as from a pool's queue in the callback of another one:
 * it was the request's that alone was answered in the turn that its answer came in, if there has been no
 * other since. With another, that one may go on with its next task, and the one that is answered have waited
 * for it: then it is ambiguous. */
uint32_t port_claim(struct analysis *a, const struct thread *thread, struct channel *c, struct request *owner,
                    enum known *ret_known)
{
    const struct port_task *task = &c->last;
    if (task->sent_ns < owner->start_ns)
        return VSPAN_NONE;
    *ret_known = only_request(thread, owner, task->sent_ns) ? KNOWN_INFERRED : KNOWN_AMBIGUOUS;
    uint32_t index = request_add_span(a, owner,
                                      &(struct vspan){.start_ns = task->sent_ns,
                                                      .end_ns = MAX(task->read_ns, task->sent_ns),
                                                      .parent = 0,
                                                      .cause = VSPAN_NONE,
                                                      .layer = LAYER_loop,
                                                      .kind = VSPAN_ipc,
                                                      .known = (uint8_t)*ret_known,
                                                      .name = THREAD_MESSAGE,
                                                      .peer = name_of(a, c),
                                                      .peer_tid = c->to_tid,
                                                      .work_start_ns = task->begun_ns,
                                                      .work_end_ns = task->answer_ns});
    lane_worked(a, c, owner->serial);
    return index;
}

/* The oldest message that went the other way before this answer. */
static void answered(struct analysis *a, const struct process *process, struct channel *c,
                     uint64_t answer_sent_ns, uint64_t now_ns, struct item *item)
{
    const struct port_message *m = oldest_question(c, answer_sent_ns);
    if (!m)
        return;
    struct vspan *span = span_of(a, m);
    c->last = (struct port_task){m->sent_ns, begun_ns(c, m, answer_sent_ns), answer_sent_ns, now_ns};
    lane_worked(a, c, span ? m->owner : 0);
    item->pointer = span ? NULL : c;
    uint64_t took_ns = now_ns - MIN(m->sent_ns, now_ns);
    c->answers++;
    c->answer_ns += took_ns;
    c->worst_answer_ns = MAX(c->worst_answer_ns, took_ns);
    if (span) {
        span->end_ns = MAX(now_ns, span->start_ns);
        span->work_start_ns = begun_ns(c, m, answer_sent_ns);
        span->work_end_ns = answer_sent_ns;
        span->peer = name_of(a, c);
        span->unusual = attl_add(a, process->service, span);
        item->id = m->owner;
        item->count = m->span;
    }
    item->fd++;
    c->answered_ns = answer_sent_ns;
    drop(c, (size_t)(m - c->messages.at));
}

/* The oldest answer on its way, of a message whose owner is not known (or over: it only was posted in that
 * one's callback); NULL: there is none. */
static struct port_message *untold_answer(const struct analysis *a, const struct channel *c,
                                          uint64_t before_ns)
{
    for (size_t i = 0; c->back && i < c->messages.count && c->messages.at[i].sent_ns < before_ns; i++) {
        struct port_message *m = &c->messages.at[i];
        const struct port_message *question = m->answer ? oldest_question(c->back, m->sent_ns) : NULL;
        if (question)
            return span_of(a, question) ? NULL : m;
    }
    return NULL;
}

bool ports_claim_taken(struct analysis *a, const struct thread *thread, const struct channel *except,
                       uint64_t taken_ns, uint64_t before_ns, struct request **owners, size_t count)
{
    struct channel *found[PORT_ANSWERS_MAX];
    size_t n = 0;
    array_foreach (&thread->process->channels, place) {
        struct channel *c = *place;
        if (c->to_tid != thread->tid || c->back == except || !untold_answer(a, c, before_ns))
            continue;
        if (n == count)
            return false;
        found[n++] = c;
    }
    if (n != count)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct channel *c = found[i];
        struct port_message *m = untold_answer(a, c, before_ns);
        struct item item = {0};
        enum known known;
        c->receipts++;
        answered(a, thread->process, c->back, m->sent_ns, MAX(taken_ns, m->sent_ns), &item);
        drop(c, (size_t)(m - c->messages.at));
        (void)port_claim(a, thread, c->back, owners[i], &known);
    }
    return true;
}

static void received(struct analysis *a, struct thread *thread, struct channel *c, struct item *item)
{
    c->to_tid = thread->tid;
    for (size_t i = 0; i < c->messages.count;) {
        struct port_message *m = &c->messages.at[i];
        if (m->work_start_ns || m->sent_ns > item->start_ns) {
            i++;
            continue;
        }
        c->receipts++;
        if (m->answer) {
            answered(a, thread->process, c->back, m->sent_ns, item->start_ns, item);
            drop(c, i);
            continue;
        }
        m->work_start_ns = item->start_ns;
        struct vspan *span = span_of(a, m);
        if (span) {
            span->work_start_ns = item->start_ns;
            span->peer_tid = thread->tid;
        }
        i++;
    }
}

/* port:receive: what was posted to this handle before is taken. */
void port_received(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct item *item = turn_item(a, thread, e->id, e->time_ns, e->time_ns);
    if (!item)
        return;
    array_foreach (&thread->process->channels, c)
        if ((*c)->target == U(e, port_receive_handle))
            received(a, thread, *c, item);
}

/* The thread's loop stood: who had posted to it and was not answered waited for that. */
void ports_stalled(struct analysis *a, const struct thread *thread, struct stretch *s)
{
    array_foreach (&thread->process->channels, at) {
        struct channel *c = *at;
        for (size_t i = 0; c->to_tid == thread->tid && i < c->messages.count; i++) {
            const struct port_message *m = &c->messages.at[i];
            struct vspan *span = span_of(a, m);
            if (!span || span->end_ns || m->sent_ns >= s->end_ns)
                continue;
            uint64_t delay_ns = s->end_ns - MAX(m->sent_ns, s->start_ns);
            span->stalled_ns += a->so_far ? 0 : delay_ns;
            stretch_victim_chain(a, s, request_open(a, m->owner), delay_ns, VICTIM_WAITED);
        }
    }
}

static json_t *channel_json(const struct process *process, const struct channel *c)
{
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "service", process->service, "process",
                  (json_int_t)process->pid, "thread", (json_int_t)c->from_tid, "writes_count",
                  (json_int_t)c->posts, "received_count", (json_int_t)c->receipts, "answers_count",
                  (json_int_t)c->answers, "unanswered_count", (json_int_t)c->messages.count);
    if (object && c->to_tid)
        json_object_set_new(object, "to_thread", json_integer((json_int_t)c->to_tid));
    if (object && c->answers) {
        json_object_set_new(object, "answer_mean_ns", json_integer((json_int_t)(c->answer_ns / c->answers)));
        json_object_set_new(object, "answer_worst_ns", json_integer((json_int_t)c->worst_answer_ns));
    }
    return object;
}

void ports_json(const struct analysis *a, json_t *array)
{
    array_foreach (&a->all_processes, process)
        array_foreach (&(*process)->channels, c)
            json_array_append_new(array, channel_json(*process, *c));
}
