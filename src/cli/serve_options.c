/* See serve_options.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve_options.h"

#include <errno.h>
#include <stddef.h>

static int take_host(const char *value, void *into, struct problem *problem)
{
    struct serve_options *o = into;
    if (o->host_count == SERVE_HOSTS_MAX)
        return problem_set(problem, -EINVAL, "more than %d names", SERVE_HOSTS_MAX);
    o->hosts[o->host_count++] = value;
    return 0;
}

static int take_webhook_format(const char *value, void *into, struct problem *problem)
{
    struct serve_options *o = into;
    o->notifier.format = notify_format_by_name(value);
    return o->notifier.format < NOTIFY_FORMATS
               ? 0
               : problem_set(problem, -EINVAL, "invalid format '%s' (json, slack, pagerduty)", value);
}

#define AT(field) offsetof(struct serve_options, field)
static const struct option_row ROWS[] = {
    {"no-keep", .text = "keep nothing in the recording's directory", .type = OPTION_FLAG, .at = AT(no_keep)},
    {"listen", .value = "ADDRESS:PORT",
     .text = "serve here (default 127.0.0.1:4318, OpenTelemetry's own port)", .type = OPTION_TEXT,
     .at = AT(listen)},
    {"grpc", .value = "ADDRESS:PORT",
     .text = "also receive spans over OTLP/gRPC here (OpenTelemetry's own port is 4317)", .type = OPTION_TEXT,
     .at = AT(grpc)},
    {"data", 'd', "DIR",
     "the journal of acknowledged batches and the span store (DuckDB); without it nothing is kept on disk",
     OPTION_TEXT, .at = AT(folder)},
    {"no-store", .text = "keep only the journal", .type = OPTION_FLAG, .at = AT(no_store)},
    {"clickhouse", .value = "URL",
     .text = "store spans in ClickHouse (http://host:8123/?database=sonde) instead of DuckDB",
     .type = OPTION_TEXT, .at = AT(clickhouse)},
    {"keep-gb", .value = "N", .text = "maximum size of the journal (default 16)", .type = OPTION_NUMBER,
     .least = 0, .most = 1e9, .at = AT(keep_gb)},
    {"keep-days", .value = "N", .text = "delete raw spans from the store after N days", .type = OPTION_NUMBER,
     .least = 0, .most = 1e9, .at = AT(keep_days)},
    {"store-gb", .value = "N",
     .text =
         "delete the oldest spans when the store is larger than this; requests that are the evidence of a "
         "finding are kept",
     .type = OPTION_NUMBER, .least = 0, .most = 1e9, .at = AT(store_gb)},
    {"look-seconds", .value = "N", .text = "how often the store's age and size are checked (default 60)",
     .type = OPTION_SECONDS, .at = AT(look_s)},
    {"idle-seconds", .value = "N",
     .text =
         "complete a trace N s after its last span, once its root has arrived (default 10); traces without "
         "a root, ten minutes later",
     .type = OPTION_NUMBER, .least = 0, .most = 1e9, .at = AT(idle_s)},
    {"allow-host", .value = "NAME",
     .text = "answer to this host name too, besides the address and localhost; may be repeated",
     .type = OPTION_CALL, .take = take_host},
    {"max-connections", .value = "N",
     .text = "accept at most N connections at once (default 4096, or what the system allows)",
     .type = OPTION_COUNT, .least = 1, .most = 1e6, .at = AT(connections_max)},
    {"token-file", .value = "FILE",
     .text =
         "require this token (16 characters or more, in a file that others cannot read); mandatory beyond "
         "loopback",
     .type = OPTION_TEXT, .at = AT(token_file)},
    {"send-token-file", .value = "FILE", .text = "require this token instead from clients that send spans",
     .type = OPTION_TEXT, .at = AT(send_token_file)},
    {NULL}};

/* What is done when a version is slower. */
static const struct option_row WATCHING_ROWS[] = {
    {"every-seconds", .value = "N", .text = "how often all services are judged (default 30)",
     .type = OPTION_NUMBER, .least = 0.05, .most = 1e6, .at = AT(every_s)},
    {"webhook", .value = "URL", .text = "POST alerts there: once when one fires, once when it is resolved",
     .type = OPTION_TEXT, .at = AT(notifier.url)},
    {"webhook-format", .value = "FORMAT", .text = "json (default), slack or pagerduty", .type = OPTION_CALL,
     .take = take_webhook_format},
    {"routing-key", .value = "KEY", .text = "the routing key for pagerduty", .type = OPTION_TEXT,
     .at = AT(notifier.routing_key)},
    {"evidence-url", .value = "URL", .text = "where people reach /evidence, for these messages",
     .type = OPTION_TEXT, .at = AT(notifier.evidence)},
    {"action", .value = "COMMAND",
     .text = "run when a version is slower, with the evidence on standard input and SONDE_SERVICE, "
             "SONDE_VERSION, SONDE_BASE_VERSION and SONDE_BUCKET set",
     .type = OPTION_TEXT, .at = AT(action.command)},
    {"action-dry-run", .text = "only log that it would have been run", .type = OPTION_FLAG,
     .at = AT(action.dry_run)},
    {"actions-per-hour", .value = "N", .text = "run it at most N times an hour (default 3)",
     .type = OPTION_COUNT, .least = 1, .most = 16, .at = AT(action.per_hour)},
    {"action-timeout", .value = "N", .text = "kill it after N seconds (default 60)", .type = OPTION_NUMBER,
     .least = 0.1, .most = 1e5, .at = AT(action.timeout_s)},
    {"audit", .value = "FILE", .text = "log of actions, chained by hashes (default DIR/audit.jsonl)",
     .type = OPTION_TEXT, .at = AT(action.audit)},
    {NULL}};

const struct option_group SERVE_OPTIONS[] = {
    {ROWS, 0}, {WATCHING_ROWS, 0}, {DIAGNOSE_ROWS, AT(common)}, {NULL, 0}};
#undef AT

int serve_options_parse(const struct command *self, int argc, char **argv, struct serve_options *options)
{
    int first, r = options_parse(self, argc, argv, options, &first);
    if (r >= 0)
        return r;
    options->paths = argv + first;
    options->path_count = (size_t)(argc - first);
    return options->path_count > SERVE_SOURCES_MAX
               ? cli_usage(self, "at most %d recordings and profiles", SERVE_SOURCES_MAX)
               : -1;
}

const char SERVE_HELP[] =
    "PATH is the directory of a recording, a profile (pprof, folded) or a file of spans, whose versions are\n"
    "compared. They are read in the background; findings appear as they are found. What was read from a\n"
    "recording is kept in its directory (view/) and opens at once the next time.\n\n"
    "Answers:  GET / (the page)   GET /api/v1/...      (doc/page.md)\n"
    "          POST /v1/traces    GET /api/diagnosis    GET /api/trace?id=ID\n"
    "          GET /evidence       GET /metrics         GET /api/sketches?by=service,name\n"
    "          /tsp/api/...        (Trace Server Protocol 0.6, for viewers such as VS Code's)\n"
    "          GET /healthz        GET /api/alerts      POST /api/alerts?id=FINGERPRINT "
    "(acknowledges)\n";

const char SERVE_EXAMPLES[] =
    "  sonde serve --listen 127.0.0.1:0 /tmp/trace\n"
    "  sonde serve --data /var/lib/sonde\n"
    "  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node --require @opentelemetry/... server.js\n";
