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
#include "cli/cli.h"
#include "cli/progress.h"

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
