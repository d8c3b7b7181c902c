/* See folder.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "model/attl.h"
#include "targets/node/function.h"
#include "protocols/ipc.h"
#include "targets/node/loop.h"
#include "targets/node/state.h"
#include "model/model.h"
#include "base/clock.h"
#include "targets/targets.h"
#include "trace/manifest.h"
#include "trace/pass.h"
#include "trace/trace.h"

/* ---- what the recorder and the reader say ---- */

static int add_once(struct report *report, const char *what, const char *why, const char *remedy)
{
    array_foreach (&report->missing, m)
        if (strcmp(m->what, what) == 0 && strcmp(m->why, why) == 0)
            return 0; /* the same in another process */
    return report_add_missing(report, what, why, remedy && *remedy ? remedy : NULL);
}

/* The manifest counts at least what the events say, and what could not be written among them. */
static void add_manifest_losses(struct report *report, const json_t *losses)
{
    size_t i;
    json_t *loss;
    json_array_foreach (losses, i, loss) {
        const char *reason = json_string_value(json_object_get(loss, "reason"));
        uint64_t count = (uint64_t)json_integer_value(json_object_get(loss, "count")), known = 0, all = 0;
        if (!reason)
            continue;
        array_foreach (&report->losses, other)
            known += strcmp(other->reason, reason) == 0 ? other->count : 0;
        size_t k;
        json_t *same;
        json_array_foreach (losses, k, same) {
            const char *its = json_string_value(json_object_get(same, "reason"));
            if (its && strcmp(its, reason) == 0 && k < i)
                count = 0; /* taken with the first of this reason */
            else if (its && strcmp(its, reason) == 0)
                all += (uint64_t)json_integer_value(json_object_get(same, "count"));
        }
        if (count && all > known)
            report_add_loss(report, reason, NULL, all - known);
    }
}

static void add_missing(struct report *report, const json_t *all)
{
    size_t i;
    json_t *missing;
    json_array_foreach (all, i, missing) {
        const char *what = json_string_value(json_object_get(missing, "what"));
        const char *why = json_string_value(json_object_get(missing, "why"));
        if (what && why)
            add_once(report, what, why, json_string_value(json_object_get(missing, "remedy")));
    }
}

static void add_manifest_processes(struct report *report, const json_t *processes)
{
    size_t i;
    json_t *process;
    json_array_foreach (processes, i, process)
        add_missing(report, json_object_get(process, "missing"));
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* What tracing took while it went on. Shares are of one CPU, but for tracing_cpu_share: of all. */
static void add_overhead(struct report *report, const json_t *overhead, double took_ns)
{
    double probe_ns = number_of(overhead, "probe_cpu_ns"), kernel_ns = number_of(overhead, "kernel_cpu_ns");
    double collector_ns = number_of(overhead, "collector_cpu_ns"),
           processors = number_of(overhead, "processors");
    if (!overhead || took_ns <= 0 || processors < 1)
        return;
    report_add_overhead(report, "probe_cpu_share", probe_ns / took_ns);
    report_add_overhead(report, "kernel_cpu_share", kernel_ns / took_ns);
    report_add_overhead(report, "tracing_cpu_share",
                        (probe_ns + kernel_ns + collector_ns) / took_ns / processors);
    report_add_overhead(report, "setup_cpu_ns", number_of(overhead, "setup_cpu_ns"));
    report_add_overhead(report, "tracing_memory_bytes", number_of(overhead, "memory_bytes"));
    report_add_overhead(report, "budget_cpu_share", number_of(overhead, "budget_cpu_share"));
    report_add_overhead(report, "budget_memory_bytes", number_of(overhead, "budget_memory_bytes"));
}

static void add_manifest(struct report *report, const char *folder)
{
    json_t *manifest;
    int r = manifest_read(folder, &manifest);
    if (r == -EBADMSG)
        add_once(report, "manifest.json", "it is damaged", NULL);
    if (r < 0)
        return;
    add_manifest_losses(report, json_object_get(manifest, "losses"));
    add_manifest_processes(report, json_object_get(manifest, "processes"));
    add_missing(report, json_object_get(manifest, "missing"));
    size_t i;
    json_t *untraced;
    json_array_foreach (json_object_get(manifest, "untraced"), i, untraced) {
        if (json_is_string(untraced))
            add_once(report, json_string_value(untraced), "it was not traced", NULL);
    }
    if (json_is_false(json_object_get(manifest, "complete")))
        add_once(report, "the end of the recording",
                 "the recorder was stopped before it could finish the trace, or "
                 "it is still at work",
                 NULL);
    double cpu = (double)json_integer_value(json_object_get(manifest, "collector_cpu_ns"));
    double took = (double)(json_integer_value(json_object_get(manifest, "end_ns")) -
                           json_integer_value(json_object_get(manifest, "start_ns")));
    cpu -= MIN(number_of(json_object_get(manifest, "overhead"), "setup_cpu_ns"), cpu);
    if (took > 0 && json_is_true(json_object_get(manifest, "complete")))
        report_add_overhead(report, "collector_cpu_share", cpu / took);
    add_overhead(report, json_object_get(manifest, "overhead"), took);
    report_add_overhead(report, "trace_bytes",
                        (double)json_integer_value(json_object_get(manifest, "bytes")));
    json_decref(manifest);
}

static void add_reader_losses(struct report *report, const struct trace *trace)
{
    static const char *const REASONS[] = {[LOSS_DISCARDED_EVENTS] = "discarded-events",
                                          [LOSS_DISCARDED_PACKETS] = "discarded-packets",
                                          [LOSS_TRUNCATED] = "truncated-file",
                                          [LOSS_UNREADABLE] = "unreadable-data",
                                          [LOSS_METADATA] = "truncated-metadata"};
    size_t count;
    const struct trace_loss *losses = trace_losses(trace, &count);
    for (size_t i = 0; i < count; i++) {
        char where[256];
        const char *name = strrchr(losses[i].path, '/');
        name = name ? name + 1 : losses[i].path;
        bool bytes = losses[i].kind == LOSS_TRUNCATED || losses[i].kind == LOSS_UNREADABLE ||
                     losses[i].kind == LOSS_METADATA;
        if (bytes) {
            snprintf(where, sizeof(where), "%s at byte %llu, %llu bytes%s%s", name,
                     (unsigned long long)losses[i].offset, (unsigned long long)losses[i].count,
                     losses[i].what[0] ? ": " : "", losses[i].what);
            report_add_loss(report, REASONS[losses[i].kind], where, 1);
        } else if (losses[i].kind == LOSS_DISCARDED_PACKETS) {
            report_add_loss(report, REASONS[losses[i].kind], name, losses[i].count);
        } else if (!report->losses.count) { /* else counted by reason already */
            report_add_loss(report, REASONS[losses[i].kind], name, losses[i].count);
        }
    }
}

void folder_add_limits(struct report *report, const char *folder, const struct trace *trace)
{
    add_manifest(report, folder);
    add_reader_losses(report, trace);
}

/* ---- reading ---- */

struct readers {
    struct analysis *analysis;
    void *own[SONDE_RUNTIMES]; /* of the target in that place of the table; NULL: it has no pass */
};

static int on_event(void *self, const struct event *event)
{
    return analysis_event(self, event);
}

static int on_finish(void *self)
{
    return analysis_finish(self);
}

/* The history of states begins with the first event. */
static int start_states(struct trace *trace, const struct folder_reading *reading, struct emit *emit,
                        struct states **ret_states)
{
    const struct event *first;
    struct history_options options = {.size = sizeof(options)};
    int r = trace_next(trace, &first);
    if (r <= 0)
        return r;
    options.start_ns = first->time_ns;
    r = trace_rewind(trace);
    if (r >= 0)
        r = history_create(reading->states, &options, &emit->states, &emit->problem);
    return r < 0 ? r : states_new(emit, trace, ret_states);
}

struct ending {
    const struct folder_reading *reading;
    struct analysis *analysis;
};

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    const struct ending *e = context;
    return e->reading->progress ? e->reading->progress(e->reading->context, e->analysis, done, total) : 0;
}

static int read_all(struct trace *trace, const struct folder_reading *reading, struct readers *readers,
                    struct problem *problem)
{
    struct emit emit = {0};
    struct ending ending = {reading, readers->analysis};
    _cleanup_(states_freep) struct states *states = NULL;
    struct pass passes[READERS_MAX + 1];
    size_t count = readers_passes(readers, passes);
    int r = reading->states ? start_states(trace, reading, &emit, &states) : 0;
    if (states)
        passes[count++] = states_pass(states);
    if (r >= 0)
        r = trace_run(trace, passes, count, on_progress, &ending);
    if (r >= 0 && emit.states)
        r = history_close(emit.states, analysis_counts(readers->analysis)->last_ns + 1, &emit.problem);
    history_free(emit.states);
    if (r < 0 && emit.problem.what[0] && problem)
        *problem = emit.problem;
    return r < 0 && !(problem && problem->what[0])
               ? problem_set(problem, r, "reading the trace: %s", strerror(-r))
               : r;
}

/* Losses that the recorder reported have their times; of others it is only known that they lie within the
 * recording. */
static int judge_losses(struct report *report, const struct analysis *analysis)
{
    uint64_t from_ns = UINT64_MAX, to_ns = 0, lost = 0, placed = 0;
    array_foreach (&report->losses, loss)
        lost += loss->count;
    array_foreach (&analysis->lost_stretches, stretch) {
        from_ns = MIN(from_ns, stretch->from_ns);
        to_ns = MAX(to_ns, stretch->to_ns);
        placed += stretch->count;
    }
    if (placed < lost) {
        from_ns = report->from_ns;
        to_ns = report->to_ns;
    }
    return report_judge_losses(report, analysis_counts(analysis)->events, MAX(from_ns, report->from_ns),
                               to_ns);
}

/* ---- all that reads a recording's events ---- */

int readers_new(const struct analyze_options *options, struct readers **ret_readers)
{
    _cleanup_(readers_freep) struct readers *readers = calloc(1, sizeof(*readers));
    int r = readers ? analysis_new(options, &readers->analysis) : -ENOMEM;
    for (size_t i = 0; TARGETS[i] && r >= 0; i++)
        if (TARGETS[i]->pass)
            r = TARGETS[i]->pass->start(options, &readers->own[i]);
    if (r < 0)
        return r;
    *ret_readers = readers;
    readers = NULL;
    return 0;
}

void readers_free(struct readers *readers)
{
    if (!readers)
        return;
    analysis_free(readers->analysis);
    for (size_t i = 0; TARGETS[i]; i++)
        if (TARGETS[i]->pass)
            TARGETS[i]->pass->free(readers->own[i]);
    free(readers);
}

size_t readers_passes(struct readers *readers, struct pass passes[READERS_MAX])
{
    size_t count = 1;
    passes[0] =
        (struct pass){.name = "analysis", .event = on_event, .finish = on_finish, .self = readers->analysis};
    for (size_t i = 0; TARGETS[i]; i++)
        if (readers->own[i])
            passes[count++] = TARGETS[i]->pass->pass(readers->own[i]);
    return count;
}

struct analysis *readers_analysis(const struct readers *readers)
{
    return readers->analysis;
}

struct analysis *readers_take_analysis(struct readers *readers)
{
    struct analysis *analysis = readers->analysis;
    readers->analysis = NULL;
    return analysis;
}

int readers_report(const struct readers *readers, const char *folder, const struct trace *trace,
                   uint64_t took_ns, struct report *ret_report)
{
    struct report report = {0};
    struct rusage usage;
    int r = analysis_report(readers->analysis, &report);
    for (size_t i = 0; TARGETS[i] && r >= 0; i++)
        if (readers->own[i])
            r = TARGETS[i]->pass->report(readers->own[i], &report);
    if (r >= 0) {
        report_sort(&report);
        folder_add_limits(&report, folder, trace);
        r = judge_losses(&report, readers->analysis);
    }
    if (r < 0) {
        report_done(&report);
        return r;
    }
    report_add_overhead(&report, "events_count", (double)analysis_counts(readers->analysis)->events);
    report_add_overhead(&report, "analysis_ns", (double)took_ns);
    getrusage(RUSAGE_SELF, &usage);
    report_add_overhead(&report, "peak_memory_bytes", (double)usage.ru_maxrss * 1024);
    *ret_report = report;
    return 0;
}

int folder_read(const char *folder, const struct folder_reading *reading, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report)
{
    _cleanup_(trace_closep) struct trace *trace = NULL;
    _cleanup_(readers_freep) struct readers *readers = NULL;
    uint64_t started_ns = clock_monotonic_ns();
    reading->analyze->folder = folder;
    int r = trace_open(folder, NULL, problem, &trace);
    if (r < 0) {
        if (problem && !problem->remedy[0])
            problem_remedy(problem, "`sonde run -o DIR -- COMMAND` records one.");
        return r;
    }
    r = readers_new(reading->analyze, &readers);
    if (r >= 0)
        r = read_all(trace, reading, readers, problem);
    if (r >= 0)
        r = readers_report(readers, folder, trace, clock_monotonic_ns() - started_ns, ret_report);
    if (r < 0)
        return problem && problem->what[0] ? r : problem_set(problem, r, "%s: %s", folder, strerror(-r));
    *ret_analysis = readers_take_analysis(readers);
    return 0;
}

/* ---- the document ---- */

static json_t *endpoints_json(struct analysis *analysis)
{
    size_t count;
    const struct endpoint *e = analysis_endpoints(analysis, &count);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++, e++)
        json_array_append_new(
            array,
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "service", e->service, "method",
                      e->method, "route", e->route, "count", (json_int_t)e->count, "unfinished_count",
                      (json_int_t)e->unfinished, "errors_count", (json_int_t)e->errors, "p50_ns",
                      (json_int_t)sketch_quantile(&e->latency, 0.50), "p95_ns",
                      (json_int_t)sketch_quantile(&e->latency, 0.95), "p99_ns",
                      (json_int_t)sketch_quantile(&e->latency, 0.99), "worst_ns", (json_int_t)e->worst_ns));
    return array;
}

static json_t *counts_json(const struct analysis_counts *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "requests_count",
                     (json_int_t)c->requests, "unfinished_count", (json_int_t)c->unfinished, "proved_count",
                     (json_int_t)c->proved, "inferred_count", (json_int_t)c->inferred, "ambiguous_count",
                     (json_int_t)c->ambiguous, "outside_count", (json_int_t)c->outside,
                     "redis_commands_count", (json_int_t)c->commands, "redis_joined_count",
                     (json_int_t)c->joined, "http_joined_count", (json_int_t)c->http_joined, "context_count",
                     (json_int_t)c->told, "handover_count", (json_int_t)c->handovers, "begun_before_count",
                     (json_int_t)c->begun_before);
}

json_t *folder_processes(const struct analysis *analysis)
{
    json_t *all = json_array();
    array_foreach (&analysis->all_processes, p) {
        json_t *threads = json_array();
        map_foreach (&(*p)->threads, slot) {
            json_array_append_new(threads, json_integer((json_int_t)slot->key));
        }
        json_array_append_new(all, json_pack("{s:s, s:I, s:s, s:o}", "service", (*p)->service, "process",
                                             (json_int_t)(*p)->pid, "runtime",
                                             (*p)->analyzer ? (*p)->analyzer->name : "", "threads", threads));
    }
    return all;
}

json_t *analysis_channels_json(const struct analysis *analysis)
{
    json_t *array = json_array();
    ipc_channels_json(analysis, array);
    ports_json(analysis, array);
    return array;
}

/* Where in time events were lost. */
static json_t *lost_json(const struct analysis *analysis)
{
    json_t *array = json_array();
    array_foreach (&analysis->lost_stretches, lost) {
        const char *reason = event_label(SONDE_MEANING_loss_reason, lost->reason);
        json_t *one = json_pack("{s:I, s:I, s:s, s:I}", "from_ns", (json_int_t)lost->from_ns, "to_ns",
                                (json_int_t)lost->to_ns, "reason", reason ? reason : "other", "count",
                                (json_int_t)lost->count);
        if (lost->pid)
            json_object_set_new(one, "process", json_integer((json_int_t)lost->pid));
        if (lost->tid)
            json_object_set_new(one, "thread", json_integer((json_int_t)lost->tid));
        json_array_append_new(array, one);
    }
    return array;
}

int folder_extend(struct report *report, struct analysis *analysis)
{
    json_decref(report->extra);
    report->extra =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "endpoints", endpoints_json(analysis), "attribution",
                  counts_json(analysis_counts(analysis)), "loops", analysis_loops_json(analysis),
                  "operations", analysis_operations_json(analysis), "channels",
                  analysis_channels_json(analysis), "functions", analysis_functions_json(analysis));
    if (report->extra && analysis->lost_stretches.count)
        json_object_set_new(report->extra, "lost", lost_json(analysis));
    return report->extra ? 0 : -ENOMEM;
}
