/* `sonde trace info` and `sonde trace events`: what is in a trace, and its events. Any CTF 1.8 or CTF 2
 * trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
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
    const struct command *self;
    bool json, align, quick, follow;
    struct moment from, to;
    ARRAY(const char *) names;     /* patterns */
    ARRAY(const char *) processes; /* pids, or patterns of process names */
    struct filter *filter;
    uint64_t limit;
    unsigned threads;
    struct trace *trace;
    struct event_names texts;
    struct progress progress;
};

static void command_done(struct trace_command *c)
{
    array_done(&c->names);
    array_done(&c->processes);
    filter_free(c->filter);
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
    text_add(&out, "{");
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
    if (r >= 0 && c->json)
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
    for (size_t i = 0; i < c->names.count; i++)
        if (fnmatch(c->names.at[i], class->name, 0) == 0)
            return true;
    return c->names.count == 0;
}

/* A filter that no event can pass because of its types is refused before the trace is read. */
static int check_filter(const struct trace_command *c, struct problem *problem)
{
    ARRAY(const struct event_class *) classes = {0};
    int r = 0;
    for (uint32_t i = 0; c->filter && i < trace_host_count(c->trace); i++) {
        const struct trace_host *h = trace_host_at(c->trace, i);
        for (uint32_t j = 0; r >= 0 && j < h->class_count; j++)
            if (name_passes(c, h->classes[j]))
                r = array_add(&classes, h->classes[j]);
    }
    if (c->filter && r >= 0)
        r = filter_check(c->filter, classes.at, classes.count, problem);
    array_done(&classes);
    return r;
}

/* A process is given by its number, or by a pattern for LTTng's procname. */
static bool process_passes(const struct trace_command *c, const struct event *e)
{
    for (size_t i = 0; i < c->processes.count; i++) {
        char *end;
        long long pid = strtoll(c->processes.at[i], &end, 10);
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
        if (fnmatch(c->processes.at[i], name, 0) == 0)
            return true;
    }
    return c->processes.count == 0;
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
    const char *unknown = c->filter && seen ? filter_unknown_field(c->filter) : NULL;
    if (!seen && !c->from.given && !c->to.given)
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
    if (!c->from.given && !c->to.given)
        return 0;
    int r = trace_next(c->trace, &e);
    if (r > 0)
        first = (int64_t)e->time_ns;
    int64_t from = c->from.given ? moment_ns(&c->from, first, c->trace) : first;
    if (c->to.given)
        *ret_to_ns = moment_ns(&c->to, first, c->trace);
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
        if (r != 0 || !c->follow || stopped)
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
    if (c->follow) {
        signal(SIGINT, stop);
        signal(SIGTERM, stop);
    }
    int r = go_to_start(c, &to_ns);
    while (r >= 0 && shown < c->limit && (r = next_event(c, &e)) > 0) {
        if ((int64_t)e->time_ns > to_ns)
            break;
        const char *host = trace_host_at(c->trace, e->trace)->name;
        seen++;
        if ((r = event_names_learn(&c->texts, e)) < 0)
            return r;
        if (!name_passes(c, e->class) || !process_passes(c, e) ||
            (c->filter && !filter_matches(c->filter, e, host, &c->texts)))
            continue;
        text_clear(&line);
        if (c->json)
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
    if (r >= 0 && !c->json)
        losses_print(c->trace, stderr);
    return r < 0 ? r : 0;
}

/* ---- options ---- */

enum { OPTION_FROM = 256, OPTION_TO, OPTION_JSON, OPTION_ALIGN, OPTION_THREADS, OPTION_FOLLOW };

static int parse_option(struct trace_command *c, int option)
{
    struct problem problem;
    char *end;
    switch (option) {
    case OPTION_FROM:
    case OPTION_TO:
        if (!moment_parse(optarg, option == OPTION_FROM ? &c->from : &c->to))
            return cli_usage(c->self,
                             "'%s' is not a time: give +1.5s (after the first event), "
                             "\"2022-04-07 19:56:48.5\" (UTC) or ns since the Epoch",
                             optarg);
        return 0;
    case 'n':
        return array_add(&c->names, optarg) < 0 ? EXIT_FAILED : 0;
    case 'p':
        return array_add(&c->processes, optarg) < 0 ? EXIT_FAILED : 0;
    case 'w':
        filter_free(c->filter);
        c->filter = NULL;
        return filter_parse(optarg, &problem, &c->filter) < 0 ? cli_fail(EXIT_USAGE, &problem) : 0;
    case 'l':
        c->limit = strtoull(optarg, &end, 10);
        return *end || end == optarg || *optarg == '-' ? cli_usage(c->self, "'%s' is not a number", optarg)
                                                       : 0;
    case OPTION_THREADS:
        c->threads = (unsigned)strtoul(optarg, &end, 10);
        return *end || end == optarg || c->threads > 256
                   ? cli_usage(c->self, "'%s' is not a number of threads", optarg)
                   : 0;
    case OPTION_JSON:
        c->json = true;
        return 0;
    case OPTION_ALIGN:
        c->align = true;
        return 0;
    default:
        c->follow = true;
        return 0;
    }
}

/* argv[0] is what to show. */
static int parse_options(struct trace_command *c, int argc, char **argv)
{
    static const struct option LONG[] = {{"from", required_argument, NULL, OPTION_FROM},
                                         {"to", required_argument, NULL, OPTION_TO},
                                         {"name", required_argument, NULL, 'n'},
                                         {"process", required_argument, NULL, 'p'},
                                         {"where", required_argument, NULL, 'w'},
                                         {"limit", required_argument, NULL, 'l'},
                                         {"json", no_argument, NULL, OPTION_JSON},
                                         {"align", no_argument, NULL, OPTION_ALIGN},
                                         {"threads", required_argument, NULL, OPTION_THREADS},
                                         {"follow", no_argument, NULL, OPTION_FOLLOW},
                                         {0}};
    optind = 1;
    opterr = 0;
    for (int o; (o = getopt_long(argc, argv, ":n:p:w:l:", LONG, NULL)) != -1;) {
        if (o == ':' || o == '?')
            return cli_usage(c->self, o == ':' ? "%s needs a value" : "unknown option %s", argv[optind - 1]);
        if (strcmp(argv[0], "info") == 0 && o != OPTION_JSON && o != OPTION_ALIGN && o != OPTION_THREADS)
            return cli_usage(c->self, "%s selects events: info always tells of the whole trace",
                             argv[optind - 1 - (argv[optind - 1] == optarg)]);
        int r = parse_option(c, o);
        if (r)
            return r;
    }
    return 0;
}

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

static int run(const struct command *self, int argc, char **argv)
{
    struct problem problem = {{0}};
    struct trace_command c = {.self = self, .limit = UINT64_MAX};
    bool want_info = argc > 1 && strcmp(argv[1], "info") == 0;
    if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0))
        return cli_help(self);
    if (argc > 1 && strcmp(argv[1], "states") == 0)
        return trace_states(self, argc - 1, argv + 1);
    if (argc < 2 || (!want_info && strcmp(argv[1], "events") != 0))
        return cli_usage(self,
                         argc < 2 ? "missing subcommand: info, events or states"
                                  : "'%s' is neither info, events nor states",
                         argv[1]);
    int status = parse_options(&c, argc - 1, argv + 1);
    const char *path = argv[1 + optind];
    if (!status && optind + 2 != argc)
        status = cli_usage(self, optind + 1 >= argc
                                     ? "no trace given"
                                     : "expected one trace, or one directory that contains several");
    if (!status) {
        struct trace_options options = {.threads = c.threads};
        int r = trace_open(path, &options, &problem, &c.trace);
        if (r < 0)
            status = cli_fail(r == -EACCES ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    }
    if (!status && check_filter(&c, &problem) < 0)
        status = cli_fail(EXIT_USAGE, &problem);
    if (!status && c.align)
        status = align(&c);
    if (!status) {
        const char *failed_at = path;
        int r = want_info ? info(&c) : events(&c, &failed_at);
        if (r < 0 && r != -EPIPE) {
            problem_set(&problem, r, "%s: %s", failed_at, strerror(-r));
            status = cli_fail(EXIT_FAILED, &problem);
        } else {
            status = exit_status(c.trace);
        }
    }
    command_done(&c);
    return status;
}

const struct command command_trace = {
    .name = "trace",
    .arguments = "info|events|states [OPTION...] DIR",
    .summary = "Show what is in a trace (CTF 1.8 or CTF 2: sonde's, LTTng's, anybody's)",
    .help =
        "info lists hosts, streams, times, the number of events of each name, and what was lost.\n"
        "events prints the events in time order. DIR may hold several traces: they are read as one.\n"
        "states reads the trace into states over time: threads (State, System call, Waker), processors,\n"
        "interrupts, disks, Redis connections (Command), and lists the attributes, or what they were.\n\n"
        "      --json             info: one document; events: one object a line\n"
        "      --from TIME, --to TIME\n"
        "                         +1.5s, +300ms: after the first event; \"2022-04-07 19:56:48.5\": UTC;\n"
        "                         a number: ns since the Epoch\n"
        "  -n, --name PATTERN     only events of this name (shell pattern); may be repeated\n"
        "  -p, --process PID      only this process, or a pattern for its name; may be repeated\n"
        "  -w, --where EXPRESSION only events whose fields satisfy it (see the manual page)\n"
        "  -l, --limit N          stop after N events\n"
        "      --follow           go on while the trace is written, until Ctrl-C\n"
        "      --align            several hosts: correct their clocks by matching messages\n"
        "      --threads N        decode in N threads\n\n"
        "states:\n"
        "  -a, --attribute PATTERN  what these attributes were, state by state ('Threads/*/State'; ** "
        "stands\n"
        "                         for any number of names); may be repeated; with --from and --to\n"
        "      --at TIME          every attribute (or those of -a) at this time\n"
        "      --path TID         what a thread did, and while it waited, what the thread did that woke it\n"
        "      --columns N        only the states at N times between --from and --to, as a view shows them\n"
        "  -o, --output FILE      keep the states; give FILE instead of DIR to ask them again\n\n"
        "Exits with 4 when the trace tells of losses.\n\n"
        "Examples:\n"
        "  sonde trace info sonde-trace\n"
        "  sonde trace events --name 'redis:*' --where 'duration > 5ms && name == \"keys\"' sonde-trace\n"
        "  sonde trace events --from +2s --to +2.1s --process 4711 --json sonde-trace\n"
        "  sonde trace events --align hosts/\n"
        "  sonde trace states --at +1.5s -a 'Threads/*/State' sonde-trace\n"
        "  sonde trace states --path 4711 --from +2s --to +2.1s sonde-trace\n",
    .run = run,
};
