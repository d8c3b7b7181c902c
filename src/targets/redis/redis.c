/* Redis' side: the commands that it executed, and those that held everybody else up. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "faults/faults.h"
#include "protocols/commands.h"
#include "targets/redis/model.h"
#include "targets/redis/slow_command.h"

enum { INNER_MAX = 32 };

/* A command that others ran, and how often: of a script or a transaction. */
struct inner_command {
    const char *name;
    uint64_t calls, time_ns;
};

struct redis_own {
    struct map clients; /* client id -> struct connection * */
    struct map spelled; /* const char * of a command's name, interned -> command_name() of it */
    ARRAY(struct inner_command) inner;
    /* Whom the newest event was of: the next one is of the same as a rule. 0: look it up. */
    uint64_t recent_id;
    struct connection *recent;
};

static struct redis_own *own(const struct process *process)
{
    return process->own[SONDE_runtime_redis];
}

static struct connection *client_of(const struct process *process, uint64_t client_id)
{
    struct redis_own *server = own(process);
    if (client_id && server->recent_id == client_id)
        return server->recent;
    uint64_t *known = client_id ? map_get(&server->clients, client_id) : NULL;
    server->recent_id = client_id;
    return server->recent = known ? (struct connection *)(uintptr_t)*known : NULL;
}

/* "config|set" as people write it: "CONFIG SET". */
static const char *command_name(struct analysis *a, const struct process *process, uint64_t name_id)
{
    const char *name = process_name_of(process, name_id);
    if (!name)
        return intern_string(a, "unknown command");
    bool added;
    uint64_t *place = map_put(&own(process)->spelled, (uint64_t)(uintptr_t)name, &added);
    if (place && !added)
        return (const char *)(uintptr_t)*place;
    char upper[64];
    size_t n = 0;
    for (; name[n] && n < sizeof(upper); n++)
        upper[n] = (char)(name[n] == '|' ? ' ' : toupper((unsigned char)name[n]));
    const char *spelled = intern(a, upper, n);
    a->failed |= !place;
    if (place)
        *place = (uint64_t)(uintptr_t)spelled;
    return spelled;
}

static void add_inner(struct analysis *a, struct process *process, const char *name, uint64_t time_ns)
{
    array_foreach (&own(process)->inner, inner)
        if (inner->name == name) {
            inner->calls++;
            inner->time_ns += time_ns;
            return;
        }
    if (own(process)->inner.count < INNER_MAX)
        LIST_ADD(a, &own(process)->inner, (struct inner_command){name, 1, time_ns});
}

static void slow(struct analysis *a, struct thread *thread, const struct event *e, const char *name,
                 const struct connection *c, const struct call *call)
{
    uint64_t duration = event_duration(e);
    struct stretch *s = stretch_new(a, thread, STRETCH_COMMAND, e->time_ns - duration, e->time_ns);
    if (!s)
        return;
    s->kind = FINDING_slow_command;
    s->command = name;
    s->client_id = U(e, redis_command_client_id);
    s->arguments = I(e, redis_command_argument_count);
    s->argument_bytes = U(e, redis_command_bytes);
    s->caller = c && c->mirror ? c->mirror->process->service : NULL;
    s->culprit = call ? call->owner : 0;
    uint64_t most = 0;
    array_foreach (&own(thread->process)->inner, inner)
        if (inner->time_ns > most) {
            most = inner->time_ns;
            s->inner = inner->name;
            s->inner_calls = inner->calls;
        }
    if (call)
        stretch_victim_chain(a, s, request_get(a, call->owner), duration, VICTIM_CAUSED);
    commands_held(a, thread->process, s);
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
    a->counts.commands++;
    uint64_t client_id = U(e, redis_command_client_id);
    struct connection *c = client_of(process, client_id);
    struct executed_command done = {.number = U(e, redis_command_sequence),
                                    .start_ns = e->time_ns - duration,
                                    .end_ns = e->time_ns,
                                    .client_id = client_id,
                                    .argument_bytes = U(e, redis_command_bytes),
                                    .tid = thread->tid,
                                    .name = name};
    const struct call *call = command_executed(a, thread, c, &done);
    if (duration >= a->options.slow_command_ns)
        slow(a, thread, e, name, c, call);
    array_clear(&own(process)->inner);
}

static void replied_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    commands_replied(a, client_of(thread->process, U(e, redis_write_reply_client_id)), e->time_ns,
                     U(e, redis_write_reply_waited) ? e->time_ns : 0);
}

static void free_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *c = client_of(thread->process, U(e, redis_free_client_client_id));
    if (c)
        connection_close(a, c);
}

static void phase_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    stretch_active(thread, e->time_ns - event_duration(e), e->time_ns);
}

static const struct event_reading EVENTS[] = {{SONDE_EVENT_redis_command, command},
                                              {SONDE_EVENT_redis_write_reply, replied_event},
                                              {SONDE_EVENT_redis_free_client, free_event},
                                              {SONDE_EVENT_redis_loop_phase, phase_event},
                                              {0}};

/* A client of the server. */
static bool connection_opened(struct analysis *a, struct connection *c)
{
    if (!c->key)
        return true;
    own(c->process)->recent_id = 0;
    uint64_t *client = map_put(&own(c->process)->clients, c->key, NULL);
    if (client)
        *client = (uint64_t)(uintptr_t)c;
    else
        a->failed = true;
    connection_serves(a, c);
    return true;
}

static void connection_forget(struct connection *c)
{
    own(c->process)->recent_id = 0;
    uint64_t *client = map_get(&own(c->process)->clients, c->key);
    if (client && *client == (uint64_t)(uintptr_t)c)
        map_remove(&own(c->process)->clients, c->key);
}

static void process_free(struct process *process)
{
    map_done(&own(process)->clients);
    map_done(&own(process)->spelled);
    array_done(&own(process)->inner);
}

/* ---- the servers, in a pass of their own (model.h) ---- */

static int pass_start(const struct analyze_options *options, void **ret_state)
{
    struct redis_model *model = NULL;
    int r = redis_model_new(&(struct redis_options){.slow_command_ns = options->slow_command_ns}, &model);
    *ret_state = model;
    return r;
}

static struct pass pass_of(void *state)
{
    return redis_model_pass(state);
}

static int pass_report(const void *state, struct report *report)
{
    return redis_model_report(state, report);
}

static void pass_free(void *state)
{
    redis_model_free(state);
}

static const struct target_pass PASS = {pass_start, pass_of, pass_report, pass_free};

const struct analyzer analyzer_redis = {.name = "redis",
                                        .called = "Redis",
                                        .unasked = NOTHING_WAS_ASKED,
                                        .runtime = SONDE_runtime_redis,
                                        .events = EVENTS,
                                        .pass = &PASS,
                                        .verdicts = REDIS_VERDICTS,
                                        .process_bytes = sizeof(struct redis_own),
                                        .process_free = process_free,
                                        .connection_opened = connection_opened,
                                        .connection_forget = connection_forget};
