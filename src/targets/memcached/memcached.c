/* Memcached's side of requests: its connections are its clients', it calls nobody, and what it executed is
 * joined to the calls of those clients that are traced. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"
#include "protocols/commands.h"
#include "targets/memcached/model.h"

static bool connection_opened(struct analysis *a, struct connection *c)
{
    connection_serves(a, c);
    return true;
}

/* Commands that were executed together: each began and ended within the whole. */
static void command_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct process *process = thread->process;
    struct connection *c = connection_get(process, (int32_t)I(e, memcached_command_fd),
                                          (uint32_t)U(e, memcached_command_generation));
    const char *name = process_name_of(process, U(e, memcached_command_name));
    uint64_t count = U(e, memcached_command_commands), first = U(e, memcached_command_first_number);
    struct executed_command done = {.number = first,
                                    .start_ns = e->time_ns - event_duration(e),
                                    .end_ns = e->time_ns,
                                    .tid = thread->tid,
                                    .name = name ? name : intern_string(a, "unknown command")};
    if (!c)
        return;
    uint64_t told = c->told_bytes, answers = U(e, memcached_command_reply_bytes);
    c->told_bytes += answers;
    if (!c->mirror)
        return;
    count = MIN(count, (uint64_t)CALLS_MAX);
    for (uint64_t i = 0; i < count && (first || !i); i++, done.number++) {
        done.answer_end = told + answers * (i + 1) / count; /* as if they were alike */
        command_executed(a, thread, c, &done);
    }
    commands_replied(a, c, e->time_ns, UINT64_MAX);
}

static void close_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    struct connection *c = connection_get(thread->process, (int32_t)I(e, memcached_close_fd),
                                          (uint32_t)U(e, memcached_close_generation));
    if (c)
        connection_close(a, c);
}

static const struct event_reading EVENTS[] = {
    {SONDE_EVENT_memcached_command, command_event}, {SONDE_EVENT_memcached_close, close_event}, {0}};

/* ---- the servers, in a pass of their own (model.h) ---- */

static int pass_start(const struct analyze_options *options, void **ret_state)
{
    struct memcached_model *model = NULL;
    int r = memcached_model_new(&model);
    *ret_state = model;
    return r;
}

static struct pass pass_of(void *state)
{
    return memcached_model_pass(state);
}

static int pass_report(const void *state, struct report *report)
{
    return memcached_model_report(state, report);
}

static void pass_free(void *state)
{
    memcached_model_free(state);
}

static const struct target_pass PASS = {pass_start, pass_of, pass_report, pass_free};

const struct analyzer analyzer_memcached = {
    .name = "memcached",
    .called = "Memcached",
    .unasked =
        "Only Memcached was traced: the causes of slow requests are found where the services that ask it are "
        "traced too. sonde memcached shows what it did.",
    .runtime = SONDE_runtime_memcached,
    .events = EVENTS,
    .pass = &PASS,
    .connection_opened = connection_opened};
