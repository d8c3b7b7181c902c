/* See recording.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/recording.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/aside.h"
#include "base/clock.h"
#include "cli/follow.h"
#include "cli/confine.h"
#include "cli/reading.h"
#include "collect/level.h"

/* ---- options ---- */

static int take_context(const char *value, void *into, struct problem *problem)
{
    static const struct {
        const char *name;
        enum sonde_context context;
    } MODES[] = {{"auto", SONDE_CONTEXT_AUTO},
                 {"script", SONDE_CONTEXT_SCRIPT},
                 {"native", SONDE_CONTEXT_NATIVE},
                 {"bounded", SONDE_CONTEXT_BOUNDED},
                 {"off", SONDE_CONTEXT_OFF}};
    struct recording *recording = into;
    for (size_t i = 0; i < ARRAY_SIZE(MODES); i++)
        if (strcmp(value, MODES[i].name) == 0) {
            recording->request_context = MODES[i].context;
            recording->context_chosen = true;
            return 0;
        }
    return problem_set(problem, -EINVAL, "invalid mode '%s' (auto, native, script, bounded, off)", value);
}

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
    return 0;
}

static int take_kernel(const char *value, void *into, struct problem *problem)
{
    struct recording *recording = into;
    recording->kernel = value ? value : "";
    return 0;
}

static int take_no_kernel(const char *value, void *into, struct problem *problem)
{
    struct recording *recording = into;
    recording->kernel = NULL;
    recording->no_kernel = true;
    return 0;
}

#define AT(member) offsetof(struct recording, member)

const struct option_row recording_rows[] = {
    {"output", 'o', "DIR", "directory for the trace; must not hold one", OPTION_TEXT, .at = AT(folder)},
    {"quiet", 'q', .text = "no notes on stderr while it runs", .type = OPTION_FLAG, .at = AT(quiet)},
    {"level", .value = "LEVEL",
     .text =
         "how much is recorded: requests (when they began and ended, Redis commands), usual, everything "
         "(each "
         "system call too: those of all programs of this machine take about 150 ns longer while it runs). "
         "SIGUSR1 "
         "records more, SIGUSR2 less from then on",
     .type = OPTION_TEXT, .at = AT(level)},
    {"kernel", .value = "[=FAMILY,...]",
     .text = "kernel events to record instead of the level's: sys, sched, wakeup, tcp, block, connect, or "
             "all; without a "
             "family: sched, block, connect",
     .type = OPTION_CALL, .take = take_kernel},
    {"no-kernel", .text = "no kernel events", .type = OPTION_CALL, .take = take_no_kernel},
    {"budget", .value = "PERCENT,MB",
     .text =
         "limit tracing to PERCENT CPU and MB of memory (5,128); above it the costliest events are disabled "
         "first, then tracing stops",
     .type = OPTION_TEXT, .at = AT(budget)},
    {"user", .value = "USER", .text = "run the command as USER (default under sudo: the invoking user)",
     .type = OPTION_TEXT, .at = AT(user)},
    {"context", .value = "MODE",
     .text = "how Node operations are attributed to requests: auto (precise where it can be), native "
             "(only where Node or V8 carries contexts at no cost), script, bounded (no script of ours), off",
     .type = OPTION_CALL, .take = take_context},
    {"function", .value = "NAME",
     .text = "record the calls of this JavaScript function as spans: checkout, Class.method, or "
             "file.js:checkout; "
             "may be repeated",
     .type = OPTION_CALL, .take = take_function},
    {NULL},
};

const struct option_row recording_report_rows[] = {
    {"follow", .text = "show findings as they appear, and the report at the end", .type = OPTION_FLAG,
     .at = AT(follow)},
    {"json", .text = "print the report as one JSON document; with --follow a document a line",
     .type = OPTION_FLAG, .at = AT(json)},
    {NULL},
};

static void note(void *context, const char *line)
{
    const struct recording *recording = context;
    if (!recording->quiet)
        fprintf(stderr, "%ssonde: %s%s\n", cli_style(2, STYLE_CYAN), line, cli_style(2, STYLE_NONE));
}

/* Whom the command runs as: the one who asked for it, not root because sonde needs to be. 0: as sonde is. */
static int find_user(const struct recording *recording, uid_t *ret_user, struct problem *problem)
{
    const char *caller = getenv("SUDO_UID"), *name = recording->user;
    char *end;
    *ret_user = 0;
    if (!name && (geteuid() != 0 || !caller))
        return 0;
    if (!name)
        name = caller;
    unsigned long number = strtoul(name, &end, 10);
    const struct passwd *entry = *end || end == name ? getpwnam(name) : NULL;
    if ((*end || end == name) && !entry)
        return problem_set(problem, -EINVAL, "there is no user '%s'", name);
    *ret_user = entry ? entry->pw_uid : (uid_t)number;
    if (geteuid() != 0 && *ret_user != geteuid())
        return problem_set(problem, -EPERM, "only root can run a command as '%s'", name);
    *ret_user = *ret_user == geteuid() ? 0 : *ret_user;
    return 0;
}

int recording_open(struct recording *recording, struct problem *problem)
{
    if (!recording->folder) {
        time_t now = time(NULL);
        strftime(recording->folder_name, sizeof(recording->folder_name), "sonde-%Y%m%d-%H%M%S",
                 localtime(&now));
        size_t length = strlen(recording->folder_name);
        for (int i = 2; access(recording->folder_name, F_OK) == 0 && i < 1000; i++)
            snprintf(recording->folder_name + length, sizeof(recording->folder_name) - length, "-%d", i);
        recording->folder = recording->folder_name;
    }
    enum sonde_level level = SONDE_level_usual;
    if (recording->level) {
        int r = level_parse(recording->level, &level, problem);
        if (r < 0)
            return r;
    }
    if (level == SONDE_level_requests && !recording->context_chosen) /* there is nothing to give to them */
        recording->request_context = SONDE_CONTEXT_BOUNDED;
    uint32_t families = recording->no_kernel ? 0
                        : recording->kernel  ? level_kernel_families(SONDE_level_usual)
                                             : level_kernel_families(level);
    if (recording->kernel && recording->kernel[0]) {
        int r = kernel_parse_families(recording->kernel, &families, problem);
        if (r < 0)
            return r;
    }
    struct budget_limits budget = BUDGET_DEFAULTS;
    if (recording->budget) {
        int r = budget_parse(recording->budget, &budget, problem);
        if (r < 0)
            return r;
    }
    uid_t user;
    int found = find_user(recording, &user, problem);
    if (found < 0)
        return found;
    _cleanup_(freep) char *probe = cli_probe_path();
    if (recording->functions[0] && recording->request_context < SONDE_CONTEXT_NATIVE)
        return problem_set(problem, -EINVAL, "--function works with --context auto, script or native only");
    struct session_options options = {.folder = recording->folder,
                                      .probe_path = probe,
                                      .level = level,
                                      .families = families,
                                      .no_kernel = recording->no_kernel,
                                      .written_every_ns = recording->written_every_ns,
                                      .request_context = recording->request_context,
                                      .budget = budget,
                                      .audit_file = recording->audit,
                                      .until_ns = recording->until_ns,
                                      .user = user,
                                      .note = note,
                                      .context = recording};
    memcpy(options.functions, recording->functions, sizeof(options.functions));
    int r = session_new(&options, &recording->session, problem);
    const char *const report[] = {"report", "--follow", recording->json ? "--json" : NULL, NULL};
    if (r >= 0 && recording->follow &&
        (recording->follower =
             follow_start(recording->folder, recording->follow_by ? recording->follow_by : report)) < 0)
        return problem_set(problem, recording->follower, "no process to follow the trace: %s",
                           strerror(-recording->follower));
    return r;
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

struct interruption {
    int signals;       /* how many came */
    uint64_t first_ns; /* when the first did */
};

/* A signal from the terminal went to the child too; one that was sent to sonde alone is passed on. */
static void read_signals(int fd, pid_t child, struct session *session, struct interruption *interruption)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
            session_change_level(session, info.ssi_signo == SIGUSR1 ? 1 : -1);
            continue;
        }
        if (info.ssi_code != SI_KERNEL && child)
            kill(child, (int)info.ssi_signo);
        if (interruption->signals++ == 0)
            interruption->first_ns = clock_monotonic_ns();
    }
}

static bool give_up(const struct interruption *interruption, pid_t child)
{
    if (!interruption->signals)
        return false;
    return !child || interruption->signals > 1 ||
           clock_monotonic_ns() - interruption->first_ns > 2 * NS_PER_S;
}

int recording_loop(struct recording *recording, pid_t child, uint64_t deadline_ns, int *ret_status,
                   struct problem *problem)
{
    int signals = catch_signals(), status = 0, r;
    struct interruption interruption = {0};
    bool signalled = true, watched = session_also_wait(recording->session, signals, &signalled) == 0;
    while ((r = session_step(recording->session, &status)) > 0) {
        pid_t command = session_command_runs(recording->session) ? child : 0;
        if (signalled)
            read_signals(signals, command, recording->session, &interruption);
        signalled = !watched;
        if (deadline_ns && clock_monotonic_ns() > deadline_ns)
            break;
        if (give_up(&interruption, command)) {
            if (command)
                fprintf(stderr, "sonde: the command (%d) still runs; it is no longer traced\n", command);
            aside_end();
            break;
        }
    }
    bool left = session_command_runs(recording->session);
    close(signals);
    if (r < 0)
        return problem_set(problem, r, "recording failed: %s", strerror(-r));
    *ret_status = !child                ? 0
                  : left                ? 128 + SIGINT
                  : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                        : WEXITSTATUS(status);
    return 0;
}

/* ---- the end ---- */

static void print_summary(const struct recording *recording, const struct session_summary *s)
{
    if (!s->programs)
        fprintf(stderr, "sonde: nothing was traced: no dynamically linked node or redis-server found\n");
    else
        fprintf(stderr, "sonde: %llu events of %u process%s in %s (%.1f MB)\n", (unsigned long long)s->events,
                s->programs, s->programs == 1 ? "" : "es", recording->folder, (double)s->bytes / 1e6);
    if (s->lost)
        fprintf(stderr, "%ssonde: %llu events were lost; `sonde report %s` lists them with the reason%s\n",
                cli_style(2, STYLE_YELLOW), (unsigned long long)s->lost, recording->folder,
                cli_style(2, STYLE_NONE));
}

/* What was made for a recording that never began. A folder that was there before, or holds anything, stays.
 */
static void remove_unused(const struct recording *recording)
{
    char path[PATH_MAX];
    if (!recording->folder || recording->folder != recording->folder_name)
        return;
    snprintf(path, sizeof(path), "%s/ctf", recording->folder);
    DIR *streams = opendir(path);
    for (struct dirent *entry; streams && (entry = readdir(streams));)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(streams), entry->d_name, 0);
    if (streams)
        closedir(streams);
    (void)rmdir(path);
    snprintf(path, sizeof(path), "%s/manifest.json", recording->folder);
    (void)unlink(path);
    (void)rmdir(recording->folder);
}

int recording_close(struct recording *recording, int status, int child_status, const struct problem *problem)
{
    struct problem end_problem = {0};
    struct session_summary summary = {0};
    bool failed = status < 0, used = false;
    if (failed && recording->session) {
        session_summarise(recording->session, &summary);
        used = summary.programs > 0;
    }
    if (status >= 0) {
        status = session_finish(recording->session, &end_problem);
        problem = &end_problem;
        session_summarise(recording->session, &summary);
    }
    session_free(recording->session);
    recording->session = NULL;
    if (failed && !used)
        remove_unused(recording);
    if (status < 0 && recording->follower > 0) {
        kill(recording->follower, SIGKILL);
        follow_wait(recording->follower);
    }
    if (status < 0)
        return cli_fail(status == -EPERM || status == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, problem);
    if (!recording->quiet)
        print_summary(recording, &summary);
    int exit_status = child_status ? child_status : summary.lost ? EXIT_LOST : EXIT_DONE;
    if (recording->report) {
        fflush(stderr);
        if (recording->follower <= 0 && confine_reading("report", recording->folder, &end_problem) < 0)
            return cli_fail(EXIT_FAILED, &end_problem);
        int reported = recording->follower > 0 ? follow_wait(recording->follower)
                                               : cli_report(recording->folder, recording->json);
        exit_status = exit_status == EXIT_DONE ? reported : exit_status;
    }
    return exit_status;
}
