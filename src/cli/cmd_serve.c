/* sonde serve: receives spans over OTLP/HTTP, keeps them, and answers what got slower. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/diagnose_options.h"
#include "diagnose/bundle.h"
#include "serve/api.h"
#include "serve/clickhouse.h"
#include "serve/links.h"
#include "serve/span_paths.h"
#include "serve/tsp.h"
#include "serve/watcher.h"

#define HOSTS_MAX   16
#define SOURCES_MAX 64
#define ADDRESS     256

enum { FINDINGS_SHOWN = 10 };

struct options {
    struct diagnose_options common;
    const char *listen, *grpc, *folder, *token_file, *send_token_file, *clickhouse;
    bool no_store;
    double keep_gb, keep_days, store_gb, look_s, idle_s;
    unsigned connections_max;
    struct notifier notifier;
    struct action_settings action;
    double every_s;
    const char *hosts[HOSTS_MAX + 1]; /* ends with NULL */
    size_t host_count;
    bool no_keep;
    char **paths;
    size_t path_count;
};

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

struct serve {
    struct options *options;
    struct diagnosis *diagnosis;
    struct receiver *receiver;
    struct span_store *store;
    struct http_server *http; /* atomic: requests may come before it is here */
    struct grpc_server *grpc; /* atomic; NULL without --grpc */
    struct watcher *watcher;
    struct source *sources[SOURCES_MAX];
    struct api api;
    struct tsp *tsp;
};

static void set_json(struct http_response *response, json_t *json)
{
    response->content_type = "application/json";
    response->body = json_dumps(json, JSON_INDENT(1));
    response->length = response->body ? strlen(response->body) : 0;
    json_decref(json);
}

/* The report now. Traces that wait for spans are left waiting. */
static int report_now(struct serve *serve, struct report *report, struct text *bundle)
{
    struct judgement judgement = {0};
    receiver_lock(serve->receiver);
    int r = diagnosis_report(serve->diagnosis, &serve->options->common.judge, report, &judgement);
    if (r == 0 && bundle)
        r = bundle_document(serve->diagnosis, &judgement, report, bundle);
    receiver_unlock(serve->receiver);
    judgement_done(&judgement);
    return r;
}

static void answer_report(struct serve *serve, struct http_response *response)
{
    struct report report = {0};
    if (report_now(serve, &report, NULL) < 0)
        response->status = 500;
    else
        set_json(response, report_json(&report));
    report_done(&report);
}

/* For the page (struct api). */
static int add_regressions(void *context, struct text *to)
{
    struct report report = {0};
    int r = report_now(context, &report, to);
    report_done(&report);
    return r;
}

static bool has_spans(void *context)
{
    struct serve *serve = context;
    receiver_lock(serve->receiver);
    bool has = diagnosis_counts(serve->diagnosis)->spans > 0;
    receiver_unlock(serve->receiver);
    return has;
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
    const struct grpc_server *grpc_server = __atomic_load_n(&serve->grpc, __ATOMIC_ACQUIRE);
    struct grpc_counts grpc = {0};
    if (grpc_server)
        grpc_server_get_counts(grpc_server, &grpc);
    struct watcher_counts watched;
    watcher_get_counts(serve->watcher, &watched);
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
                 {"sonde_grpc_connections", "", grpc.connections},
                 {"sonde_grpc_connections_max", "", grpc.connections_max},
                 {"sonde_grpc_refused_connections_total", "", grpc.refused_connections},
                 {"sonde_grpc_broken_connections_total", "", grpc.broken_connections},
                 {"sonde_grpc_refused_calls_total", "{reason=\"token\"}", grpc.refused_tokens},
                 {"sonde_requests_total", "", requests},
                 {"sonde_looks_total", "", watched.looks},
                 {"sonde_alerts_firing", "", watched.firing},
                 {"sonde_alerts_total", "{event=\"fired\"}", watched.fired},
                 {"sonde_alerts_total", "{event=\"resolved\"}", watched.resolved},
                 {"sonde_notifications_total", "{result=\"sent\"}", watched.told},
                 {"sonde_notifications_total", "{result=\"failed\"}", watched.untold},
                 {"sonde_actions_total", "", watched.actions},
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

static uint64_t number_of(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);
    return json_is_string(value) ? strtoull(json_string_value(value), NULL, 10)
                                 : (uint64_t)json_integer_value(value);
}

/* Ids as every tracer writes them, in the place of the store's numbers. */
static void spell_ids(const char *rows, struct text *to)
{
    for (const char *at = rows, *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        json_t *row = json_loadb(at, (size_t)(end - at), 0, NULL);
        if (!row)
            continue;
        char id[40];
        snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, number_of(row, "trace_high"),
                 number_of(row, "trace_low"));
        json_object_set_new(row, "trace_id", json_string(id));
        snprintf(id, sizeof(id), "%016" PRIx64, number_of(row, "id"));
        json_object_set_new(row, "span_id", json_string(id));
        snprintf(id, sizeof(id), "%016" PRIx64, number_of(row, "parent"));
        json_object_set_new(row, "parent_span_id", json_string(number_of(row, "parent") ? id : ""));
        json_object_del(row, "trace_high");
        json_object_del(row, "trace_low");
        json_object_del(row, "id");
        json_object_del(row, "parent");
        char *line = json_dumps(row, JSON_COMPACT);
        text_addf(to, "%s\n", line ? line : "");
        free(line);
        json_decref(row);
    }
}

/* The stored spans of a trace, as JSON lines. */
static void answer_trace(struct serve *serve, const struct http_request *request,
                         struct http_response *response)
{
    const char *id = http_query(request, "id");
    struct text sql = {0}, rows = {0}, spelled = {0};
    uint64_t high, low;
    if (!serve->store || !id || strspn(id, "0123456789abcdefABCDEF") != strlen(id)) {
        response->status = serve->store ? 400 : 404;
        return;
    }
    span_id_parse(slice_of(id), &high, &low);
    text_addf(&sql, "SELECT * FROM spans WHERE trace_high = %llu AND trace_low = %llu ORDER BY start_ns",
              (unsigned long long)high, (unsigned long long)low);
    int r = serve->store->operations->query(serve->store, text_get(&sql), &rows, NULL);
    response->status = r < 0 ? 500 : rows.length ? 200 : 404;
    if (r == 0)
        spell_ids(text_get(&rows), &spelled);
    response->content_type = "application/x-ndjson";
    response->length = spelled.length;
    response->body = text_take(&spelled);
    text_done(&rows);
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

/* GET: all alerts. POST with ?id=FINGERPRINT: somebody takes care of it. */
static void answer_alerts(struct serve *serve, const struct http_request *request,
                          struct http_response *response)
{
    if (strcmp(request->method, "GET") == 0) {
        set_json(response, watcher_alerts(serve->watcher));
        return;
    }
    const char *id = http_query(request, "id");
    char *end = NULL;
    uint64_t fingerprint = id ? strtoull(id, &end, 16) : 0;
    if (strcmp(request->method, "POST") != 0)
        response->status = 405;
    else if (!id || end == id || *end)
        response->status = 400;
    else
        response->status = watcher_acknowledge(serve->watcher, fingerprint) < 0 ? 404 : 204;
}

/* 200 while batches can be taken and stored, else 503 and why. */
static void answer_health(struct serve *serve, struct http_response *response)
{
    struct receiver_counts counts;
    receiver_get_counts(serve->receiver, &counts);
    bool stores = !serve->store || !counts.store.last_error[0];
    response->status = stores ? 200 : 503;
    set_json(response, json_pack("{s:s, s:s}", "status", stores ? "ok" : "the store fails", "error",
                                 stores ? "" : counts.store.last_error));
}

static void handle(void *context, const struct http_request *request, struct http_response *response)
{
    struct serve *serve = context;
    if (receiver_handle(serve->receiver, request, response) || api_handle(&serve->api, request, response) ||
        tsp_handle(serve->tsp, request, response))
        return;
    bool get = strcmp(request->method, "GET") == 0;
    if (get && strcmp(request->path, "/api/diagnosis") == 0)
        answer_report(serve, response);
    else if (strcmp(request->path, "/api/alerts") == 0)
        answer_alerts(serve, request, response);
    else if (get && strcmp(request->path, "/healthz") == 0)
        answer_health(serve, response);
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

/* Judges from now on; what fired and what was done stands beside the journal. */
static int start_watching(struct serve *serve, struct problem *problem)
{
    struct options *o = serve->options;
    static char history[4096], audit[4096];
    if (o->folder) {
        snprintf(history, sizeof(history), "%s/alerts.jsonl", o->folder);
        snprintf(audit, sizeof(audit), "%s/audit.jsonl", o->folder);
        o->action.audit = o->action.audit ? o->action.audit : audit;
    }
    const struct watcher_settings settings = {.diagnosis = serve->diagnosis,
                                              .receiver = serve->receiver,
                                              .judge = o->common.judge,
                                              .notifier = o->notifier,
                                              .action = o->action,
                                              .history = o->folder ? history : NULL,
                                              .every_s = o->every_s};
    return watcher_new(&settings, &serve->watcher, problem);
}

/* Prints where the page shows the findings of a recording that has been read by now. False: it is still read.
 */
static bool print_findings(struct source *source, size_t number, const char *base)
{
    struct source_status status;
    struct text document = {0}, links = {0};
    source_get_status(source, &status);
    if (status.state == SOURCE_READING)
        return false;
    source_document(source, &document);
    if (status.state == SOURCE_READY && document.length)
        links_add(text_get(&document), base, number, FINDINGS_SHOWN, &links);
    fputs(text_get(&links), stderr);
    text_done(&document);
    text_done(&links);
    return true;
}

static void wait_for_end(struct serve *serve, const char *base)
{
    const struct timespec soon = {.tv_nsec = 100000000};
    size_t printed = 0;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    for (;;) {
        while (printed < serve->api.count && print_findings(serve->sources[printed], printed, base))
            printed++;
        int signal = sigtimedwait(&signals, NULL, printed < serve->api.count ? &soon : NULL);
        if (signal > 0 || (errno != EAGAIN && errno != EINTR))
            return;
    }
}

static int open_sources(struct serve *serve, struct problem *problem)
{
    const struct options *o = serve->options;
    int r = 0;
    serve->api = (struct api){
        .sources = serve->sources, .regressions = add_regressions, .has_spans = has_spans, .context = serve};
    receiver_lock(serve->receiver);
    r = span_paths_read((const char *const *)o->paths, o->path_count, serve->diagnosis, problem);
    receiver_unlock(serve->receiver);
    for (size_t i = 0; r >= 0 && i < o->path_count; i++) {
        if (span_path(o->paths[i]))
            continue;
        r = source_new(o->paths[i], !o->no_keep, &serve->sources[serve->api.count], problem);
        serve->api.count += r >= 0;
    }
    return r;
}

static void close_sources(struct serve *serve)
{
    for (size_t i = 0; i < serve->api.count; i++)
        source_cancel(serve->sources[i]); /* all at once */
    for (size_t i = 0; i < serve->api.count; i++)
        source_free(serve->sources[i]);
    tsp_free(serve->tsp);
}

/* Where a browser finds the page: "http://host:port/". */
static void print_address(const struct options *options, uint16_t port, const char *token, char base[ADDRESS])
{
    const char *colon = strrchr(options->listen, ':');
    int length = colon ? (int)(colon - options->listen) : 0;
    bool any = strncmp(options->listen, "0.0.0.0:", 8) == 0 || strncmp(options->listen, "[::]:", 5) == 0;
    snprintf(base, ADDRESS, "http://%.*s:%u/%s", any || !length ? 9 : length,
             any || !length ? "127.0.0.1" : options->listen, port, token ? "t/TOKEN/" : "");
    fprintf(stderr, "sonde: the page is at %s%s\n", base, token ? ", with the token in place of TOKEN" : "");
    if (options->path_count)
        fprintf(stderr,
                "sonde: other viewers of traces (Trace Server Protocol " TSP_VERSION ") find it below %s\n",
                token ? "/t/TOKEN" TSP_PATH : TSP_PATH);
}

static void take_call(void *context, const struct grpc_call *call, struct grpc_answer *answer)
{
    struct serve *serve = context;
    receiver_handle_call(serve->receiver, call, answer);
}

static int start_grpc(struct serve *serve, const char *token, struct problem *problem)
{
    const struct options *o = serve->options;
    struct grpc_server *server;
    struct grpc_settings settings = {.address = o->grpc,
                                     .token = token,
                                     .connections_max = o->connections_max,
                                     .handle = take_call,
                                     .context = serve};
    if (!o->grpc)
        return 0;
    int r = grpc_server_start(&settings, &server, problem);
    if (r < 0)
        return r;
    __atomic_store_n(&serve->grpc, server, __ATOMIC_RELEASE);
    fprintf(stderr, "sonde: receiving OTLP/gRPC on port %u\n", grpc_server_port(server));
    return 0;
}

static int run(struct options *options, const char *token, const char *send_token, struct problem *problem)
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
    _cleanup_(watcher_freep) struct watcher *watcher = NULL;
    r = start_watching(&serve, problem);
    watcher = serve.watcher;
    if (r < 0)
        return r;
    r = open_sources(&serve, problem);
    if (r < 0) {
        close_sources(&serve);
        return r;
    }
    struct http_server *server = NULL;
    char base[ADDRESS];
    struct http_settings http = {.address = options->listen,
                                 .handle = handle,
                                 .context = &serve,
                                 .token = token,
                                 .send_token = send_token,
                                 .connections_max = options->connections_max,
                                 .names = options->hosts,
                                 .open_path = TSP_PATH};
    r = tsp_new(serve.sources, serve.api.count, &serve.tsp);
    if (r == 0)
        r = http_server_start(&http, &server, problem);
    if (r < 0) {
        close_sources(&serve);
        return r;
    }
    __atomic_store_n(&serve.http, server, __ATOMIC_RELEASE);
    print_address(options, http_server_port(server), token, base);
    fprintf(stderr, "sonde: receiving OTLP on port %u (/v1/traces); /api/diagnosis and /evidence answer\n",
            http_server_port(server));
    r = start_grpc(&serve, send_token ? send_token : token, problem);
    if (r == 0)
        wait_for_end(&serve, base);
    http_server_stop(server);
    grpc_server_stop(serve.grpc);
    close_sources(&serve);
    return r;
}

/* What is done when a version is slower. */
static bool take_watching(struct options *o, int c, const char *value)
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

static int parse(const struct command *self, int argc, char **argv, struct options *options)
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
        else if (c == OPT_ALLOW_HOST && options->host_count < HOSTS_MAX)
            options->hosts[options->host_count++] = optarg;
        else if (c == OPT_IDLE)
            options->idle_s = strtod(optarg, NULL);
        else if (!take_watching(options, c, optarg) && !diagnose_options_take(&options->common, c, optarg))
            return cli_usage(self, "option or value not understood");
    }
    options->paths = argv + optind;
    options->path_count = (size_t)(argc - optind);
    return options->path_count > SOURCES_MAX
               ? cli_usage(self, "at most %d recordings and profiles", SOURCES_MAX)
               : EXIT_DONE;
}

#define TOKEN_MIN 16 /* characters: a shorter one can be guessed */

/* The first line of a file that only its owner may read. */
static int read_token(const char *path, char **ret_token, struct problem *problem)
{
    _cleanup_(freep) char *token = NULL;
    struct stat st;
    int r = stat(path, &st) < 0 ? -errno : file_read(path, 4096, &token, NULL);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", path, strerror(-r));
    token[strcspn(token, "\r\n")] = '\0';
    if (S_ISREG(st.st_mode) && st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) {
        problem_set(problem, -EPERM, "%s may be read or written by others", path);
        problem_remedy(problem, "chmod 600 %s", path);
        return -EPERM;
    }
    if (strlen(token) < TOKEN_MIN) {
        problem_set(problem, -EINVAL, "%s: the token has less than %d characters", path, TOKEN_MIN);
        problem_remedy(problem, "head -c 24 /dev/urandom | base64 > %s", path);
        return -EINVAL;
    }
    *ret_token = token;
    token = NULL;
    return 0;
}

static int cmd_serve(const struct command *self, int argc, char **argv)
{
    struct options options = {.listen = "127.0.0.1:4318", .keep_gb = 16};
    struct problem problem = {0};
    _cleanup_(freep) char *token = NULL, *send_token = NULL;
    sigset_t signals;
    int status = parse(self, argc, argv, &options), r = 0;
    if (status != EXIT_DONE)
        return status;
    sigemptyset(&signals); /* before any thread is made */
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (options.token_file)
        r = read_token(options.token_file, &token, &problem);
    if (r == 0 && options.send_token_file)
        r = read_token(options.send_token_file, &send_token, &problem);
    if (r == 0)
        r = run(&options, token, send_token, &problem);
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s", strerror(-r));
    diagnose_options_done(&options.common);
    return r < 0 ? cli_fail(r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem) : EXIT_DONE;
}

const struct command command_serve = {
    .name = "serve",
    .arguments = "[--listen ADDRESS:PORT] [--data DIR] [OPTION...] [PATH...]",
    .summary =
        "Show recordings and profiles as a web page; receive spans over OTLP/HTTP and say what got slower",
    .help =
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
        "  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node --require @opentelemetry/... server.js\n",
    .run = cmd_serve,
};
