/* See serve_options.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve_options.h"

#include <getopt.h>
#include <stdlib.h>

enum {
    OPT_LISTEN = 256,
    OPT_GRPC,
    OPT_NO_STORE,
    OPT_TOKEN_FILE,
    OPT_SEND_TOKEN_FILE,
    OPT_KEEP,
    OPT_KEEP_DAYS,
    OPT_STORE_GB,
    OPT_LOOK,
    OPT_IDLE,
    OPT_CLICKHOUSE,
    OPT_ALLOW_HOST,
    OPT_NO_KEEP,
    OPT_CONNECTIONS,
    OPT_EVERY,
    OPT_WEBHOOK,
    OPT_WEBHOOK_FORMAT,
    OPT_ROUTING_KEY,
    OPT_EVIDENCE_URL,
    OPT_ACTION,
    OPT_ACTION_DRY_RUN,
    OPT_ACTIONS_PER_HOUR,
    OPT_ACTION_TIMEOUT,
    OPT_AUDIT
};

static const struct option LONG_OPTIONS[] = {
    DIAGNOSE_LONG_OPTIONS,
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"grpc", required_argument, NULL, OPT_GRPC},
    {"data", required_argument, NULL, 'd'},
    {"no-store", no_argument, NULL, OPT_NO_STORE},
    {"no-keep", no_argument, NULL, OPT_NO_KEEP},
    {"allow-host", required_argument, NULL, OPT_ALLOW_HOST},
    {"max-connections", required_argument, NULL, OPT_CONNECTIONS},
    {"token-file", required_argument, NULL, OPT_TOKEN_FILE},
    {"send-token-file", required_argument, NULL, OPT_SEND_TOKEN_FILE},
    {"keep-gb", required_argument, NULL, OPT_KEEP},
    {"keep-days", required_argument, NULL, OPT_KEEP_DAYS},
    {"store-gb", required_argument, NULL, OPT_STORE_GB},
    {"clickhouse", required_argument, NULL, OPT_CLICKHOUSE},
    {"look-seconds", required_argument, NULL, OPT_LOOK},
    {"idle-seconds", required_argument, NULL, OPT_IDLE},
    {"every-seconds", required_argument, NULL, OPT_EVERY},
    {"webhook", required_argument, NULL, OPT_WEBHOOK},
    {"webhook-format", required_argument, NULL, OPT_WEBHOOK_FORMAT},
    {"routing-key", required_argument, NULL, OPT_ROUTING_KEY},
    {"evidence-url", required_argument, NULL, OPT_EVIDENCE_URL},
    {"action", required_argument, NULL, OPT_ACTION},
    {"action-dry-run", no_argument, NULL, OPT_ACTION_DRY_RUN},
    {"actions-per-hour", required_argument, NULL, OPT_ACTIONS_PER_HOUR},
    {"action-timeout", required_argument, NULL, OPT_ACTION_TIMEOUT},
    {"audit", required_argument, NULL, OPT_AUDIT},
    {0}};

/* What is done when a version is slower. */
static bool take_watching(struct serve_options *o, int c, const char *value)
{
    double number;
    switch (c) {
    case OPT_EVERY:
        return cli_number(value, 0.05, 1e6, &o->every_s);
    case OPT_WEBHOOK:
        o->notifier.url = value;
        return true;
    case OPT_WEBHOOK_FORMAT:
        o->notifier.format = notify_format_by_name(value);
        return o->notifier.format < NOTIFY_FORMATS;
    case OPT_ROUTING_KEY:
        o->notifier.routing_key = value;
        return true;
    case OPT_EVIDENCE_URL:
        o->notifier.evidence = value;
        return true;
    case OPT_ACTION:
        o->action.command = value;
        return true;
    case OPT_ACTION_DRY_RUN:
        return o->action.dry_run = true;
    case OPT_ACTIONS_PER_HOUR:
        if (!cli_number(value, 1, 16, &number))
            return false;
        o->action.per_hour = (unsigned)number;
        return true;
    case OPT_ACTION_TIMEOUT:
        return cli_number(value, 0.1, 1e5, &o->action.timeout_s);
    case OPT_AUDIT:
        o->action.audit = value;
        return true;
    default:
        return false;
    }
}

int serve_options_parse(const struct command *self, int argc, char **argv, struct serve_options *options)
{
    int c;
    while ((c = getopt_long(argc, argv, "d:", LONG_OPTIONS, NULL)) != -1) {
        if (c == OPT_LISTEN)
            options->listen = optarg;
        else if (c == OPT_GRPC)
            options->grpc = optarg;
        else if (c == 'd')
            options->folder = optarg;
        else if (c == OPT_NO_STORE)
            options->no_store = true;
        else if (c == OPT_TOKEN_FILE)
            options->token_file = optarg;
        else if (c == OPT_SEND_TOKEN_FILE)
            options->send_token_file = optarg;
        else if (c == OPT_KEEP)
            options->keep_gb = strtod(optarg, NULL);
        else if (c == OPT_KEEP_DAYS)
            options->keep_days = strtod(optarg, NULL);
        else if (c == OPT_STORE_GB)
            options->store_gb = strtod(optarg, NULL);
        else if (c == OPT_CLICKHOUSE)
            options->clickhouse = optarg;
        else if (c == OPT_LOOK)
            options->look_s = strtod(optarg, NULL);
        else if (c == OPT_NO_KEEP)
            options->no_keep = true;
        else if (c == OPT_CONNECTIONS && (options->connections_max = (unsigned)strtoul(optarg, NULL, 10)))
            continue;
        else if (c == OPT_ALLOW_HOST && options->host_count < SERVE_HOSTS_MAX)
            options->hosts[options->host_count++] = optarg;
        else if (c == OPT_IDLE)
            options->idle_s = strtod(optarg, NULL);
        else if (!take_watching(options, c, optarg) && !diagnose_options_take(&options->common, c, optarg))
            return cli_usage(self, "option or value not understood");
    }
    options->paths = argv + optind;
    options->path_count = (size_t)(argc - optind);
    return options->path_count > SERVE_SOURCES_MAX
               ? cli_usage(self, "at most %d recordings and profiles", SERVE_SOURCES_MAX)
               : EXIT_DONE;
}

const char SERVE_HELP[] =
    "PATH is a recording's folder, a profile (pprof, folded) or a file of spans, whose versions are "
    "compared.\n"
    "Recordings and profiles are read in the background; findings appear as they are found. What was "
    "read "
    "of a\n"
    "recording is kept in its folder (view/) and opens at once the next time.\n\n"
    "Options:\n"
    "  --no-keep                   keep nothing in the recording's folder\n"
    "  --listen ADDRESS:PORT       default 127.0.0.1:4318, OpenTelemetry's own port\n"
    "  --grpc ADDRESS:PORT         take spans over OTLP/gRPC there, too (OpenTelemetry's own port is "
    "4317)\n"
    "  -d, --data DIR              journal of acknowledged batches and the span store (DuckDB); without "
    "it\n"
    "                              nothing is kept on disk\n"
    "  --no-store                  only the journal\n"
    "  --clickhouse URL            the store is ClickHouse (http://host:8123/?database=sonde), not "
    "DuckDB\n"
    "  --keep-gb N                 size of the journal (default 16)\n"
    "  --keep-days N               raw spans older than this leave the store\n"
    "  --store-gb N                and the oldest leave it when it is larger than this; requests that "
    "are the\n"
    "                              evidence of a finding stay\n"
    "  --look-seconds N            between looks at the store's age and size (default 60)\n"
    "  --idle-seconds N            a trace whose root came is complete when it got no spans for so long "
    "(default\n"
    "                              10); others wait ten minutes longer\n"
    "  --allow-host NAME           answer to this host name too, beside the address and localhost; "
    "several "
    "times\n"
    "                              for several names\n"
    "  --max-connections N         close further ones at once (default 4096, or what the system allows)\n"
    "  --token-file FILE           ask for this token (16 characters or more, in a file that others may "
    "not read);\n"
    "                              needed beyond loopback\n"
    "  --send-token-file FILE      ask senders of spans for this one instead\n\n"
    "All services are judged all the time; an alert is told once, and again when it is over:\n"
    "  --every-seconds N           between looks (default 30)\n"
    "  --webhook URL               POST alerts there\n"
    "  --webhook-format FORMAT     json (default), slack or pagerduty (with --routing-key KEY)\n"
    "  --evidence-url URL          where people find /evidence, for these messages\n"
    "  --action COMMAND            run when a version is slower, with the evidence on standard input "
    "and\n"
    "                              SONDE_SERVICE, SONDE_VERSION, SONDE_BASE_VERSION and SONDE_BUCKET "
    "set\n"
    "  --action-dry-run            only log that it would have been run\n"
    "  --actions-per-hour N        no more than these (default 3)\n"
    "  --action-timeout N          seconds, after which it is killed (default 60)\n"
    "  --audit FILE                log of actions, chained by hashes (default "
    "DIR/audit.jsonl)\n\n" DIAGNOSE_OPTIONS_HELP "\n"
    "Answers:  GET / (the page)   GET /api/v1/...      (doc/page.md)\n"
    "          POST /v1/traces    GET /api/diagnosis    GET /api/trace?id=ID\n"
    "          GET /evidence       GET /metrics         GET /api/sketches?by=service,name\n"
    "          /tsp/api/...        (Trace Server Protocol 0.6, for viewers such as VS Code's)\n"
    "          GET /healthz        GET /api/alerts      POST /api/alerts?id=FINGERPRINT "
    "(acknowledges)\n\n"
    "Examples:\n"
    "  sonde serve --listen 127.0.0.1:0 /tmp/trace\n"
    "  sonde serve --data /var/lib/sonde\n"
    "  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node --require @opentelemetry/... server.js\n";
