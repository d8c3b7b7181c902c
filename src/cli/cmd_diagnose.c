/* sonde diagnose: which slice got slower, since which version, on which path; from span files of any tracer.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "analyze/export.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/diagnose_options.h"
#include "cli/progress.h"
#include "cli/reading.h"
#include "diagnose/bundle.h"
#include "diagnose/diagnosis.h"
#include "diagnose/locate.h"
#include "finding/prose.h"
#include "span/files.h"
#include "span/store.h"
#include "trace/manifest.h"

struct options {
    struct diagnose_options common;
    bool json, requests, allow_no_verdict;
    const char *gate, *mapping_path, *bundle;
    const char *normal; /* span files of a normal period, to locate a fault against */
};

static void show_progress(void *context, const char *file, uint64_t done, uint64_t total)
{
    if (file)
        progress_show(context, done, total);
    else
        progress_clear(context);
}

/* The requests with their critical paths, for --requests. */
struct request_list {
    struct diagnosis **diagnosis;
    json_t *list;
};

static int add_request(void *context, const struct trace *trace, const struct path_time *times)
{
    struct request_list *requests = context;
    const struct book *book = diagnosis_book(*requests->diagnosis);
    char id[40];
    snprintf(id, sizeof(id), "%016llx%016llx", (unsigned long long)trace->high,
             (unsigned long long)trace->low);
    json_t *request = json_object(), *path = json_array();
    json_object_set_new(request, "trace", json_string(trace->high ? id : id + 16));
    json_object_set_new(request, "duration_ns",
                        json_integer((json_int_t)(trace->parts[0].end_ns - trace->parts[0].start_ns)));
    for (size_t i = 0; i < trace->count; i++) {
        if (!times[i].on_path)
            continue;
        json_t *step = json_object();
        snprintf(id, sizeof(id), "%llx", (unsigned long long)trace->parts[i].id);
        json_object_set_new(step, "span", json_string(id));
        json_object_set_new(step, "service", json_string(names_get(book->names, trace->parts[i].service)));
        json_object_set_new(step, "operation", json_string(names_get(book->names, trace->parts[i].name)));
        json_object_set_new(step, "critical_ns", json_integer((json_int_t)times[i].critical_ns));
        json_object_set_new(step, "edge", json_boolean(times[i].is_call && times[i].callee != PART_NONE));
        json_array_append_new(path, step);
    }
    json_object_set_new(request, "critical_path", path);
    return json_array_append_new(requests->list, request) == 0 ? 0 : -ENOMEM;
}

static int read_mapping(const char *path, struct mapping *mapping, struct problem *problem)
{
    _cleanup_(freep) char *text = NULL;
    int r = file_read(path, 1 << 20, &text, NULL);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    return mapping_read(text, mapping, problem);
}

static void print_proposals(const struct diagnosis *diagnosis)
{
    const struct book *book = diagnosis_book(diagnosis);
    struct proposal proposals[8];
    size_t n = 0, shown = 0;
    if (cause_propose(book, proposals, 8, &n) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        if (proposals[i].in_use)
            continue;
        struct text words = {0};
        book_path_words(book, proposals[i].type, &words);
        if (shown++ == 0)
            puts("\nAttributes that requests are not bucketed by (--bucket-by), though they explain their "
                 "latency:");
        printf("  %-28s %5.1f %% of the variance of %s\n", labels_key_name(book->labels, proposals[i].key),
               proposals[i].explained * 100, text_get(&words));
        text_done(&words);
    }
}

static void print_report(const struct diagnosis *diagnosis, const struct report *report)
{
    struct text out = {0};
    struct prose_style style = {cli_style(1, STYLE_NONE),   cli_style(1, STYLE_BOLD),
                                cli_style(1, STYLE_DIM),    cli_style(1, STYLE_RED),
                                cli_style(1, STYLE_YELLOW), cli_style(1, STYLE_GREEN),
                                cli_style(1, STYLE_CYAN)};
    diagnosis_input_words(diagnosis, &out);
    text_add(&out, "\n");
    prose_findings(&out, report, &style, 100);
    prose_limits(&out, report, &style, 100);
    cli_put(stdout, text_get(&out));
    print_proposals(diagnosis);
    text_done(&out);
}

#define SUSPECTS_MAX   256
#define SUSPECTS_SHOWN 5

/* With --normal: which service explains what differs between the normal period and this one. */
static int add_suspects(const struct diagnosis *normal, const struct diagnosis *diagnosis, bool prose,
                        struct report *report, bool *ret_known)
{
    _cleanup_(freep) struct suspect *suspects = calloc(SUSPECTS_MAX, sizeof(*suspects));
    size_t count = 0;
    int r = suspects
                ? locate(diagnosis_book(normal), diagnosis_book(diagnosis), suspects, SUSPECTS_MAX, &count)
                : -ENOMEM;
    json_t *list = json_array();
    if (r == 0 && prose)
        puts(count ? "Services by how well each explains what differs from the normal period:"
                   : "Nothing to rank: no service was seen in both periods.");
    for (size_t i = 0; r == 0 && i < count; i++) {
        json_t *one = json_object();
        json_object_set_new(one, "service", json_string(suspects[i].service));
        json_object_set_new(one, "score", json_real(suspects[i].score));
        json_object_set_new(one, "why", json_string(suspects[i].why));
        json_object_set_new(one, "rule_mean_own_ns", json_real(suspects[i].rule_self));
        json_object_set_new(one, "rule_p95_ratio", json_real(suspects[i].rule_total));
        json_array_append_new(list, one);
        if (prose && i < SUSPECTS_SHOWN)
            printf("  %zu. %-28s %6.2f  %s\n", i + 1, suspects[i].service, suspects[i].score,
                   suspects[i].why);
    }
    if (r == 0 && prose)
        putchar('\n');
    json_object_set_new(report->extra, "suspects", list);
    *ret_known = count > 0;
    return r == 0 && count ? diagnosis_add_suspect(&suspects[0], report) : r;
}

/* The evidence as one page. */
static int write_bundle(const char *path, const struct diagnosis *diagnosis,
                        const struct judgement *judgement, const struct report *report,
                        struct problem *problem)
{
    struct text html = {0};
    int r = bundle_write(diagnosis, judgement, report, &html);
    if (r == 0)
        r = file_replace(path, text_get(&html), html.length);
    text_done(&html);
    return r < 0 ? problem_set(problem, r, "%s: %s", path, strerror(-r)) : 0;
}

static int finish(const struct options *options, const struct diagnosis *normal, struct diagnosis *diagnosis,
                  struct report *report, enum outcome *ret_outcome, struct problem *problem)
{
    struct judgement judgement;
    int r = diagnosis_report(diagnosis, &options->common.judge, report, &judgement);
    if (r < 0)
        return r;
    *ret_outcome = judgement.outcome;
    bool known = false;
    if (normal)
        r = add_suspects(normal, diagnosis, !options->json, report, &known);
    if (known && judgement.outcome == OUTCOME_CANNOT_TELL)
        *ret_outcome = OUTCOME_NOT_SLOWER; /* the normal period was compared with */
    report_sort(report);
    if (r == 0 && options->bundle)
        r = write_bundle(options->bundle, diagnosis, &judgement, report, problem);
    judgement_done(&judgement);
    if (r < 0)
        return r;
    if (options->json) {
        cli_print_json(report_json(report), JSON_INDENT(1));
    } else {
        print_report(diagnosis, report);
    }
    return 0;
}

#define RECORDING_REQUESTS 200000 /* of one recording: the slowest ones */

/* The host and the offset to the time of day, from the manifest; both may be missing. */
static json_t *read_manifest(const char *folder, struct export_settings *settings)
{
    json_t *manifest = NULL;
    (void)manifest_read(folder, &manifest);
    settings->host = json_string_value(json_object_get(json_object_get(manifest, "host"), "name"));
    settings->realtime_offset_ns = (uint64_t)json_integer_value(
        json_object_get(json_object_get(manifest, "clock"), "realtime_offset_ns"));
    return manifest;
}

/* A recording's vertical spans, all of its requests, to the sink. */
static int read_recording(const char *folder, struct span_sink *sink, struct report *report,
                          struct problem *problem)
{
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct analyze_options reading = ANALYZE_DEFAULTS;
    struct report own = {0};
    char name[256];
    reading.keep_per_endpoint = 0;
    reading.keep_slowest = RECORDING_REQUESTS;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    size_t from = length;
    while (from > 0 && folder[from - 1] != '/')
        from--;
    snprintf(name, sizeof(name), "%.*s", (int)(length - from), folder + from);
    int r = reading_run(folder, &reading, problem, &analysis, &own);
    struct export_settings settings = {.recording = name};
    json_t *manifest = read_manifest(folder, &settings);
    size_t count = 0;
    const struct request *const *requests = r == 0 ? analysis_requests(analysis, &count) : NULL;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = request_export(requests[i], &settings, sink);
    array_foreach (&own.losses, loss)
        if (r == 0)
            r = report_add_loss(report, loss->reason, name, loss->count);
    if (r == 0 && analysis_counts(analysis)->requests > count)
        r = report_add_loss(report, "request-left-out", name, analysis_counts(analysis)->requests - count);
    json_decref(manifest);
    report_done(&own);
    return r;
}

/* Recordings and span files, in the order of the paths. */
static int read_paths(struct span_files *files, const char *const *paths, size_t count,
                      struct span_sink *sink, struct report *report, struct problem *problem)
{
    int r = 0;
    for (size_t i = 0, n; r == 0 && i < count; i += n) {
        for (n = 0; i + n < count && !manifest_exists(paths[i + n]);)
            n++;
        r = n ? span_files_read(files, &paths[i], n, sink, problem)
              : read_recording(paths[i], sink, report, problem);
        n = MAX(n, (size_t)1);
    }
    return r;
}

static int run(struct options *options, const char *const *paths, size_t count, struct report *report,
               enum outcome *ret_outcome, struct problem *problem)
{
    _cleanup_(diagnosis_freep) struct diagnosis *diagnosis = NULL;
    struct mapping mapping = {0};
    struct request_list requests = {&diagnosis, NULL};
    struct diagnosis_settings settings;
    struct progress progress = {0};
    struct span_files files = {
        .progress = show_progress, .context = &progress, .parquet = duckdb_read_parquet};
    int r = diagnose_options_settings(&options->common, &settings, problem);
    if (r == 0 && options->mapping_path) {
        r = read_mapping(options->mapping_path, &mapping, problem);
        files.mapping = &mapping;
    }
    if (options->requests) {
        report->requests = requests.list = json_array();
        settings.request = add_request;
        settings.request_context = &requests;
    }
    _cleanup_(diagnosis_freep) struct diagnosis *normal = NULL;
    if (r == 0 && options->normal) {
        struct diagnosis_settings quiet = settings;
        quiet.request = NULL;
        r = diagnosis_new(&quiet, &normal);
        if (r == 0)
            r = read_paths(&files, &options->normal, 1, diagnosis_sink(normal), report, problem);
        if (r == 0)
            r = diagnosis_flush(normal, UINT64_MAX);
    }
    if (r == 0)
        r = diagnosis_new(&settings, &diagnosis);
    if (r == 0)
        r = read_paths(&files, paths, count, diagnosis_sink(diagnosis), report, problem);
    if (r == 0)
        r = diagnosis_flush(diagnosis, UINT64_MAX);
    if (r == 0 && files.left_out.what[0])
        r = report_add_missing(report, "lines that do not parse", files.left_out.what, NULL);
    if (r == 0 && !diagnosis_counts(diagnosis)->spans)
        r = problem_set(problem, -ENODATA, "no spans in %llu file%s (%llu passed over)",
                        (unsigned long long)files.files, files.files == 1 ? "" : "s",
                        (unsigned long long)files.skipped);
    if (r == -ENODATA)
        problem_remedy(problem,
                       "Spans are read from OTLP, Jaeger and Zipkin JSON, OTLP protobuf, CSV and Parquet, "
                       "and from directories that sonde recorded.");
    return r == 0 ? finish(options, normal, diagnosis, report, ret_outcome, problem) : r;
}

static int take_requests(const char *value, void *into, struct problem *problem)
{
    struct options *o = into;
    o->requests = o->json = true;
    return 0;
}

static int take_gate(const char *value, void *into, struct problem *problem)
{
    struct options *o = into;
    const struct report none = {0};
    o->gate = value ? value : "warning";
    return report_gate(&none, o->gate) < 0
               ? problem_set(problem, -EINVAL, "'%s' is neither a severity nor a kind of finding", o->gate)
               : 0;
}

#define AT(field) offsetof(struct options, field)
static const struct option_row ROWS[] = {
    {"json", .text = "print one JSON document", .type = OPTION_FLAG, .at = AT(json)},
    {"requests", .text = "with --json: include every request with its critical path", .type = OPTION_CALL,
     .take = take_requests},
    {"gate", .value = "[=SEVERITY]",
     .text = "exit with 10 if there is a finding of this severity (default: warning), with 11 if that cannot "
             "be decided",
     .type = OPTION_CALL, .take = take_gate},
    {"allow-no-verdict", .text = "exit with 0 instead of 11", .type = OPTION_FLAG,
     .at = AT(allow_no_verdict)},
    {"normal", .value = "PATH",
     .text =
         "span files of a normal period: rank the services by how well each explains what differs from it "
         "(fault localisation, without versions)",
     .type = OPTION_TEXT, .at = AT(normal)},
    {"bundle", .value = "FILE.html",
     .text = "write the evidence as one page: numbers, distributions, call-stack forest, requests",
     .type = OPTION_TEXT, .at = AT(bundle)},
    {"mapping", .value = "FILE",
     .text = "how the columns of a CSV or Parquet file map to the parts of a span", .type = OPTION_TEXT,
     .at = AT(mapping_path)},
    {NULL}};
static const struct option_group GROUPS[] = {{ROWS, 0}, {DIAGNOSE_ROWS, AT(common)}, {NULL, 0}};
#undef AT

static int cmd_diagnose(const struct command *self, int argc, char **argv)
{
    struct options options = {0};
    struct report report = {0};
    struct problem problem = {0};
    int first, status = options_parse(self, argc, argv, &options, &first);
    if (status >= 0)
        return status;
    if (first == argc)
        return cli_usage(self, "missing span file or directory");
    enum outcome outcome = OUTCOME_CANNOT_TELL;
    int r =
        run(&options, (const char *const *)argv + first, (size_t)(argc - first), &report, &outcome, &problem);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s", strerror(-r));
    bool no_verdict = outcome == OUTCOME_CANNOT_TELL && !options.allow_no_verdict;
    status = r < 0                                ? cli_fail(EXIT_FAILED, &problem)
             : !options.gate                      ? EXIT_DONE
             : report_gate(&report, options.gate) ? EXIT_FINDING
             : no_verdict                         ? EXIT_NO_VERDICT
                                                  : EXIT_DONE;
    diagnose_options_done(&options.common);
    report_done(&report);
    return status;
}

const struct command command_diagnose = {
    .name = "diagnose",
    .arguments = "[--gate[=SEVERITY]] [--json] [OPTION...] PATH...",
    .summary = "Say which slice of the fleet got slower, since which version, and on which path",
    .help =
        "Reads spans from files and directories: OTLP (JSON, JSON lines, protobuf), Jaeger and Zipkin JSON, "
        "CSV,\n"
        "Parquet, also compressed by gzip or zstd; and sonde's own recordings, to which a table can join "
        "versions\n"
        "by their names (sonde.recording). Requests are bucketed by type and hardware and grouped by the "
        "versions\n"
        "that they passed through, and the newest version of each service is compared with the older ones.\n",
    .options = GROUPS,
    .examples = "  sonde diagnose spans.jsonl\n"
                "  sonde diagnose --table hosts.csv --bucket-by hardware.generation traces/\n"
                "  sonde diagnose --table versions.csv /tmp/trace-41 /tmp/trace-42\n"
                "  sonde diagnose --service agent --base 41 --gate traces/ && deploy-further\n",
    .run = cmd_diagnose,
};
