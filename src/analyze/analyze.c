/* The analysis as a whole: hands each event to the pass that reads it, knows the processes and threads, and
 * ends it all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/analysis.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "faults/faults.h"
#include "model/model.h"
#include "profile/profile.h"
#include "protocols/protocols.h"
#include "targets/targets.h"

static void name_event(struct analysis *a, struct thread *thread, const struct event *e)
{
    const struct value *text = &e->values[FIELD_probe_name_text];
    uint64_t *place = map_put(&thread->process->names, U(e, probe_name_id), NULL);
    if (!place || !HAS(e, probe_name_text)) {
        a->failed |= !place;
        return;
    }
    *place = (uint64_t)(uintptr_t)intern(a, text->s, text->length);
}

/* Ends what a process was doing: spans that never ended are taken as ending now, so that their turns are
 * read.
 */
static void process_end(struct analysis *a, struct process *process, uint64_t now_ns)
{
    if (process->gone)
        return;
    process->gone = 1;
    uint64_t end_ns = process->ended_ns ? process->ended_ns : now_ns;
    map_foreach (&process->threads, slot) {
        ANALYZERS_CALL(a, thread_finish, a, (struct thread *)(uintptr_t)slot->value, end_ns);
    }
    map_foreach (&process->threads, slot) {
        struct thread *thread = (struct thread *)(uintptr_t)slot->value;
        while (thread->open.count)
            request_finish(a, thread->open.at[thread->open.count - 1], REQUEST_UNFINISHED, end_ns);
    }
}

static void process_start_event(struct analysis *a, struct thread *none, const struct event *e)
{
    int64_t pid = (int64_t)U(e, process_start_pid);
    uint64_t *known = map_get(&a->processes, (uint64_t)pid);
    struct process *process = known ? (struct process *)(uintptr_t)*known : NULL;
    if (process && process->started_ns) { /* the number is used again, or the program was replaced (exec) */
        process_end(a, process, e->time_ns);
        map_remove(&a->processes, (uint64_t)pid);
        a->recent = NULL;
        process = NULL;
    }
    if (!process)
        process = process_new(a, pid);
    if (!process)
        return;
    const struct value *name = &e->values[FIELD_process_start_name];
    if (HAS(e, process_start_name) && name->length)
        process->service = intern(a, name->s, name->length);
    process->runtime = (uint8_t)U(e, process_start_runtime);
    process->analyzer = target_analyzer(process->runtime);
    process->parent = (int64_t)U(e, process_start_parent);
    process->started_ns = e->time_ns ? e->time_ns : 1;
    a->counts.of_targets += process->analyzer != NULL;
}

static void process_exit_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct process *process = process_get(a, (int64_t)U(e, process_exit_pid));
    if (!process)
        return;
    process->ended_ns = e->time_ns;
    process->exit_status = (int)I(e, process_exit_status);
}

static void open_span_event(struct analysis *a, struct thread *none, const struct event *e)
{
    if (!U(e, open_span_final))
        return;
    LIST_ADD(a, &a->open_spans,
             (struct open_span){.since_ns = U(e, open_span_since_ns),
                                .argument = U(e, open_span_argument),
                                .pid = (int64_t)U(e, open_span_pid),
                                .tid = (int64_t)U(e, open_span_tid),
                                .event = event_recorded_as(e, U(e, open_span_event)),
                                .name = (uint32_t)U(e, open_span_name),
                                .depth = (uint8_t)U(e, open_span_depth)});
}

/* The newest event of what lost some. */
static uint64_t newest_of(struct analysis *a, int64_t pid, int64_t tid)
{
    struct process *process = pid ? process_get(a, pid) : NULL;
    uint64_t newest = 0;
    if (!process)
        return a->newest_unowned_ns;
    map_foreach (&process->threads, slot) {
        const struct thread *thread = (const struct thread *)(uintptr_t)slot->value;
        if (!tid || thread->tid == tid)
            newest = MAX(newest, thread->newest_ns);
    }
    return newest ? newest : process->started_ns;
}

static void loss_event(struct analysis *a, struct thread *none, const struct event *e)
{
    uint64_t reason = MIN(U(e, loss_reason), ARRAY_SIZE(a->losses.count) - 1);
    struct lost_stretch lost = {.to_ns = e->time_ns,
                                .count = U(e, loss_count),
                                .pid = (int64_t)U(e, loss_pid),
                                .tid = (int64_t)U(e, loss_tid),
                                .reason = (uint8_t)reason};
    a->losses.count[reason] += lost.count;
    lost.from_ns = MIN(newest_of(a, lost.pid, lost.tid), lost.to_ns);
    if (a->lost_stretches.count < LOST_STRETCHES)
        LIST_ADD(a, &a->lost_stretches, lost);
}

/* ---- events ---- */

static void budget_event(struct analysis *a, struct thread *none, const struct event *e)
{
    a->over = U(e, budget_incomplete) != 0;
    activity_begin_anew(a, e->time_ns);
}

static void level_event(struct analysis *a, struct thread *none, const struct event *e)
{
    a->requests_only |= U(e, level_level) == SONDE_level_requests;
    activity_begin_anew(a, e->time_ns);
}

static const struct event_reading OWN_EVENTS[] = {
    {SONDE_EVENT_process_start, process_start_event},
    {SONDE_EVENT_process_exit, process_exit_event},
    {SONDE_EVENT_probe_name, name_event},
    {SONDE_EVENT_open_span, open_span_event},
    {SONDE_EVENT_loss, loss_event},
    {SONDE_EVENT_budget, budget_event},
    {SONDE_EVENT_level, level_event},
    {0},
};

/* Who reads which events, besides the protocols and the analyzers. */
static const struct event_reading *const READINGS[] = {OWN_EVENTS, ACTIVITY_EVENTS, CONNECTION_EVENTS,
                                                       CONTEXT_EVENTS, STREAM_EVENTS};

static void readers_add(struct analysis *a, const struct event_reading *list)
{
    for (; list && list->event; list++) {
        assert(!a->readers[list->event]);
        a->readers[list->event] = list->read;
    }
}

/* Whose event it is. The next one is of the same thread as a rule. NULL when memory is exhausted. */
static struct thread *thread_of(struct analysis *a, const struct event *e)
{
    struct thread *recent = a->recent;
    if (recent && recent->tid == e->tid && recent->process->pid == e->pid)
        return recent;
    struct process *process = process_get(a, e->pid);
    return a->recent = process ? thread_get(a, process, e->tid) : NULL;
}

int analysis_event(struct analysis *a, const struct event *e)
{
    if (a->over) {
        a->counts.events++;
        return 0;
    }
    if (e->id == SONDE_EVENT_profile_sample) { /* of a time that may be longer than the recording */
        samples_event(a, e);
        return a->failed ? -ENOMEM : 0;
    }
    if (!a->counts.events++)
        a->counts.first_ns = e->time_ns;
    a->counts.last_ns = MAX(a->counts.last_ns, e->time_ns);
    if (e->id == SONDE_EVENT_none || e->id >= SONDE_EVENT_COUNT)
        return 0;
    struct thread *thread = NULL;
    if (event_catalogue[e->id].probe) {
        thread = thread_of(a, e);
        if (!thread)
            return -ENOMEM;
    }
    if (a->readers[e->id])
        a->readers[e->id](a, thread, e);
    if (thread)
        thread->newest_ns = e->time_ns;
    else
        a->newest_unowned_ns = e->time_ns;
    return a->failed ? -ENOMEM : 0;
}

/* ---- beginning and end ---- */

int analysis_new(const struct analyze_options *options, struct analysis **ret_analysis)
{
    struct analysis *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->options = *options;
    a->protocols = PROTOCOLS;
    size_t count = 0;
    for (; TARGETS[count]; count++)
        a->order[count] = TARGETS[count];
    a->order[count++] = &analyzer_failures;
    a->order[count++] = &analyzer_quotas;
    a->order[count++] = &analyzer_machine;
    a->order[count++] = &analyzer_faults; /* after the targets, which say what is theirs */
    assert(count < ARRAY_SIZE(a->order));
    a->analyzers = a->order;
    for (size_t i = 0; i < ARRAY_SIZE(READINGS); i++)
        readers_add(a, READINGS[i]);
    for (const struct protocol *const *p = PROTOCOLS; *p; p++)
        readers_add(a, (*p)->events);
    for (const struct analyzer *const *p = a->analyzers; *p; p++)
        readers_add(a, (*p)->events);
    if (options->breakdown && !(a->breakdown = breakdown_new())) {
        free(a);
        return -ENOMEM;
    }
    *ret_analysis = a;
    return 0;
}

int analysis_finish(struct analysis *a)
{
    array_foreach (&a->all_processes, process)
        process_end(a, *process, a->counts.last_ns);
    contexts_judge(a);
    array_foreach (&a->all_processes, process)
        map_foreach (&(*process)->threads, slot) {
            stretches_judge(a, (struct thread *)(uintptr_t)slot->value, a->counts.last_ns, true);
        }
    return a->failed ? -ENOMEM : 0;
}

const struct analysis_counts *analysis_counts(const struct analysis *a)
{
    return &a->counts;
}

void analysis_free(struct analysis *a)
{
    if (!a)
        return;
    array_foreach (&a->all_processes, process)
        map_foreach (&(*process)->threads, slot) {
            struct thread *thread = (struct thread *)(uintptr_t)slot->value;
            while (thread->open.count)
                request_finish(a, thread->open.at[thread->open.count - 1], REQUEST_UNFINISHED, 0);
        }
    array_foreach (&a->all_processes, process)
        map_foreach (&(*process)->connections, slot) {
            struct connection *connection = (struct connection *)(uintptr_t)slot->value;
            connection->mirror = NULL; /* both ends go */
        }
    array_foreach (&a->all_processes, process) {
        while ((*process)->connections.count)
            map_foreach (&(*process)->connections, slot) {
                connection_free(a, (struct connection *)(uintptr_t)slot->value);
                break; /* the map has moved */
            }
    }
    array_foreach (&a->endpoints, e) {
        keeper_done(a, &e->slowest);
        sketch_done(&e->endpoint.latency);
    }
    keeper_done(a, &a->slowest);
    processes_free(a);
    faults_free(a);
    pieces_free(a);
    breakdown_free(a->breakdown);
    profile_free(a->samples);
    attl_free(a);
    array_done(&a->endpoints);
    routes_forget(a);
    array_done(&a->folded);
    array_done(&a->endpoint_list);
    array_done(&a->kept);
    array_done(&a->lingering);
    array_done(&a->open_spans);
    array_done(&a->lost_stretches);
    array_done(&a->fault_list);
    stacks_free(a);
    consumers_free(a);
    free(a->messages);
    map_done(&a->peer_answers);
    map_done(&a->messages_sent);
    map_done(&a->messages_early);
    map_done(&a->messages_taken);
    map_done(&a->interned);
    map_done(&a->requests);
    map_done(&a->tuples);
    map_done(&a->speakers);
    map_done(&a->served);
    map_done(&a->inodes);
    map_done(&a->endpoint_of);
    map_done(&a->faults);
    arena_done(&a->arena);
    free(a);
}
