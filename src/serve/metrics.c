/* What `sonde serve` says about itself: GET /metrics, in the text format of Prometheus. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/array.h"
#include "serve/service.h"

static uint64_t stored_spans(struct service *service)
{
    struct text row = {0};
    unsigned long long count = 0;
    if (service->store &&
        service->store->operations->query(service->store, "SELECT count(*) AS n FROM spans", &row, NULL) == 0)
        sscanf(text_get(&row), "{\"n\":\"%llu\"", &count);
    text_done(&row);
    return count;
}

void service_answer_metrics(struct service *service, struct http_response *response)
{
    struct receiver_counts c;
    struct text text = {0};
    struct diagnosis_oddity odd[DIAGNOSIS_ODDITIES];
    struct report losses = {0};
    const struct http_server *server = __atomic_load_n(&service->http, __ATOMIC_ACQUIRE);
    struct http_counts http = {0};
    if (server)
        http_server_get_counts(server, &http);
    const struct grpc_server *grpc_server = __atomic_load_n(&service->grpc, __ATOMIC_ACQUIRE);
    struct grpc_counts grpc = {0};
    if (grpc_server)
        grpc_server_get_counts(grpc_server, &grpc);
    struct watcher_counts watched;
    watcher_get_counts(service->watcher, &watched);
    receiver_get_counts(service->receiver, &c);
    uint64_t stored = stored_spans(service);
    receiver_lock(service->receiver);
    size_t held = diagnosis_held_bytes(service->diagnosis);
    uint64_t requests = diagnosis_book(service->diagnosis)->counts.requests;
    diagnosis_oddities(service->diagnosis, odd);
    diagnosis_report_losses(service->diagnosis, &losses);
    receiver_unlock(service->receiver);
    const struct {
        const char *name, *labels;
        uint64_t value;
    } lines[] = {{"sonde_received_batches_total", "", c.batches},
                 {"sonde_received_spans_total", "", c.spans},
                 {"sonde_received_bytes_total", "", c.bytes},
                 {"sonde_rejected_spans_total", "", c.rejected_spans},
                 {"sonde_unread_batches_total", "", c.unread_batches},
                 {"sonde_redecoded_batches_total", "{by=\"diagnosis\"}", c.decoded_again},
                 {"sonde_redecoded_batches_total", "{by=\"store\"}", c.store.reread},
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
                 {"sonde_http_slow_connections_total", "", http.slow_connections},
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
    response->content_type = HTTP_METRICS;
    response->length = text.length;
    response->body = text_take(&text);
}
