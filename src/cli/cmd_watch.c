/* sonde watch: a rollout of one service, watched while it runs (serve/rollout.h), with alerts to people and a
 * gate. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/diagnose_options.h"
#include "finding/prose.h"
#include "serve/notify.h"
#include "serve/rollout.h"

struct options {
    struct diagnose_options common;
    const char *listen, *grpc, *follow, *webhook, *routing_key, *bundle;
    enum notify_format webhook_format;
    double every_s, for_s, idle_s;
    bool gate, json, allow_no_verdict;
};

struct watch {
    struct options *options;
    struct rollout *rollout;
};

#define WATCH_FALSE_ALARMS 0.01 /* of harmless rollouts, however often one looks */
#define WEBHOOK_ATTEMPTS   3    /* of what is pending at the end */

static int post_alert(const struct options *o, const struct alert *alert)
{
    const struct notifier notifier = {o->webhook, o->webhook_format, o->routing_key, o->bundle};
    struct problem problem = {0};
    int r = notify_send(&notifier, alert, &problem);
    if (r < 0)
        fprintf(stderr, "sonde: the webhook failed, and will be tried again: %s\n",
                problem.what[0] ? problem.what : strerror(-r));
    return r;
}

static int tell(void *context, const struct alert *alert)
{
    const struct options *o = context;
    int r = o->webhook ? post_alert(o, alert) : 0;
    if (r >= 0)
        fprintf(stderr, "sonde: %s: %s\n", alert->state == ALERT_FIRING ? "slower" : "resolved",
                alert->title);
    return r;
}

static void print_report(const struct watch *watch, const struct report *report)
{
    struct text out = {0};
    struct prose_style style = {cli_style(1, STYLE_NONE),   cli_style(1, STYLE_BOLD),
                                cli_style(1, STYLE_DIM),    cli_style(1, STYLE_RED),
                                cli_style(1, STYLE_YELLOW), cli_style(1, STYLE_GREEN),
                                cli_style(1, STYLE_CYAN)};
    if (watch->options->json) {
        cli_print_json(report_json(report), JSON_INDENT(1));
        return;
    }
    rollout_input_words(watch->rollout, &out);
    text_add(&out, "\n");
    prose_findings(&out, report, &style, 100);
    prose_limits(&out, report, &style, 100);
    cli_put(stdout, text_get(&out));
    text_done(&out);
}

/* Waits for the next look; true when it is time to end. */
static bool wait_for_look(const struct options *options)
{
    sigset_t signals;
    struct timespec pause = {(time_t)options->every_s,
                             (long)((options->every_s - (double)(time_t)options->every_s) * 1e9)};
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    return sigtimedwait(&signals, NULL, &pause) > 0;
}

static int loop(struct watch *watch)
{
    uint64_t started = clock_monotonic_ns();
    const struct options *o = watch->options;
    for (;;) {
        struct report report = {0};
        bool over =
            wait_for_look(o) || (o->for_s > 0 && (double)(clock_monotonic_ns() - started) / 1e9 >= o->for_s);
        int r = rollout_compare(watch->rollout, over, &report);
        bool decided = rollout_is_slower(watch->rollout) && o->gate;
        if (r >= 0 && (over || decided))
            print_report(watch, &report);
        report_done(&report);
        if (r < 0 || over || decided) {
            for (int attempt = 1; attempt < WEBHOOK_ATTEMPTS && rollout_tell(watch->rollout); attempt++)
                ;
            return MIN(r, 0);
        }
    }
}

static void handle(void *context, const struct http_request *request, struct http_response *response)
{
    struct watch *watch = context;
    if (!rollout_handle(watch->rollout, request, response))
        response->status = 404;
}

static void handle_call(void *context, const struct grpc_call *call, struct grpc_answer *answer)
{
    struct watch *watch = context;
    rollout_handle_call(watch->rollout, call, answer);
}

static int run(struct watch *watch, struct problem *problem)
{
    struct options *o = watch->options;
    struct rollout_settings settings = {.judge = &o->common.judge,
                                        .journal = o->follow,
                                        .idle_ns = (uint64_t)(o->idle_s * 1e9),
                                        .bundle = o->bundle,
                                        .tell = tell,
                                        .context = o};
    int r = diagnose_options_settings(&o->common, &settings.diagnosis, problem);
    if (r == 0)
        r = rollout_new(&settings, &watch->rollout, problem);
    if (r < 0)
        return r;
    if (o->follow) {
        fprintf(stderr, "sonde: following %s\n", o->follow);
        return loop(watch);
    }
    _cleanup_(http_server_stopp) struct http_server *server = NULL;
    struct http_settings http = {.address = o->listen, .handle = handle, .context = watch};
    r = http_server_start(&http, &server, problem);
    if (r < 0)
        return r;
    fprintf(stderr, "sonde: receiving OTLP on port %u (/v1/traces)\n", http_server_port(server));
    _cleanup_(grpc_server_stopp) struct grpc_server *grpc_server = NULL;
    struct grpc_settings grpc = {.address = o->grpc, .handle = handle_call, .context = watch};
    if (o->grpc) {
        r = grpc_server_start(&grpc, &grpc_server, problem);
        if (r < 0)
            return r;
        fprintf(stderr, "sonde: receiving OTLP/gRPC on port %u\n", grpc_server_port(grpc_server));
    }
    return loop(watch);
}

static int take_webhook_format(const char *value, void *into, struct problem *problem)
{
    struct options *o = into;
    o->webhook_format = notify_format_by_name(value);
    return o->webhook_format < NOTIFY_FORMATS
               ? 0
               : problem_set(problem, -EINVAL, "invalid format '%s' (json, slack, pagerduty)", value);
}

#define AT(field) offsetof(struct options, field)
static const struct option_row ROWS[] = {
    {"gate", .text = "exit with status 10 as soon as the new version is slower", .type = OPTION_FLAG,
     .at = AT(gate)},
    {"for", .value = "TIME",
     .text = "stop after this time (30s, 10m, 2h); with --gate, exit with 0 if the new version is not slower "
             "and with 11 if that cannot be decided",
     .type = OPTION_TIME, .at = AT(for_s)},
    {"allow-no-verdict", .text = "exit with 0 instead of 11", .type = OPTION_FLAG,
     .at = AT(allow_no_verdict)},
    {"every", .value = "TIME", .text = "time between comparisons (default 5s)", .type = OPTION_TIME,
     .at = AT(every_s)},
    {"idle", .value = "TIME",
     .text = "complete a trace this long after its last span (default 10s, twice the export interval of "
             "OpenTelemetry's SDKs)",
     .type = OPTION_TIME, .at = AT(idle_s)},
    {"listen", .value = "ADDRESS:PORT", .text = "receive spans here (default 127.0.0.1:4318)",
     .type = OPTION_TEXT, .at = AT(listen)},
    {"grpc", .value = "ADDRESS:PORT", .text = "receive spans over OTLP/gRPC here, too (4317 is usual)",
     .type = OPTION_TEXT, .at = AT(grpc)},
    {"follow", .value = "DIR", .text = "follow the data directory of `sonde serve` instead",
     .type = OPTION_TEXT, .at = AT(follow)},
    {"webhook", .value = "URL", .text = "POST alerts there as JSON, with status firing or resolved",
     .type = OPTION_TEXT, .at = AT(webhook)},
    {"webhook-format", .value = "FORMAT", .text = "json (default), slack or pagerduty", .type = OPTION_CALL,
     .take = take_webhook_format},
    {"routing-key", .value = "KEY", .text = "the routing key for pagerduty", .type = OPTION_TEXT,
     .at = AT(routing_key)},
    {"bundle", .value = "FILE.html", .text = "write the evidence to this file", .type = OPTION_TEXT,
     .at = AT(bundle)},
    {"json", .text = "print the report as one JSON document", .type = OPTION_FLAG, .at = AT(json)},
    {NULL}};
static const struct option_group GROUPS[] = {{ROWS, 0}, {DIAGNOSE_ROWS, AT(common)}, {NULL, 0}};
#undef AT

static int cmd_watch(const struct command *self, int argc, char **argv)
{
    struct options options = {.listen = "127.0.0.1:4318", .every_s = 5, .idle_s = 10};
    struct watch watch = {.options = &options};
    struct problem problem = {0};
    sigset_t signals;
    int first, r = options_parse(self, argc, argv, &options, &first);
    if (r >= 0)
        return r;
    if (first + 1 != argc)
        return cli_usage(self, first < argc ? "more than one service given" : "missing service name");
    options.common.judge.service = argv[first];
    options.common.judge.sequential = true;
    if (!(options.common.judge.regress.false_discovery_rate > 0))
        options.common.judge.regress.false_discovery_rate = WATCH_FALSE_ALARMS;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    r = run(&watch, &problem);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s", strerror(-r));
    bool found = watch.rollout && rollout_is_slower(watch.rollout);
    enum outcome outcome = watch.rollout ? rollout_outcome(watch.rollout) : OUTCOME_CANNOT_TELL;
    rollout_free(watch.rollout);
    diagnose_options_done(&options.common);
    if (r < 0)
        return cli_fail(r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem);
    if (!options.gate)
        return EXIT_DONE;
    bool no_verdict = outcome == OUTCOME_CANNOT_TELL && !options.allow_no_verdict;
    return found ? EXIT_FINDING : no_verdict ? EXIT_NO_VERDICT : EXIT_DONE;
}

const struct command command_watch = {
    .name = "watch",
    .arguments = "SERVICE [--base VERSION] [--gate] [--webhook URL] [OPTION...]",
    .summary = "Watch a rollout of a service and say as soon as the new version is slower",
    .help =
        "Receives spans over OTLP/HTTP and gRPC, or follows the journal of `sonde serve`, and compares the "
        "service's "
        "new\n"
        "version with the base at regular intervals. The evidence is an e-value, which stays valid however\n"
        "often it is computed. An alert is sent once, and resolved when the slow version gets no more "
        "requests.\n",
    .options = GROUPS,
    .examples = "  sonde watch agent --base 41 --gate --for 15m --webhook http://127.0.0.1:9000/alert\n"
                "  sonde watch agent --follow /var/lib/sonde --bundle evidence.html\n",
    .run = cmd_watch,
};
