/* See cmd_netflow.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/cmd_netflow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "targets/redis/cmd_text.h"
#include "targets/redis/netflow.h"
#include "trace/align.h"
#include "trace/trace.h"

enum { DURATION = 32 };

struct netflow_reading {
    struct trace *trace;
    struct alignment *alignment;   /* NULL: one recording, or its clocks were not needed */
    struct aligner *certain, *all; /* by the messages that are certain, and by all; NULL: as alignment */
    uint64_t *machines;            /* by host */
    struct netflow *first, *second;
    struct progress progress;
};

static int show_progress(void *context, uint64_t done, uint64_t total)
{
    struct netflow_reading *reading = context;
    progress_show(&reading->progress, done, total);
    return 0;
}

static int message(void *context, const struct netflow_message *m)
{
    struct netflow_reading *reading = context;
    int r = reading->all
                ? align_message(reading->all, m->from, m->to, (int64_t)m->sent_ns, (int64_t)m->received_ns)
                : 0;
    return r >= 0 && reading->certain && m->certain
               ? align_message(reading->certain, m->from, m->to, (int64_t)m->sent_ns, (int64_t)m->received_ns)
               : r;
}

static int saw(void *context, const struct event *event)
{
    const struct netflow_reading *reading = context;
    align_saw(reading->certain, event->trace, (int64_t)event->time_ns);
    align_saw(reading->all, event->trace, (int64_t)event->time_ns);
    return 0;
}

/* Clocks of hosts that were started at different times are brought near to each other by the time of day, so
 * that what waits for the other end does not wait for a whole recording. */
static int nearer(struct netflow_reading *reading, struct alignment *near)
{
    int64_t reference = trace_host_at(reading->trace, 0)->clock_origin_ns;
    for (uint32_t i = 0; i < near->count; i++)
        near->hosts[i].offset_ns = reference - trace_host_at(reading->trace, i)->clock_origin_ns;
    return trace_set_alignment(reading->trace, near);
}

/* Reads all recordings for the times at which messages were sent and received. before: an earlier reading of
 * them, or NULL. */
static int read_messages(struct netflow_reading *reading, struct netflow *before, struct problem *problem)
{
    uint32_t hosts = trace_host_count(reading->trace);
    int r = hosts > 1 ? align_begin(reading->trace, problem, &reading->certain) : 0;
    if (r >= 0 && hosts > 1)
        r = align_begin(reading->trace, problem, &reading->all);
    if (r >= 0)
        r = netflow_new(message, reading, reading->machines, before, &reading->first);
    if (r < 0)
        return r;
    struct pass passes[] = {{.name = "clocks", .event = saw, .self = reading}, netflow_pass(reading->first)};
    return trace_run(reading->trace, hosts > 1 ? passes : passes + 1, hosts > 1 ? 2 : 1, show_progress,
                     reading);
}

/* Reads them once more, with what the reading before has found out. */
static int read_messages_again(struct netflow_reading *reading, struct problem *problem)
{
    struct netflow *before = reading->first;
    int r = trace_rewind(reading->trace);
    aligner_free(reading->certain);
    aligner_free(reading->all);
    reading->certain = reading->all = NULL;
    reading->first = NULL;
    if (r >= 0)
        r = read_messages(reading, before, problem);
    if (reading->first)
        reading->first->before = NULL;
    netflow_free(before);
    return r;
}

/* By the messages that are certain; where they do not reach every host, by all. */
static int align_clocks(struct netflow_reading *reading, struct problem *problem)
{
    int r = align_end(reading->certain, problem, &reading->alignment);
    if (r != -ENODATA)
        return r;
    *problem = (struct problem){0};
    return align_end(reading->all, problem, &reading->alignment);
}

static int first_pass(struct netflow_reading *reading, struct problem *problem)
{
    uint32_t hosts = trace_host_count(reading->trace);
    _cleanup_(alignment_freep) struct alignment *near = calloc(1, sizeof(*near));
    if (near)
        near->hosts = calloc(hosts, sizeof(*near->hosts));
    reading->machines = calloc(hosts, sizeof(*reading->machines));
    if (!near || !near->hosts || !reading->machines)
        return -ENOMEM;
    near->count = hosts;
    for (uint32_t i = 0; i < hosts; i++) {
        const char *machine = trace_host_environment(reading->trace, i, "boot_id");
        reading->machines[i] = machine ? map_hash(machine, strlen(machine)) : i;
    }
    int r = nearer(reading, near);
    if (r >= 0)
        r = read_messages(reading, NULL, problem);
    if (r >= 0 && hosts > 1 && netflow_lost(reading->first)) /* which is told later than it happens */
        r = read_messages_again(reading, problem);
    if (r >= 0 && hosts > 1)
        r = align_clocks(reading, problem);
    if (r < 0 && (r == -ENODATA || r == -ERANGE))
        problem_remedy(problem,
                       "Record every node and client of the cluster while they exchange messages, and give "
                       "the directory that has those recordings alone.");
    for (uint32_t i = 0; r >= 0 && reading->alignment && i < hosts; i++) {
        struct host_alignment *h = &reading->alignment->hosts[i];
        h->origin_ns += near->hosts[i].offset_ns;
        h->offset_ns += near->hosts[i].offset_ns;
    }
    return r < 0                ? r
           : reading->alignment ? trace_set_alignment(reading->trace, reading->alignment)
                                : trace_rewind(reading->trace);
}

static int read_netflow(struct netflow_reading *reading, const char *folder, struct problem *problem)
{
    int r = trace_open(folder, NULL, problem, &reading->trace);
    if (r < 0)
        return r;
    r = first_pass(reading, problem);
    if (r >= 0)
        r = netflow_new(NULL, NULL, reading->machines, reading->first, &reading->second);
    if (r >= 0 && reading->alignment)
        for (uint32_t i = 0; i < reading->alignment->count; i++)
            reading->second->tolerance_ns =
                MAX(reading->second->tolerance_ns, 2 * reading->alignment->hosts[i].error_between_ns);
    struct pass pass = {0};
    if (r >= 0) {
        pass = netflow_pass(reading->second);
        r = trace_run(reading->trace, &pass, 1, show_progress, reading);
    }
    progress_clear(&reading->progress);
    if (r < 0 && !problem->what[0])
        problem_set(problem, r, "%s: %s", folder, strerror(-r));
    return r;
}

static void reading_done(struct netflow_reading *reading)
{
    netflow_free(reading->second);
    netflow_free(reading->first);
    aligner_free(reading->certain);
    aligner_free(reading->all);
    alignment_free(reading->alignment);
    trace_close(reading->trace);
    free(reading->machines);
}

/* ---- what is shown ---- */

static json_t *clocks_json(const struct netflow_reading *reading)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < trace_host_count(reading->trace); i++) {
        static const struct host_alignment alone;
        const struct host_alignment *h = reading->alignment ? &reading->alignment->hosts[i] : &alone;
        json_array_append_new(
            array, json_pack("{s:s, s:b, s:I, s:I, s:f, s:I, s:I, s:I, s:I}", "path",
                             trace_host_at(reading->trace, i)->path, "reference",
                             !reading->alignment || i == reading->alignment->reference, "origin_ns",
                             (json_int_t)h->origin_ns, "offset_ns", (json_int_t)h->offset_ns, "drift",
                             h->drift, "error_ns", (json_int_t)h->error_ns, "error_between_ns",
                             (json_int_t)h->error_between_ns, "sent_count", (json_int_t)h->sent,
                             "received_count", (json_int_t)h->received));
    }
    return array;
}

static const char *say(uint64_t ns, char text[static DURATION])
{
    return clock_format_duration(ns, text, DURATION);
}

static void add_clocks(struct text *to, const struct netflow_reading *reading)
{
    char error[DURATION];
    const struct alignment *a = reading->alignment;
    if (!a)
        return;
    text_addf(to, "Clocks of %u recordings, by the messages between them; times are those of %s:\n", a->count,
              trace_host_at(reading->trace, a->reference)->path);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct host_alignment *h = &a->hosts[i];
        if (i != a->reference)
            text_addf(to, "   %-40s %+.6f s, drift %+.2f us/s, error at most %s (%" PRIu64 " messages)\n",
                      trace_host_at(reading->trace, i)->path, (double)h->offset_ns / 1e9, h->drift * 1e6,
                      say(h->error_between_ns, error), h->sent + h->received);
    }
    text_addf(to, "\n");
}

static void add_row(struct text *to, const struct flow_row *row, const struct prose_style *style)
{
    char name[32], p50[DURATION], p99[DURATION], worst[DURATION], backlog[DURATION];
    redis_say_command(row->command, name, sizeof(name));
    if (!row->count) {
        text_addf(to, "\n%s%s, %s%s: %" PRIu64 ", none of them complete\n", style->bold, name,
                  flow_path_name(row->path), style->none, row->incomplete);
        return;
    }
    text_addf(to, "\n%s%s, %s%s: %" PRIu64 ", half within %s, 99 %% within %s\n", style->bold, name,
              flow_path_name(row->path), style->none, row->count,
              say((uint64_t)sketch_quantile(&row->total, 0.5), p50),
              say((uint64_t)sketch_quantile(&row->total, 0.99), p99));
    text_addf(to, "   %s%-34s %10s %10s %10s%s\n", style->dim, "stage", "p50", "p99", "slowest one",
              style->none);
    for (enum flow_point p = FLOW_SENT; p < FLOW_POINTS; p = flow_next(row->path, p)) {
        if (!row->stage[p].count)
            continue;
        enum flow_point next =
            row->worst[p] == FLOW_UNKNOWN ? FLOW_POINTS : flow_next_of(row->path, row->worst, p);
        text_addf(to, "   %-34s %10s %10s %10s\n", flow_stage_name(row->path, p),
                  say((uint64_t)sketch_quantile(&row->stage[p], 0.5), p50),
                  say((uint64_t)sketch_quantile(&row->stage[p], 0.99), p99),
                  next < FLOW_POINTS ? say((uint64_t)MAX(row->worst[next] - row->worst[p], 0), worst) : "");
        if (p == FLOW_SENT && row->backlog.count)
            text_addf(to, "   %-34s %10s %10s\n", "   while the node's loop was busy",
                      say((uint64_t)sketch_quantile(&row->backlog, 0.5), backlog),
                      say((uint64_t)sketch_quantile(&row->backlog, 0.99), p99));
    }
    text_addf(to, "   The slowest took %s: %s%s%s.", say(row->worst_ns, worst), flow_node_name(row->node),
              row->worst_node ? " to " : "", row->worst_node ? flow_node_name(row->worst_node) : "");
    if (row->incomplete)
        text_addf(to, " %" PRIu64 " more are not complete.", row->incomplete);
    if (row->from_traced < row->count)
        text_addf(to, " %" PRIu64 " came from clients that are not recorded.", row->count - row->from_traced);
    if (row->resent)
        text_addf(to, " In %" PRIu64 " a segment was sent again.", row->resent);
    if (row->disordered)
        text_addf(to, " %" PRIu64 " have stages out of order.", row->disordered);
    text_addf(to, "\n");
}

static int add_rows(struct text *to, const struct netflow *n, const struct prose_style *style)
{
    flow_sums sums = {0};
    int r = netflow_sums(n, &sums);
    array_foreach (&sums, row)
        add_row(to, row, style);
    netflow_sums_done(&sums);
    return r;
}

static int print(const struct netflow_reading *reading)
{
    _cleanup_(text_done) struct text text = {0};
    const struct netflow *n = reading->second;
    add_clocks(&text, reading);
    text_addf(&text, "Life cycles of %" PRIu64 " commands, %.2f %% complete.", n->flows,
              n->flows ? 100.0 * (double)n->reasons[FLOW_COMPLETE] / (double)n->flows : 100);
    if (n->messages)
        text_addf(&text, " %" PRIu64 " messages on the bus were found at both ends.", n->messages);
    text_addf(&text, "\n");
    for (enum flow_reason reason = FLOW_COMPLETE + 1; reason < FLOW_REASONS; reason++)
        if (n->reasons[reason])
            text_addf(&text, "   %" PRIu64 ": %s\n", n->reasons[reason], flow_reason_text(reason));
    for (enum flow_reason reason = FLOW_COMPLETE + 1; reason < FLOW_REASONS; reason++)
        if (n->copies[reason])
            text_addf(&text, "   %" PRIu64 " writes to replicas: %s\n", n->copies[reason],
                      flow_reason_text(reason));
    int r = add_rows(&text, n, reading_style(1));
    if (r >= 0)
        cli_printf(stdout, "%s", text_get(&text));
    return r;
}

int redis_netflow_run(const struct reading_options *options)
{
    struct netflow_reading reading = {0};
    struct problem problem = {0};
    int r = read_netflow(&reading, options->folder, &problem), status = EXIT_DONE;
    if (r >= 0 && options->json) {
        json_t *document = netflow_json(reading.second);
        if (document)
            json_object_set_new(document, "clocks", clocks_json(&reading));
        r = cli_print_json(document, JSON_INDENT(1));
    } else if (r >= 0) {
        r = print(&reading);
    }
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s: %s", options->folder, strerror(-r));
    if (r < 0)
        status = cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    else if (reading.second->reasons[FLOW_LOST] || reading.second->copies[FLOW_LOST])
        status = EXIT_LOST;
    reading_done(&reading);
    return status;
}
