/* `sonde run` and `sonde record`: start a command with the probe preloaded, record until it ends, and (run)
 * report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "collect/session.h"
#include "symbol/elf.h"

struct run_options {
    const char *folder;
    bool quiet, json, report;
    char **command;
};

/* ---- messages ---- */

static void note(void *context, const char *line)
{
    const struct run_options *options = context;
    if (!options->quiet)
        fprintf(stderr, "%ssonde: %s%s\n", cli_style(2, STYLE_CYAN), line, cli_style(2, STYLE_NONE));
}

/* ---- the command ---- */

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

/* A program without a dynamic loader ignores LD_PRELOAD: say so before, rather than show an empty report. */
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

/* ---- signals ---- */

static int catch_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

struct interruption {
    int signals;       /* how many came */
    uint64_t first_ns; /* when the first did */
};

/* A signal from the terminal went to the command too; one that was sent to sonde alone is passed on. */
static void read_signals(int fd, pid_t child, struct interruption *interruption)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_code != SI_KERNEL && child)
            kill(child, (int)info.ssi_signo);
        if (interruption->signals++ == 0)
            interruption->first_ns = clock_monotonic_ns();
    }
}

/* Ctrl-C gives the command two seconds to end; a second one, none. */
static bool give_up(const struct interruption *interruption)
{
    return interruption->signals > 1 ||
           (interruption->signals == 1 && clock_monotonic_ns() - interruption->first_ns > 2 * NS_PER_S);
}

/* ---- record ---- */

static int record(struct run_options *options, struct session *session, int *ret_exit,
                  struct problem *problem)
{
    pid_t child;
    int signals = catch_signals(), status = 0;
    int r = session_spawn(session, options->command, &child, problem);
    if (r < 0)
        return r;
    struct interruption interruption = {0};
    while ((r = session_step(session, &status)) > 0) {
        read_signals(signals, child, &interruption);
        if (give_up(&interruption)) {
            fprintf(stderr, "sonde: %s (%d) still runs; it is no longer traced\n", options->command[0],
                    child);
            break;
        }
    }
    close(signals);
    if (r < 0)
        return r;
    *ret_exit = r > 0 ? 128 + SIGINT : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return session_finish(session, problem);
}

static void print_summary(const struct run_options *options, const struct session *session)
{
    struct session_summary s;
    session_summarise(session, &s);
    if (!s.programs)
        fprintf(stderr, "sonde: nothing was traced: no dynamically linked node or redis-server was started "
                        "by this command\n");
    else
        fprintf(stderr, "sonde: %llu events of %u process%s in %s (%.1f MB)\n", (unsigned long long)s.events,
                s.programs, s.programs == 1 ? "" : "es", options->folder, (double)s.bytes / 1e6);
    if (s.lost)
        fprintf(stderr, "%ssonde: %llu events were lost; `sonde report %s` says which and why%s\n",
                cli_style(2, STYLE_YELLOW), (unsigned long long)s.lost, options->folder,
                cli_style(2, STYLE_NONE));
}

static int run_session(struct run_options *options)
{
    struct problem problem = {0};
    _cleanup_(freep) char *probe = cli_probe_path();
    struct session_options session_options = {
        .folder = options->folder, .probe_path = probe, .note = note, .context = options};
    _cleanup_(session_freep) struct session *session = NULL;
    if (is_static(options->command[0]))
        note(options, "this program is statically linked: it cannot be preloaded and runs untraced");
    int r = session_new(&session_options, &session, &problem);
    int status = 0;
    if (r >= 0)
        r = record(options, session, &status, &problem);
    if (r < 0) {
        if (!problem.what[0])
            problem_set(&problem, r, "recording failed: %s", strerror(-r));
        return cli_fail(r == -EPERM || r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    }
    struct session_summary summary;
    session_summarise(session, &summary);
    if (!options->quiet)
        print_summary(options, session);
    return status ? status : summary.lost ? EXIT_LOST : EXIT_DONE;
}

static int parse(const struct command *self, int argc, char **argv, struct run_options *ret_options)
{
    static const struct option LONG[] = {
        {"output", required_argument, NULL, 'o'},
        {"quiet", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    optind = 0;
    for (int c; (c = getopt_long(argc, argv, "+:o:qh", LONG, NULL)) != -1;) {
        switch (c) {
        case 'o':
            ret_options->folder = optarg;
            break;
        case 'q':
            ret_options->quiet = true;
            break;
        case 'j':
            ret_options->json = true;
            break;
        case 'h':
            cli_help(self);
            return -1;
        case ':':
            return cli_usage(self, "%s needs a value", argv[optind - 1]);
        default:
            return cli_usage(self, "unknown option %s", argv[optind - 1]);
        }
    }
    if (optind >= argc)
        return cli_usage(self, "no command given; put it after --");
    ret_options->command = argv + optind;
    return 0;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct run_options options = {.report = strcmp(self->name, "run") == 0};
    char folder[64];
    int r = parse(self, argc, argv, &options);
    if (r)
        return r < 0 ? EXIT_DONE : r;
    if (!options.folder && !options.report)
        return cli_usage(self, "-o DIR is missing: where shall the trace go?");
    if (!options.folder) {
        time_t now = time(NULL);
        strftime(folder, sizeof(folder), "sonde-%Y%m%d-%H%M%S", localtime(&now));
        options.folder = folder;
    }
    r = run_session(&options);
    if (options.report && cli_report) {
        fflush(stderr);
        int reported = cli_report(options.folder, options.json);
        if (r == EXIT_DONE)
            r = reported;
    }
    return r;
}

#define OPTIONS                                                      \
    "Options:\n"                                                     \
    "  -o, --output DIR  where the trace goes (must not hold one)\n" \
    "  -q, --quiet       no notes on stderr while it runs\n"

const struct command command_run = {
    .name = "run",
    .arguments = "[-o DIR] [--quiet] [--json] -- COMMAND [ARGUMENT...]",
    .summary = "Run a command, trace the Node and Redis processes it starts, and say what was slow",
    .help = "The command and its children run as they are: no flag, no rebuild. When it ends (or on Ctrl-C), "
            "the\n"
            "report follows; the trace stays in DIR (default: sonde-DATE-TIME) for `sonde report` and\n"
            "`sonde spans`. Exits with the command's status, or 4 when events were lost.\n\n" OPTIONS
            "      --json        the report as one JSON document\n\n"
            "Examples:\n"
            "  sonde run -- node server.js\n"
            "  sonde run -o /tmp/trace -- npm start\n"
            "  sonde run -- redis-server --port 7000\n",
    .run = run,
};

const struct command command_record = {
    .name = "record",
    .arguments = "-o DIR [--quiet] -- COMMAND [ARGUMENT...]",
    .summary = "Run a command and trace it, without a report",
    .help = "As `sonde run`, but only the trace is made.\n\n" OPTIONS "\n"
            "Examples:\n"
            "  sonde record -o /tmp/trace -- node server.js\n"
            "  sonde report /tmp/trace\n",
    .run = run,
};
