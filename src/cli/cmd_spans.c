/* `sonde spans`: the vertical spans of single requests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/vertical.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/reading.h"

enum { SLOWEST_DEFAULT = 10, LINES_DEFAULT = 60 };

struct spans_options {
    struct reading_options reading;
    uint32_t lines;
};

static void print_text(const struct request *const *requests, size_t count, const struct profile *samples,
                       const struct spans_options *options)
{
    const struct prose_style *style = reading_style(1);
    unsigned width = reading_width(1);
    struct text out = {0};
    for (size_t i = 0; i < count; i++) {
        char time[32];
        text_addf(&out, "%s%s%s %s %s%s  %s%s of %s, %s%s\n", i ? "\n" : "", style->bold, requests[i]->name,
                  requests[i]->method, requests[i]->path, style->none, style->dim,
                  clock_format_duration(request_latency_ns(requests[i]), time, sizeof(time)),
                  requests[i]->service, request_state_name(requests[i]->state), style->none);
        vertical_print(&out, requests[i], samples, style, width, options->lines);
        cli_put(stdout, text_get(&out));
        text_clear(&out);
    }
    text_done(&out);
}

/* Nothing matched: what there is instead. */
static void explain(const struct spans_options *options, struct analysis *analysis)
{
    const struct analysis_counts *c = analysis_counts(analysis);
    if (!c->requests) {
        fprintf(stderr, "sonde: the trace holds no HTTP request; `sonde report %s` says what it holds\n",
                options->reading.folder);
        return;
    }
    fprintf(
        stderr, "sonde: none of the %llu requests %s '%s'; `sonde spans --slowest 5 %s` shows the slowest\n",
        (unsigned long long)c->requests, options->reading.analyze.request ? "is named" : "has a path with",
        options->reading.analyze.request ? options->reading.analyze.request : options->reading.analyze.path,
        options->reading.folder);
}

static int show(struct spans_options *options)
{
    struct problem problem = {0};
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct report report = {0};
    int r = reading_run(options->reading.folder, &options->reading.analyze, &problem, &analysis, &report);
    if (r < 0)
        return cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    size_t count;
    const struct request *const *requests = analysis_requests(analysis, &count);
    int status = reading_status(&report);
    if (!count)
        explain(options, analysis);
    if (options->reading.json) {
        report.requests = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(report.requests, vertical_json(requests[i], analysis_samples(analysis)));
        r = cli_print_json(report_json(&report), JSON_INDENT(1));
    } else {
        print_text(requests, count, analysis_samples(analysis), options);
    }
    report_done(&report);
    return r < 0 ? EXIT_FAILED : status;
}

#define AT(member) offsetof(struct spans_options, member)

static const struct option_row ROWS[] = {
    {"slowest", .value = "N", .text = "show the N slowest requests (10)", .type = OPTION_COUNT, .least = 1,
     .most = 10000000, .at = AT(reading.analyze.keep_slowest)},
    {"path", .value = "TEXT", .text = "only requests whose path contains TEXT", .type = OPTION_TEXT,
     .at = AT(reading.analyze.path)},
    {"request", .value = "ID", .text = "only one request, by the name that reports give it (PID-NUMBER)",
     .type = OPTION_TEXT, .at = AT(reading.analyze.request)},
    {"lines", .value = "N", .text = "at most N lines per request, the longest spans (60)",
     .type = OPTION_COUNT, .least = 1, .most = 10000000, .at = AT(lines)},
    {NULL},
};

static const struct option_group OPTIONS[] = {{ROWS, 0}, {reading_rows, AT(reading)}, {NULL, 0}};

static int run(const struct command *self, int argc, char **argv)
{
    struct spans_options options = {.reading.analyze = ANALYZE_DEFAULTS, .lines = LINES_DEFAULT};
    options.reading.analyze.keep_per_endpoint = 0;
    options.reading.analyze.keep_slowest = SLOWEST_DEFAULT;
    int first, r = options_parse(self, argc, argv, &options, &first);
    if (r < 0)
        r = reading_operand(self, argc, argv, first, &options.reading);
    return r >= 0 ? r : show(&options);
}

const struct command command_spans = {
    .name = "spans",
    .arguments = "[OPTION...] DIR",
    .summary = "Show single requests of a trace, from HTTP down to Redis",
    .help =
        "Each line is a span: when it began after the request did, how long it took, its layer, and what it\n"
        "was. What another traced service did for the request is nested below the call. What\n"
        "is not proved to be the request's is marked (inferred).\n",
    .options = OPTIONS,
    .examples = "  sonde spans --slowest 3 /tmp/trace\n"
                "  sonde spans --path /orders /tmp/trace\n"
                "  sonde spans --json --request 4711-12 /tmp/trace | jq '.requests[0].spans'\n",
    .run = run,
};
