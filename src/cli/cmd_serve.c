/* sonde serve: receives spans over OTLP/HTTP, keeps them, and answers what got slower. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/diagnose_options.h"
#include "diagnose/bundle.h"
#include "serve/clickhouse.h"
#include "serve/receiver.h"

#define HOSTS_MAX 16

struct options {
    struct diagnose_options common;
    const char *listen, *folder, *token_file, *clickhouse;
    bool no_store;
    double keep_gb, keep_days, store_gb, look_s, idle_s;
    unsigned connections_max;
    const char *hosts[HOSTS_MAX + 1]; /* ends with NULL */
    size_t host_count;
};

enum {
    OPT_LISTEN = 256,
    OPT_NO_STORE,
    OPT_TOKEN_FILE,
    OPT_KEEP,
    OPT_KEEP_DAYS,
    OPT_STORE_GB,
    OPT_LOOK,
    OPT_IDLE,
    OPT_CLICKHOUSE,
    OPT_ALLOW_HOST,
    OPT_CONNECTIONS
};

static const struct option LONG_OPTIONS[] = {DIAGNOSE_LONG_OPTIONS,
                                             {"listen", required_argument, NULL, OPT_LISTEN},
                                             {"data", required_argument, NULL, 'd'},
                                             {"no-store", no_argument, NULL, OPT_NO_STORE},
                                             {"allow-host", required_argument, NULL, OPT_ALLOW_HOST},
                                             {"max-connections", required_argument, NULL, OPT_CONNECTIONS},
                                             {"token-file", required_argument, NULL, OPT_TOKEN_FILE},
                                             {"keep-gb", required_argument, NULL, OPT_KEEP},
                                             {"keep-days", required_argument, NULL, OPT_KEEP_DAYS},
                                             {"store-gb", required_argument, NULL, OPT_STORE_GB},
                                             {"clickhouse", required_argument, NULL, OPT_CLICKHOUSE},
                                             {"look-seconds", required_argument, NULL, OPT_LOOK},
                                             {"idle-seconds", required_argument, NULL, OPT_IDLE},
                                             {0}};

struct serve {
    struct options *options;
    struct diagnosis *diagnosis;
    struct receiver *receiver;
    struct span_store *store;
    struct http_server *http; /* atomic: requests may come before it is here */
};

static void set_json(struct http_response *response, json_t *json)
{
    response->content_type = "application/json";
    response->body = json_dumps(json, JSON_INDENT(1));
    response->length = response->body ? strlen(response->body) : 0;
    json_decref(json);
}

/* The report now, as JSON or as an evidence page. Traces that wait for spans are left waiting. */
static void answer_report(struct serve *serve, struct http_response *response, bool page)
{
    struct report report = {0};
    struct judgement judgement = {0};
    struct text html = {0};
    receiver_lock(serve->receiver);
    int r = diagnosis_report(serve->diagnosis, &serve->options->common.judge, &report, &judgement);
    if (r == 0 && page)
        r = bundle_write(serve->diagnosis, &judgement, &report, &html);
    receiver_unlock(serve->receiver);
    if (r < 0) {
        response->status = 500;
    } else if (page) {
        response->content_type = "text/html; charset=utf-8";
        response->length = html.length;
        response->body = text_take(&html);
    } else {
        set_json(response, report_json(&report));
    }
    text_done(&html);
    judgement_done(&judgement);
    report_done(&report);
}

static uint64_t stored_spans(struct serve *serve);

static void answer_metrics(struct serve *serve, struct http_response *response)
{
    struct receiver_counts c;
    struct text text = {0};
    struct diagnosis_oddity odd[DIAGNOSIS_ODDITIES];
    struct report losses = {0};
    const struct http_server *server = __atomic_load_n(&serve->http, __ATOMIC_ACQUIRE);
    struct http_counts http = {0};
    if (server)
        http_server_get_counts(server, &http);
    receiver_get_counts(serve->receiver, &c);
    uint64_t stored = stored_spans(serve);
    receiver_lock(serve->receiver);
    size_t held = diagnosis_held_bytes(serve->diagnosis);
    uint64_t requests = diagnosis_book(serve->diagnosis)->counts.requests;
    diagnosis_oddities(serve->diagnosis, odd);
    diagnosis_report_losses(serve->diagnosis, &losses);
    receiver_unlock(serve->receiver);
    const struct {
        const char *name, *labels;
        uint64_t value;
    } lines[] = {{"sonde_received_batches_total", "", c.batches},
                 {"sonde_received_spans_total", "", c.spans},
                 {"sonde_received_bytes_total", "", c.bytes},
                 {"sonde_rejected_spans_total", "", c.rejected_spans},
                 {"sonde_refused_batches_total", "{reason=\"malformed\"}", c.refused_malformed},
                 {"sonde_refused_batches_total", "{reason=\"busy\"}", c.refused_busy},
                 {"sonde_refused_batches_total", "{reason=\"disk\"}", c.refused_disk},
                 {"sonde_refused_batches_total", "{reason=\"type\"}", c.refused_type},
                 {"sonde_store_errors_total", "", c.store.errors},
                 {"sonde_store_expirations_total", "", c.store.expirations},
                 {"sonde_journal_undecodable_batches_total", "", c.store.undecodable},
                 {"sonde_stored_spans", "", stored},
                 {"sonde_http_connections", "", http.connections},
                 {"sonde_http_connections_max", "", http.connections_max},
                 {"sonde_http_refused_connections_total", "", http.refused_connections},
                 {"sonde_http_refused_requests_total", "{reason=\"host\"}", http.refused_hosts},
                 {"sonde_http_refused_requests_total", "{reason=\"origin\"}", http.refused_origins},
                 {"sonde_http_refused_requests_total", "{reason=\"token\"}", http.refused_tokens},
                 {"sonde_requests_total", "", requests},
                 {"sonde_diagnosis_bytes", "", held}};
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        text_addf(&text, "%s%s %llu\n", lines[i].name, lines[i].labels, (unsigned long long)lines[i].value);
    for (size_t i = 0; i < DIAGNOSIS_ODDITIES; i++)
        text_addf(&text, "sonde_odd_spans_total{what=\"%s\"} %llu\n", odd[i].name,
                  (unsigned long long)odd[i].count);
    array_foreach (&losses.losses, loss)
        text_addf(&text, "sonde_lost_total{reason=\"%s\"} %llu\n", loss->reason,
                  (unsigned long long)loss->count);
    report_done(&losses);
    response->content_type = "text/plain; version=0.0.4";
    response->length = text.length;
    response->body = text_take(&text);
}

/* The stored spans of a trace, as JSON lines. */
static void answer_trace(struct serve *serve, const struct http_request *request,
                         struct http_response *response)
{
    const char *id = http_query(request, "id");
    struct text sql = {0}, rows = {0};
    uint64_t high, low;
    if (!serve->store || !id || strspn(id, "0123456789abcdefABCDEF") != strlen(id)) {
        response->status = serve->store ? 400 : 404;
        return;
    }
    span_id_parse(slice_of(id), &high, &low);
    text_addf(&sql, "SELECT * FROM spans WHERE trace_high = %llu AND trace_low = %llu ORDER BY start_ns",
              (unsigned long long)high, (unsigned long long)low);
    int r = serve->store->operations->query(serve->store, text_get(&sql), &rows, NULL);
    response->status = r < 0 ? 500 : 200;
    response->content_type = "application/x-ndjson";
    response->length = rows.length;
    response->body = text_take(&rows);
    text_done(&sql);
}

static int add_sketch(void *context, const char *const *values, size_t count, const struct sketch *sketch)
{
    struct text bytes = {0}, *to = context;
    sketch_write(sketch, &bytes);
    text_add(to, "{\"values\":[");
    for (size_t i = 0; i < count; i++) {
        text_add(to, i ? "," : "");
        span_json_string(to, slice_of(values[i]));
    }
    text_addf(to, "],\"count\":%llu,\"p95_ns\":%.0f,\"sketch\":\"", (unsigned long long)sketch->count,
              sketch_quantile(sketch, 0.95));
    for (size_t i = 0; i < bytes.length; i++)
        text_addf(to, "%02x", (unsigned char)text_get(&bytes)[i]);
    text_add(to, "\"}\n");
    int r = bytes.failed || to->failed ? -ENOMEM : 0;
    text_done(&bytes);
    return r;
}

/* The stored durations as sketches, one to a group, as JSON lines. */
static void answer_sketches(struct serve *serve, const struct http_request *request,
                            struct http_response *response)
{
    const char *by = http_query(request, "by");
    struct text rows = {0};
    int r = serve->store
                ? span_store_sketches(serve->store, by ? by : "service,name", add_sketch, &rows, NULL)
                : -ENOENT;
    response->status = r == -ENOENT ? 404 : r == -EINVAL ? 400 : r < 0 ? 500 : 200;
    response->content_type = "application/x-ndjson";
    response->length = rows.length;
    response->body = text_take(&rows);
}

static uint64_t stored_spans(struct serve *serve)
{
    struct text row = {0};
    unsigned long long count = 0;
    if (serve->store &&
        serve->store->operations->query(serve->store, "SELECT count(*) AS n FROM spans", &row, NULL) == 0)
        sscanf(text_get(&row), "{\"n\":\"%llu\"", &count);
    text_done(&row);
    return count;
}

static void handle(void *context, const struct http_request *request, struct http_response *response)
{
    struct serve *serve = context;
    if (receiver_handle(serve->receiver, request, response))
        return;
    bool get = strcmp(request->method, "GET") == 0;
    if (get && strcmp(request->path, "/api/diagnosis") == 0)
        answer_report(serve, response, false);
    else if (get && strcmp(request->path, "/evidence") == 0)
        answer_report(serve, response, true);
    else if (get && strcmp(request->path, "/metrics") == 0)
        answer_metrics(serve, response);
    else if (get && strcmp(request->path, "/api/sketches") == 0)
        answer_sketches(serve, request, response);
    else if (get && strcmp(request->path, "/api/trace") == 0)
        answer_trace(serve, request, response);
    else
        response->status = 404;
}

/* The requests behind today's findings: the slowest and typical ones of both sides of each. */
static size_t name_exemplars(void *context, struct trace_id *ids, size_t room)
{
    struct serve *serve = context;
    struct report report = {0};
    struct judgement judgement = {0};
    size_t n = 0;
    if (!serve->receiver)
        return 0;
    receiver_lock(serve->receiver);
    if (diagnosis_report(serve->diagnosis, &serve->options->common.judge, &report, &judgement) == 0)
        n = judgement_exemplars(diagnosis_book(serve->diagnosis), &judgement, ids, room);
    receiver_unlock(serve->receiver);
    judgement_done(&judgement);
    report_done(&report);
    return n;
}

/* The store is a help, not a condition: without its library the rest works. */
static int open_store(struct serve *serve, struct problem *problem)
{
    const struct options *o = serve->options;
    struct problem why = {0};
    char path[4096];
    if (o->no_store || !o->folder)
        return 0;
    int r = file_make_folder(o->folder);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", o->folder, strerror(-r));
    if (o->clickhouse)
        return clickhouse_store_open(o->clickhouse, &serve->store, problem);
    snprintf(path, sizeof(path), "%s/spans.duckdb", o->folder);
    r = duckdb_store_open(path, &serve->store, &why);
    if (r == -ENOENT) {
        fprintf(stderr, "sonde: raw spans are not kept: %s\n%s\n", why.what, why.remedy);
        return 0;
    }
    if (r < 0)
        *problem = why;
    return r;
}

static int wait_for_end(void)
{
    sigset_t signals;
    int signal;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    return sigwait(&signals, &signal);
}

static int run(struct options *options, const char *token, struct problem *problem)
{
    _cleanup_(diagnosis_freep) struct diagnosis *diagnosis = NULL;
    _cleanup_(span_store_closep) struct span_store *store = NULL;
    struct serve serve = {.options = options};
    struct diagnosis_settings settings;
    int r = diagnose_options_settings(&options->common, &settings, problem);
    if (r == 0)
        r = diagnosis_new(&settings, &diagnosis);
    if (r == 0)
        r = open_store(&serve, problem);
    store = serve.store;
    serve.diagnosis = diagnosis;
    if (r < 0)
        return r;
    struct receiver_settings receiver_settings = {.folder = options->folder,
                                                  .diagnosis = diagnosis,
                                                  .store = store,
                                                  .keep_bytes = (uint64_t)(options->keep_gb * 1e9),
                                                  .store_keep_ns = (uint64_t)(options->keep_days * 86400e9),
                                                  .store_keep_bytes = (uint64_t)(options->store_gb * 1e9),
                                                  .store_look_ns = (uint64_t)(options->look_s * 1e9),
                                                  .idle_ns = (uint64_t)(options->idle_s * 1e9),
                                                  .exemplars = name_exemplars,
                                                  .exemplars_context = &serve};
    _cleanup_(receiver_freep) struct receiver *receiver = NULL;
    r = receiver_new(&receiver_settings, &receiver, problem);
    if (r < 0)
        return r;
    serve.receiver = receiver;
    serve.store = store;
    _cleanup_(http_server_stopp) struct http_server *server = NULL;
    struct http_settings http = {.address = options->listen,
                                 .handle = handle,
                                 .context = &serve,
                                 .token = token,
                                 .connections_max = options->connections_max,
                                 .names = options->hosts};
    r = http_server_start(&http, &server, problem);
    if (r < 0)
        return r;
    __atomic_store_n(&serve.http, server, __ATOMIC_RELEASE);
    fprintf(stderr, "sonde: receiving OTLP on port %u (/v1/traces); /api/diagnosis and /evidence answer\n",
            http_server_port(server));
    wait_for_end();
    return 0;
}

static int parse(const struct command *self, int argc, char **argv, struct options *options)
{
    int c;
    while ((c = getopt_long(argc, argv, "d:", LONG_OPTIONS, NULL)) != -1) {
        if (c == OPT_LISTEN)
            options->listen = optarg;
        else if (c == 'd')
            options->folder = optarg;
        else if (c == OPT_NO_STORE)
            options->no_store = true;
        else if (c == OPT_TOKEN_FILE)
            options->token_file = optarg;
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
        else if (c == OPT_CONNECTIONS && (options->connections_max = (unsigned)strtoul(optarg, NULL, 10)))
            continue;
        else if (c == OPT_ALLOW_HOST && options->host_count < HOSTS_MAX)
            options->hosts[options->host_count++] = optarg;
        else if (c == OPT_IDLE)
            options->idle_s = strtod(optarg, NULL);
        else if (!diagnose_options_take(&options->common, c, optarg))
            return cli_usage(self, "option or value not understood");
    }
    return optind < argc ? cli_usage(self, "unexpected argument '%s'", argv[optind]) : EXIT_DONE;
}

static int cmd_serve(const struct command *self, int argc, char **argv)
{
    struct options options = {.listen = "127.0.0.1:4318", .keep_gb = 16};
    struct problem problem = {0};
    _cleanup_(freep) char *token = NULL;
    sigset_t signals;
    int status = parse(self, argc, argv, &options), r = 0;
    if (status != EXIT_DONE)
        return status;
    sigemptyset(&signals); /* before any thread is made */
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (options.token_file) {
        r = file_read(options.token_file, 4096, &token, NULL);
        if (r < 0)
            problem_set(&problem, r, "%s: %s", options.token_file, strerror(-r));
        else
            token[strcspn(token, "\r\n")] = '\0';
    }
    if (r == 0)
        r = run(&options, token, &problem);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s", strerror(-r));
    diagnose_options_done(&options.common);
    return r < 0 ? cli_fail(r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem) : EXIT_DONE;
}

const struct command command_serve = {
    .name = "serve",
    .arguments = "[--listen ADDRESS:PORT] [--data DIR] [OPTION...]",
    .summary = "Receive spans over OTLP/HTTP, keep them, and answer what got slower",
    .help =
        "Options:\n"
        "  --listen ADDRESS:PORT       default 127.0.0.1:4318, OpenTelemetry's own port\n"
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
        "  --token-file FILE           ask for this token; needed beyond loopback\n" DIAGNOSE_OPTIONS_HELP
        "\n"
        "Answers:  POST /v1/traces    GET /api/diagnosis    GET /api/trace?id=ID\n"
        "          GET /evidence       GET /metrics         GET /api/sketches?by=service,name\n\n"
        "Examples:\n"
        "  sonde serve --data /var/lib/sonde\n"
        "  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node --require @opentelemetry/... server.js\n",
    .run = cmd_serve,
};
