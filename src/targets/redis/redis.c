/* Redis' side: each command with the call that sent it, found by the mirrored connection and the command's
 * number on it (Redis microservices paper, integration), and the commands that held everybody else up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"

enum { INNER_MAX = 32, EARLY_MAX = 65536 };

static struct connection *client_of(const struct process *process, uint64_t client_id)
{
    uint64_t *known = client_id ? map_get(&process->clients, client_id) : NULL;
    return known ? (struct connection *)(uintptr_t)*known : NULL;
}

/* The call of that number on the caller's connection. A number that is unknown proves nothing. */
static struct call *call_of(struct connection *c, uint64_t number)
{
    struct connection *caller = c ? c->mirror : NULL;
    if (!caller || !number || !calls_open(caller))
        return NULL;
    uint64_t first = caller->calls.at[caller->first_call].number;
    if (!first || number < first || number - first >= calls_open(caller))
        return NULL;
    struct call *call = &caller->calls.at[caller->first_call + (number - first)];
    return call->number == number && call->kind == VSPAN_redis ? call : NULL;
}

/* "config|set" as people write it: "CONFIG SET". */
static const char *command_name(struct analysis *a, const struct process *process, uint64_t name_id)
{
    const char *name = process_name_of(process, name_id);
    if (!name)
        return intern_string(a, "unknown command");
    char upper[64];
    size_t n = 0;
    for (; name[n] && n < sizeof(upper); n++)
        upper[n] = (char)(name[n] == '|' ? ' ' : toupper((unsigned char)name[n]));
    return intern(a, upper, n);
}

static void add_inner(struct analysis *a, struct process *process, const char *name, uint64_t time_ns)
{
    array_foreach (&process->inner, inner)
        if (inner->name == name) {
            inner->calls++;
            inner->time_ns += time_ns;
            return;
        }
    if (process->inner.count < INNER_MAX)
        LIST_ADD(a, &process->inner, (struct inner_command){name, 1, time_ns});
}

/* A command that was sent before this stretch was over has waited for it, also on the same connection, when
 * it is not for the same request. */
static void queued_behind(struct analysis *a, struct thread *thread, const struct call *call,
                          uint64_t client_id, uint64_t start_ns)
{
    array_foreach (&thread->stretches, place) {
        struct stretch *s = *place;
        bool own = s->client_id == client_id && (!s->culprit || s->culprit == call->owner);
        if (s->what != STRETCH_COMMAND || own || call->sent_ns >= s->end_ns || s->end_ns > start_ns)
            continue;
        uint64_t delay_ns = s->end_ns - MAX(s->start_ns, call->sent_ns);
        s->queued_commands++;
        s->queued_ns += delay_ns;
        stretch_victim_chain(a, s, request_get(a, call->owner), delay_ns, VICTIM_WAITED);
    }
}

static void slow(struct analysis *a, struct thread *thread, const struct event *e, const char *name,
                 const struct connection *c, const struct call *call)
{
    uint64_t duration = event_duration(e);
    struct stretch *s = stretch_new(a, thread, STRETCH_COMMAND, e->time_ns - duration, e->time_ns);
    if (!s)
        return;
    s->command = name;
    s->client_id = U(e, redis_command_client_id);
    s->arguments = I(e, redis_command_argument_count);
    s->argument_bytes = U(e, redis_command_bytes);
    s->caller = c && c->mirror ? c->mirror->process->service : NULL;
    s->culprit = call ? call->owner : 0;
    uint64_t most = 0;
    array_foreach (&thread->process->inner, inner)
        if (inner->time_ns > most) {
            most = inner->time_ns;
            s->inner = inner->name;
            s->inner_calls = inner->calls;
        }
    if (call)
        stretch_victim_chain(a, s, request_get(a, call->owner), duration, VICTIM_CAUSED);
}

static void joined(struct analysis *a, struct call *call, const struct early_command *c, int64_t pid)
{
    a->counts.joined++;
    call->name = c->name;
    call->work_start_ns = c->start_ns;
    call->work_end_ns = c->end_ns;
    call->client_id = c->client_id;
    call->argument_bytes = c->argument_bytes;
    call->peer_pid = pid;
    call->peer_tid = c->tid;
    call->sent_ns = MIN(call->sent_ns, c->start_ns);
    call_worked(a, call);
    if (c->ready_ns)
        call_ready(a, call, c->ready_ns);
}

void redis_claim_early(struct analysis *a, struct connection *caller, struct call *call)
{
    struct connection *c = caller->mirror;
    if (!c || !call->number)
        return;
    size_t taken = 0;
    while (taken < c->early.count && c->early.at[taken].number < call->number)
        taken++; /* its call was never seen */
    if (taken < c->early.count && c->early.at[taken].number == call->number) {
        joined(a, call, &c->early.at[taken++], c->process->pid);
        a->counts.unjoined--;
    }
    if (taken) {
        c->early.count -= taken;
        memmove(c->early.at, c->early.at + taken, c->early.count * sizeof(*c->early.at));
    }
}

static void command(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct process *process = thread->process;
    uint64_t duration = event_duration(e);
    const char *name = command_name(a, process, U(e, redis_command_name));
    if (U(e, redis_command_depth)) {
        add_inner(a, process, name, duration);
        return;
    }
    a->counts.redis_commands++;
    uint64_t client_id = U(e, redis_command_client_id);
    struct connection *c = client_of(process, client_id);
    struct early_command done = {.number = U(e, redis_command_sequence),
                                 .start_ns = e->time_ns - duration,
                                 .end_ns = e->time_ns,
                                 .client_id = client_id,
                                 .argument_bytes = U(e, redis_command_bytes),
                                 .tid = thread->tid,
                                 .name = name};
    struct call *call = call_of(c, done.number);
    if (call && !call->work_end_ns) {
        joined(a, call, &done, process->pid);
        queued_behind(a, thread, call, client_id, done.start_ns);
    } else {
        a->counts.unjoined++;
        if (c && c->mirror && done.number && c->early.count < EARLY_MAX)
            LIST_ADD(a, &c->early, done);
    }
    if (duration >= a->options.slow_command_ns)
        slow(a, thread, e, name, c, call);
    array_clear(&process->inner);
}

/* Everything that this client's commands have produced so far goes out: also the replies of commands that
 * were not executed (queued in a transaction, refused), which stand before one that was. */
static void replied(struct analysis *a, struct connection *c, uint64_t now_ns)
{
    struct connection *caller = c ? c->mirror : NULL;
    if (!caller)
        return;
    array_foreach (&c->early, early)
        if (!early->ready_ns)
            early->ready_ns = now_ns;
    size_t executed = 0;
    for (size_t i = caller->first_call; i < caller->calls.count; i++)
        if (caller->calls.at[i].work_end_ns)
            executed = i + 1;
    for (size_t i = caller->first_call; i < executed; i++)
        if (!caller->calls.at[i].ready_ns)
            call_ready(a, &caller->calls.at[i], now_ns);
}

void redis_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct process *process = thread->process;
    struct connection *c;
    switch (e->id) {
    case SONDE_EVENT_redis_command:
        command(a, thread, e);
        break;
    case SONDE_EVENT_redis_write_reply:
        replied(a, client_of(process, U(e, redis_write_reply_client_id)), e->time_ns);
        break;
    case SONDE_EVENT_redis_free_client:
        c = client_of(process, U(e, redis_free_client_client_id));
        if (c)
            connection_close(a, c);
        break;
    case SONDE_EVENT_redis_loop_phase:
        stretch_active(thread, e->time_ns - event_duration(e), e->time_ns);
        break;
    }
}
