/* `sonde trace states`: reads a trace once into a history of states (threads, CPUs, connections) and
 * answers what held when. A history that was kept with -o is asked without the trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/active_path.h"
#include "states/states.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/owner.h"
#include "cli/cli.h"
#include "cli/losses.h"
#include "cli/moment.h"
#include "cli/progress.h"
#include "cli/trace_states.h"
#include "trace/format.h"

struct states_command {
    const struct trace_asked *asked;
    struct history *history;
    struct trace *trace; /* NULL: a kept history is asked */
    bool incomplete;     /* which nobody closed */
    int64_t first_ns;
    struct progress progress;
    struct problem problem;
    uint64_t shown;
};

/* ---- building ---- */

static int show_progress(void *context, uint64_t done, uint64_t total)
{
    progress_show(context, done, total);
    return 0;
}

static int first_event(struct states_command *c, const char *path)
{
    const struct event *e;
    int r = trace_next(c->trace, &e);
    if (r < 0)
        return r;
    if (r == 0)
        return problem_set(&c->problem, -ENODATA, "%s: the trace has no events, so there are no states",
                           path);
    c->first_ns = (int64_t)e->time_ns;
    return trace_rewind(c->trace);
}

struct ending {
    uint64_t last_ns;
};

static int note_time(void *self, const struct event *e)
{
    ((struct ending *)self)->last_ns = e->time_ns;
    return 0;
}

static int build(struct states_command *c, const char *path, const char *file)
{
    struct history_options options = {.size = sizeof(options), .start_ns = (uint64_t)c->first_ns};
    struct emit emit = {0};
    struct ending ending = {0};
    _cleanup_(states_freep) struct states *states = NULL;
    int r = history_create(file, &options, &c->history, &c->problem);
    emit.states = c->history;
    if (r >= 0)
        r = states_new(&emit, c->trace, &states);
    if (r < 0)
        return r;
    const struct pass passes[] = {states_pass(states), {.name = "time", .event = note_time, .self = &ending}};
    r = trace_run(c->trace, passes, ARRAY_SIZE(passes), show_progress, &c->progress);
    progress_clear(&c->progress);
    if (r < 0 && emit.problem.what[0])
        c->problem = emit.problem;
    if (r >= 0)
        r = history_close(c->history, ending.last_ns + 1, &c->problem);
    if (r < 0 && !c->problem.what[0])
        problem_set(&c->problem, r, "%s: %s", path, strerror(-r));
    return r;
}

static int read_trace(struct states_command *c, const char *path)
{
    char file[PATH_MAX];
    int r = trace_open(path, NULL, &c->problem, &c->trace);
    if (r >= 0)
        r = first_event(c, path);
    if (r < 0 || c->asked->keep)
        return r < 0 ? r : build(c, path, c->asked->keep);
    r = owner_temporary(file, sizeof(file)); /* it may take gigabytes */
    if (r < 0)
        return problem_set(&c->problem, r, "%s: cannot create: %s", file, strerror(-r));
    r = build(c, path, file);
    unlink(file); /* mapped until the end */
    return r;
}

static int open_states(struct states_command *c, const char *path)
{
    struct stat st;
    struct history_info info;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return read_trace(c, path);
    int r = history_open(path, &c->history, &c->problem);
    if (r < 0)
        return r;
    history_get_info(c->history, &info);
    c->first_ns = (int64_t)info.start_ns;
    c->incomplete = !info.complete;
    if (c->incomplete) {
        char length[24];
        uint64_t ns = info.segments ? info.end_ns - info.start_ns : 0;
        fprintf(stderr,
                "sonde: %s is incomplete: it is still being written, or its writer was killed; it holds the "
                "states of the first %s\n",
                path, clock_format_duration(ns, length, sizeof(length)));
    }
    return 0;
}

/* ---- printing ---- */

static void add_value(struct text *out, const struct history_value *v, bool json)
{
    switch (v->type) {
    case HISTORY_NULL:
        text_add(out, json ? "null" : "-");
        break;
    case HISTORY_INT:
        text_addf(out, "%" PRId64, v->integer);
        break;
    case HISTORY_DOUBLE:
        text_addf(out, "%.17g", v->number);
        break;
    case HISTORY_STRING:
        if (json)
            text_add_json(out, v->string, strlen(v->string));
        else
            text_add_visible(out, v->string, strlen(v->string));
        break;
    }
}

/* One state a line: {"attribute","from_ns","to_ns","value"}, or times after the first event. */
static int print_state(void *context, const struct history_interval *s)
{
    struct states_command *c = context;
    _cleanup_(text_done) struct text line = {0}, path = {0};
    history_path(c->history, s->quark, &path);
    if (c->asked->json) {
        text_add(&line, "{\"attribute\":");
        text_add_json(&line, text_get(&path), path.length);
        text_addf(&line, ",\"from_ns\":%" PRIu64 ",\"to_ns\":%" PRIu64 ",\"value\":", s->start_ns, s->end_ns);
        add_value(&line, &s->value, true);
        text_add(&line, "}");
    } else {
        uint64_t start = s->start_ns - (uint64_t)c->first_ns, end = s->end_ns - (uint64_t)c->first_ns;
        text_addf(&line, "+%" PRIu64 ".%09" PRIu64 " to +%" PRIu64 ".%09" PRIu64 "  %s  ", start / 1000000000,
                  start % 1000000000, end / 1000000000, end % 1000000000, text_get(&path));
        add_value(&line, &s->value, false);
    }
    c->shown++;
    text_add(&line, "\n");
    return cli_put(stdout, text_get(&line));
}

/* The last name that the scheduler had for the thread whose attribute this is: in " (NAME)", or nothing. */
static void add_thread_name(struct states_command *c, const char *path, struct text *out)
{
    const char *threads = strncmp(path, "Threads/", 8) == 0 ? path : strstr(path, "/Threads/");
    const char *number = threads ? threads + 8 + (*threads == '/') : NULL;
    struct history_info info;
    struct history_interval name;
    char attribute[512];
    uint32_t quark;
    if (!number)
        return;
    int length = (int)(number - path) + (int)strcspn(number, "/");
    snprintf(attribute, sizeof(attribute), "%.*s/Name", length, path);
    history_get_info(c->history, &info);
    if (history_find_path(c->history, attribute, &quark) < 0 || info.end_ns <= info.start_ns ||
        history_query(c->history, quark, info.end_ns - 1, &name, NULL) < 0 ||
        name.value.type != HISTORY_STRING)
        return;
    text_add(out, " (");
    text_add_visible(out, name.value.string, strlen(name.value.string));
    text_add(out, ")");
}

static int print_segment(void *context, const struct active_segment *s)
{
    struct states_command *c = context;
    _cleanup_(text_done) struct text line = {0}, name = {0};
    const char *slash = strrchr(c->asked->path, '/');
    char thread[320];
    snprintf(thread, sizeof(thread), "%.*sThreads/%" PRId64 "/State",
             slash ? (int)(slash + 1 - c->asked->path) : 0, c->asked->path, s->tid);
    add_thread_name(c, thread, &name);
    if (c->asked->json) {
        text_addf(&line,
                  "{\"from_ns\":%" PRIu64 ",\"to_ns\":%" PRIu64 ",\"tid\":%" PRId64 ",\"name\":", s->from_ns,
                  s->to_ns, s->tid);
        text_add_json(&line, name.length > 3 ? text_get(&name) + 2 : "",
                      name.length > 3 ? name.length - 3 : 0);
        text_add(&line, ",\"state\":");
        text_add_json(&line, s->state, strlen(s->state));
        text_add(&line, ",\"waker\":");
        if (s->waker)
            text_add_json(&line, s->waker, strlen(s->waker));
        else
            text_add(&line, "null");
        text_add(&line, "}\n");
    } else {
        char length[24];
        uint64_t start = s->from_ns - (uint64_t)c->first_ns;
        text_addf(&line, "+%" PRIu64 ".%09" PRIu64 " %10s  %" PRId64 "%s  %s", start / 1000000000,
                  start % 1000000000, clock_format_duration(s->to_ns - s->from_ns, length, sizeof(length)),
                  s->tid, text_get(&name), s->state);
        if (s->waker)
            text_addf(&line, ", woken by %s", *s->waker ? s->waker : "what the trace does not say");
        text_add(&line, "\n");
    }
    c->shown++;
    return cli_put(stdout, text_get(&line));
}

static int print_attribute(struct states_command *c, uint32_t quark)
{
    _cleanup_(text_done) struct text line = {0}, path = {0};
    history_path(c->history, quark, &path);
    if (c->asked->json) {
        text_add(&line, "{\"attribute\":");
        text_add_json(&line, text_get(&path), path.length);
        text_addf(&line, ",\"quark\":%u}", quark);
    } else {
        text_add(&line, text_get(&path));
        add_thread_name(c, text_get(&path), &line);
    }
    c->shown++;
    text_add(&line, "\n");
    return cli_put(stdout, text_get(&line));
}

/* ---- asking ---- */

static uint64_t moment_in(const struct states_command *c, const struct moment *m, uint64_t otherwise)
{
    if (!m->given)
        return otherwise;
    int64_t ns = c->trace ? moment_ns(m, c->first_ns, c->trace) : m->relative ? c->first_ns + m->ns : m->ns;
    return ns < c->first_ns ? (uint64_t)c->first_ns : (uint64_t)ns;
}

static int ask_full(struct states_command *c, const uint32_t *quarks, size_t count, uint64_t at_ns)
{
    struct history_interval *all = calloc(history_count(c->history) + 1ul, sizeof(*all));
    int r = all ? history_query_full(c->history, at_ns, all, &c->problem) : -ENOMEM;
    for (size_t i = 0; r >= 0 && i < count; i++)
        if (all[quarks[i]].value.type != HISTORY_NULL)
            r = print_state(c, &all[quarks[i]]);
    free(all);
    return r;
}

static int ask(struct states_command *c, const uint32_t *quarks, size_t count)
{
    struct history_info info;
    history_get_info(c->history, &info);
    uint64_t from = moment_in(c, &c->asked->from, info.start_ns),
             to = moment_in(c, &c->asked->to, info.end_ns);
    to = MIN(to, info.end_ns);
    if (c->asked->at.given) {
        uint64_t at = moment_in(c, &c->asked->at, 0);
        if (at >= info.end_ns)
            return problem_set(&c->problem, -ERANGE, "the time asked for lies behind the trace's end");
        return ask_full(c, quarks, count, at);
    }
    if (from >= to)
        return problem_set(&c->problem, -ERANGE, "no time lies between --from and --to within the trace");
    if (c->asked->columns)
        return history_query_2d(c->history, quarks, count, from, to, c->asked->columns, print_state, c,
                                &c->problem);
    int r = 0;
    for (size_t i = 0; r >= 0 && i < count; i++)
        r = c->asked->attributes.count
                ? history_query_range(c->history, quarks[i], from, to, print_state, c, &c->problem)
                : print_attribute(c, quarks[i]);
    return r;
}

struct attribute {
    uint32_t quark;
    char *path;
};

/* As people sort: "Threads/9" before "Threads/10". */
static int by_path(const void *a, const void *b)
{
    return strverscmp(((const struct attribute *)a)->path, ((const struct attribute *)b)->path);
}

static int sort_by_path(struct states_command *c, uint32_t *quarks, size_t count)
{
    struct attribute *list = calloc(count + 1, sizeof(*list));
    int r = list ? 0 : -ENOMEM;
    for (size_t i = 0; r >= 0 && i < count; i++) {
        struct text path = {0};
        history_path(c->history, quarks[i], &path);
        list[i] = (struct attribute){quarks[i], strdup(text_get(&path))};
        r = list[i].path ? 0 : -ENOMEM;
        text_done(&path);
    }
    if (r >= 0)
        qsort(list, count, sizeof(*list), by_path);
    for (size_t i = 0; list && i < count; i++) {
        if (r >= 0)
            quarks[i] = list[i].quark;
        free(list[i].path);
    }
    free(list);
    return r;
}

/* Every attribute that a pattern matches, each once, by path. */
static int match(struct states_command *c, uint32_t **ret_quarks, size_t *ret_count)
{
    uint32_t all = history_count(c->history);
    _cleanup_(freep) bool *wanted = calloc(all + 1ul, sizeof(*wanted));
    uint32_t *quarks = calloc(all + 1ul, sizeof(*quarks));
    size_t count = 0;
    int r = wanted && quarks ? 0 : -ENOMEM;
    for (size_t i = 0; r >= 0 && i < MAX(c->asked->attributes.count, (size_t)1); i++) {
        uint32_t *found = NULL;
        size_t n = 0;
        r = history_list(c->history, c->asked->attributes.count ? c->asked->attributes.at[i] : "**", &found,
                         &n);
        for (size_t j = 0; r >= 0 && j < n; j++)
            wanted[found[j]] = true;
        free(found);
    }
    for (uint32_t q = 0; r >= 0 && q < all; q++)
        if (wanted[q])
            quarks[count++] = q;
    if (r >= 0)
        r = sort_by_path(c, quarks, count);
    if (r < 0) {
        free(quarks);
        return r;
    }
    *ret_quarks = quarks;
    *ret_count = count;
    return 0;
}

static int answer_path(struct states_command *c)
{
    struct history_info info;
    char prefix[256] = "";
    const char *slash = strrchr(c->asked->path, '/'), *number = slash ? slash + 1 : c->asked->path;
    char *end;
    int64_t tid = strtoll(number, &end, 10);
    if (*end || end == number)
        return problem_set(&c->problem, -EINVAL, "--path takes a thread's number, or HOST/NUMBER, not '%s'",
                           c->asked->path);
    if (slash)
        snprintf(prefix, sizeof(prefix), "%.*s", (int)(slash + 1 - c->asked->path), c->asked->path);
    history_get_info(c->history, &info);
    int r = active_path(c->history, prefix, tid, moment_in(c, &c->asked->from, info.start_ns),
                        MIN(moment_in(c, &c->asked->to, info.end_ns), info.end_ns), print_segment, c,
                        &c->problem);
    fflush(stdout);
    return r;
}

static int answer(struct states_command *c)
{
    if (c->asked->path)
        return answer_path(c);
    uint32_t *quarks = NULL;
    size_t count = 0;
    int r = match(c, &quarks, &count);
    if (r >= 0)
        r = ask(c, quarks, count);
    free(quarks);
    fflush(stdout);
    if (r >= 0 && !c->shown && c->incomplete)
        return r;
    if (r >= 0 && !c->shown && history_count(c->history) == 0)
        fputs("sonde: no states: the trace has no events of the scheduler, of system calls or of Redis\n",
              stderr);
    else if (r >= 0 && !c->shown)
        fprintf(stderr,
                "sonde: none of %u attributes has a state there; `sonde trace states DIR` lists them\n",
                history_count(c->history));
    return r;
}

/* ---- options ---- */

static int take_moment(const char *value, struct moment *into, struct problem *problem)
{
    if (moment_parse(value, into))
        return 0;
    return problem_set(
        problem, -EINVAL,
        "invalid time '%s' (+1.5s: after the first event; \"2022-04-07 19:56:48.5\": UTC; or ns since "
        "the Epoch)",
        value);
}

static int take_at(const char *value, void *into, struct problem *problem)
{
    return take_moment(value, &((struct trace_asked *)into)->at, problem);
}

static int take_from(const char *value, void *into, struct problem *problem)
{
    return take_moment(value, &((struct trace_asked *)into)->from, problem);
}

static int take_to(const char *value, void *into, struct problem *problem)
{
    return take_moment(value, &((struct trace_asked *)into)->to, problem);
}

static int take_attribute(const char *value, void *into, struct problem *problem)
{
    struct trace_asked *asked = into;
    return array_add(&asked->attributes, value) < 0 ? problem_set(problem, -ENOMEM, "out of memory") : 0;
}

const struct option_row TRACE_MOMENT_ROWS[] = {
    {"from", .value = "TIME",
     .text = "only from then on. +1.5s, +300ms: after the first event; \"2022-04-07 19:56:48.5\": UTC; a "
             "number: ns "
             "since the Epoch",
     .type = OPTION_CALL, .take = take_from},
    {"to", .value = "TIME", .text = "only until then", .type = OPTION_CALL, .take = take_to},
    {NULL}};

#define AT(field) offsetof(struct trace_asked, field)
const struct option_row TRACE_STATES_ROWS[] = {
    {"attribute", 'a', "PATTERN",
     "states: print what these attributes were, state by state ('Threads/*/State'; ** matches any number of "
     "names); may be repeated",
     OPTION_CALL, .take = take_attribute},
    {"at", .value = "TIME", .text = "states: every attribute (or those of -a) at this time",
     .type = OPTION_CALL, .take = take_at},
    {"path", .value = "TID",
     .text = "states: what a thread did, and while it waited, what the thread did that woke it",
     .type = OPTION_TEXT, .at = AT(path)},
    {"columns", .value = "N",
     .text = "states: only those at N times between --from and --to, as a view shows them",
     .type = OPTION_COUNT, .least = 1, .most = 1000000, .at = AT(columns)},
    {"output", 'o', "FILE", "states: keep them in FILE, which can be given instead of DIR later", OPTION_TEXT,
     .at = AT(keep)},
    {NULL}};
#undef AT

int trace_states(const struct trace_asked *asked, const char *path)
{
    struct states_command c = {.asked = asked};
    int status = 0;
    if (!status) {
        int r = open_states(&c, path);
        if (r >= 0)
            r = answer(&c);
        if (r < 0 && r != -EPIPE) {
            if (!c.problem.what[0])
                problem_set(&c.problem, r, "%s: %s", path, strerror(-r));
            status = cli_fail(r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &c.problem);
        }
    }
    size_t losses = 0;
    if (c.trace)
        trace_losses(c.trace, &losses);
    if (!status && losses) /* what was lost may have changed states */
        losses_print(c.trace, stderr);
    if (!status && (losses || c.incomplete))
        status = EXIT_LOST;
    history_free(c.history);
    trace_close(c.trace);
    return status;
}
