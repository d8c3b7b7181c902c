/* See reading.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reading.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "trace/trace.h"

enum { MANIFEST_MAX = 64 << 20 };

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

/* What tracing took while it went on. Shares are of one processor, but for tracing_cpu_share: of all. */
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
    char path[4096];
    snprintf(path, sizeof(path), "%s/manifest.json", folder);
    _cleanup_(freep) char *text = NULL;
    if (file_read(path, MANIFEST_MAX, &text, NULL) < 0)
        return;
    json_t *manifest = json_loads(text, 0, NULL);
    if (!manifest) {
        add_once(report, "manifest.json", "it is damaged", NULL);
        return;
    }
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

/* ---- reading ---- */

static int read_events(struct trace *trace, struct analysis *analysis, struct problem *problem)
{
    struct progress progress = {0};
    const struct event *event;
    int r;
    uint64_t count = 0;
    while ((r = trace_next(trace, &event)) > 0) {
        r = analysis_event(analysis, event);
        if (r < 0)
            break;
        if ((++count & 0xffff) == 0) {
            uint64_t done, total;
            trace_progress(trace, &done, &total);
            progress_show(&progress, done, total);
        }
    }
    if (r >= 0)
        r = analysis_finish(analysis);
    progress_clear(&progress);
    return r < 0 ? problem_set(problem, r, "reading the trace: %s", strerror(-r)) : 0;
}

int reading_run(const char *folder, struct analyze_options *options, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report)
{
    _cleanup_(trace_closep) struct trace *trace = NULL;
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct report report = {0};
    uint64_t started_ns = clock_monotonic_ns();
    options->folder = folder;
    int r = trace_open(folder, NULL, problem, &trace);
    if (r < 0) {
        if (problem && !problem->remedy[0])
            problem_remedy(problem, "`sonde run -o DIR -- COMMAND` records one.");
        return r;
    }
    r = analysis_new(options, &analysis);
    if (r >= 0)
        r = read_events(trace, analysis, problem);
    if (r >= 0)
        r = analysis_report(analysis, &report);
    if (r < 0) {
        report_done(&report);
        return problem && problem->what[0] ? r : problem_set(problem, r, "%s: %s", folder, strerror(-r));
    }
    add_manifest(&report, folder);
    add_reader_losses(&report, trace);
    report_add_overhead(&report, "events_count", (double)analysis_counts(analysis)->events);
    report_add_overhead(&report, "analysis_ns", (double)(clock_monotonic_ns() - started_ns));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    report_add_overhead(&report, "peak_memory_bytes", (double)usage.ru_maxrss * 1024);
    *ret_analysis = analysis;
    analysis = NULL;
    *ret_report = report;
    return 0;
}

/* ---- for the terminal ---- */

const struct prose_style *reading_style(int fd)
{
    static struct prose_style style;
    style = (struct prose_style){cli_style(fd, STYLE_NONE),   cli_style(fd, STYLE_BOLD),
                                 cli_style(fd, STYLE_DIM),    cli_style(fd, STYLE_RED),
                                 cli_style(fd, STYLE_YELLOW), cli_style(fd, STYLE_GREEN),
                                 cli_style(fd, STYLE_CYAN)};
    return &style;
}

unsigned reading_width(int fd)
{
    enum { NARROWEST = 60, DEFAULT = 100, WIDEST = 160 };
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0)
        width = DEFAULT;
    return (unsigned)MIN(MAX(width, (long)NARROWEST), (long)WIDEST);
}

static int parse_ms(const char *value, uint64_t *ret_ns)
{
    char *end;
    errno = 0;
    double ms = strtod(value, &end);
    if (errno || end == value || *end || !(ms > 0) || ms > 1e9)
        return -1;
    *ret_ns = (uint64_t)(ms * (double)NS_PER_MS);
    return 0;
}

int reading_parse(const struct command *self, int argc, char **argv, const struct option *options,
                  int (*own)(const struct command *self, int option, const char *value, void *context),
                  void *context, struct reading_options *o)
{
    uint64_t *times[] = {&o->analyze.stall_ns, &o->analyze.slow_command_ns, &o->analyze.pool_wait_ns};
    optind = 0;
    for (int c, r; (c = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(self);
        if (c == ':')
            return cli_usage(self, "%s needs a value", argv[optind - 1]);
        if (c == '?')
            return cli_usage(self, "unknown option %s", argv[optind - 1]);
        if (c == 'j')
            o->json = true;
        else if (c >= READING_OWN && (r = own(self, c, optarg, context)) >= 0)
            return r;
        else if (c < READING_OWN && parse_ms(optarg, times[c - READING_STALL]) < 0)
            return cli_usage(self, "'%s' is no time in milliseconds", optarg);
    }
    if (o->no_folder)
        return -1;
    if (optind + 1 != argc)
        return cli_usage(self, optind >= argc ? "which trace? Name its folder" : "one folder at a time");
    o->folder = argv[optind];
    return -1;
}

int reading_status(const struct report *report)
{
    return report_lost(report) ? EXIT_LOST : EXIT_DONE;
}

int reading_print_json(json_t *document)
{
    int r = document ? json_dumpf(document, stdout, JSON_INDENT(1)) : -1;
    json_decref(document);
    putchar('\n');
    return r < 0 ? -ENOMEM : 0;
}
