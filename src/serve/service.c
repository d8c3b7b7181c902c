/* See service.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/schema.h"
#include "diagnose/bundle.h"

static void set_json(struct http_response *response, json_t *json)
{
    response->content_type = "application/json";
    response->body = json_dumps(json, JSON_INDENT(1));
    response->length = response->body ? strlen(response->body) : 0;
    json_decref(json);
}

/* The report now. Traces that wait for spans are left waiting. */
static int report_now(struct service *service, struct report *report, struct text *bundle)
{
    struct judgement judgement = {0};
    receiver_lock(service->receiver);
    int r = diagnosis_report(service->diagnosis, service->judge, report, &judgement);
    if (r == 0 && bundle)
        r = bundle_document(service->diagnosis, &judgement, report, bundle);
    receiver_unlock(service->receiver);
    judgement_done(&judgement);
    return r;
}

static void answer_report(struct service *service, struct http_response *response)
{
    struct report report = {0};
    if (report_now(service, &report, NULL) < 0)
        response->status = 500;
    else
        set_json(response, report_json(&report));
    report_done(&report);
}

int service_add_regressions(void *context, struct text *to)
{
    struct report report = {0};
    int r = report_now(context, &report, to);
    report_done(&report);
    return r;
}

bool service_has_spans(void *context)
{
    struct service *service = context;
    receiver_lock(service->receiver);
    bool has = diagnosis_counts(service->diagnosis)->spans > 0;
    receiver_unlock(service->receiver);
    return has;
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
static void answer_trace(struct service *service, const struct http_request *request,
                         struct http_response *response)
{
    const char *id = http_query(request, "id");
    struct text sql = {0}, rows = {0}, spelled = {0};
    uint64_t high, low;
    if (!service->store || !id || strspn(id, "0123456789abcdefABCDEF") != strlen(id)) {
        response->status = service->store ? 400 : 404;
        return;
    }
    span_id_parse(slice_of(id), &high, &low);
    text_addf(&sql, "SELECT * FROM spans WHERE trace_high = %llu AND trace_low = %llu ORDER BY start_ns",
              (unsigned long long)high, (unsigned long long)low);
    int r = service->store->operations->query(service->store, text_get(&sql), &rows, NULL);
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
static void answer_sketches(struct service *service, const struct http_request *request,
                            struct http_response *response)
{
    const char *by = http_query(request, "by");
    struct text rows = {0};
    int r = service->store
                ? span_store_sketches(service->store, by ? by : "service,name", add_sketch, &rows, NULL)
                : -ENOENT;
    response->status = r == -ENOENT ? 404 : r == -EINVAL ? 400 : r < 0 ? 500 : 200;
    response->content_type = "application/x-ndjson";
    response->length = rows.length;
    response->body = text_take(&rows);
}

/* GET: all alerts. POST with ?id=FINGERPRINT: somebody takes care of it. */
static void answer_alerts(struct service *service, const struct http_request *request,
                          struct http_response *response)
{
    if (strcmp(request->method, "GET") == 0) {
        set_json(response, watcher_alerts(service->watcher));
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
        response->status = watcher_acknowledge(service->watcher, fingerprint) < 0 ? 404 : 204;
}

/* 200 while batches can be taken and stored, else 503 and why. */
static void answer_health(struct service *service, struct http_response *response)
{
    struct receiver_counts counts;
    receiver_get_counts(service->receiver, &counts);
    bool stores = !service->store || !counts.store.last_error[0];
    response->status = stores ? 200 : 503;
    set_json(response,
             json_pack("{s:i, s:s, s:s}", "schema", SCHEMA_health, "status",
                       stores ? "ok" : "the store fails", "error", stores ? "" : counts.store.last_error));
}

void service_handle(void *context, const struct http_request *request, struct http_response *response)
{
    struct service *service = context;
    if (receiver_handle(service->receiver, request, response) ||
        api_handle(&service->api, request, response) || tsp_handle(service->tsp, request, response))
        return;
    bool get = strcmp(request->method, "GET") == 0;
    if (get && strcmp(request->path, "/api/diagnosis") == 0)
        answer_report(service, response);
    else if (strcmp(request->path, "/api/alerts") == 0)
        answer_alerts(service, request, response);
    else if (get && strcmp(request->path, "/healthz") == 0)
        answer_health(service, response);
    else if (get && strcmp(request->path, "/metrics") == 0)
        service_answer_metrics(service, response);
    else if (get && strcmp(request->path, "/api/sketches") == 0)
        answer_sketches(service, request, response);
    else if (get && strcmp(request->path, "/api/trace") == 0)
        answer_trace(service, request, response);
    else
        response->status = 404;
}

size_t service_exemplars(void *context, struct trace_id *ids, size_t room)
{
    struct service *service = context;
    struct report report = {0};
    struct judgement judgement = {0};
    size_t n = 0;
    if (!service->receiver)
        return 0;
    receiver_lock(service->receiver);
    if (diagnosis_report(service->diagnosis, service->judge, &report, &judgement) == 0)
        n = judgement_exemplars(diagnosis_book(service->diagnosis), &judgement, ids, room);
    receiver_unlock(service->receiver);
    judgement_done(&judgement);
    report_done(&report);
    return n;
}
