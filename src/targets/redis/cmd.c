/* `sonde redis`: what Redis servers did, who sent it, and who waited behind what: in a recording, or of a
 * server that runs, which is recorded first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/folder.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/confine.h"
#include "cli/follow.h"
#include "cli/reading.h"
#include "cli/recording.h"
#include "cli/server.h"
#include "targets/redis/cmd_live.h"
#include "targets/redis/cmd_netflow.h"
#include "targets/redis/cmd_remote.h"
#include "targets/redis/cmd_text.h"
#include "targets/redis/summary.h"
#include "trace/trace.h"

/* ---- reading ---- */

static int read_model(const char *folder, const struct analyze_options *options, struct problem *problem,
                      struct redis_model **ret_model, struct report *report)
{
    _cleanup_(trace_closep) struct trace *trace = NULL;
    _cleanup_(redis_model_freep) struct redis_model *model = NULL;
    int r = redis_model_new(&(struct redis_options){options->slow_command_ns}, &model);
    if (r >= 0)
        r = reading_pass(folder, redis_model_pass(model), problem, &trace);
    if (r >= 0)
        r = redis_model_report(model, report);
    if (r >= 0)
        r = redis_model_report_slow(model, report);
    if (r < 0)
        return problem && problem->what[0] ? r : problem_set(problem, r, "%s: %s", folder, strerror(-r));
    report->from_ns = model->first_ns;
    report->to_ns = model->last_ns;
    report->nothing =
        "No command took long, no connection was used by two threads, and no server was ended by a "
        "signal.";
    report_sort(report);
    folder_add_limits(report, folder, trace);
    *ret_model = model;
    model = NULL;
    return 0;
}

/* Prints the report of a recording; returns the exit status. */
static int report_folder(const struct reading_options *options, bool followed)
{
    _cleanup_(redis_model_freep) struct redis_model *model = NULL;
    struct report report = {0};
    struct problem problem = {0};
    int r = read_model(options->folder, &options->analyze, &problem, &model, &report);
    if (r < 0) {
        report_done(&report);
        return cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    }
    int status = reading_status(&report);
    if (options->json) {
        report.extra = json_pack("{s:o}", "servers", redis_summary_json(model));
        json_t *document = report.extra ? report_json(&report) : NULL;
        if (!document || reading_print_end(document, followed) < 0) {
            problem_set(&problem, -ENOMEM, "out of memory while writing JSON");
            status = cli_fail(EXIT_FAILED, &problem);
        }
    } else {
        redis_print(model, &report);
    }
    report_done(&report);
    return status;
}

/* ---- the command ---- */

struct redis_command_line {
    struct reading_options reading;
    struct recording recording;
    struct redis_live_options live;
    struct redis_remote_options remote;
    bool follow, netflow;
    double seconds; /* 0: until Ctrl-C */
};

#define AT(member) offsetof(struct redis_command_line, member)

static int take_each(const char *value, void *into, struct problem *problem)
{
    struct redis_each *each = into;
    each->wanted = true;
    each->name = value;
    return 0;
}

static const struct option_row EACH_ROWS[] = {
    {"each", .value = "[=COMMAND]",
     .text = "with --follow: print commands one by one, as MONITOR does, with their execution times and "
             "clients; all, or those of one name",
     .type = OPTION_CALL, .take = take_each},
    {"client", .value = "CLIENT",
     .text = "with --each: only those of a client: its id, its address, or "
             "ADDRESS:PORT",
     .type = OPTION_TEXT, .at = offsetof(struct redis_each, client)},
    {"least-ms", .value = "MS", .text = "with --each: only those that took at least MS to execute",
     .type = OPTION_MS, .at = offsetof(struct redis_each, least_ns)},
    {NULL},
};

/* Of the options of all reading and recording commands those that concern Redis. */
static const struct option_row OPTION_ROWS[] = {
    {"follow", 'f',
     .text = "show commands, waits, event loop and cluster bus while they are recorded, and "
             "findings as they appear",
     .type = OPTION_FLAG, .at = AT(follow)},
    {"interval", .value = "SECONDS", .text = "with --follow: time between updates (1)",
     .type = OPTION_SECONDS, .at = AT(live.interval_s)},
    {"netflow",
     .text = "follow each request through a cluster, stage by stage: of a recording, or a directory with "
             "those of its nodes and clients",
     .type = OPTION_FLAG, .at = AT(netflow)},
    {"json", .text = "print one JSON document: findings, servers; with --follow one document per line",
     .type = OPTION_FLAG, .at = AT(reading.json)},
    {"slow-command-ms", .value = "MS", .text = "report commands that execute longer than MS (10)",
     .type = OPTION_MS, .at = AT(reading.analyze.slow_command_ns)},
    {"duration", 'd', "SECONDS",
     "of a server: stop after this time; with --remote: the time between the two readings (2)",
     OPTION_SECONDS, .at = AT(seconds)},
    {"output", 'o', "DIR", "of a server: directory for the trace; must not hold one", OPTION_TEXT,
     .at = AT(recording.observe.folder)},
    {"budget", .value = "PERCENT,MB,MB",
     .text = "of a server: limit tracing to PERCENT CPU, MB of memory (5,128) and MB on disk",
     .type = OPTION_TEXT, .at = AT(recording.observe.budget)},
    {"quiet", 'q', .text = "no notes on stderr while it is recorded", .type = OPTION_FLAG,
     .at = AT(recording.quiet)},
    {NULL},
};

static const struct option_group OPTIONS[] = {
    {OPTION_ROWS, 0}, {EACH_ROWS, AT(live.each)}, {redis_remote_rows, AT(remote)}, {NULL, 0}};

static int follow_folder(struct redis_command_line *said)
{
    said->live.folder = said->reading.folder;
    said->live.json = said->reading.json;
    said->live.slow_command_ns = said->reading.analyze.slow_command_ns;
    int r = redis_live_run(&said->live);
    return r != EXIT_DONE ? r : report_folder(&said->reading, true);
}

/* While it is recorded, in a process of its own. */
static int follow_recording(void *context, const char *folder, int recorder)
{
    struct redis_command_line *said = context;
    struct problem problem = {0};
    said->reading.folder = folder;
    said->live.recorder = recorder;
    return confine_reading("redis", folder, &problem) < 0 ? cli_fail(EXIT_FAILED, &problem)
                                                          : cli_end(follow_folder(said));
}

static int record(const struct command *self, struct redis_command_line *said, struct proc *server)
{
    enum { WRITTEN_EVERY_MS = 100 };
    struct recording *recording = &said->recording;
    _cleanup_(freep) char *folder = NULL;
    if (said->follow) {
        recording->follow = recording->report = true;
        recording->follow_by = follow_recording;
        recording->follow_context = said;
        recording->observe.written_every_ns = WRITTEN_EVERY_MS * NS_PER_MS;
    }
    int r = server_record(self, recording, server, said->seconds, &folder);
    if (!folder)
        return r;
    said->reading.folder = folder;
    return report_folder(&said->reading, false);
}

/* --remote: the operand is an address. */
static int ask(const struct command *self, const struct redis_command_line *said, int first, int argc,
               char **argv)
{
    static const double USUAL_SECONDS = 2;
    if (first + 1 != argc)
        return cli_usage(self, first == argc ? "which server? Give HOST:PORT" : "one server at a time");
    if (said->follow || said->recording.observe.folder || said->recording.observe.budget)
        return cli_usage(self, "--follow, --output and --budget are not for --remote: nothing is recorded");
    return redis_remote_run(self, &said->remote, argv[first],
                            said->seconds > 0 ? said->seconds : USUAL_SECONDS, said->reading.json);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct redis_command_line said = {.reading.analyze = ANALYZE_DEFAULTS,
                                      .live = {.interval_s = 1, .recorder = -1}};
    int first, r = options_parse(self, argc, argv, &said, &first);
    if (r >= 0)
        return r;
    if (said.live.each.wanted && !said.follow)
        return cli_usage(self, "--each needs --follow");
    if ((said.live.each.client || said.live.each.least_ns) && !said.live.each.wanted)
        return cli_usage(self, "--client and --least-ms choose among what --each prints");
    if (said.remote.remote)
        return ask(self, &said, first, argc, argv);
    const char *operand = first + 1 == argc ? argv[first] : NULL;
    bool server = operand && server_is_meant(operand);
    if (first == argc)
        return cli_usage(self, "which server or recording? Give a port, a PID or a directory");
    if (!server && (said.seconds > 0 || said.recording.observe.folder || said.recording.observe.budget))
        return cli_usage(self, "--duration, --output and --budget are for a server, by its port or PID");
    if (said.netflow && (server || said.follow))
        return cli_usage(self, "--netflow reads what was recorded: give a directory, and not --follow");
    if (!server) {
        r = reading_operand(self, argc, argv, first, &said.reading);
        if (r < 0 && said.netflow)
            return redis_netflow_run(&said.reading);
        return r >= 0 ? r : said.follow ? follow_folder(&said) : report_folder(&said.reading, false);
    }
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    r = server_find(self, operand, &proc);
    return r != EXIT_DONE ? r : record(self, &said, proc);
}

const struct command command_redis = {
    .name = "redis",
    .arguments = "[OPTION...] PORT|PID|DIR|--remote HOST:PORT",
    .summary = "Show what Redis servers do: commands, callers, queueing, threads, cluster bus",
    .help =
        "Reads a recording, or attaches to a server on this host, records it until Ctrl-C or for --duration, "
        "and\n"
        "leaves it as it was. A number is the port that the server listens on, or else its PID; :6379 and\n"
        "pid:4711 are unambiguous.\n\n"
        "Findings come first: slow commands with the connections that waited behind them, connections "
        "that two\n"
        "threads owned at once, servers ended by a signal. Then, for each server in the recording, its "
        "commands,\n"
        "the callers behind them (traced services by name, others by address), the event loop, the work "
        "of its\n"
        "threads, and the volume on the cluster bus. Needs no traced caller and no HTTP request. Exits "
        "with 4\n"
        "when events were lost, else 0.\n\n"
        "With --netflow: how long each stage of a request took across the nodes that it passed, from the "
        "client's\n"
        "write until it read the reply, or until subscribers read the message. A directory with recordings "
        "of all\n"
        "nodes and clients is read as one; their clocks are aligned by their messages, and the remaining "
        "error is\n"
        "given.\n\n"
        "With --remote sonde attaches to nothing: it sends the server INFO twice, SLOWLOG GET, LATENCY "
        "LATEST and\n"
        "CLUSTER NODES, as any client may, and nothing that changes, blocks or lists keys. What the server "
        "refuses\n"
        "is reported, and so is what cannot be learned that way.\n",
    .options = OPTIONS,
    .examples =
        "  sonde redis --duration 10 6379\n"
        "  sonde redis --follow 6379\n"
        "  sonde redis --follow --each --least-ms 1 6379\n"
        "  sonde run -o /tmp/trace -- redis-server --port 7000\n"
        "  sonde redis /tmp/trace\n"
        "  sonde redis --json /tmp/trace | jq '.servers[].callers'\n"
        "  sonde redis --netflow /tmp/cluster\n"
        "  sonde redis --remote --tls --user sonde --password-file /etc/sonde/redis cache.example:6380\n",
    .run = run,
    .confined = &(const struct confined_command){"redis", .scripts = true, .optional = true, .asks = "remote",
                                                 .reads = "password-file cacert cert key"},
};
