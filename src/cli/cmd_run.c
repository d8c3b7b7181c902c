/* `sonde run` and `sonde record`: start a command with the probe preloaded, record until it ends, and (run)
 * report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/cli.h"
#include "cli/recording.h"

static int record(struct recording *recording, char **command)
{
    struct problem problem = {0};
    int r = recording_open(recording, &problem);
    if (r >= 0)
        r = observe_start(recording->observation, command, &problem);
    if (r >= 0)
        r = recording_run(recording, &problem);
    return recording_close(recording, r, &problem);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct recording recording = {.report = strcmp(self->name, "run") == 0};
    int first, r = options_parse(self, argc, argv, &recording, &first);
    if (r >= 0)
        return r;
    if (first >= argc)
        return cli_usage(self, "no command given; put it after --");
    if (!recording.observe.folder && !recording.report)
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
