/* See follow.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyze/live.h"
#include "cli/cli.h"
#include "cli/telling.h"

enum { INTERVAL_MS = 1000, SHOWN_MAX = 12 };

struct follower {
    struct live *live;
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

/* ---- on a terminal ---- */

static void erase(struct follower *f)
{
    if (f->lines)
        printf("\033[%uA\033[J", f->lines);
    f->lines = 0;
}

static void show_in_place(struct follower *f, const struct report *report)
{
    const struct prose_style *style = reading_style(1);
    const struct analysis_counts *counts = live_counts(f->live);
    unsigned width = reading_width(1);
    struct text out = {0};
    erase(f);
    text_addf(&out, "%s%llu events, %llu requests; Ctrl-C ends and reports%s\n", style->dim,
              (unsigned long long)counts->events, (unsigned long long)counts->requests, style->none);
    telling_list(&out, report, SHOWN_MAX, width, style);
    if (!report->findings.count)
        text_add(&out, "no finding so far\n");
    for (const char *c = text_get(&out); *c; c++)
        f->lines += *c == '\n';
    cli_put(stdout, text_get(&out));
    fflush(stdout);
    text_done(&out);
}

/* ---- the whole ---- */

bool follow_pause_ms(int recorder, unsigned ms)
{
    struct pollfd gone = {.fd = recorder, .events = POLLIN};
    return poll(&gone, 1, (int)ms) > 0;
}

static int show(void *context, struct analysis *analysis, struct report *report)
{
    struct follower *f = context;
    if (f->terminal)
        show_in_place(f, report);
    else
        telling_changes(&f->telling, live_read_ns(f->live), report);
    return 0;
}

static int follow(struct follower *f, int recorder, struct problem *problem)
{
    for (;;) {
        int r = live_read(f->live, problem);
        if (r >= 0)
            r = live_so_far(f->live, show, f);
        if (r < 0 || live_is_complete(f->live) || stopped)
            return r;
        if (follow_pause_ms(recorder, INTERVAL_MS))
            return -ECANCELED;
    }
}

int follow_run(const struct reading_options *options, int recorder, struct problem *problem,
               struct analysis **ret_analysis, struct report *ret_report)
{
    struct follower f = {.terminal = !options->json && isatty(1), .telling.json = options->json};
    int r = live_new(options->folder, &options->analyze, &f.live, problem);
    follow_catch_signals();
    if (r >= 0)
        r = follow(&f, recorder, problem);
    erase(&f);
    telling_done(&f.telling);
    if (r >= 0)
        r = reading_finish(f.live, problem, ret_analysis, ret_report);
    live_free(f.live);
    return r < 0 && r != -ECANCELED && !problem->what[0]
               ? problem_set(problem, r, "%s: %s", options->folder, strerror(-r))
               : r;
}
