/* sonde top: a live view of what runs: functions, processes and threads, on and off the CPU, with callers and
 * callees. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/confine.h"
#include "cli/options.h"
#include "profile/namer.h"
#include "profile/sampler.h"

enum view { VIEW_FUNCTIONS, VIEW_PROCESSES, VIEW_THREADS, VIEWS };
static const char *const VIEW_NAMES[VIEWS] = {"functions", "processes", "threads"};

struct row {
    char *name, *place;
    uint64_t self, total;
};

struct top {
    struct sampler *sampler;
    struct profile *on, *off; /* of the interval that is shown */
    enum view view;
    bool show_off, paused, quit, measured;
    size_t selected;
    char *chosen; /* the name of the selected row once it was chosen: it moves, and the choice with it */
    char *inside; /* the function whose callers and callees are shown; NULL: all */
    unsigned interval_ms;
    uint32_t rounds;      /* 0: no end */
    uint64_t measured_ns; /* how long the interval that is shown took */
    bool terminal;
    struct termios before;
    ARRAY(struct row) rows;
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    ended = 1;
}

/* ---- rows ---- */

static void clear_rows(struct top *t)
{
    array_foreach (&t->rows, r) {
        free(r->name);
        free(r->place);
    }
    array_clear(&t->rows);
}

static void add_row(struct top *t, const char *name, const char *place, uint64_t self, uint64_t total)
{
    struct row row = {strdup(name), strdup(place), self, total};
    if (!row.name || !row.place || array_add(&t->rows, row) < 0) {
        free(row.name);
        free(row.place);
    }
}

static int by_weight(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->self != y->self)
        return x->self > y->self ? -1 : 1;
    return x->total > y->total ? -1 : x->total < y->total;
}

static void function_rows(struct top *t, const struct profile *p)
{
    size_t count;
    struct profile_function *list = profile_functions(p, &count);
    for (size_t i = 0; list && i < count; i++) {
        const struct profile_frame *f = &p->frames.at[list[i].frame];
        if (f->kind != FRAME_GROUP)
            add_row(t, profile_text(p, f->name), profile_text(p, f->file ? f->file : f->module), list[i].self,
                    list[i].total);
    }
    free(list);
}

/* The first frame is the process, the second the thread. */
static void group_rows(struct top *t, const struct profile *p, unsigned level)
{
    uint64_t *totals = profile_totals(p);
    for (size_t i = 1; totals && i < p->nodes.count; i++) {
        uint32_t parent = p->nodes.at[i].parent;
        bool wanted = level == 1 ? parent == 0 : parent != 0 && p->nodes.at[parent].parent == 0;
        if (!wanted || p->frames.at[p->nodes.at[i].frame].kind != FRAME_GROUP)
            continue;
        const char *name = profile_text(p, p->frames.at[p->nodes.at[i].frame].name);
        const char *process = level == 1 ? "" : profile_text(p, p->frames.at[p->nodes.at[parent].frame].name);
        bool prefixed = level == 2 && strncmp(name, "thread ", 7) == 0;
        add_row(t, name + (prefixed ? 7 : 0), process, totals[i], totals[i]);
    }
    free(totals);
    if (t->rows.count)
        qsort(t->rows.at, t->rows.count, sizeof(*t->rows.at), by_weight);
}

/* Callers of a function with what they spend through it, and its callees: one row each, marked by direction.
 */
static void neighbour_rows(struct top *t, const struct profile *p)
{
    uint64_t *totals = profile_totals(p);
    struct map index = {0};
    for (size_t i = 1; totals && i < p->nodes.count; i++) {
        uint32_t parent = p->nodes.at[i].parent;
        const char *name = profile_text(p, p->frames.at[p->nodes.at[i].frame].name);
        const char *above = parent ? profile_text(p, p->frames.at[p->nodes.at[parent].frame].name) : "";
        bool callee = parent && strcmp(above, t->inside) == 0,
             caller = strcmp(name, t->inside) == 0 && parent;
        for (int direction = 0; direction < 2; direction++) {
            if (!(direction ? callee : caller))
                continue;
            const char *other = direction ? name : above;
            bool added;
            uint64_t *at = map_put(&index, map_hash(other, strlen(other)) + (uint64_t)direction, &added);
            if (at && added) {
                add_row(t, other, direction ? "is called by it" : "calls it", 0, 0);
                *at = t->rows.count - 1;
            }
            if (at) {
                t->rows.at[*at].total += totals[i];
                t->rows.at[*at].self += totals[i];
            }
        }
    }
    map_done(&index);
    free(totals);
    if (t->rows.count)
        qsort(t->rows.at, t->rows.count, sizeof(*t->rows.at), by_weight);
}

/* The rows are others each second: what was chosen is chosen still. */
static void keep_choice(struct top *t)
{
    for (size_t i = 0; t->chosen && i < t->rows.count; i++)
        if (strcmp(t->rows.at[i].name, t->chosen) == 0)
            t->selected = i;
    if (t->selected >= t->rows.count)
        t->selected = t->rows.count ? t->rows.count - 1 : 0;
}

/* The first row is whatever is first. */
static void choose(struct top *t, size_t row)
{
    free(t->chosen);
    t->selected = row;
    t->chosen = row && row < t->rows.count ? strdup(t->rows.at[row].name) : NULL;
}

/* inside is taken. */
static void show(struct top *t, enum view view, char *inside)
{
    free(t->inside);
    t->inside = inside;
    t->view = view;
    choose(t, 0);
}

static void make_rows(struct top *t)
{
    const struct profile *p = t->show_off ? t->off : t->on;
    clear_rows(t);
    if (t->inside)
        neighbour_rows(t, p);
    else if (t->view == VIEW_FUNCTIONS)
        function_rows(t, p);
    else
        group_rows(t, p, t->view == VIEW_PROCESSES ? 1 : 2);
    keep_choice(t);
}

/* ---- the screen ---- */

/* A line that is cut at the terminal's edge: one that wraps would push the first ones off the screen. Names
 * of functions and threads are the programs' own words: what a terminal would obey is shown, not sent. */
static void print_line(const struct top *t, unsigned width, const char *style, const char *end,
                       const char *format, ...)
{
    char line[512];
    struct text clean = {0};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    text_add_visible(&clean, line, strlen(line));
    printf("%s%.*s%s%s%s", style, (int)width, text_get(&clean), *style ? cli_style(1, STYLE_NONE) : "",
           t->terminal ? "\x1b[0m\x1b[K" : "", end);
    text_done(&clean);
}

/* A share of one CPU. A wait is known when it ends, and may have begun long before: its time says more. */
static const char *weight_text(const struct top *t, uint64_t weight, char *buffer, size_t size)
{
    if (t->show_off)
        return clock_format_duration(weight, buffer, size);
    double share = (double)weight / (t->measured_ns ? (double)t->measured_ns : t->interval_ms * 1e6);
    if (t->view == VIEW_THREADS && !t->inside) /* samples scatter; a thread has one CPU at most */
        share = share > 1 ? 1 : share;
    snprintf(buffer, size, "%.1f%%", 100 * share);
    return buffer;
}

static void print_rows(struct top *t, unsigned height, unsigned width)
{
    unsigned shown = 0;
    size_t first = t->selected >= height ? t->selected - height + 1 : 0;
    for (size_t i = first; i < t->rows.count && shown < height; i++, shown++) {
        const struct row *r = &t->rows.at[i];
        char self[24], total[24];
        print_line(t, width, t->terminal && i == t->selected ? "\x1b[7m" : "", "\n",
                   "%8s %8s  %.200s  %.200s", weight_text(t, r->self, self, sizeof(self)),
                   weight_text(t, r->total, total, sizeof(total)), r->name, r->place);
    }
    if (t->rows.count)
        return;
    print_line(t, width, "", "\n", "  %s",
               sampler_ended(t->sampler) ? "what was watched has ended"
               : t->inside               ? "not seen in this interval; Escape shows what was"
               : !t->measured            ? "the first figures come in a moment"
               : t->show_off             ? "no wait of a millisecond or more ended in this interval"
                             : "nothing that is watched ran on a CPU in this interval; `o` shows waits");
}

static void draw(struct top *t)
{
    struct winsize size = {.ws_row = 24, .ws_col = 511};
    struct sampler_counts c;
    if (t->terminal) {
        ioctl(1, TIOCGWINSZ, &size);
        printf("\x1b[H");
    }
    sampler_counts(t->sampler, &c);
    print_line(t, size.ws_col, cli_style(1, STYLE_BOLD), "\n",
               "sonde top  %s %s%s%s   stacks %llu, %.1f %% complete, lost %llu",
               t->inside ? "around" : VIEW_NAMES[t->view], t->inside ? t->inside : "",
               t->show_off ? " off the CPU" : "", t->paused ? " (paused)" : "", (unsigned long long)c.stacks,
               c.stacks ? 100.0 * (double)c.complete / (double)c.stacks : 0.0, (unsigned long long)c.lost);
    print_line(t, size.ws_col, cli_style(1, STYLE_DIM), "\n", "%8s %8s  %s", "self", "total",
               t->show_off ? "time of the waits that ended in this interval" : "% of one CPU");
    make_rows(t);
    print_rows(t, size.ws_row > 4 ? size.ws_row - 3u : 1, size.ws_col);
    if (t->terminal) {
        printf("\x1b[J");
        print_line(
            t, size.ws_col, cli_style(1, STYLE_DIM), "",
            "q quit  f functions  p processes  t threads  o on/off CPU  Enter callers and callees  Esc back  "
            "space pause");
    }
    fflush(stdout);
}

/* One key at the beginning of what was typed; how long it is. */
static ssize_t on_key(struct top *t, const char *keys, ssize_t n)
{
    if (n >= 3 && keys[0] == '\x1b' && keys[1] == '[') {
        if (keys[2] == 'A' && t->selected)
            choose(t, t->selected - 1);
        else if (keys[2] == 'B' && t->selected + 1 < t->rows.count)
            choose(t, t->selected + 1);
        return 3;
    }
    switch (keys[0]) {
    case 'q':
        t->quit = true;
        break;
    case 'f':
    case 'p':
    case 't':
        show(t, keys[0] == 'f' ? VIEW_FUNCTIONS : keys[0] == 'p' ? VIEW_PROCESSES : VIEW_THREADS, NULL);
        break;
    case 'o':
        t->show_off = !t->show_off;
        break;
    case ' ':
        t->paused = !t->paused;
        break;
    case '\n':
    case '\r':
        if (t->selected < t->rows.count && t->view == VIEW_FUNCTIONS)
            show(t, t->view, strdup(t->rows.at[t->selected].name));
        break;
    case '\x1b':
        show(t, t->view, NULL);
        break;
    }
    return 1;
}

static void raw_terminal(struct top *t, bool on)
{
    if (!t->terminal)
        return;
    if (on && tcgetattr(0, &t->before) == 0) {
        struct termios raw = t->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(0, TCSANOW, &raw);
        printf("\x1b[?1049h\x1b[2J\x1b[?25l");
    } else if (!on) {
        tcsetattr(0, TCSANOW, &t->before);
        printf("\x1b[?25h\x1b[?1049l");
        fflush(stdout);
    }
}

/* One interval into fresh profiles, with the keyboard in between. */
static int interval(struct top *t)
{
    struct profile *on = NULL, *off = NULL;
    uint64_t start = clock_monotonic_ns(), end = start + t->interval_ms * NS_PER_MS;
    int r = profile_new(&on) < 0 || profile_new(&off) < 0 ? -ENOMEM : 0;
    while (r >= 0 && !ended && !t->quit && clock_monotonic_ns() < end) {
        struct pollfd input = {.fd = t->terminal ? 0 : -1, .events = POLLIN};
        if (poll(&input, 1, 40) > 0) {
            char keys[16];
            ssize_t n = read(0, keys, sizeof(keys));
            for (ssize_t at = 0; at < n; at += on_key(t, keys + at, n - at))
                ;
            if (n > 0)
                draw(t);
        }
        r = sampler_poll(t->sampler, 0, on, off);
    }
    if (t->paused || r < 0) {
        profile_free(on);
        profile_free(off);
        return r < 0 ? r : 0;
    }
    profile_free(t->on);
    profile_free(t->off);
    t->on = on;
    t->off = off;
    t->measured_ns = clock_monotonic_ns() - start;
    return 0;
}

static int watch(struct top *t)
{
    int r = profile_new(&t->on) < 0 || profile_new(&t->off) < 0 ? -ENOMEM : 0;
    raw_terminal(t, true);
    for (unsigned round = 0; r == 0 && !ended && !t->quit && (!t->rounds || round < t->rounds); round++) {
        r = interval(t);
        t->measured = true;
        if (r == 0)
            draw(t);
        if (!t->terminal && (sampler_ended(t->sampler) || ferror(stdout)))
            break;
    }
    raw_terminal(t, false);
    profile_free(t->on);
    profile_free(t->off);
    clear_rows(t);
    array_done(&t->rows);
    free(t->inside);
    free(t->chosen);
    return r;
}

/* By name, or its first letters. VIEWS: there is none. */
static enum view view_named(const char *name)
{
    enum view view = VIEW_FUNCTIONS;
    while (view < VIEWS && (!*name || strncmp(VIEW_NAMES[view], name, strlen(name)) != 0))
        view++;
    return view;
}

static int take_view(const char *value, void *into, struct problem *problem)
{
    enum view view = view_named(value);
    if (view == VIEWS)
        return problem_set(problem, -EINVAL, "invalid view '%s' (functions, processes, threads)", value);
    ((struct top *)into)->view = view;
    return 0;
}

/* What the command line says. */
struct top_options {
    struct top top;
    uint32_t frequency;
    double interval; /* seconds */
};

#define AT(member) offsetof(struct top_options, member)

static const struct option_row ROWS[] = {
    {"frequency", 'F', "N", "samples per second and CPU (99)", OPTION_COUNT, .least = 1, .most = 10000,
     .at = AT(frequency)},
    {"interval", 'i', "SECONDS", "time between updates (1)", OPTION_NUMBER, .least = 0.1, .most = 3600,
     .at = AT(interval)},
    {"count", 'n', "N", "stop after N intervals", OPTION_COUNT, .least = 1, .most = 1e9,
     .at = AT(top.rounds)},
    {"view", 'v', "VIEW", "functions, processes or threads", OPTION_CALL, .take = take_view},
    {"off-cpu", 'o', .text = "show waits of at least a millisecond, when they end", .type = OPTION_FLAG,
     .at = AT(top.show_off)},
    {NULL},
};

/* take_view() takes a struct top, which comes first. */
_Static_assert(AT(top) == 0, "the group's struct is the command's");
static const struct option_group OPTIONS[] = {{ROWS, 0}, {NULL, 0}};

static int run_top(const struct command *self, int argc, char **argv)
{
    struct top_options said = {.top = {.terminal = isatty(0) && isatty(1)}, .frequency = 99, .interval = 1};
    int first, status = options_parse(self, argc, argv, &said, &first);
    if (status >= 0)
        return status;
    struct sampler_options options = {.frequency = said.frequency,
                                      .kernel = true,
                                      .inlined = true,
                                      .by_process = true,
                                      .by_thread = true,
                                      .on_cpu = true,
                                      .off_cpu = true,
                                      .off_cpu_min_ns = NS_PER_MS,
                                      .whole_machine = true,
                                      .event_type = PERF_TYPE_SOFTWARE,
                                      .event_config = PERF_COUNT_SW_CPU_CLOCK};
    struct top top = said.top;
    top.interval_ms = (unsigned)(said.interval * 1000);
    pid_t pids[256];
    if (argc - first > (int)ARRAY_SIZE(pids))
        return cli_usage(self, "%zu processes at most", ARRAY_SIZE(pids));
    for (; first < argc; first++) {
        pids[options.pid_count] = atoi(argv[first]);
        if (pids[options.pid_count++] <= 0)
            return cli_usage(self, "invalid process ID '%s'", argv[first]);
    }
    options.pids = pids;
    options.whole_machine = !options.pid_count;
    _cleanup_(sampler_closep) struct sampler *sampler = NULL;
    struct problem problem = {0};
    const struct confine_sampler confined = {
        .marks = sampler_marks(), .readers = &namer_kind, .pids = pids, .pid_count = options.pid_count};
    int r = confine_sampler_begin(&confined, &problem);
    if (r == 0)
        r = sampler_open(&options, &sampler, &problem);
    if (r == 0)
        r = confine_sampler(&confined, &problem);
    if (r == 0)
        r = sampler_start(sampler, &problem);
    top.sampler = sampler;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (r == 0)
        r = watch(&top);
    if (r == 0)
        return EXIT_DONE;
    if (!problem.what[0])
        problem_set(&problem, r, "sampling failed: %s", strerror(-r));
    return cli_fail(r == -EPERM || r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
}

const struct command command_top = {
    .name = "top",
    .arguments = "[OPTION...] [PID...]",
    .summary = "Watch live which functions, processes and threads run, and wait",
    .help =
        "The whole machine unless processes are named. Keys: f functions, p processes, t threads, o on or "
        "off "
        "the CPU,\n"
        "arrows and Enter: callers and callees of a function, Escape: back, space: pause, q: quit. Without a "
        "terminal each\n"
        "interval is printed.\n",
    .options = OPTIONS,
    .examples = "  sonde top\n"
                "  sonde top --view threads 4711\n"
                "  sonde top -n 1 | head -20\n",
    .run = run_top,
};
