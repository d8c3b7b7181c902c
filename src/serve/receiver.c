/* See receiver.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/receiver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "page/page.h"
#include "span/batch.h"

#define QUEUE_MAX ((size_t)256 << 20)
#define HELD_MAX  ((size_t)32 << 20)
#define IDLE_NS   (10 * NS_PER_S) /* OpenTelemetry's SDKs wait 5 s before they send */

/* A batch that was acknowledged and waits for the thread behind. */
struct batch {
    struct batch *next;
    struct span_batch *spans;            /* NULL: only in the journal */
    size_t length;                       /* unpacked */
    size_t held;                         /* bytes of memory */
    struct journal_position before, end; /* batches are taken in the journal's order, none left out */
};

struct receiver {
    struct receiver_settings settings;
    struct journal *journal;
    struct keeper *keeper;
    pthread_t thread;
    bool started, stopping;
    pthread_mutex_t queue_lock;
    pthread_cond_t queued, drained;
    struct batch *first, **last;
    size_t queued_bytes, held_bytes; /* of all that wait, and of those in memory */
    struct journal_reader reader;    /* for the others */
    bool busy;
    pthread_mutex_t state_lock;    /* of the diagnosis */
    struct journal_position next;  /* the end of the last batch that left the queue; under queue_lock */
    struct receiver_counts counts; /* under queue_lock */
};

/* A batch that was left in the journal; NULL when it cannot be read, which is counted: it is acknowledged and
 * stays there. It is decoded a second time here, for all who want its spans. */
static struct span_batch *read_from_journal(struct receiver *r, const struct batch *batch)
{
    struct journal_reader *reader = &r->reader;
    struct span_batch *spans = NULL;
    const void *bytes;
    uint32_t kind;
    size_t length;
    journal_reader_seek(reader, batch->before);
    int error = journal_reader_next(reader, &kind, &bytes, &length);
    bool is_it =
        error > 0 && reader->at.segment == batch->end.segment && reader->at.offset == batch->end.offset;
    if (is_it && span_batch_new(kind, bytes, length, &spans) == 0 && r->keeper)
        span_batch_decode(spans, r->settings.held_max, NULL);
    pthread_mutex_lock(&r->queue_lock);
    r->counts.decoded_again += spans != NULL;
    r->counts.unread_batches += !spans;
    pthread_mutex_unlock(&r->queue_lock);
    return spans;
}

static int diagnose(struct receiver *r, const struct span_batch *spans)
{
    struct span_sink *sink = diagnosis_sink(r->settings.diagnosis);
    int error = span_batch_read(spans, sink);
    sink->counts.malformed += error == -EBADMSG;
    return error;
}

static void free_batch(struct batch *batch)
{
    span_batch_unref(batch->spans);
    free(batch);
}

static bool follows(const struct receiver *r, const struct batch *batch)
{
    return !r->journal ||
           (batch->before.segment == r->next.segment && batch->before.offset == r->next.offset);
}

static struct batch *next_batch(struct receiver *r)
{
    struct timespec until;
    pthread_mutex_lock(&r->queue_lock);
    r->busy = false;
    if (!r->first || !follows(r, r->first)) {
        if (!r->first)
            pthread_cond_broadcast(&r->drained);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&r->queued, &r->queue_lock, &until);
    }
    struct batch *batch = r->first && follows(r, r->first) ? r->first : NULL;
    if (batch) {
        r->first = batch->next;
        r->next = batch->end;
        if (!r->first)
            r->last = &r->first;
        r->busy = true;
    }
    pthread_mutex_unlock(&r->queue_lock);
    return batch;
}

static void *run(void *context)
{
    struct receiver *r = context;
    for (;;) {
        struct batch *batch = next_batch(r);
        if (!batch && r->stopping)
            break;
        if (batch && !batch->spans)
            batch->spans = read_from_journal(r, batch);
        if (batch && r->keeper)
            keeper_give(r->keeper, batch->spans, batch->before, batch->end);
        uint64_t now = clock_monotonic_ns();
        pthread_mutex_lock(&r->state_lock);
        diagnosis_set_time(r->settings.diagnosis, now);
        if (batch && batch->spans)
            diagnose(r, batch->spans);
        diagnosis_flush(r->settings.diagnosis, now > r->settings.idle_ns ? now - r->settings.idle_ns : 0);
        pthread_mutex_unlock(&r->state_lock);
        if (!batch)
            continue;
        pthread_mutex_lock(&r->queue_lock);
        r->queued_bytes -= batch->length;
        r->held_bytes -= batch->held;
        pthread_mutex_unlock(&r->queue_lock);
        if (r->journal)
            journal_hold(r->journal, JOURNAL_DIAGNOSIS, batch->end);
        free_batch(batch);
    }
    return NULL;
}

/* What the journal keeps, into the diagnosis. */
static int replay(struct receiver *r, struct problem *problem)
{
    struct journal_reader reader;
    uint32_t kind;
    const void *bytes;
    size_t length;
    int error = 0;
    journal_reader_init(&reader, r->settings.folder, (struct journal_position){0});
    while (error == 0 && (error = journal_reader_next(&reader, &kind, &bytes, &length)) > 0) {
        struct span_batch *spans = NULL;
        diagnosis_set_time(r->settings.diagnosis, clock_monotonic_ns());
        error = span_batch_new(kind, bytes, length, &spans);
        if (error == 0)
            error = diagnose(r, spans);
        span_batch_unref(spans);
        if (error == -EBADMSG)
            error = 0; /* counted */
    }
    journal_reader_done(&reader);
    if (error < 0)
        problem_set(problem, error, "%s: the journal cannot be read: %s", r->settings.folder,
                    strerror(-error));
    return MIN(error, 0);
}

static int start_keeper(struct receiver *r, struct problem *problem)
{
    struct keeper_settings settings = {.folder = r->settings.folder,
                                       .journal = r->journal,
                                       .store = r->settings.store,
                                       .keep_ns = r->settings.store_keep_ns,
                                       .keep_bytes = r->settings.store_keep_bytes,
                                       .look_ns = r->settings.store_look_ns,
                                       .held_max = r->settings.held_max / 2,
                                       .exemplars = r->settings.exemplars,
                                       .context = r->settings.exemplars_context};
    return r->settings.store && r->journal ? keeper_new(&settings, &r->keeper, problem) : 0;
}

int receiver_new(const struct receiver_settings *settings, struct receiver **ret_receiver,
                 struct problem *problem)
{
    struct receiver *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->settings = *settings;
    r->settings.idle_ns = settings->idle_ns ? settings->idle_ns : IDLE_NS;
    r->settings.queue_max = settings->queue_max ? settings->queue_max : QUEUE_MAX;
    r->settings.held_max = settings->held_max ? settings->held_max : HELD_MAX;
    journal_reader_init(&r->reader, settings->folder, (struct journal_position){0});
    r->last = &r->first;
    pthread_mutex_init(&r->queue_lock, NULL);
    pthread_mutex_init(&r->state_lock, NULL);
    pthread_cond_init(&r->queued, NULL);
    pthread_cond_init(&r->drained, NULL);
    int error =
        settings->folder ? journal_open(settings->folder, settings->keep_bytes, &r->journal, problem) : 0;
    if (error == 0 && settings->folder)
        error = replay(r, problem);
    if (error == 0 && r->journal)
        r->next = journal_end(r->journal);
    if (error == 0 && r->journal)
        journal_hold(r->journal, JOURNAL_DIAGNOSIS, r->next);
    if (error == 0)
        error = start_keeper(r, problem);
    if (error == 0)
        error = -pthread_create(&r->thread, NULL, run, r);
    if (error < 0) {
        receiver_free(r);
        return error;
    }
    r->started = true;
    *ret_receiver = r;
    return 0;
}

static void count(struct receiver *r, uint64_t *counter)
{
    pthread_mutex_lock(&r->queue_lock);
    ++*counter;
    pthread_mutex_unlock(&r->queue_lock);
}

/* An OTLP error: a Status message. In protobuf: field 2, the text. */
static void refuse(struct http_response *response, bool json, unsigned status, const char *words)
{
    struct text body = {0};
    response->status = status;
    response->retry_after_s = status == 503 || status == 429 ? 1 : 0;
    if (json) {
        text_add(&body, "{\"message\":");
        page_json_string(&body, words);
        text_add(&body, "}");
    } else {
        char head[2] = {0x12, (char)MIN(strlen(words), (size_t)127)};
        text_add_bytes(&body, head, 2);
        text_add_bytes(&body, words, (size_t)head[1]);
    }
    response->content_type = json ? "application/json" : "application/x-protobuf";
    response->length = body.length;
    response->body = text_take(&body);
}

/* Into the journal and the queue, in the same order. Takes the batch. */
static int accept_batch(struct receiver *r, struct batch *batch, uint32_t kind, const void *body,
                        size_t length, uint64_t spans)
{
    int error = 0;
    pthread_mutex_lock(&r->queue_lock);
    bool full = r->queued_bytes + batch->length > r->settings.queue_max && r->queued_bytes;
    if (!full)
        r->queued_bytes += batch->length;
    pthread_mutex_unlock(&r->queue_lock);
    if (full)
        return -EAGAIN;
    if (r->journal)
        error = journal_append(r->journal, kind, body, length, &batch->before, &batch->end);
    pthread_mutex_lock(&r->queue_lock);
    if (error < 0) {
        r->queued_bytes -= batch->length;
    } else {
        if (r->journal && r->held_bytes + batch->held > r->settings.held_max) {
            span_batch_unref(batch->spans);
            batch->spans = NULL;
            batch->held = 0;
        } else {
            r->counts.decoded_again += !span_batch_is_kept(batch->spans);
        }
        r->held_bytes += batch->held;
        /* Batches that were synced together may come here in any order: keep the journal's. */
        struct batch **at = &r->first;
        while (*at && ((*at)->end.segment < batch->end.segment ||
                       ((*at)->end.segment == batch->end.segment && (*at)->end.offset <= batch->end.offset)))
            at = &(*at)->next;
        batch->next = *at;
        *at = batch;
        if (!batch->next)
            r->last = &batch->next;
        r->counts.batches++;
        r->counts.spans += spans;
        r->counts.bytes += length;
        pthread_cond_signal(&r->queued);
    }
    pthread_mutex_unlock(&r->queue_lock);
    return error;
}

/* An ExportTraceServiceResponse. Spans that nothing can be made of are said in its partial_success (field 1:
 * the number in its field 1, the reason in its field 2); sending them again would not help. */
static void answer(struct http_response *response, bool json, const struct span_counts *counts)
{
    struct text body = {0};
    uint64_t rejected = counts->without_id + counts->without_time;
    const char *why = counts->without_id ? "no trace id or span id" : "no start or end that can be";
    if (json && rejected)
        text_addf(&body, "{\"partialSuccess\":{\"rejectedSpans\":\"%llu\",\"errorMessage\":\"%s\"}}",
                  (unsigned long long)rejected, why);
    else if (json)
        text_add(&body, "{}");
    else if (rejected) {
        char number[10];
        size_t n = 0;
        for (uint64_t rest = rejected; rest || n == 0; rest >>= 7)
            number[n++] = (char)((rest & 127) | (rest > 127 ? 128 : 0));
        char head[] = {0x0a, (char)(1 + n + 2 + strlen(why)), 0x08};
        text_add_bytes(&body, head, 3);
        text_add_bytes(&body, number, n);
        char text[] = {0x12, (char)strlen(why)};
        text_add_bytes(&body, text, 2);
        text_add(&body, why);
    }
    response->content_type = json ? "application/json" : "application/x-protobuf";
    response->length = body.length;
    response->body = text_take(&body);
}

static void count_rejected(struct receiver *r, uint64_t spans)
{
    pthread_mutex_lock(&r->queue_lock);
    r->counts.rejected_spans += spans;
    pthread_mutex_unlock(&r->queue_lock);
}

/* Unpacks and decodes a body: what is malformed anywhere is refused as a whole. Its spans are kept as far as
 * there is room for them. */
static int read_body(struct receiver *r, const struct http_request *request, uint32_t kind,
                     struct batch *batch, struct problem *problem)
{
    pthread_mutex_lock(&r->queue_lock);
    size_t room = r->settings.held_max - MIN(r->settings.held_max, r->held_bytes);
    pthread_mutex_unlock(&r->queue_lock);
    int error = span_batch_new(kind, request->body, request->length, &batch->spans);
    if (error < 0)
        return error;
    batch->length = span_batch_unpacked_bytes(batch->spans);
    error = span_batch_decode(batch->spans, room, problem);
    batch->held = span_batch_held_bytes(batch->spans);
    return error;
}

static void take_body(struct receiver *r, const struct http_request *request, struct http_response *response,
                      uint32_t kind)
{
    bool json = kind == JOURNAL_OTLP_JSON;
    struct batch *batch = calloc(1, sizeof(*batch));
    struct span_counts counts = {0};
    struct problem why = {0};
    int error = batch ? 0 : -ENOMEM;
    if (strcasecmp(request->content_encoding, "gzip") == 0)
        kind |= JOURNAL_GZIP;
    if (error == 0)
        error = read_body(r, request, kind, batch, &why);
    if (error == 0) {
        counts = *span_batch_counts(batch->spans);
        error = accept_batch(r, batch, kind, request->body, request->length, counts.spans);
    }
    if (error == 0) {
        answer(response, json, &counts);
        count_rejected(r, counts.without_id + counts.without_time);
        return;
    }
    if (batch)
        free_batch(batch);
    if (error == -EBADMSG || error == -EFBIG) {
        char words[sizeof(why.what) + 32];
        snprintf(words, sizeof(words), "the body is malformed%s%s", why.what[0] ? ": " : "", why.what);
        count(r, &r->counts.refused_malformed);
        refuse(response, json, error == -EFBIG ? 413 : 400,
               error == -EFBIG ? "the body unpacks to too much" : words);
    } else if (error == -EAGAIN || error == -ENOMEM) {
        count(r, &r->counts.refused_busy);
        refuse(response, json, 503, "too much is waiting; try again");
    } else {
        count(r, &r->counts.refused_disk);
        refuse(response, json, 503, error == -ENOSPC ? "the disk is full" : "the journal cannot be written");
    }
}

bool receiver_handle(struct receiver *r, const struct http_request *request, struct http_response *response)
{
    if (strcmp(request->path, "/v1/traces") != 0)
        return false;
    bool json = strncasecmp(request->content_type, "application/json", 16) == 0;
    bool protobuf = strncasecmp(request->content_type, "application/x-protobuf", 22) == 0;
    bool coded = *request->content_encoding && strcasecmp(request->content_encoding, "identity") != 0;
    if (strcmp(request->method, "POST") != 0) {
        refuse(response, json, 405, "POST spans here");
    } else if ((!json && !protobuf) || (coded && strcasecmp(request->content_encoding, "gzip") != 0)) {
        count(r, &r->counts.refused_type);
        refuse(response, json, 415, "application/x-protobuf or application/json, plain or gzip");
    } else {
        take_body(r, request, response, json ? JOURNAL_OTLP_JSON : JOURNAL_OTLP_PROTOBUF);
    }
    return true;
}

#define EXPORT "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

static enum grpc_status status_of(unsigned http)
{
    switch (http) {
    case 200:
        return GRPC_OK;
    case 400:
        return GRPC_INVALID_ARGUMENT;
    case 413:
        return GRPC_RESOURCE_EXHAUSTED;
    case 503:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_INTERNAL;
    }
}

/* A batch is the same over gRPC as in the body of a request: so is the answer to it, and a refusal has its
 * words as text behind two bytes (see refuse()). */
void receiver_handle_call(struct receiver *r, const struct grpc_call *call, struct grpc_answer *answer)
{
    if (strcmp(call->path, EXPORT) != 0) {
        count(r, &r->counts.refused_type);
        answer->status = GRPC_UNIMPLEMENTED;
        snprintf(answer->words, sizeof(answer->words), "only spans are taken (" EXPORT ")");
        return;
    }
    struct http_request request = {
        .content_encoding = call->gzip ? "gzip" : "", .body = call->message, .length = call->length};
    struct http_response response = {.status = 200};
    take_body(r, &request, &response, JOURNAL_OTLP_PROTOBUF);
    answer->status = status_of(response.status);
    if (answer->status == GRPC_OK) {
        answer->message = response.body;
        answer->length = response.length;
        return;
    }
    if (response.body && response.length > 2)
        snprintf(answer->words, sizeof(answer->words), "%.*s", (int)response.length - 2, response.body + 2);
    free(response.body);
}

void receiver_lock(struct receiver *r)
{
    pthread_mutex_lock(&r->state_lock);
}

void receiver_unlock(struct receiver *r)
{
    pthread_mutex_unlock(&r->state_lock);
}

void receiver_drain(struct receiver *r)
{
    pthread_mutex_lock(&r->queue_lock);
    while (r->first || r->busy)
        pthread_cond_wait(&r->drained, &r->queue_lock);
    pthread_mutex_unlock(&r->queue_lock);
    if (r->keeper)
        keeper_drain(r->keeper);
}

void receiver_get_counts(struct receiver *r, struct receiver_counts *ret_counts)
{
    pthread_mutex_lock(&r->queue_lock);
    *ret_counts = r->counts;
    pthread_mutex_unlock(&r->queue_lock);
    if (r->keeper)
        keeper_get_counts(r->keeper, &ret_counts->store);
}

void receiver_free(struct receiver *r)
{
    if (!r)
        return;
    if (r->started) {
        receiver_drain(r);
        r->stopping = true;
        pthread_mutex_lock(&r->queue_lock);
        pthread_cond_signal(&r->queued);
        pthread_mutex_unlock(&r->queue_lock);
        pthread_join(r->thread, NULL);
    }
    while (r->first) {
        struct batch *next = r->first->next;
        free_batch(r->first);
        r->first = next;
    }
    journal_reader_done(&r->reader);
    keeper_free(r->keeper);
    journal_close(r->journal);
    pthread_mutex_destroy(&r->queue_lock);
    pthread_mutex_destroy(&r->state_lock);
    pthread_cond_destroy(&r->queued);
    pthread_cond_destroy(&r->drained);
    free(r);
}
