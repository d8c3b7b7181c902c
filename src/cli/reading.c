/* See reading.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reading.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analyze/folder.h"
#include "base/clock.h"
#include "base/schema.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "trace/trace.h"

static int show_progress(void *context, struct analysis *analysis, uint64_t done, uint64_t total)
{
    progress_show(context, done, total);
    return 0;
}

int reading_run(const char *folder, struct analyze_options *options, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report)
{
    struct progress progress = {0};
    const struct folder_reading reading = {
        .analyze = options, .progress = show_progress, .context = &progress};
    int r = folder_read(folder, &reading, problem, ret_analysis, ret_report);
    progress_clear(&progress);
    return r;
}

int reading_finish(struct live *live, struct problem *problem, struct analysis **ret_analysis,
                   struct report *ret_report)
{
    struct progress progress = {0};
    const struct folder_reading reading = {.progress = show_progress, .context = &progress};
    int r = live_finish(live, &reading, problem, ret_analysis, ret_report);
    progress_clear(&progress);
    return r;
}

static int show_pass(void *context, uint64_t done, uint64_t total)
{
    progress_show(context, done, total);
    return 0;
}

int reading_pass(const char *folder, struct pass pass, struct problem *problem, struct trace **ret_trace)
{
    _cleanup_(trace_closep) struct trace *trace = NULL;
    struct progress progress = {0};
    int r = trace_open(folder, NULL, problem, &trace);
    if (r < 0)
        return r;
    r = trace_run(trace, &pass, 1, show_pass, &progress);
    progress_clear(&progress);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", folder, strerror(-r));
    *ret_trace = trace;
    trace = NULL;
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

/* ---- the command line ---- */

#define AT(member) offsetof(struct reading_options, member)

const struct option_row reading_rows[] = {
    {"json", .text = "print one JSON document", .type = OPTION_FLAG, .at = AT(json)},
    {"stall-ms", .value = "MS", .text = "report event-loop iterations longer than MS (50)", .type = OPTION_MS,
     .at = AT(analyze.stall_ns)},
    {"slow-command-ms", .value = "MS", .text = "report Redis commands that execute longer than MS (10)",
     .type = OPTION_MS, .at = AT(analyze.slow_command_ns)},
    {"pool-wait-ms", .value = "MS",
     .text = "report operations that wait longer than MS for a pool thread (20)", .type = OPTION_MS,
     .at = AT(analyze.pool_wait_ns)},
    {NULL},
};

int reading_operand(const struct command *self, int argc, char **argv, int first, struct reading_options *o)
{
    if (first + 1 != argc)
        return first >= argc
                   ? cli_usage(self, "missing trace directory")
                   : cli_usage(self, "one trace directory at a time, not also '%s'", argv[first + 1]);
    o->folder = argv[first];
    return -1;
}

int reading_status(const struct report *report)
{
    return report_lost(report) ? EXIT_LOST : EXIT_DONE;
}

int reading_print_end(json_t *document, bool followed)
{
    if (!followed)
        return cli_print_json(document, JSON_INDENT(1));
    return cli_print_json(
        json_pack("{s:i, s:s, s:o}", "schema", SCHEMA_line, "state", "end", "report", document),
        JSON_COMPACT);
}
