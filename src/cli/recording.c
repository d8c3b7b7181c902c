/* See recording.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/recording.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/confine.h"
#include "event/event.h"

/* ---- options ---- */

/* One more name, on a line of its own. */
static int take_function(const char *name, void *into, struct problem *problem)
{
    struct recording *recording = into;
    size_t length = strlen(recording->functions), more = strlen(name);
    if (!more || strpbrk(name, "\n\r"))
        return problem_set(problem, -EINVAL, "invalid function name '%s'", name);
    if (length + more + 2 > sizeof(recording->functions))
        return problem_set(problem, -EINVAL, "too many functions: their names may have %zu bytes together",
                           sizeof(recording->functions));
    snprintf(recording->functions + length, sizeof(recording->functions) - length, "%s%s", length ? "\n" : "",
             name);
    recording->observe.functions = recording->functions;
    return 0;
}

static int take_kernel(const char *value, void *into, struct problem *problem)
{
    struct recording *recording = into;
    recording->observe.kernel = value ? value : "";
    return 0;
}

static int take_no_kernel(const char *value, void *into, struct problem *problem)
{
    struct recording *recording = into;
    recording->observe.kernel = NULL;
    recording->observe.no_kernel = true;
    return 0;
}

#define AT(member) offsetof(struct recording, member)

const struct option_row recording_rows[] = {
    {"output", 'o', "DIR", "directory for the trace; must not hold one", OPTION_TEXT,
     .at = AT(observe.folder)},
    {"quiet", 'q', .text = "no notes on stderr while it runs", .type = OPTION_FLAG, .at = AT(quiet)},
    {"level", .value = "LEVEL",
     .text =
         "how much is recorded: requests (when they began and ended, Redis commands), usual, everything "
         "(every system call, too: while it runs, those of all programs on this machine take about 150 ns "
         "longer). SIGUSR1 records more, SIGUSR2 less from then on",
     .type = OPTION_TEXT, .at = AT(observe.level)},
    {"kernel", .value = "[=FAMILY,...]",
     .text = "kernel events to record instead of the level's: sys, sched, wakeup, tcp, block, connect, or "
             "all; without a "
             "family: sched, block, connect",
     .type = OPTION_CALL, .take = take_kernel},
    {"no-kernel", .text = "no kernel events", .type = OPTION_CALL, .take = take_no_kernel},
    {"budget", .value = "PERCENT,MB,MB",
     .text =
         "limit tracing to PERCENT CPU and MB of memory (5,128); above it the costliest events are disabled "
         "first, then tracing stops; the second MB: at once when the trace takes more on disk",
     .type = OPTION_TEXT, .at = AT(observe.budget)},
    {"user", .value = "USER", .text = "run the command as USER (default under sudo: the invoking user)",
     .type = OPTION_TEXT, .at = AT(observe.user)},
    {"context", .value = "MODE",
     .text = "how Node operations are attributed to requests: auto (precise where it can be), native "
             "(only where Node or V8 carries contexts at no cost), script, bounded (no script of ours), off",
     .type = OPTION_TEXT, .at = AT(observe.request_context)},
    {"function", .value = "NAME",
     .text = "record the calls of this JavaScript function as spans: checkout, Class.method, or "
             "file.js:checkout; "
             "may be repeated",
     .type = OPTION_CALL, .take = take_function},
    {"sql",
     .text = "record the text of SQL statements, without values: numbers, strings and comments are left out "
             "inside the program that sends them",
     .type = OPTION_FLAG, .at = AT(observe.sql)},
    {NULL},
};

const struct option_row recording_report_rows[] = {
    {"follow", .text = "show findings as they appear, and the report at the end", .type = OPTION_FLAG,
     .at = AT(follow)},
    {"json", .text = "print the report as one JSON document; with --follow one document per line",
     .type = OPTION_FLAG, .at = AT(json)},
    {NULL},
};

/* ---- what is printed while it records ---- */

static void warn(void *context, const char *line)
{
    cli_printf(stderr, "sonde: %s\n", line);
}

static void note(void *context, const char *line)
{
    const struct recording *recording = context;
    if (!recording->quiet)
        fprintf(stderr, "%ssonde: %s%s\n", cli_style(2, STYLE_CYAN), line, cli_style(2, STYLE_NONE));
}

/* In the follower's process. */
static int follow(void *context, const char *folder, int recorder)
{
    const struct recording *recording = context;
    struct problem problem = {0};
    if (recording->follow_by)
        return recording->follow_by(recording->follow_context, folder, recorder);
    return confine_reading("report", folder, &problem) < 0 ? cli_fail(EXIT_FAILED, &problem)
                                                           : cli_follow(folder, recording->json, recorder);
}

int recording_open(struct recording *recording, struct problem *problem)
{
    recording->observe.note = note;
    recording->observe.warn = warn;
    recording->observe.follow = recording->follow ? follow : NULL;
    recording->observe.context = recording;
    return observe_new(&recording->observe, &recording->observation, problem);
}

/* ---- signals ---- */

/* Those that end the recording, and those that change how much is recorded. */
static sigset_t our_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

void recording_hold_signals(void)
{
    sigset_t set = our_signals();
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static int catch_signals(void)
{
    sigset_t set = our_signals();
    recording_hold_signals();
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* The recording is complete, and everybody was let go: another Ctrl-C ends the report, as any command. */
static void let_signals_end_us(void)
{
    sigset_t set = our_signals(), levels;
    const struct timespec none = {0};
    sigemptyset(&levels);
    sigaddset(&levels, SIGUSR1);
    sigaddset(&levels, SIGUSR2);
    while (sigtimedwait(&levels, NULL, &none) > 0)
        ; /* there is nothing left that they could change */
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

struct signals {
    struct recording *recording;
    int fd;
};

/* A signal from the terminal went to the command too; one that was sent to sonde alone is passed on. */
static void read_signals(void *context)
{
    const struct signals *signals = context;
    struct observation *observation = signals->recording->observation;
    struct signalfd_siginfo info;
    while (read(signals->fd, &info, sizeof(info)) == sizeof(info)) {
        pid_t command = observe_command(observation);
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
            observe_change_level(observation, info.ssi_signo == SIGUSR1 ? 1 : -1);
            continue;
        }
        if (info.ssi_code != SI_KERNEL && command)
            kill(command, (int)info.ssi_signo);
        observe_stop(observation);
    }
}

int recording_run(struct recording *recording, struct problem *problem)
{
    struct signals signals = {recording, catch_signals()};
    int r = signals.fd < 0 ? -errno
                           : observe_also_wait(recording->observation, signals.fd, read_signals, &signals);
    if (r < 0)
        problem_set(problem, r, "signals cannot be waited for: %s", strerror(-r));
    else
        r = observe_run(recording->observation, problem);
    if (signals.fd >= 0)
        close(signals.fd);
    pid_t left = observe_command(recording->observation);
    if (r >= 0 && left)
        fprintf(stderr, "sonde: the command (%d) still runs; it is no longer traced\n", left);
    return r;
}

/* ---- the end ---- */

static void print_summary(const char *folder, const struct observe_summary *s)
{
    char kinds[200];
    observe_kinds(kinds, sizeof(kinds));
    if (!s->programs)
        fprintf(stderr, "sonde: nothing was traced: no dynamically linked %s was found\n", kinds);
    else
        fprintf(stderr, "sonde: %llu events of %u process%s in %s (%.1f MB)\n", (unsigned long long)s->events,
                s->programs, s->programs == 1 ? "" : "es", folder, (double)s->bytes / 1e6);
    if (!s->lost)
        return;
    char reasons[400] = "";
    for (unsigned i = 0; i < 32; i++)
        if (s->loss_reasons >> i & 1)
            snprintf(reasons + strlen(reasons), sizeof(reasons) - strlen(reasons), "%s%s",
                     *reasons ? ", " : "", event_label(SONDE_MEANING_loss_reason, i));
    fprintf(stderr, "%ssonde: %llu event%s lost (%s); `sonde report %s` says where%s\n",
            cli_style(2, STYLE_YELLOW), (unsigned long long)s->lost, s->lost == 1 ? " was" : "s were",
            reasons, folder, cli_style(2, STYLE_NONE));
}

static int report(const char *folder, bool json)
{
    struct problem problem = {0};
    return confine_reading("report", folder, &problem) < 0 ? cli_fail(EXIT_FAILED, &problem)
                                                           : cli_report(folder, json);
}

int recording_close(struct recording *recording, int status, const struct problem *problem)
{
    _cleanup_(observe_freep) struct observation *observation = recording->observation;
    struct problem end_problem = {0};
    struct observe_summary summary = {0};
    recording->observation = NULL;
    if (status >= 0) {
        status = observe_end(observation, &summary, &end_problem);
        problem = &end_problem;
    }
    if (status < 0)
        return cli_fail(status == -EPERM || status == -EACCES ? EXIT_PERMISSION
                        : status == -EINVAL && !observation   ? EXIT_USAGE /* an option was not understood */
                                                              : EXIT_FAILED,
                        problem);
    const char *folder = observe_folder(observation);
    int command = observe_status(observation);
    if (!recording->quiet)
        print_summary(folder, &summary);
    int exit_status = command ? command : summary.lost ? EXIT_LOST : EXIT_DONE;
    if (!recording->report)
        return exit_status;
    fflush(stderr);
    let_signals_end_us();
    int reported = recording->follow ? observe_wait(observation) : report(folder, recording->json);
    return exit_status == EXIT_DONE ? reported < 0 ? EXIT_FAILED : reported : exit_status;
}
