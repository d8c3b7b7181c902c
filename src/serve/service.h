/* Everything that `sonde serve` answers: the page and its API, the Trace Server, OTLP, and what the diagnosis
 * of received spans has found. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_SERVICE_H
#define SERVE_SERVICE_H

#include "http/grpc_server.h"
#include "http/server.h"
#include "serve/api.h"
#include "serve/tsp.h"
#include "serve/watcher.h"

/* All borrowed. */
struct service {
    struct diagnosis *diagnosis;
    const struct judge_settings *judge;
    struct receiver *receiver;
    struct span_store *store; /* NULL: spans are not kept */
    struct watcher *watcher;
    struct http_server *http; /* atomic: requests may come before it is here */
    struct grpc_server *grpc; /* atomic; NULL: there is none */
    struct api api;
    struct tsp *tsp;
};

/* Answers any request. context is the service. */
void service_handle(void *context, const struct http_request *request, struct http_response *response);

/* GET /metrics (metrics.c). */
void service_answer_metrics(struct service *service, struct http_response *response);

/* For struct api: appends the document of what got slower, and whether there are spans to compare. */
int service_add_regressions(void *context, struct text *to);
bool service_has_spans(void *context);

/* For the receiver: the requests behind today's findings, the slowest and typical ones of both sides of each.
 * Returns how many. */
size_t service_exemplars(void *context, struct trace_id *ids, size_t room);

#endif
