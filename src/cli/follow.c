/* See follow.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/telling.h"
#include "trace/trace.h"

enum { INTERVAL_MS = 1000, SHOWN_MAX = 12 };

/* How old what was recorded must be to be read, where the recorder does not say how often it writes; else how
 * many times that. */
static const uint64_t SETTLED_NS = 1500 * NS_PER_MS;
enum { SETTLED_TIMES = 3 };

struct follower {
    const struct reading_options *options;
    struct analysis *analysis;
    uint64_t read_ns; /* everything up to here was read */
    bool complete;    /* the recorder has ended */
    bool terminal;
    unsigned lines; /* on the terminal, to be replaced */
    struct telling telling;
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

bool follow_stopped(void)
{
    return stopped;
}

void follow_catch_signals(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < ARRAY_SIZE(SIGNALS); i++) {
        struct sigaction old;
        if (sigaction(SIGNALS[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(SIGNALS[i], &(struct sigaction){.sa_handler = stop}, NULL);
    }
}

/* ---- the trace as it grows ---- */

bool follow_look(const char *folder, uint64_t *ret_settled_ns)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/manifest.json", folder);
    _cleanup_(freep) char *text = NULL;
    *ret_settled_ns = SETTLED_NS;
    if (file_read(path, 64 << 20, &text, NULL) < 0)
        return false;
    json_t *manifest = json_loads(text, 0, NULL);
    bool complete = !manifest || !json_is_false(json_object_get(manifest, "complete"));
    json_int_t written_ms = json_integer_value(json_object_get(manifest, "written_every_ms"));
    if (written_ms > 0 && written_ms < 60000)
        *ret_settled_ns = SETTLED_TIMES * (uint64_t)written_ms * NS_PER_MS;
    json_decref(manifest);
    return complete;
}

/* Feeds what came since the last time and is settled. */
static int read_news(struct follower *f, struct problem *problem)
{
    _cleanup_(trace_closep) struct trace *trace = NULL;
    const struct event *event;
    uint64_t settled_ns;
    f->complete = follow_look(f->options->folder, &settled_ns);
    uint64_t until_ns = f->complete ? UINT64_MAX : clock_monotonic_ns() - settled_ns;
    int r = trace_open(f->options->folder, NULL, problem, &trace);
    if (r == -ENOENT && !f->complete)
        return 0; /* nothing is written yet */
    if (r >= 0 && f->read_ns)
        r = trace_seek_ns(trace, f->read_ns + 1);
    if (r < 0)
        return r;
    while ((r = trace_next(trace, &event)) > 0 && event->time_ns <= until_ns) {
        r = analysis_event(f->analysis, event);
        f->read_ns = event->time_ns;
        if (r < 0)
            break;
    }
    return r < 0 ? problem_set(problem, r, "%s: %s", f->options->folder, strerror(-r)) : 0;
}

/* ---- what the report would be now ---- */

static void write_findings(struct analysis *analysis, int fd)
{
    struct report report = {0};
    FILE *to = fdopen(fd, "w");
    json_t *document = NULL;
    if (to && analysis_finish(analysis) == 0 && analysis_report(analysis, &report) == 0)
        document = report_json(&report);
    if (document)
        json_dumpf(document, to, JSON_COMPACT);
    if (to)
        fclose(to);
}

/* A new reference, or NULL when it could not be made this time. */
static json_t *findings_now(struct follower *f)
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) < 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        write_findings(f->analysis, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    FILE *from = pid > 0 ? fdopen(ends[0], "r") : NULL;
    json_t *document = from ? json_loadf(from, 0, NULL) : NULL;
    if (from)
        fclose(from);
    else
        close(ends[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    json_t *findings = json_incref(json_object_get(document, "findings"));
    json_decref(document);
    return findings;
}

/* ---- on a terminal ---- */

static void erase(struct follower *f)
{
    if (f->lines)
        printf("\033[%uA\033[J", f->lines);
    f->lines = 0;
}

static void show_in_place(struct follower *f, const json_t *findings)
{
    const struct prose_style *style = reading_style(1);
    const struct analysis_counts *counts = analysis_counts(f->analysis);
    unsigned width = reading_width(1);
    size_t i;
    json_t *finding;
    struct text out = {0};
    erase(f);
    text_addf(&out, "%s%llu events, %llu requests; Ctrl-C ends and reports%s\n", style->dim,
              (unsigned long long)counts->events, (unsigned long long)counts->requests, style->none);
    if (!json_array_size(findings))
        text_add(&out, "no finding so far\n");
    json_array_foreach (findings, i, finding) {
        const char *severity = telling_text(finding, "severity");
        bool loud = strcmp(severity, "info") != 0;
        if (i == SHOWN_MAX)
            text_addf(&out, "and %zu more\n", json_array_size(findings) - i);
        if (i >= SHOWN_MAX)
            break;
        text_addf(&out, "%s%-8s%s ", loud ? style->red : style->dim, severity, style->none);
        const char *title = telling_text(finding, "title");
        int room = (int)width - 10;
        text_addf(&out, "%.*s%s\n", room, title, (int)strlen(title) > room ? "…" : "");
    }
    for (const char *c = text_get(&out); *c; c++)
        f->lines += *c == '\n';
    cli_put(stdout, text_get(&out));
    fflush(stdout);
    text_done(&out);
}

/* ---- the whole ---- */

void follow_pause_ms(unsigned ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

static int follow(struct follower *f, struct problem *problem)
{
    pid_t parent = getppid();
    for (;;) {
        int r = read_news(f, problem);
        if (r < 0)
            return r;
        json_t *findings = findings_now(f);
        if (findings && f->terminal)
            show_in_place(f, findings);
        else if (findings)
            telling_changes(&f->telling, f->read_ns, findings);
        json_decref(findings);
        if (f->complete || stopped || getppid() != parent)
            return 0;
        follow_pause_ms(INTERVAL_MS);
    }
}

int follow_run(const struct reading_options *options)
{
    struct problem problem = {0};
    struct follower f = {
        .options = options, .terminal = !options->json && isatty(1), .telling.json = options->json};
    struct analyze_options analyze = options->analyze;
    analyze.folder = options->folder;
    int r = analysis_new(&analyze, &f.analysis);
    follow_catch_signals();
    if (r >= 0)
        r = follow(&f, &problem);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s: %s", options->folder, strerror(-r));
    erase(&f);
    telling_done(&f.telling);
    analysis_free(f.analysis);
    return r < 0 ? cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem)
                 : EXIT_DONE;
}

/* ---- beside a recording ---- */

int follow_start(const char *folder, const char *const arguments[])
{
    const char *argv[FOLLOW_ARGUMENTS + 3] = {"sonde"};
    size_t count = 1;
    for (; *arguments && count <= FOLLOW_ARGUMENTS; arguments++)
        argv[count++] = *arguments;
    argv[count] = folder;
    pid_t recorder = getpid(), pid = fork();
    if (pid < 0)
        return -errno;
    if (pid > 0)
        return (int)pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != recorder)
        _exit(EXIT_FAILED);
    /* The recorder ends us, by completing the manifest: not whoever presses Ctrl-C. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(EXIT_FAILED);
}

int follow_wait(int pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_FAILED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}
