/* `sonde attach`: trace processes that run already, and leave them as they were. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/recording.h"
#include "observe/choose.h"

struct attach_options {
    bool all;
    double seconds; /* 0: until Ctrl-C */
    struct chosen chosen;
};

/* ---- who ---- */

/* A PID, a cgroup's folder, or the name of a program. */
static int add_target(const struct command *self, struct attach_options *options, const char *text)
{
    if (!text[strspn(text, "0123456789")]) {
        _cleanup_(proc_unrefp) struct proc *proc = NULL;
        if (cli_open_process(atoi(text), &proc) != EXIT_DONE)
            return 0; /* the others are attached to */
        return choose_process(&options->chosen, proc) < 0 ? EXIT_FAILED : 0;
    }
    int found =
        strchr(text, '/') ? choose_cgroup(&options->chosen, text) : choose_named(&options->chosen, text);
    if (found < 0)
        return cli_usage(self, "%s is not a cgroup directory (it has no cgroup.procs)", text);
    if (found == 0)
        return cli_usage(
            self, strchr(text, '/') ? "no process is in %s" : "no process runs a program named %s", text);
    return 0;
}

/* ---- attaching ---- */

static int attach(struct recording *recording, const struct attach_options *options)
{
    struct problem problem = {0};
    unsigned attached = 0;
    recording->observe.duration_ns = (uint64_t)(options->seconds * (double)NS_PER_S);
    int r = recording_open(recording, &problem);
    recording_hold_signals();
    if (r >= 0)
        r = observe_attach_all(recording->observation, &options->chosen, !options->all, &attached, &problem);
    if (r >= 0 && !recording->quiet)
        fprintf(stderr, "sonde: attached to %u process%s; %s\n", attached, attached == 1 ? "" : "es",
                recording->observe.duration_ns ? "Ctrl-C ends earlier" : "Ctrl-C ends and reports");
    if (r >= 0)
        r = recording_run(recording, &problem);
    return recording_close(recording, r, &problem);
}

/* What the command line says. */
struct attach_command {
    struct recording recording;
    struct attach_options options;
};

#define AT(member) offsetof(struct attach_command, member)

static const struct option_row ROWS[] = {
    {"duration", 'd', "SECONDS", "stop after this time", OPTION_SECONDS, .at = AT(options.seconds)},
    {"all", 'a', .text = "every program on this host that sonde traces", .type = OPTION_FLAG,
     .at = AT(options.all)},
    {"audit", .value = "FILE",
     .text =
         "append a line about each attachment (who, whom, what, until when) to FILE (default: journald or "
         "syslog)",
     .type = OPTION_TEXT, .at = AT(recording.observe.audit)},
    {NULL},
};

static const struct option_group OPTIONS[] = {
    {ROWS, 0}, {recording_rows, AT(recording)}, {recording_report_rows, AT(recording)}, {NULL, 0}};

static int run(const struct command *self, int argc, char **argv)
{
    struct attach_command said = {.recording = {.report = true}};
    struct attach_options *options = &said.options;
    int first, r = options_parse(self, argc, argv, &said, &first);
    if (r >= 0)
        return r;
    if (first == argc && !options->all)
        return cli_usage(self, "missing processes: give PIDs, names, a cgroup's directory, or --all");
    r = 0;
    if (options->all)
        choose_all(&options->chosen);
    for (; first < argc && r == 0; first++)
        r = add_target(self, options, argv[first]);
    if (r == 0 && !options->chosen.count && !options->all)
        r = EXIT_FAILED; /* it was said why */
    if (r == 0)
        r = attach(&said.recording, options);
    chosen_done(&options->chosen);
    return r;
}

const struct command command_attach = {
    .name = "attach",
    .arguments = "[OPTION...] PID|NAME|CGROUP...|--all",
    .summary = "Trace running Node and Redis processes, and leave them as they were",
    .help =
        "Nothing is restarted: the probe is loaded into the running process, its functions are redirected "
        "while\n"
        "all threads are stopped for about a millisecond, and restored at the end. Ctrl-C ends and reports.\n"
        "A target is a PID, the name of a program (every process of it), or the directory of a cgroup (a "
        "container,\n"
        "a systemd unit). Needs the right to trace the process: the same user, or root.\n",
    .options = OPTIONS,
    .examples = "  sonde attach 4711\n"
                "  sonde attach --duration 30 node redis-server\n"
                "  sonde attach -o /tmp/trace /sys/fs/cgroup/system.slice/redis-server.service\n",
    .run = run,
};
