/* sonde stack: what a thread of a Node.js process is doing right now, and what blocks it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/schema.h"
#include "cli/options.h"
#include "collect/stall.h"

static const char *const FRAME_KINDS[] = {"native", "javascript", "builtin", "regexp", "entry", "left-out"};

/* One line that says it: cause, culprit, place. */
static void print_verdict(const struct stall_report *r)
{
    const struct stall_frame *where = r->where >= 0 ? &r->frames[r->where] : NULL;
    switch (r->cause) {
    case STALL_REGEXP:
        printf("matching the regular expression /%s/%s", r->pattern ? r->pattern : "?",
               r->flags ? r->flags : "");
        break;
    case STALL_BUILTIN:
        printf("in %s", r->builtin ? r->builtin : "a builtin");
        break;
    case STALL_JAVASCRIPT:
        printf("running JavaScript");
        break;
    case STALL_GC:
        printf("collecting garbage");
        break;
    case STALL_WAITING:
        printf("waiting in system call %lld", (long long)r->system_call);
        break;
    default:
        printf("in native code%s%s", r->count && r->frames[0].function ? ": " : "",
               r->count && r->frames[0].function ? r->frames[0].function : "");
    }
    if (where && where->script)
        printf(", %s (%s:%u:%u)", where->function, where->script, where->line, where->column);
    putchar('\n');
}

static void print_frames(const struct stall_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct stall_frame *f = &r->frames[i];
        printf("  %s%-10s%s %s", cli_style(1, STYLE_DIM), FRAME_KINDS[f->kind], cli_style(1, STYLE_NONE),
               f->function ? f->function : "?");
        if (f->script)
            printf("  %s%s:%u:%u%s", cli_style(1, STYLE_CYAN), f->script, f->line, f->column,
                   cli_style(1, STYLE_NONE));
        putchar('\n');
    }
    if (r->truncated[0])
        printf("  [truncated: %s]\n", r->truncated);
}

static void print_json(pid_t pid, pid_t tid, const struct stall_report *r)
{
    json_t *frames = json_array();
    for (size_t i = 0; i < r->count; i++) {
        const struct stall_frame *f = &r->frames[i];
        json_t *frame = json_pack("{s:s, s:s*}", "kind", FRAME_KINDS[f->kind], "function", f->function);
        if (f->script)
            json_object_update_new(frame,
                                   json_pack("{s:s, s:i, s:i, s:b}", "file", f->script, "line", (int)f->line,
                                             "column", (int)f->column, "exact", (int)f->exact));
        json_array_append_new(frames, frame);
    }
    json_t *root = json_pack("{s:i, s:i, s:i, s:s, s:s*, s:s*, s:s*, s:s*, s:I, s:o}", "schema", SCHEMA_stack,
                             "pid", (int)pid, "tid", (int)tid, "cause", stall_cause_name(r->cause), "pattern",
                             r->pattern, "flags", r->flags, "builtin", r->builtin, "truncated",
                             r->truncated[0] ? r->truncated : NULL, "stopped_ns", (json_int_t)r->stopped_ns,
                             "frames", frames);
    if (r->where >= 0)
        json_object_set_new(root, "where", json_integer(r->where));
    cli_print_json(root, JSON_INDENT(2));
}

static const struct option_row ROWS[] = {{"json", .text = "print one JSON document", .type = OPTION_FLAG},
                                         {NULL}};
static const struct option_group OPTIONS[] = {{ROWS, 0}, {NULL, 0}};

static int run_stack(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int first, status = options_parse(self, argc, argv, &json, &first);
    if (status >= 0)
        return status;
    if (first >= argc)
        return cli_usage(self, "missing process ID");
    pid_t pid = atoi(argv[first]), tid = first + 1 < argc ? atoi(argv[first + 1]) : pid;
    if (pid <= 0 || tid <= 0)
        return cli_usage(self, "invalid %s ID '%s'", pid <= 0 ? "process" : "thread",
                         argv[first + (pid > 0)]);
    _cleanup_(stall_sampler_freep) struct stall_sampler *sampler = NULL;
    struct problem problem = {0};
    struct stall_report report;
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    status = cli_open_process(pid, &proc);
    if (status != EXIT_DONE)
        return status;
    int r = stall_sampler_new(&sampler);
    if (r == 0)
        r = stall_sample(sampler, proc, tid, &report, &problem);
    if (r == -EPERM || r == -EACCES)
        return cli_fail(EXIT_PERMISSION, &problem);
    if (r < 0)
        return cli_fail(EXIT_FAILED, &problem);
    if (json) {
        print_json(pid, tid, &report);
    } else {
        char stopped[24];
        print_verdict(&report);
        print_frames(&report);
        fprintf(stderr, "thread %d was stopped for %s\n", tid,
                clock_format_duration(report.stopped_ns, stopped, sizeof(stopped)));
    }
    stall_report_done(&report);
    return EXIT_DONE;
}

const struct command command_stack = {
    .name = "stack",
    .arguments = "[OPTION...] PID [THREAD]",
    .summary = "Show what a Node.js process is doing right now, and what blocks it",
    .help =
        "Takes one sample of the main thread (or of THREAD) from outside, which stops it for less than a\n"
        "millisecond. Says whether it matches a regular expression (and which), runs JavaScript (and where), "
        "is\n"
        "in a library call, collects garbage or waits, and prints the whole stack: native, V8's builtins "
        "and\n"
        "JavaScript.\n",
    .options = OPTIONS,
    .examples = "  sonde stack 4711\n"
                "  sonde stack --json $(pgrep -n node)\n",
    .run = run_stack,
};
