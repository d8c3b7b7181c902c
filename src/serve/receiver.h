/* The OTLP receiver: batches over HTTP and gRPC into the journal, then into a diagnosis, and by a keeper into
 * a store. A batch is decoded before it is acknowledged, and its spans are handed on as they are; it is
 * acknowledged once it is in the journal on disk. What happens behind the acknowledgement happens in the
 * journal's own order, so that a restart repeats it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_RECEIVER_H
#define SERVE_RECEIVER_H

#include <pthread.h>

#include "diagnose/diagnosis.h"
#include "http/grpc_server.h"
#include "http/server.h"
#include "serve/keeper.h"

struct receiver_settings {
    const char *folder;          /* of the journal; NULL: batches are kept in memory only */
    struct diagnosis *diagnosis; /* borrowed */
    struct span_store *store;    /* borrowed; NULL: no raw spans are kept; needs a folder */
    uint64_t store_keep_ns, store_keep_bytes, store_look_ns; /* see struct keeper_settings */
    size_t (*exemplars)(void *context, struct trace_id *ids, size_t room);
    void *exemplars_context;
    uint64_t keep_bytes; /* of the journal; 0: all */
    uint64_t idle_ns;    /* after which a trace is complete; 0: 10 s */
    size_t queue_max;    /* bytes that wait behind the acknowledgement; 0: 256 MiB. Above: 503 */
    size_t held_max; /* of these in memory, with their spans, and half as much that waits for the store; 0: 32
                      * MiB. Others are read from the journal when it is time */
};

struct receiver_counts {
    uint64_t batches, spans, bytes;
    uint64_t rejected_spans; /* in batches that were accepted: without ids or times */
    uint64_t unread_batches; /* that could not be read from the journal again: they are not diagnosed */
    uint64_t decoded_again;  /* batches whose spans could not be held until they were diagnosed */
    uint64_t refused_malformed, refused_busy, refused_disk, refused_type;
    struct keeper_counts store;
};

struct receiver;

/* Replays what the journal keeps into the diagnosis, and into the store what it lacks; then ready for
 * batches. */
int receiver_new(const struct receiver_settings *settings, struct receiver **ret_receiver,
                 struct problem *problem);

/* Handles /v1/traces; false when the path is another one. Safe from several threads. */
bool receiver_handle(struct receiver *receiver, const struct http_request *request,
                     struct http_response *response);

/* Handles calls of opentelemetry.proto.collector.trace.v1.TraceService. Safe from several threads. */
void receiver_handle_call(struct receiver *receiver, const struct grpc_call *call,
                          struct grpc_answer *answer);

/* Holds the thread behind, for reading the diagnosis: between these calls it does not change. */
void receiver_lock(struct receiver *receiver);
void receiver_unlock(struct receiver *receiver);

/* Waits until all acknowledged batches are in the diagnosis, and those of the store committed. */
void receiver_drain(struct receiver *receiver);

void receiver_get_counts(struct receiver *receiver, struct receiver_counts *ret_counts);

/* Drains, then stops. */
void receiver_free(struct receiver *receiver);
DEFINE_FREEP(struct receiver, receiver_free)

#endif
