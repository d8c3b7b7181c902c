/* `sonde convert`: a trace as CTF 1.8, as Perfetto's protobuf, or as JSON lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/owner.h"
#include "cli/cli.h"
#include "cli/losses.h"
#include "cli/progress.h"
#include "trace/align.h"
#include "trace/format.h"
#include "trace/perfetto.h"
#include "trace/rewrite.h"
#include "trace/trace.h"

struct conversion {
    struct trace *trace;
    const char *output;
    struct problem problem;
    struct progress progress;
    struct event_names names;
    /* JSON and Perfetto: */
    FILE *file;
    struct text line;
    struct perfetto *perfetto;
};

static int show_progress(void *context, uint64_t done, uint64_t total)
{
    struct conversion *c = context;
    progress_show(&c->progress, done, total);
    return 0;
}

static int to_ctf(struct conversion *c)
{
    return rewrite_ctf(c->trace, c->output, &c->problem, show_progress, c);
}

static int json_event(void *self, const struct event *event)
{
    struct conversion *c = self;
    int r = event_names_learn(&c->names, event);
    if (r < 0)
        return r;
    text_clear(&c->line);
    format_json(&c->line, event, trace_host_at(c->trace, event->trace)->name, &c->names);
    text_add(&c->line, "\n");
    if (c->line.failed)
        return -ENOMEM;
    errno = 0;
    if (fwrite(c->line.at, 1, c->line.length, c->file) == c->line.length)
        return 0;
    return errno ? -errno : -EIO;
}

static int perfetto_pass(void *self, const struct event *event)
{
    struct conversion *c = self;
    int r = event_names_learn(&c->names, event);
    return r < 0 ? r : perfetto_event(c->perfetto, event, &c->names);
}

/* One file, or stdout for "-". */
static int to_file(struct conversion *c, int (*event)(void *, const struct event *))
{
    bool standard = strcmp(c->output, "-") == 0;
    int fd = standard ? -1 : owner_open(c->output, O_WRONLY | O_CREAT | O_TRUNC);
    c->file = standard ? stdout : fd < 0 ? NULL : fdopen(fd, "wb");
    if (!c->file)
        return problem_set(&c->problem, fd < 0 ? fd : -ENOMEM, "%s: %s", c->output,
                           strerror(fd < 0 ? -fd : ENOMEM));
    int r = perfetto_new(c->file, c->trace, &c->perfetto);
    struct pass pass = {.name = "convert", .event = event, .self = c};
    if (r >= 0)
        r = trace_run(c->trace, &pass, 1, show_progress, c);
    if (fflush(c->file) != 0 && r >= 0)
        r = -errno;
    if (!standard)
        fclose(c->file);
    return r < 0
               ? problem_set(&c->problem, r, "%s: %s", standard ? "standard output" : c->output, strerror(-r))
               : 0;
}

static int to_json(struct conversion *c)
{
    return to_file(c, json_event);
}

static int to_perfetto(struct conversion *c)
{
    return to_file(c, perfetto_pass);
}

static const struct {
    const char *name;
    int (*convert)(struct conversion *c);
} FORMATS[] = {{"ctf", to_ctf}, {"perfetto", to_perfetto}, {"json", to_json}};

static int convert(struct conversion *c, const char *format, const char *path, bool align)
{
    int r = trace_open(path, NULL, &c->problem, &c->trace);
    if (r >= 0 && align) {
        _cleanup_(alignment_freep) struct alignment *a = NULL;
        if ((r = align_trace(c->trace, &c->problem, &a)) >= 0)
            r = trace_set_alignment(c->trace, a);
    }
    if (r < 0)
        return cli_fail(r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &c->problem);
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (strcmp(format, FORMATS[i].name) == 0)
            r = FORMATS[i].convert(c);
    progress_clear(&c->progress);
    if (r < 0)
        return cli_fail(EXIT_FAILED, &c->problem);
    size_t losses;
    trace_losses(c->trace, &losses);
    losses_print(c->trace, stderr);
    return losses ? EXIT_LOST : EXIT_DONE;
}

static bool is_format(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (strcmp(name, FORMATS[i].name) == 0)
            return true;
    return false;
}

static int run(const struct command *self, int argc, char **argv)
{
    static const struct option LONG[] = {{"to", required_argument, NULL, 't'},
                                         {"output", required_argument, NULL, 'o'},
                                         {"align", no_argument, NULL, 'a'},
                                         {0}};
    struct conversion c = {.output = NULL};
    const char *format = NULL;
    bool align = false;
    optind = 1;
    opterr = 0;
    for (int o; (o = getopt_long(argc, argv, ":t:o:", LONG, NULL)) != -1;) {
        switch (o) {
        case 't':
            format = optarg;
            break;
        case 'o':
            c.output = optarg;
            break;
        case 'a':
            align = true;
            break;
        case ':':
            return cli_usage(self, "%s needs a value", argv[optind - 1]);
        default:
            return cli_usage(self, "unknown option %s", argv[optind - 1]);
        }
    }
    if (!format || !is_format(format))
        return cli_usage(self,
                         format ? "--to %s: give ctf, perfetto or json" : "give --to ctf, perfetto or json%s",
                         format ? format : "");
    if (!c.output || optind + 1 != argc)
        return cli_usage(self, "%s", c.output ? "give one trace" : "give -o OUT");
    int status = convert(&c, format, argv[optind], align);
    event_names_done(&c.names);
    text_done(&c.line);
    perfetto_free(c.perfetto);
    trace_close(c.trace);
    return status;
}

const struct command command_convert = {
    .name = "convert",
    .arguments = "--to ctf|perfetto|json [--align] -o OUT DIR",
    .summary = "Write a trace in another format",
    .help =
        "Any trace that `sonde trace` reads. ctf: a folder that babeltrace2 and Trace Compass open; "
        "perfetto: a\n"
        "file for ui.perfetto.dev; json: one object a line, as `sonde trace events --json` prints them.\n\n"
        "  -t, --to FORMAT    ctf, perfetto or json\n"
        "  -o, --output OUT   a folder for ctf, else a file; - is stdout\n"
        "      --align        several hosts: correct their clocks by matching messages\n\n"
        "Examples:\n"
        "  sonde convert --to perfetto -o out.pftrace sonde-trace\n"
        "  sonde convert --to ctf -o copy lttng-traces/session\n"
        "  sonde convert --to json -o - sonde-trace | jq .name\n",
    .run = run,
};
