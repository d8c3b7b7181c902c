/* `sonde memcached`: what Memcached servers did: in a recording, or of one that runs, which is recorded
 * first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/folder.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/confine.h"
#include "cli/reading.h"
#include "cli/server.h"
#include "targets/memcached/summary.h"
#include "trace/trace.h"

enum { DURATION = 32 };

static int read_model(const char *folder, struct problem *problem, struct memcached_model **ret_model,
                      struct report *report)
{
    _cleanup_(trace_closep) struct trace *trace = NULL;
    _cleanup_(memcached_model_freep) struct memcached_model *model = NULL;
    int r = memcached_model_new(&model);
    if (r >= 0)
        r = reading_pass(folder, memcached_model_pass(model), problem, &trace);
    if (r >= 0)
        r = memcached_model_report(model, report);
    if (r < 0)
        return problem->what[0] ? r : problem_set(problem, r, "%s: %s", folder, strerror(-r));
    report_sort(report);
    folder_add_limits(report, folder, trace);
    *ret_model = model;
    model = NULL;
    return 0;
}

static const char *say_ns(uint64_t ns, char text[static DURATION])
{
    return clock_format_duration(ns, text, DURATION);
}

static int by_time(const void *a, const void *b)
{
    const struct memcached_command *x = a, *y = b;
    return x->time_ns == y->time_ns ? strcmp(x->name, y->name) : x->time_ns > y->time_ns ? -1 : 1;
}

static void say_share(char *to, size_t size, uint64_t part, uint64_t whole)
{
    snprintf(to, size, whole ? "%.1f %%" : "-", whole ? 100.0 * (double)part / (double)whole : 0);
}

static void add_commands(struct text *to, struct memcached_server *server, double seconds,
                         const struct prose_style *style)
{
    char p50[DURATION], p99[DURATION], worst[DURATION], in[TEXT_OF_BYTES], out[TEXT_OF_BYTES], hits[16];
    if (!server->commands.count)
        return;
    qsort(server->commands.at, server->commands.count, sizeof(server->commands.at[0]), by_time);
    text_addf(to, "\n   %s%-10s %10s %10s %10s %8s %8s %8s %9s %9s %9s %8s %8s%s\n", style->dim, "command",
              "calls", "calls/s", "misses", "hits", "refused", "errors", "p50", "p99", "worst", "in", "out",
              style->none);
    array_foreach (&server->commands, c) {
        say_share(hits, sizeof(hits), c->hits, c->keys);
        text_addf(to,
                  "   %-10s %10" PRIu64 " %10.0f %10" PRIu64 " %8s %8" PRIu64 " %8" PRIu64
                  " %9s %9s %9s %8s %8s\n",
                  c->name, c->commands, seconds > 0 ? (double)c->commands / seconds : 0, memcached_misses(c),
                  hits, c->refused, c->errors, say_ns(memcached_quantile(c, 0.5), p50),
                  say_ns(memcached_quantile(c, 0.99), p99), say_ns(c->worst_ns, worst),
                  text_of_bytes(c->bytes, in), text_of_bytes(c->reply_bytes, out));
    }
}

static void add_threads(struct text *to, const struct memcached_server *server,
                        const struct prose_style *style)
{
    char executed[DURATION], busy[16];
    text_addf(to, "\n   %s%-10s %10s %10s %10s %10s%s\n", style->dim, "thread", "commands", "executing",
              "busy", "wake-ups", style->none);
    array_foreach (&server->threads, t) {
        uint64_t seen_ns = t->last_ns - t->first_ns;
        if (!t->commands)
            continue;
        say_share(busy, sizeof(busy), seen_ns - MIN(seen_ns, t->wait_ns), seen_ns);
        text_addf(to, "   %-10" PRId64 " %10" PRIu64 " %10s %10s %10" PRIu64 "\n", t->tid, t->commands,
                  say_ns(t->command_ns, executed), busy, t->waits);
    }
}

static void add_server(struct text *to, struct memcached_server *server, const struct prose_style *style)
{
    char took[DURATION], ran[DURATION], in[TEXT_OF_BYTES], out[TEXT_OF_BYTES], hits[16], half[DURATION],
        most[DURATION];
    struct memcached_command sum = memcached_sum(server);
    uint64_t took_ns = server->last_ns - server->first_ns;
    text_addf(to, "%s%s%s (process %" PRId64 "): ", style->bold, server->name, style->none, server->pid);
    prose_count(to, sum.commands, "command");
    text_add(to, " from ");
    prose_count(to, server->connections, "connection");
    say_share(hits, sizeof(hits), sum.hits, sum.keys);
    text_addf(to, " in %s; executing took %s.\n", say_ns(took_ns, took), say_ns(sum.time_ns, ran));
    text_addf(to, "   Of %" PRIu64 " keys that were asked for, %" PRIu64 " were there (%s). In %s, out %s.\n",
              sum.keys, sum.hits, hits, text_of_bytes(sum.bytes, in), text_of_bytes(sum.reply_bytes, out));
    if (server->queued.count)
        text_addf(
            to,
            "   Once a thread had woken up, it took %s (p50; p99 %s) until a connection's commands were "
            "read; others came first.\n",
            say_ns((uint64_t)sketch_quantile(&server->queued, 0.5), half),
            say_ns((uint64_t)sketch_quantile(&server->queued, 0.99), most));
    if (server->unread_bytes)
        text_addf(to, "   %s from clients were not understood: their commands are not counted.\n",
                  text_of_bytes(server->unread_bytes, in));
    if (server->datagrams) {
        text_add(to, "   ");
        prose_count(to, server->datagrams, "answer");
        text_add(to, " went out by UDP: those commands are not counted.\n");
    }
    if (server->lost) {
        text_add(to, "   ");
        prose_count(to, server->lost, "event");
        text_add(to, " of this server were lost: every figure here is too small by what they held.\n");
    }
    add_commands(to, server, (double)took_ns / 1e9, style);
    add_threads(to, server, style);
}

static int print_model(struct memcached_model *model, struct report *report, bool json)
{
    const struct prose_style *style = reading_style(1);
    struct text out = {0}, limits = {0};
    if (json) {
        report->extra = json_pack("{s:o}", "servers", memcached_summary_json(model));
        json_t *document = report->extra ? report_json(report) : NULL;
        return cli_print_json(document, JSON_INDENT(1));
    }
    if (!model->servers.count)
        text_add(&out, "No Memcached server is in this recording. Record one with `sonde run -- memcached "
                       "...`, or attach to\nthe process of one that runs: `sonde attach PID`.\n");
    if (report->findings.count) {
        prose_findings(&out, report, style, reading_width(1));
        text_add(&out, "\n");
    }
    array_foreach (&model->servers, server)
        add_server(&out, server, style);
    report->overhead.count = 0;
    prose_limits(&limits, report, style, reading_width(1));
    if (limits.length)
        text_addf(&out, "\n%s", text_get(&limits));
    cli_put(stdout, text_get(&out));
    text_done(&out);
    text_done(&limits);
    return 0;
}

static int report_folder(const struct reading_options *options)
{
    _cleanup_(memcached_model_freep) struct memcached_model *model = NULL;
    struct report report = {0};
    struct problem problem = {0};
    int r = read_model(options->folder, &problem, &model, &report);
    int status = r < 0 ? EXIT_FAILED : reading_status(&report);
    if (r >= 0 && (r = print_model(model, &report, options->json)) < 0)
        problem_set(&problem, r, "out of memory while writing");
    if (r < 0)
        status = cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    report_done(&report);
    return status;
}

struct memcached_command_line {
    struct reading_options reading;
    struct recording recording;
    double seconds; /* 0: until Ctrl-C */
};

#define AT(member) offsetof(struct memcached_command_line, member)

static int run(const struct command *self, int argc, char **argv)
{
    struct memcached_command_line said = {.reading.analyze = ANALYZE_DEFAULTS};
    int first, r = options_parse(self, argc, argv, &said, &first);
    if (r >= 0)
        return r;
    if (first == argc)
        return cli_usage(self, "which server or recording? Give a port, a PID or a directory");
    if (first + 1 != argc || !server_is_meant(argv[first])) {
        if (said.seconds > 0 || said.recording.observe.folder || said.recording.observe.budget)
            return cli_usage(self, "--duration, --output and --budget are for a server, by its port or PID");
        r = reading_operand(self, argc, argv, first, &said.reading);
        return r >= 0 ? r : report_folder(&said.reading);
    }
    _cleanup_(proc_unrefp) struct proc *server = NULL;
    _cleanup_(freep) char *folder = NULL;
    r = server_find(self, argv[first], &server);
    if (r == EXIT_DONE)
        r = server_record(self, &said.recording, server, said.seconds, &folder);
    said.reading.folder = folder;
    return folder ? report_folder(&said.reading) : r;
}

static const struct option_row ROWS[] = {
    {"json", .text = "print one JSON document: findings, servers", .type = OPTION_FLAG,
     .at = AT(reading.json)},
    {"duration", 'd', "SECONDS", "of a server: stop after this time", OPTION_SECONDS, .at = AT(seconds)},
    {"output", 'o', "DIR", "of a server: directory for the trace; must not hold one", OPTION_TEXT,
     .at = AT(recording.observe.folder)},
    {"budget", .value = "PERCENT,MB,MB",
     .text = "of a server: limit tracing to PERCENT CPU, MB of memory (5,128) and MB on disk",
     .type = OPTION_TEXT, .at = AT(recording.observe.budget)},
    {"quiet", 'q', .text = "no notes on stderr while it is recorded", .type = OPTION_FLAG,
     .at = AT(recording.quiet)},
    {NULL},
};
static const struct option_group OPTIONS[] = {{ROWS, 0}, {NULL, 0}};

const struct command command_memcached = {
    .name = "memcached",
    .arguments = "[OPTION...] PORT|PID|DIR",
    .summary = "Show what Memcached servers do: commands, hits and misses, threads",
    .help =
        "Reads a recording, or attaches to a server on this host, records it until Ctrl-C or for --duration, "
        "and\n"
        "leaves it as it was. A number is the port that the server listens on, or else its PID; :11211 and\n"
        "pid:4711 are unambiguous.\n\n"
        "Findings come first: far more misses than usual, a thread with most of the work. Then, for "
        "each\nMemcached server in a recording: its commands by name with their number, hits, misses, "
        "execution times\nand bytes, how long connections waited for others, and what each thread did. "
        "TLS is supported;\ncommands over UDP and evictions are not visible, and the report says so. Exits "
        "with 4 when events were\nlost, else 0.\n",
    .options = OPTIONS,
    .examples = "  sonde memcached --duration 10 11211\n"
                "  sonde run -o /tmp/trace -- memcached -p 11311\n"
                "  sonde memcached /tmp/trace\n"
                "  sonde memcached --json /tmp/trace | jq '.servers[].commands'\n",
    .run = run,
    .confined = &(const struct confined_command){"memcached", .optional = true},
};
