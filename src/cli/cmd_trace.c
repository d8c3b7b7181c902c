/* `sonde trace info` and `sonde trace events`: what is in a trace, and its events. Any CTF 1.8 or CTF 2
 * trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/schema.h"
#include "cli/cli.h"
#include "cli/losses.h"
#include "cli/moment.h"
#include "cli/progress.h"
#include "cli/trace_states.h"
#include "trace/align.h"
#include "trace/filter.h"
#include "trace/format.h"
#include "trace/trace.h"

struct trace_command {
    struct trace_asked asked;
    bool quick;
    struct trace *trace;
    struct event_names texts;
    struct progress progress;
};

static void command_done(struct trace_command *c)
{
    trace_asked_done(&c->asked);
    trace_close(c->trace);
    event_names_done(&c->texts);
}

/* ---- losses ---- */

static int exit_status(const struct trace *trace)
{
    size_t n;
    trace_losses(trace, &n);
    return n ? EXIT_LOST : EXIT_DONE;
}

static void json_losses(struct text *out, const struct trace *trace)
{
    size_t n;
    const struct trace_loss *l = trace_losses(trace, &n);
    text_add(out, "\"losses\":[");
    for (size_t i = 0; i < n; i++) {
        text_addf(out, "%s{\"kind\":\"%s\",\"count\":%" PRIu64 ",\"offset_bytes\":%" PRIu64 ",\"stream\":",
                  i ? "," : "", losses_kind(&l[i]), l[i].count, l[i].offset);
        if (l[i].stream == LOSS_NO_STREAM)
            text_add(out, "null");
        else
            format_unsigned(out, l[i].stream);
        text_add(out, ",\"path\":");
        text_add_json(out, l[i].path, strlen(l[i].path));
        text_add(out, ",\"what\":");
        text_add_json(out, l[i].what, strlen(l[i].what));
        text_add(out, "}");
    }
    text_add(out, "]");
}

/* ---- info ---- */

struct class_count {
    const char *name;
    uint64_t events;
};

struct stream_count {
    uint64_t events, from_ns, to_ns;
};

struct info {
    uint64_t events, from_ns, to_ns;
    bool clock;          /* some events have times */
    struct map by_class; /* class -> index into classes */
    ARRAY(struct class_count) classes;
    struct stream_count *streams;
};

static int count_class(struct info *info, const struct event_class *class)
{
    uint64_t *place = map_put(&info->by_class, (uint64_t)(uintptr_t) class, NULL);
    if (!place)
        return -ENOMEM;
    if (*place == 0) {
        /* Classes of the same name on several streams or hosts are one line. */
        for (*place = 1; *place <= info->classes.count; ++*place)
            if (strcmp(info->classes.at[*place - 1].name, class->name) == 0)
                break;
        struct class_count count = {class->name, 0};
        if (*place > info->classes.count && array_add(&info->classes, count) < 0)
            return -ENOMEM;
    }
    info->classes.at[*place - 1].events++;
    return 0;
}

static int gather(struct trace_command *c, struct info *info)
{
    const struct event *e;
    int r;
    info->streams = calloc(trace_stream_count(c->trace) + 1, sizeof(*info->streams));
    if (!info->streams)
        return -ENOMEM;
    while ((r = trace_next(c->trace, &e)) > 0) {
        struct stream_count *s = &info->streams[e->stream];
        if (!info->events++)
            info->from_ns = e->time_ns;
        info->to_ns = e->time_ns;
        info->clock |= trace_host_at(c->trace, e->trace)->has_clock;
        if (!s->events++)
            s->from_ns = e->time_ns;
        s->to_ns = e->time_ns;
        if ((r = count_class(info, e->class)) < 0)
            return r;
        if ((info->events & 0xffff) == 0) {
            uint64_t done, total;
            trace_progress(c->trace, &done, &total);
            progress_show(&c->progress, done, total);
        }
    }
    progress_clear(&c->progress);
    return r;
}

static int64_t wall_ns(const struct trace *trace, uint32_t host, uint64_t time_ns)
{
    const struct trace_host *h = trace_host_at(trace, host);
    return (int64_t)time_ns + (h->own ? h->clock_origin_ns : 0);
}

static int more_events(const void *a, const void *b)
{
    const struct class_count *x = a, *y = b;
    return x->events == y->events ? strcmp(x->name, y->name) : x->events < y->events ? 1 : -1;
}

static void info_hosts(const struct trace_command *c)
{
    for (uint32_t i = 0; i < trace_host_count(c->trace); i++) {
        const struct trace_host *h = trace_host_at(c->trace, i);
        uint64_t bytes = 0, streams = 0;
        for (uint32_t j = 0; j < trace_stream_count(c->trace); j++) {
            const struct trace_stream *s = trace_stream_at(c->trace, j);
            if (s->host == i) {
                bytes += s->bytes;
                streams++;
            }
        }
        char shown[24];
        _cleanup_(text_done) struct text name = {0}, tracer = {0};
        text_add_visible(&name, h->name, strlen(h->name));
        text_add_visible(&tracer, h->tracer, strlen(h->tracer));
        cli_printf(stdout, "%s%s%s  %s%sCTF %s, %" PRIu64 " stream%s, %s, %u event class%s\n  %s\n",
                   cli_style(1, STYLE_BOLD), text_get(&name), cli_style(1, STYLE_NONE), text_get(&tracer),
                   tracer.length ? " · " : "", h->version == 2 ? "2" : "1.8", streams,
                   streams == 1 ? "" : "s", progress_bytes(bytes, shown, sizeof(shown)), h->class_count,
                   h->class_count == 1 ? "" : "es", h->path);
    }
}

static void info_text(struct trace_command *c, struct info *info)
{
    info_hosts(c);
    if (!info->events) {
        puts("\nno events: the recording ended before the first packet was written, or nothing happened in "
             "it");
    } else {
        _cleanup_(text_done) struct text line = {0};
        char duration[24];
        format_time(&line, wall_ns(c->trace, 0, info->from_ns));
        text_add(&line, " to ");
        format_time(&line, wall_ns(c->trace, 0, info->to_ns));
        if (info->clock)
            printf("\n%s UTC, %s\n", text_get(&line),
                   clock_format_duration(info->to_ns - info->from_ns, duration, sizeof(duration)));
        else
            puts("\nno clock: events have no times");
        printf("%" PRIu64 " events\n", info->events);
        qsort(info->classes.at, info->classes.count, sizeof(*info->classes.at), more_events);
        for (size_t i = 0; i < info->classes.count; i++) {
            text_clear(&line);
            text_add_visible(&line, info->classes.at[i].name, strlen(info->classes.at[i].name));
            printf("%12" PRIu64 "  %s\n", info->classes.at[i].events, text_get(&line));
        }
    }
    losses_print(c->trace, stdout);
}

static void json_hosts(struct text *out, const struct trace *trace)
{
    text_add(out, "\"traces\":[");
    for (uint32_t i = 0; i < trace_host_count(trace); i++) {
        const struct trace_host *h = trace_host_at(trace, i);
        text_add(out, i ? ",{\"path\":" : "{\"path\":");
        text_add_json(out, h->path, strlen(h->path));
        text_add(out, ",\"host\":");
        text_add_json(out, h->name, strlen(h->name));
        text_add(out, ",\"tracer\":");
        text_add_json(out, h->tracer, strlen(h->tracer));
        text_addf(
            out,
            ",\"ctf\":\"%s\",\"clock_origin_ns\":%" PRId64 ",\"recorded_by_sonde\":%s,\"event_classes\":%u}",
            h->version == 2 ? "2" : "1.8", h->clock_origin_ns, h->own ? "true" : "false", h->class_count);
    }
    text_add(out, "]");
}

static void info_json(struct trace_command *c, struct info *info)
{
    _cleanup_(text_done) struct text out = {0};
    text_addf(&out, "{\"schema\":%d,", SCHEMA_trace_info);
    json_hosts(&out, c->trace);
    text_add(&out, ",\"streams\":[");
    for (uint32_t i = 0; i < trace_stream_count(c->trace); i++) {
        const struct trace_stream *s = trace_stream_at(c->trace, i);
        text_addf(&out, "%s{\"path\":", i ? "," : "");
        text_add_json(&out, s->path, strlen(s->path));
        text_addf(&out, ",\"trace\":%u,\"bytes\":%" PRIu64 ",\"events\":%" PRIu64, s->host, s->bytes,
                  info->streams[i].events);
        if (info->streams[i].events)
            text_addf(&out, ",\"from_ns\":%" PRId64 ",\"to_ns\":%" PRId64, (int64_t)info->streams[i].from_ns,
                      (int64_t)info->streams[i].to_ns);
        text_add(&out, "}");
    }
    text_addf(&out, "],\"events\":%" PRIu64 ",", info->events);
    if (info->events)
        text_addf(&out, "\"from_ns\":%" PRId64 ",\"to_ns\":%" PRId64 ",", (int64_t)info->from_ns,
                  (int64_t)info->to_ns);
    text_add(&out, "\"classes\":{");
    for (size_t i = 0; i < info->classes.count; i++) {
        text_add(&out, i ? "," : "");
        text_add_json(&out, info->classes.at[i].name, strlen(info->classes.at[i].name));
        text_addf(&out, ":%" PRIu64, info->classes.at[i].events);
    }
    text_add(&out, "},");
    json_losses(&out, c->trace);
    text_add(&out, "}");
    puts(text_get(&out));
}

static int info(struct trace_command *c)
{
    struct info info = {0};
    int r = gather(c, &info);
    if (r >= 0 && c->asked.json)
        info_json(c, &info);
    else if (r >= 0)
        info_text(c, &info);
    array_done(&info.classes);
    map_done(&info.by_class);
    free(info.streams);
    return r;
}

/* ---- events ---- */

static bool name_passes(const struct trace_command *c, const struct event_class *class)
{
    for (size_t i = 0; i < c->asked.names.count; i++)
        if (fnmatch(c->asked.names.at[i], class->name, 0) == 0)
            return true;
    return c->asked.names.count == 0;
}

/* A filter that no event can pass because of its types is refused before the trace is read. */
static int check_filter(const struct trace_command *c, struct problem *problem)
{
    ARRAY(const struct event_class *) classes = {0};
    int r = 0;
    for (uint32_t i = 0; c->asked.filter && i < trace_host_count(c->trace); i++) {
        const struct trace_host *h = trace_host_at(c->trace, i);
        for (uint32_t j = 0; r >= 0 && j < h->class_count; j++)
            if (name_passes(c, h->classes[j]))
                r = array_add(&classes, h->classes[j]);
    }
    if (c->asked.filter && r >= 0)
        r = filter_check(c->asked.filter, classes.at, classes.count, problem);
    array_done(&classes);
    return r;
}

/* A process is given by its number, or by a pattern for LTTng's procname. */
static bool process_passes(const struct trace_command *c, const struct event *e)
{
    for (size_t i = 0; i < c->asked.processes.count; i++) {
        char *end;
        long long pid = strtoll(c->asked.processes.at[i], &end, 10);
        if (*end == '\0') {
            if (e->pid == pid)
                return true;
            continue;
        }
        int field = event_class_find(e->class, "procname");
        char name[256];
        if (field < 0 || !event_has(e, (uint32_t)field) || e->class->fields[field].type != TYPE_STRING)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)e->values[field].length, e->values[field].s);
        if (fnmatch(c->asked.processes.at[i], name, 0) == 0)
            return true;
    }
    return c->asked.processes.count == 0;
}

static void event_line(struct text *line, const struct trace_command *c, const struct event *e,
                       const char *host)
{
    static const struct {
        enum field_scope scope;
        const char *open, *close;
    } SCOPES[] = {{SCOPE_COMMON_CONTEXT, " [", "]"}, {SCOPE_CONTEXT, " [", "]"}, {SCOPE_PAYLOAD, " ", ""}};
    if (trace_host_at(c->trace, e->trace)->has_clock)
        format_time(line, wall_ns(c->trace, e->trace, e->time_ns));
    else
        text_add(line, "-");
    text_add(line, " ");
    text_add_visible(line, host, strlen(host));
    for (uint32_t i = 0; e->packet && i < e->class->packet_field_count; i++)
        if (strcmp(e->class->packet_fields[i].name, "cpu_id") == 0)
            text_addf(line, " cpu%" PRIu64, e->packet[i].u);
    if (e->pid >= 0 || e->tid >= 0) {
        text_add(line, " ");
        format_signed(line, e->pid >= 0 ? e->pid : e->tid);
        if (e->pid >= 0 && e->tid >= 0) {
            text_add(line, "/");
            format_signed(line, e->tid);
        }
    }
    text_add(line, " ");
    text_add_visible(line, e->class->name, strlen(e->class->name));
    for (size_t i = 0; i < ARRAY_SIZE(SCOPES); i++) {
        bool any = false;
        for (uint32_t f = 0; f < e->class->field_count && !any; f++)
            any = e->class->fields[f].scope == SCOPES[i].scope && !e->values[f].absent;
        if (!any)
            continue;
        text_add(line, SCOPES[i].open);
        format_fields(line, e, SCOPES[i].scope, &c->texts);
        text_add(line, SCOPES[i].close);
    }
}

static void explain_nothing(const struct trace_command *c, uint64_t seen)
{
    const char *unknown = c->asked.filter && seen ? filter_unknown_field(c->asked.filter) : NULL;
    if (!seen && !c->asked.from.given && !c->asked.to.given)
        fputs("sonde: the trace has no events\n", stderr);
    else if (!seen)
        fputs(
            "sonde: no events between these times; `sonde trace info` shows when the trace begins and ends\n",
            stderr);
    else if (unknown)
        fprintf(stderr,
                "sonde: none of %" PRIu64
                " events passes: no event that the other filters pass has a field '%s'; "
                "`sonde trace events --limit 5` shows fields, and texts stand in quotes\n",
                seen, unknown);
    else
        fprintf(stderr,
                "sonde: none of %" PRIu64 " events passes the filters; `sonde trace info` lists the names\n",
                seen);
}

/* Goes to the first event at or after --from; *ret_to_ns is where to stop. */
static int go_to_start(struct trace_command *c, int64_t *ret_to_ns)
{
    const struct event *e;
    int64_t first = 0;
    *ret_to_ns = INT64_MAX;
    if (!c->asked.from.given && !c->asked.to.given)
        return 0;
    int r = trace_next(c->trace, &e);
    if (r > 0)
        first = (int64_t)e->time_ns;
    int64_t from = c->asked.from.given ? moment_ns(&c->asked.from, first, c->trace) : first;
    if (c->asked.to.given)
        *ret_to_ns = moment_ns(&c->asked.to, first, c->trace);
    return r < 0 ? r : trace_seek_ns(c->trace, (uint64_t)from);
}

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

/* The next event; when the trace is followed and has no more, waits for it. 0: the end, or the user's. */
static int next_event(struct trace_command *c, const struct event **ret_event)
{
    static const struct timespec PAUSE = {.tv_nsec = 200 * NS_PER_MS};
    for (;;) {
        int r = trace_next(c->trace, ret_event);
        if (r != 0 || !c->asked.follow || stopped)
            return stopped ? 0 : r;
        fflush(stdout);
        int64_t more = trace_refresh(c->trace);
        if (more < 0)
            return (int)more;
        if (more == 0)
            nanosleep(&PAUSE, NULL);
    }
}

/* *failed_at: what an error is about, when it is not the trace. */
static int events(struct trace_command *c, const char **failed_at)
{
    _cleanup_(text_done) struct text line = {0};
    uint64_t seen = 0, shown = 0;
    int64_t to_ns;
    const struct event *e;
    if (c->asked.follow) {
        signal(SIGINT, stop);
        signal(SIGTERM, stop);
    }
    int r = go_to_start(c, &to_ns);
    while (r >= 0 && shown < c->asked.limit && (r = next_event(c, &e)) > 0) {
        if ((int64_t)e->time_ns > to_ns)
            break;
        const char *host = trace_host_at(c->trace, e->trace)->name;
        seen++;
        if ((r = event_names_learn(&c->texts, e)) < 0)
            return r;
        if (!name_passes(c, e->class) || !process_passes(c, e) ||
            (c->asked.filter && !filter_matches(c->asked.filter, e, host, &c->texts)))
            continue;
        text_clear(&line);
        if (c->asked.json)
            format_json(&line, e, host, &c->texts);
        else
            event_line(&line, c, e, host);
        text_add(&line, "\n");
        errno = 0;
        if (fwrite(text_get(&line), 1, line.length, stdout) != line.length) {
            *failed_at = "standard output";
            return errno ? -errno : -EIO;
        }
        shown++;
    }
    if (r >= 0 && !shown)
        explain_nothing(c, seen);
    fflush(stdout);
    if (r >= 0 && !c->asked.json)
        losses_print(c->trace, stderr);
    return r < 0 ? r : 0;
}

/* ---- options ---- */

static int take_name(const char *value, void *into, struct problem *problem)
{
    struct trace_asked *asked = into;
    return array_add(&asked->names, value) < 0 ? problem_set(problem, -ENOMEM, "out of memory") : 0;
}

static int take_process(const char *value, void *into, struct problem *problem)
{
    struct trace_asked *asked = into;
    return array_add(&asked->processes, value) < 0 ? problem_set(problem, -ENOMEM, "out of memory") : 0;
}

static int take_where(const char *value, void *into, struct problem *problem)
{
    struct trace_asked *asked = into;
    filter_free(asked->filter);
    asked->filter = NULL;
    return filter_parse(value, problem, &asked->filter);
}

static int take_limit(const char *value, void *into, struct problem *problem)
{
    struct trace_asked *asked = into;
    char *end;
    asked->limit = strtoull(value, &end, 10);
    return *end || end == value || *value == '-' ? problem_set(problem, -EINVAL, "invalid number '%s'", value)
                                                 : 0;
}

void trace_asked_done(struct trace_asked *asked)
{
    array_done(&asked->names);
    array_done(&asked->processes);
    array_done(&asked->attributes);
    filter_free(asked->filter);
}

#define AT(field) offsetof(struct trace_asked, field)
static const struct option_row JSON_ROWS[] = {
    {"json", .text = "info: one document; events and states: one object per line", .type = OPTION_FLAG,
     .at = AT(json)},
    {NULL}};
static const struct option_row READING_TRACE_ROWS[] = {
    {"align", .text = "correct the clocks of several hosts by matching messages", .type = OPTION_FLAG,
     .at = AT(align)},
    {"threads", .value = "N", .text = "decode in N threads", .type = OPTION_COUNT, .least = 0, .most = 256,
     .at = AT(threads)},
    {NULL}};
static const struct option_row EVENTS_ROWS[] = {
    {"name", 'n', "PATTERN", "events: only those of this name (shell pattern); may be repeated", OPTION_CALL,
     .take = take_name},
    {"process", 'p', "PID",
     "events: only those of this process, or of processes whose name matches this pattern; may be repeated",
     OPTION_CALL, .take = take_process},
    {"where", 'w', "EXPRESSION", "events: only those whose fields satisfy it (see the manual page)",
     OPTION_CALL, .take = take_where},
    {"limit", 'l', "N", "events: stop after N of them", OPTION_CALL, .take = take_limit},
    {"follow", .text = "events: continue while the trace is being written, until Ctrl-C", .type = OPTION_FLAG,
     .at = AT(follow)},
    {NULL}};
#undef AT

/* What each part takes, and all together. */
static const struct option_group INFO_OPTIONS[] = {{JSON_ROWS, 0}, {READING_TRACE_ROWS, 0}, {NULL, 0}},
                                 EVENTS_OPTIONS[] = {{JSON_ROWS, 0},
                                                     {TRACE_MOMENT_ROWS, 0},
                                                     {EVENTS_ROWS, 0},
                                                     {READING_TRACE_ROWS, 0},
                                                     {NULL, 0}},
                                 STATES_OPTIONS[] = {{JSON_ROWS, 0},
                                                     {TRACE_MOMENT_ROWS, 0},
                                                     {TRACE_STATES_ROWS, 0},
                                                     {NULL, 0}},
                                 ALL_OPTIONS[] = {{JSON_ROWS, 0},         {TRACE_MOMENT_ROWS, 0},
                                                  {EVENTS_ROWS, 0},       {READING_TRACE_ROWS, 0},
                                                  {TRACE_STATES_ROWS, 0}, {NULL, 0}};

static int align(struct trace_command *c)
{
    struct problem problem;
    struct alignment *alignment;
    int r = align_trace(c->trace, &problem, &alignment);
    if (r < 0)
        return cli_fail(EXIT_FAILED, &problem);
    for (uint32_t i = 0; i < alignment->count; i++) {
        const struct host_alignment *h = &alignment->hosts[i];
        if (i == alignment->reference)
            continue;
        char between[24], error[24];
        cli_printf(stderr,
                   "aligned: %s to %s: offset %+" PRId64
                   " ns, drift %+.3f us/s; error at most %s between the messages, %s "
                   "over the whole trace (%" PRIu64 " messages sent, %" PRIu64 " received)\n",
                   trace_host_at(c->trace, i)->name, trace_host_at(c->trace, h->reference)->name,
                   h->offset_ns, h->drift * 1e6,
                   clock_format_duration(h->error_between_ns, between, sizeof(between)),
                   clock_format_duration(h->error_ns, error, sizeof(error)), h->sent, h->received);
    }
    trace_set_alignment(c->trace, alignment);
    alignment_free(alignment);
    return 0;
}

static int show(struct trace_command *c, bool want_info, const char *path)
{
    struct problem problem = {{0}};
    struct trace_options options = {.threads = c->asked.threads};
    int r = trace_open(path, &options, &problem, &c->trace);
    if (r < 0)
        return cli_fail(r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    if (check_filter(c, &problem) < 0)
        return cli_fail(EXIT_USAGE, &problem);
    int status = c->asked.align ? align(c) : 0;
    if (status)
        return status;
    const char *failed_at = path;
    r = want_info ? info(c) : events(c, &failed_at);
    if (r == 0 || r == -EPIPE)
        return exit_status(c->trace);
    problem_set(&problem, r, "%s: %s", failed_at, strerror(-r));
    return cli_fail(EXIT_FAILED, &problem);
}

static int run(const struct command *self, int argc, char **argv)
{
    static const struct {
        const char *name;
        const struct option_group *options;
    } PARTS[] = {{"info", INFO_OPTIONS}, {"events", EVENTS_OPTIONS}, {"states", STATES_OPTIONS}};
    struct trace_command c = {.asked.limit = UINT64_MAX};
    struct command part = *self;
    size_t which = 0;
    if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0))
        return cli_help(self);
    while (argc > 1 && which < ARRAY_SIZE(PARTS) && strcmp(argv[1], PARTS[which].name) != 0)
        which++;
    if (argc < 2 || which == ARRAY_SIZE(PARTS))
        return cli_usage(self,
                         argc < 2 ? "missing subcommand: info, events or states"
                                  : "'%s' is not a subcommand (info, events, states)",
                         argv[1]);
    part.options = PARTS[which].options;
    int first, status = options_parse(&part, argc - 1, argv + 1, &c.asked, &first);
    const char *path = argv[1 + first];
    if (status < 0 && first + 2 != argc)
        status =
            cli_usage(self, first + 1 >= argc ? "missing trace directory"
                                              : "expected one trace, or one directory that contains several");
    if (status < 0)
        status = which == 2 ? trace_states(&c.asked, path) : show(&c, which == 0, path);
    command_done(&c);
    return status;
}

const struct command command_trace = {
    .name = "trace",
    .arguments = "info|events [OPTION...] DIR | states [OPTION...] DIR|FILE",
    .summary = "Show what is in a trace (CTF 1.8 or CTF 2: sonde's, LTTng's, anybody's)",
    .help = "info lists hosts, streams, times, the number of events of each name, and what was lost.\n"
            "events prints the events in time order. DIR may hold several traces: they are read as one.\n"
            "states reads the trace into states over time: threads (State, System call, Waker), CPUs,\n"
            "interrupts, disks, Redis connections (Command), and lists the attributes, or what they were.\n\n"
            "Exits with 4 when the trace records losses.\n",
    .options = ALL_OPTIONS,
    .examples =
        "  sonde trace info sonde-trace\n"
        "  sonde trace events --name 'redis:*' --where 'duration > 5ms && name == \"keys\"' sonde-trace\n"
        "  sonde trace events --from +2s --to +2.1s --process 4711 --json sonde-trace\n"
        "  sonde trace events --align hosts/\n"
        "  sonde trace states --at +1.5s -a 'Threads/*/State' sonde-trace\n"
        "  sonde trace states --path 4711 --from +2s --to +2.1s sonde-trace\n",
    .run = run,
};
