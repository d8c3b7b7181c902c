/* `sonde run` and `sonde record`: start a command with the probe preloaded, record until it ends, and (run)
 * report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/recording.h"
#include "symbol/elf.h"

/* The file that execvp() would run, or NULL. */
static char *find_program(const char *name)
{
    if (strchr(name, '/'))
        return strdup(name);
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    for (const char *at = path ? path : "/usr/bin:/bin"; at;
         at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (access(candidate, X_OK) == 0)
            return strdup(candidate);
    }
    return NULL;
}

static bool is_static(const char *name)
{
    _cleanup_(freep) char *path = find_program(name);
    struct elf *elf = NULL;
    if (!path || elf_open(path, &elf, NULL) < 0)
        return false;
    bool interpreter = false;
    struct elf_segment segment;
    for (size_t i = 0; elf_segment_at(elf, i, &segment) == 0; i++)
        interpreter |= segment.type == PT_INTERP;
    elf_free(elf);
    return !interpreter;
}

/* A program without a dynamic loader ignores LD_PRELOAD: said before, rather than shown as an empty report.
 */
static void warn_of_static(const struct recording *recording, const char *name)
{
    if (!recording->quiet && is_static(name))
        fputs("sonde: this program is statically linked: it cannot be preloaded and runs untraced\n", stderr);
}

static int record(struct recording *recording, char **command)
{
    struct problem problem = {0};
    pid_t child = 0;
    int child_status = 0, r = recording_open(recording, &problem);
    if (r >= 0) {
        warn_of_static(recording, command[0]);
        r = session_spawn(recording->session, command, &child, &problem);
    }
    if (r >= 0)
        r = recording_loop(recording, child, 0, &child_status, &problem);
    return recording_close(recording, r, child_status, &problem);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct recording recording = {.request_context = SONDE_CONTEXT_AUTO,
                                  .report = strcmp(self->name, "run") == 0};
    int first, r = options_parse(self, argc, argv, &recording, &first);
    if (r >= 0)
        return r;
    if (first >= argc)
        return cli_usage(self, "no command given; put it after --");
    if (!recording.folder && !recording.report)
        return cli_usage(self, "missing -o DIR, the directory for the trace");
    return record(&recording, argv + first);
}

static const struct option_group RECORD_OPTIONS[] = {{recording_rows, 0}, {NULL, 0}};
static const struct option_group RUN_OPTIONS[] = {{recording_rows, 0}, {recording_report_rows, 0}, {NULL, 0}};

const struct command command_run = {
    .name = "run",
    .arguments = "[OPTION...] -- COMMAND [ARGUMENT...]",
    .summary = "Run a command, trace the Node and Redis processes it starts, and say what was slow",
    .help = "The command and its children run unmodified: no flag, no rebuild. When it ends (or on Ctrl-C), "
            "the\n"
            "report follows; the trace stays in DIR (default: sonde-DATE-TIME) for `sonde report` and\n"
            "`sonde spans`. Exits with the command's status, or 4 when events were lost.\n",
    .options = RUN_OPTIONS,
    .examples = "  sonde run -- node server.js\n"
                "  sonde run -o /tmp/trace -- npm start\n"
                "  sonde run -- redis-server --port 7000\n",
    .operands_end_options = true,
    .run = run,
};

const struct command command_record = {
    .name = "record",
    .arguments = "-o DIR [OPTION...] -- COMMAND [ARGUMENT...]",
    .summary = "Run a command and trace it, without a report",
    .help = "Like `sonde run`, but only records the trace.\n",
    .options = RECORD_OPTIONS,
    .examples = "  sonde record -o /tmp/trace -- node server.js\n"
                "  sonde report /tmp/trace\n",
    .operands_end_options = true,
    .run = run,
};
