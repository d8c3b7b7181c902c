/* `sonde report`: what a trace says, findings first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/folder.h"
#include "targets/node/function.h"
#include "targets/node/loop.h"
#include "analyze/vertical.h"
#include "model/attl.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/progress.h"
#include "cli/reading.h"
#include "cli/store_report.h"
#include "serve/api.h"
#include "serve/source.h"

enum { TREE_LINES = 40, ENDPOINTS_SHOWN = 25, CHANNELS_SHOWN = 6 };

struct report_options {
    struct reading_options reading;
    const char *gate;
    const char *html; /* the file that the page goes to, or NULL */
    double html_mb;   /* and how large it may be */
    bool follow, kinds;
};

/* ---- for people ---- */

static void add_duration(struct text *to, double ns, int columns)
{
    char time[32];
    text_addf(to, " %*s", columns, clock_format_duration((uint64_t)ns, time, sizeof(time)));
}

static void add_endpoint(struct text *to, const struct endpoint *e, unsigned name_columns)
{
    enum { SERVICE = 14, METHOD = 7 };
    text_addf(to, "   %-*.*s %-*s %-*.*s", SERVICE, SERVICE, e->service, METHOD, e->method, (int)name_columns,
              (int)name_columns, e->route);
    text_addf(to, " %7llu", (unsigned long long)(e->count + e->unfinished));
    if (e->count) {
        add_duration(to, sketch_quantile(&e->latency, 0.50), 8);
        add_duration(to, sketch_quantile(&e->latency, 0.95), 8);
        add_duration(to, sketch_quantile(&e->latency, 0.99), 8);
    } else {
        text_addf(to, " %8s %8s %8s", "-", "-", "-");
    }
    add_duration(to, (double)e->worst_ns, 8);
    if (e->unfinished)
        text_addf(to, "  %llu unfinished", (unsigned long long)e->unfinished);
    if (e->errors)
        text_addf(to, "  %llu errors", (unsigned long long)e->errors);
    text_add(to, "\n");
}

static void add_endpoints(struct text *to, struct analysis *analysis, const struct prose_style *style,
                          unsigned width)
{
    size_t count;
    const struct endpoint *endpoints = analysis_endpoints(analysis, &count);
    if (!count)
        return;
    size_t longest = 5;
    for (size_t i = 0; i < count; i++)
        longest = MAX(longest, strlen(endpoints[i].route));
    unsigned room = width > 98 ? width - 72 : 26;
    unsigned columns = (unsigned)MIN(longest, (size_t)room);
    text_addf(to, "\n%sRequests%s\n%s   %-14s %-7s %-*s %7s %8s %8s %8s %8s%s\n", style->bold, style->none,
              style->dim, "service", "method", (int)columns, "route", "count", "p50", "p95", "p99", "worst",
              style->none);
    for (size_t i = 0; i < MIN(count, (size_t)ENDPOINTS_SHOWN); i++)
        add_endpoint(to, &endpoints[i], columns);
    if (count > ENDPOINTS_SHOWN) {
        text_add(to, "   and ");
        prose_count(to, count - ENDPOINTS_SHOWN, "more endpoint");
        text_add(to, " (--json has them all)\n");
    }
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static int most_messages_first(const void *x, const void *y)
{
    json_int_t a = number_of(*(json_t *const *)x, "writes_count"),
               b = number_of(*(json_t *const *)y, "writes_count");
    return (a < b) - (a > b);
}

/* "   shop, thread 12      to thread 15         20 messages, 20 answered: 25 ms on average, at most 61 ms".
 */
static void add_channel(struct text *to, const json_t *channel)
{
    const char *service = json_string_value(json_object_get(channel, "service"));
    const char *other = json_string_value(json_object_get(channel, "to_service"));
    json_int_t thread = number_of(channel, "thread"), answers = number_of(channel, "answers_count");
    json_int_t messages = number_of(channel, "writes_count");
    char from[96], there[96];
    if (thread)
        snprintf(from, sizeof(from), "%.40s, thread %lld", service, (long long)thread);
    else
        snprintf(from, sizeof(from), "%.40s, descriptor %lld", service,
                 (long long)number_of(channel, "descriptor"));
    if (thread)
        snprintf(there, sizeof(there), "thread %lld", (long long)number_of(channel, "to_thread"));
    else
        snprintf(there, sizeof(there), "%.40s (process %lld)", other,
                 (long long)number_of(channel, "to_process"));
    text_addf(to, "   %-30s to %-28s %7lld message%s, %lld answered", from, there, (long long)messages,
              messages == 1 ? "" : "s", (long long)answers);
    if (answers) {
        text_add(to, ":");
        add_duration(to, (double)number_of(channel, "answer_mean_ns"), 0);
        text_add(to, " on average, at most");
        add_duration(to, (double)number_of(channel, "answer_worst_ns"), 0);
    }
    text_add(to, "\n");
}

/* Who wrote to whom, where both ends are known. One message or two are the "ready" and "exit" of a start and
 * an end: they say nothing of how the service works. */
static void add_channels(struct text *to, const struct analysis *analysis, const struct prose_style *style)
{
    json_t *all = analysis_channels_json(analysis), *known[64], *channel;
    size_t count = 0, i;
    json_array_foreach (all, i, channel) {
        bool both = (number_of(channel, "thread") && number_of(channel, "to_thread")) ||
                    json_object_get(channel, "to_service");
        if (both && number_of(channel, "writes_count") > 2 && count < ARRAY_SIZE(known))
            known[count++] = channel;
    }
    if (count) {
        qsort(known, count, sizeof(known[0]), most_messages_first);
        text_addf(to, "\n%sBetween processes and threads%s\n", style->bold, style->none);
    }
    for (i = 0; i < MIN(count, (size_t)CHANNELS_SHOWN); i++)
        add_channel(to, known[i]);
    if (count > CHANNELS_SHOWN)
        text_add(to, "   and others (--json has them all)\n");
    json_decref(all);
}

/* What each event loop and the queues around it were like: ticks, the longest of them, callbacks
 * that a tick found ready, and the operations in libuv's thread pool. */
static void add_loops(struct text *to, const struct analysis *analysis, const struct prose_style *style)
{
    enum { SHOWN = 12 };
    json_t *all = analysis_loops_json(analysis), *loop;
    size_t i, shown = 0;
    json_array_foreach (all, i, loop) {
        const json_t *q = json_object_get(loop, "queues");
        json_int_t of_ns = number_of(q, "observed_ns"), ticks = number_of(loop, "ticks_count");
        if (ticks < 2 || !of_ns || ++shown > SHOWN)
            continue;
        if (shown == 1)
            text_addf(to, "\n%sEvent loops%s\n%s   %-14s %7s %6s %7s %8s %8s %5s %9s %8s %7s %5s%s\n",
                      style->bold, style->none, style->dim, "service", "thread", "busy", "ticks/s", "longest",
                      "late", "ready", "pool wait", "running", "done", "most", style->none);
        text_addf(to, "   %-14.14s %7lld %4.0f %% %7.0f", json_string_value(json_object_get(loop, "service")),
                  (long long)number_of(loop, "thread"),
                  100.0 * (double)number_of(loop, "active_ns") / (double)of_ns,
                  (double)ticks * (double)NS_PER_S / (double)of_ns);
        add_duration(to, (double)number_of(loop, "longest_tick_ns"), 8);
        add_duration(to, (double)number_of(loop, "worst_timer_late_ns"), 8);
        text_addf(to, " %5lld %9.2f %8.2f %7.2f %5lld\n", (long long)number_of(q, "ready_most_count"),
                  (double)number_of(q, "pool_queued_ns") / (double)of_ns,
                  (double)number_of(q, "pool_running_ns") / (double)of_ns,
                  (double)number_of(q, "pool_done_ns") / (double)of_ns,
                  (long long)number_of(q, "pool_most_count"));
    }
    json_decref(all);
}

/* The functions that were chosen: what a call took until it returned or its promise was settled, and how long
 * the loop was busy with all of them. */
static void add_functions(struct text *to, const struct analysis *analysis, const struct prose_style *style)
{
    json_t *all = analysis_functions_json(analysis), *f;
    size_t i;
    if (json_array_size(all))
        text_addf(to, "\n%sFunctions%s\n%s   %-14s %-34s %8s %8s %8s %8s %8s%s\n", style->bold, style->none,
                  style->dim, "service", "function", "calls", "p50", "p95", "worst", "self", style->none);
    json_array_foreach (all, i, f) {
        text_addf(to, "   %-14.14s %-34.34s %8lld", json_string_value(json_object_get(f, "service")),
                  json_string_value(json_object_get(f, "name")), (long long)number_of(f, "count"));
        if (json_object_get(f, "p50_ns")) {
            add_duration(to, (double)number_of(f, "p50_ns"), 8);
            add_duration(to, (double)number_of(f, "p95_ns"), 8);
            add_duration(to, (double)number_of(f, "worst_ns"), 8);
        } else {
            text_addf(to, " %8s %8s %8s", "-", "-", "-");
        }
        add_duration(to, (double)number_of(f, "self_ns"), 8);
        text_add(to, "\n");
        json_int_t failed = number_of(f, "threw_count") + number_of(f, "rejected_count");
        json_int_t unknown = number_of(f, "not_awaited_count"), pending = number_of(f, "pending_count");
        if (failed + unknown + pending)
            text_addf(to,
                      "      of these %lld failed, %lld ended unseen (not awaited at once), %lld not yet\n",
                      (long long)failed, (long long)unknown, (long long)pending);
    }
    json_decref(all);
}

static int most_time_first(const void *x, const void *y)
{
    json_int_t a = number_of(*(json_t *const *)x, "total_ns"), b = number_of(*(json_t *const *)y, "total_ns");
    return (a < b) - (a > b);
}

/* Statements of SQL, where their texts were recorded, by the time that they took in total. */
static void add_statements(struct text *to, const struct analysis *analysis, const struct prose_style *style,
                           unsigned width)
{
    enum { SHOWN = 10, KEPT = 1024 };
    json_t *all = analysis_operations_json(analysis), *operation, *statements[KEPT];
    size_t count = 0, i;
    json_array_foreach (all, i, operation)
        if (count < KEPT && strcmp(json_string_value(json_object_get(operation, "kind")), "statement") == 0)
            statements[count++] = operation;
    qsort(statements, count, sizeof(statements[0]), most_time_first);
    if (count)
        text_addf(to, "\n%sStatements%s\n%s   %-14s %8s %8s %8s %8s %8s%s\n", style->bold, style->none,
                  style->dim, "service", "calls", "total", "p50", "p99", "worst", style->none);
    for (i = 0; i < MIN(count, (size_t)SHOWN); i++) {
        const json_t *s = statements[i];
        text_addf(to, "   %-14.14s %8lld", json_string_value(json_object_get(s, "service")),
                  (long long)number_of(s, "count"));
        add_duration(to, (double)number_of(s, "total_ns"), 8);
        add_duration(to, (double)number_of(s, "attl_p50_ns"), 8);
        add_duration(to, (double)number_of(s, "attl_p99_ns"), 8);
        add_duration(to, (double)number_of(s, "attl_worst_ns"), 8);
        text_add(to, "\n      ");
        prose_wrap(to, json_string_value(json_object_get(s, "name")), 6, 6, width);
        text_add(to, "\n");
    }
    if (count > SHOWN)
        text_addf(to, "   and %zu others (--json has them all)\n", count - SHOWN);
    json_decref(all);
}

static void add_worst(struct text *to, struct analysis *analysis, const char *folder,
                      const struct prose_style *style, unsigned width)
{
    size_t count;
    const struct request *const *requests = analysis_requests(analysis, &count);
    if (!count)
        return;
    text_addf(to, "\n%sThe slowest request%s  %s%s of %s; `sonde spans %s` shows others%s\n", style->bold,
              style->none, style->dim, requests[0]->name, requests[0]->service, folder, style->none);
    vertical_print(to, requests[0], analysis_samples(analysis), style, width, TREE_LINES);
}

static void add_attribution(struct text *to, const struct analysis *analysis, const struct prose_style *style,
                            unsigned width)
{
    const struct analysis_counts *c = analysis_counts(analysis);
    uint64_t of_requests = c->proved + c->inferred + c->ambiguous;
    if (!of_requests && !c->commands && !c->begun_before)
        return;
    struct text line = {0};
    if (of_requests) {
        prose_count(&line, of_requests, "operation");
        text_addf(&line,
                  " attributed to requests: %.1f %% proved, %.1f %% inferred, %.1f %% ambiguous (several "
                  "requests could have started them).",
                  100.0 * (double)c->proved / (double)of_requests,
                  100.0 * (double)c->inferred / (double)of_requests,
                  100.0 * (double)c->ambiguous / (double)of_requests);
        if (c->told)
            text_addf(&line, " The request context proves %.1f %%.",
                      100.0 * (double)c->told / (double)of_requests);
        if (c->handovers)
            text_add(&line, " A queue of the program's own calls functions of one request while it serves "
                            "another: contexts prove nothing there.");
    }
    if (c->commands) {
        text_add(&line, line.length ? " " : "");
        prose_count(&line, c->commands, "Redis command");
        text_addf(&line, ", %llu joined to the process that sent them.", (unsigned long long)c->joined);
    }
    if (c->begun_before) {
        text_add(&line, line.length ? " " : "");
        prose_count(&line, c->begun_before, "response");
        text_add(
            &line,
            " belonged to requests that had begun before the recording did: what was done for them until "
            "then is not known, and they are in no table.");
    }
    text_addf(to, "\n%sConfidence%s\n   ", style->bold, style->none);
    prose_wrap(to, text_get(&line), 3, 3, width);
    text_add(to, "\n");
    text_done(&line);
}

/* A figure of the report's overhead; -1 when it is not there. */
static double cost_of(const struct report *report, const char *name)
{
    array_foreach (&report->overhead, cost)
        if (strcmp(cost->name, name) == 0)
            return cost->value;
    return -1;
}

/* Of a shorter recording, a share of a CPU says nothing about a longer one. */
static const uint64_t SHARE_FROM_NS = 2 * NS_PER_S;

static void add_cost(struct text *to, const struct report *report, const struct prose_style *style)
{
    double share = cost_of(report, "collector_cpu_share"), bytes = cost_of(report, "trace_bytes");
    double tracing = cost_of(report, "tracing_cpu_share"), memory = cost_of(report, "tracing_memory_bytes");
    char time[32];
    text_addf(to, "\n%sCost%s\n   ", style->bold, style->none);
    prose_count(to, (uint64_t)MAX(cost_of(report, "events_count"), 0), "event");
    if (bytes > 0)
        text_addf(to, ", %.1f MB", bytes / 1e6);
    if (share >= 0 && report->to_ns - report->from_ns >= SHARE_FROM_NS)
        text_addf(to, "; the recorder took %.1f %% of one CPU, not counting set-up", share * 100);
    text_addf(to, "; read in %s.\n",
              clock_format_duration((uint64_t)MAX(cost_of(report, "analysis_ns"), 0), time, sizeof(time)));
    if (tracing >= 0)
        text_addf(to,
                  "   Tracing took %.1f %% of all CPUs (budget %.3g %%): in the programs %.2g %% of one, "
                  "in the\n   kernel %.2g %% of one, not counting set-up; and %.0f MB of memory (budget %.0f "
                  "MB).\n",
                  tracing * 100, cost_of(report, "budget_cpu_share") * 100,
                  MAX(cost_of(report, "probe_cpu_share"), 0) * 100,
                  MAX(cost_of(report, "kernel_cpu_share"), 0) * 100, memory / (1 << 20),
                  cost_of(report, "budget_memory_bytes") / (1 << 20));
}

static void print_text(struct analysis *analysis, const struct report *report, const char *folder)
{
    const struct prose_style *style = reading_style(1);
    unsigned width = reading_width(1);
    struct text out = {0}, limits = {0};
    prose_findings(&out, report, style, width);
    add_endpoints(&out, analysis, style, width);
    add_loops(&out, analysis, style);
    add_functions(&out, analysis, style);
    add_statements(&out, analysis, style, width);
    add_channels(&out, analysis, style);
    add_worst(&out, analysis, folder, style, width);
    add_attribution(&out, analysis, style, width);
    struct report seen = *report;
    seen.overhead.count = 0; /* said in words below */
    prose_limits(&limits, &seen, style, width);
    if (limits.length)
        text_addf(&out, "\n%s", text_get(&limits));
    add_cost(&out, report, style);
    cli_put(stdout, text_get(&out));
    text_done(&out);
    text_done(&limits);
}

/* ---- for programs ---- */

/* Compact: the last of the documents that --follow printed. */
static int print_json(struct analysis *analysis, struct report *report, bool compact)
{
    size_t count;
    const struct request *const *requests = analysis_requests(analysis, &count);
    report->requests = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(report->requests, vertical_json(requests[i], analysis_samples(analysis)));
    if (folder_extend(report, analysis) < 0)
        return -ENOMEM;
    return reading_print_end(report_json(report), compact);
}

/* ---- the command ---- */

static int fail(const struct problem *problem, int r)
{
    return cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, problem);
}

/* Ends the use of the report. */
static int print(const struct report_options *options, struct analysis *analysis, struct report *report)
{
    struct problem problem = {0};
    int status = reading_status(report);
    if (options->gate && report_gate(report, options->gate) > 0)
        status = EXIT_FINDING;
    if (!options->reading.json)
        print_text(analysis, report, options->reading.folder);
    else if (print_json(analysis, report, options->follow) < 0) {
        problem_set(&problem, -ENOMEM, "out of memory while writing JSON");
        status = cli_fail(EXIT_FAILED, &problem);
    }
    report_done(report);
    return status;
}

static int show(struct report_options *options)
{
    struct problem problem = {0};
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct report report = {0};
    int r = reading_run(options->reading.folder, &options->reading.analyze, &problem, &analysis, &report);
    return r < 0 ? fail(&problem, r) : print(options, analysis, &report);
}

#define HTML_MB     20.0
#define PROGRESS_MS 200

static void on_written(void *progress, uint64_t done_bytes, uint64_t max_bytes)
{
    progress_show(progress, done_bytes, max_bytes);
}

/* The page with all that it shows of the recording, up to so many megabytes. */
static int write_page(const char *folder, const char *file, double megabytes)
{
    struct problem problem = {0};
    struct source_status status;
    struct progress progress = {0}, writing = {0};
    struct api_file page = {
        .max_bytes = (size_t)(megabytes * 1e6), .progress = on_written, .context = &writing};
    _cleanup_(source_freep) struct source *source = NULL;
    _cleanup_(text_done) struct text html = {0};
    int r = file_replaceable(file);
    if (r < 0)
        problem_set(&problem, r, "%s: %s", file, strerror(-r));
    if (r >= 0)
        r = source_new(folder, false, &source, &problem);
    if (r >= 0) {
        while (!source_wait(source, PROGRESS_MS)) {
            source_get_status(source, &status);
            progress_show(&progress, status.done_bytes, status.total_bytes);
        }
        progress_clear(&progress);
        source_get_status(source, &status);
        r = status.state == SOURCE_READY ? api_write_file(source, &page, &html) : -EIO;
        progress_clear(&writing);
        problem = status.problem;
    }
    if (r >= 0)
        r = file_replace(file, text_get(&html), html.length);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s: %s", file, strerror(-r));
    if (r >= 0)
        fprintf(stderr, "sonde: %s is written; open it in a browser\n", file);
    if (r >= 0 && page.left_out)
        fprintf(
            stderr,
            "sonde: the overview and findings went in first; %zu requests and tiles of states had no room in "
            "%g MB (--html-mb)\n",
            page.left_out, megabytes);
    return r < 0 ? fail(&problem, r) : EXIT_DONE;
}

/* The page is written when all has been recorded. */
static int follow(struct report_options *options, int recorder)
{
    struct problem problem = {0};
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct report report = {0};
    int r = follow_run(&options->reading, recorder, &problem, &analysis, &report);
    if (r < 0)
        return r == -ECANCELED ? EXIT_FAILED : fail(&problem, r);
    int written =
        options->html ? write_page(options->reading.folder, options->html, options->html_mb) : EXIT_DONE;
    int status = print(options, analysis, &report);
    return written == EXIT_DONE ? status : written;
}

int cli_follow(const char *folder, bool json, int recorder)
{
    struct report_options options = {.reading = {.analyze = ANALYZE_DEFAULTS, .folder = folder, .json = json},
                                     .follow = true};
    return cli_end(follow(&options, recorder));
}

int cli_report(const char *folder, bool json)
{
    struct report_options options = {
        .reading = {.analyze = ANALYZE_DEFAULTS, .folder = folder, .json = json}};
    return show(&options);
}

static int print_kinds(void)
{
    struct text manual = {0};
    finding_write_manual(&manual);
    fputs(text_get(&manual), stdout);
    text_done(&manual);
    return EXIT_DONE;
}

static int take_gate(const char *value, void *into, struct problem *problem)
{
    struct report_options *o = into;
    struct report none = {0};
    if (report_gate(&none, value) < 0)
        return problem_set(problem, -EINVAL,
                           "'%s' is neither a severity (info, warning, critical) nor a kind (`sonde report "
                           "--kinds` lists them)",
                           value);
    o->gate = value;
    return 0;
}

#define AT(member) offsetof(struct report_options, member)

static const struct option_row ROWS[] = {
    {"gate", .value = "SEVERITY|KIND",
     .text = "exit with 10 at a finding of that severity (info, warning, critical) or above, or of that kind",
     .type = OPTION_CALL, .take = take_gate},
    {"html", .value = "FILE", .text = "also write the page as one file, which opens without a server",
     .type = OPTION_TEXT, .at = AT(html)},
    {"html-mb", .value = "N",
     .text = "limit that file to about N MB (20); the overview and findings come first",
     .type = OPTION_NUMBER, .least = 0.1, .most = 2000, .at = AT(html_mb)},
    {"follow", .text = "first show findings as they appear, until the recording ends or Ctrl-C",
     .type = OPTION_FLAG, .at = AT(follow)},
    {"kinds", .text = "list the kinds of findings and their evidence", .type = OPTION_FLAG, .at = AT(kinds)},
    {NULL},
};

static const struct option_group OPTIONS[] = {{ROWS, 0}, {reading_rows, AT(reading)}, {NULL, 0}};

static int run(const struct command *self, int argc, char **argv)
{
    struct report_options options = {.reading.analyze = ANALYZE_DEFAULTS, .html_mb = HTML_MB};
    int first, r = options_parse(self, argc, argv, &options, &first);
    if (r >= 0)
        return r;
    if (options.kinds)
        return print_kinds();
    if ((r = reading_operand(self, argc, argv, first, &options.reading)) >= 0)
        return r;
    if (store_report_is_store(options.reading.folder)) {
        if (options.follow || options.html)
            return cli_usage(self, "%s is a store of profiles: --follow and --html are for recordings",
                             options.reading.folder);
        return store_report(options.reading.folder, options.reading.json, options.gate);
    }
    if (options.follow)
        return follow(&options, -1);
    if (options.html) {
        r = write_page(options.reading.folder, options.html, options.html_mb);
        if (r != EXIT_DONE)
            return r;
    }
    return show(&options);
}

const struct command command_report = {
    .name = "report",
    .arguments = "[OPTION...] DIR | --kinds",
    .summary = "Say why requests in a trace were slow",
    .help =
        "Findings in words come first: what happened, where, the cause, which requests suffered, what to "
        "do.\n"
        "Then the endpoints with their latencies, the slowest request from HTTP down to Redis, and what was\n"
        "lost or could not be seen. Exits with 4 when events were lost, 10 when the gate is reached, else "
        "0.\n"
        "For a store of profiles (sonde profile --store): the functions whose share of their service's CPU\n"
        "has grown.\n",
    .options = OPTIONS,
    .examples = "  sonde report /tmp/trace\n"
                "  sonde report --json /tmp/trace | jq '.findings[] | .title'\n"
                "  sonde report --html report.html /tmp/trace\n"
                "  sonde report --gate warning /tmp/trace || echo 'do not deploy'\n",
    .run = run,
};
