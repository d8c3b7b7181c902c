/* `sonde convert`: a trace as CTF 1.8, as Perfetto's protobuf, or as JSON lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "states/states.h"
#include "base/owner.h"
#include "cli/convert_requests.h"
#include "cli/convert_states.h"
#include "cli/options.h"
#include "cli/losses.h"
#include "cli/progress.h"
#include "trace/align.h"
#include "trace/format.h"
#include "trace/perfetto.h"
#include "trace/rewrite.h"
#include "trace/trace.h"

struct conversion {
    struct trace *trace;
    const char *folder, *output;
    struct problem problem;
    struct progress progress;
    struct event_names names;
    /* JSON and Perfetto: */
    FILE *file;
    struct text line;
    struct perfetto *perfetto;
    struct history *states; /* NULL: none */
    struct states *state_pass;
    struct emit emit;
    uint64_t last_ns;
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
    c->last_ns = event->time_ns;
    return r < 0 ? r : perfetto_event(c->perfetto, event, &c->names);
}

/* States are made of what others recorded; of sonde's own recordings the events are spans already. 1: they
 * will be. */
static int open_states(struct conversion *c)
{
    const struct event *e;
    char path[PATH_MAX];
    bool foreign = false;
    for (uint32_t i = 0; i < trace_host_count(c->trace); i++)
        foreign |= !trace_host_at(c->trace, i)->own;
    int r = foreign ? trace_next(c->trace, &e) : 0;
    if (r <= 0)
        return r;
    struct history_options options = {.size = sizeof(options), .start_ns = e->time_ns};
    r = owner_temporary(path, sizeof(path));
    if (r < 0)
        return problem_set(&c->problem, r, "%s: cannot create: %s", path, strerror(-r));
    r = history_create(path, &options, &c->states, &c->problem);
    unlink(path); /* mapped until the end */
    c->emit.states = c->states;
    if (r >= 0)
        r = states_new(&c->emit, c->trace, &c->state_pass);
    if (r >= 0)
        r = trace_rewind(c->trace);
    return r < 0 ? r : 1;
}

/* Of one host, by sonde: then there may be requests. */
static bool is_recording(const struct trace *trace)
{
    return trace_host_count(trace) == 1 && trace_host_at(trace, 0)->own;
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
    struct pass passes[2] = {{.name = "convert", .event = event, .self = c}};
    size_t count = 1;
    if (r >= 0 && event == perfetto_pass && is_recording(c->trace))
        r = convert_requests(c->folder, c->perfetto, show_progress, c, &c->problem);
    if (r >= 0 && event == perfetto_pass && (r = open_states(c)) > 0)
        passes[count++] = states_pass(c->state_pass);
    if (r >= 0)
        r = trace_run(c->trace, passes, count, show_progress, c);
    if (r >= 0 && c->states)
        r = history_close(c->states, c->last_ns + 1, &c->problem);
    if (r >= 0 && c->states)
        r = convert_states(c->states, c->trace, c->perfetto, &c->problem);
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

/* What the command line says. */
struct convert_options {
    const char *format, *output;
    bool align;
};

static int take_format(const char *value, void *into, struct problem *problem)
{
    if (!is_format(value))
        return problem_set(problem, -EINVAL, "invalid format '%s' (ctf, perfetto, json)", value);
    ((struct convert_options *)into)->format = value;
    return 0;
}

static const struct option_row ROWS[] = {
    {"to", 't', "FORMAT", "ctf, perfetto or json", OPTION_CALL, .take = take_format},
    {"output", 'o', "OUT", "a directory for ctf, else a file; - is standard output", OPTION_TEXT,
     .at = offsetof(struct convert_options, output)},
    {"align", .text = "several hosts: correct their clocks by matching messages", .type = OPTION_FLAG,
     .at = offsetof(struct convert_options, align)},
    {NULL},
};

static const struct option_group OPTIONS[] = {{ROWS, 0}, {NULL, 0}};

static int run(const struct command *self, int argc, char **argv)
{
    struct convert_options options = {0};
    int first, r = options_parse(self, argc, argv, &options, &first);
    if (r >= 0)
        return r;
    if (!options.format)
        return cli_usage(self, "missing --to FORMAT (ctf, perfetto, json)");
    if (!options.output)
        return cli_usage(self, "missing -o OUT");
    if (first + 1 != argc)
        return cli_usage(self, first >= argc ? "missing trace directory" : "one trace directory at a time");
    struct conversion c = {.folder = argv[first], .output = options.output};
    int status = convert(&c, options.format, argv[first], options.align);
    event_names_done(&c.names);
    text_done(&c.line);
    perfetto_free(c.perfetto);
    states_free(c.state_pass);
    history_free(c.states);
    trace_close(c.trace);
    return status;
}

const struct command command_convert = {
    .name = "convert",
    .arguments = "--to FORMAT -o OUT [OPTION...] DIR",
    .summary = "Write a trace in another format",
    .help =
        "Any trace that `sonde trace` reads. ctf: a directory that babeltrace2 and Trace Compass open; "
        "perfetto: a\n"
        "file for ui.perfetto.dev; json: one object per line, as `sonde trace events --json` prints them.\n",
    .options = OPTIONS,
    .examples = "  sonde convert --to perfetto -o out.pftrace sonde-trace\n"
                "  sonde convert --to ctf -o copy lttng-traces/session\n"
                "  sonde convert --to json -o - sonde-trace | jq .name\n",
    .run = run,
};
