/* See rollout.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/rollout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "diagnose/bundle.h"
#include "serve/beside.h"
#include "span/files.h"
#include "span/otlp.h"

struct rollout {
    struct rollout_settings settings;
    struct diagnosis *diagnosis;
    struct receiver *receiver;     /* when it receives itself */
    struct journal_reader journal; /* when it follows a server */
    struct alerts alerts;
    bool found;
    enum outcome outcome; /* of the last comparison */
};

/* What stays the same while one slow-down is seen again and again. */
static uint64_t fingerprint_of(const struct book *book, const struct verdict *v)
{
    struct text words = {0};
    book_bucket_words(book, &book->buckets.at[v->bucket], &words);
    text_addf(&words, "|%s|%s", names_get(book->names, v->service), names_get(book->names, v->version));
    uint64_t hash = map_hash(text_get(&words), words.length);
    text_done(&words);
    return hash;
}

static int fire(struct rollout *w, const struct verdict *v)
{
    const struct book *book = diagnosis_book(w->diagnosis);
    struct report one = {0};
    struct finding *finding;
    bool fires = false;
    int r = diagnosis_add_finding(book, v, v->sequential.e_value, &one, &finding);
    if (r == 0)
        r = alerts_see(&w->alerts, fingerprint_of(book, v), v->served, finding->title, finding_json(finding),
                       &fires);
    report_done(&one);
    w->found |= r == 0;
    return r;
}

static int write_bundle(struct rollout *w, const struct judgement *judgement, const struct report *report)
{
    struct text html = {0};
    int r = bundle_write(w->diagnosis, judgement, report, &html);
    if (r == 0)
        r = file_replace(w->settings.bundle, text_get(&html), html.length);
    text_done(&html);
    return r;
}

static int follow_journal(struct rollout *w)
{
    uint32_t kind;
    const void *bytes;
    size_t length;
    int r;
    while ((r = journal_reader_next(&w->journal, &kind, &bytes, &length)) > 0) {
        char *unpacked = NULL;
        diagnosis_set_time(w->diagnosis, clock_monotonic_ns());
        if (kind & JOURNAL_GZIP) {
            if (span_gunzip(bytes, length, JOURNAL_UNPACKED_MAX, &unpacked, &length) < 0)
                continue;
            bytes = unpacked;
        }
        if ((kind & 0xff) == JOURNAL_OTLP_JSON)
            otlp_json_decode(bytes, length, diagnosis_sink(w->diagnosis), NULL);
        else
            otlp_protobuf_decode(bytes, length, diagnosis_sink(w->diagnosis), NULL);
        free(unpacked);
    }
    return r;
}

int rollout_compare(struct rollout *w, bool last, struct report *report)
{
    struct judgement judgement = {0};
    bool of_version = false;
    int r = 0;
    if (last && w->receiver)
        receiver_drain(w->receiver);
    uint64_t now = clock_monotonic_ns(), idle = last ? 0 : w->settings.idle_ns;
    if (w->receiver)
        receiver_lock(w->receiver);
    else
        r = follow_journal(w);
    if (r >= 0)
        r = diagnosis_flush(w->diagnosis, now - MIN(idle, now));
    if (r >= 0)
        r = diagnosis_report(w->diagnosis, w->settings.judge, report, &judgement);
    bool slower = r >= 0 && judgement.slower > 0;
    w->outcome = judgement.outcome;
    alerts_begin(&w->alerts);
    array_foreach (&judgement.verdicts, v)
        if (r >= 0 && v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE)
            r = fire(w, v);
    if (r >= 0)
        r = beside_see(&w->alerts, diagnosis_book(w->diagnosis), &judgement, &of_version);
    w->found |= r >= 0 && of_version;
    if (r >= 0)
        alerts_end(&w->alerts);
    if (slower && w->settings.bundle)
        r = write_bundle(w, &judgement, report);
    judgement_done(&judgement);
    if (w->receiver)
        receiver_unlock(w->receiver);
    (void)rollout_tell(w); /* not while spans have to wait */
    return r;
}

bool rollout_tell(struct rollout *w)
{
    struct alert *alert;
    while ((alert = alerts_pending(&w->alerts))) {
        if (w->settings.tell(w->settings.context, alert) < 0)
            return true;
        alert->told = alert->state;
    }
    return false;
}

int rollout_new(const struct rollout_settings *settings, struct rollout **ret_rollout,
                struct problem *problem)
{
    _cleanup_(rollout_freep) struct rollout *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->settings = *settings;
    w->journal.fd = -1;
    int r = diagnosis_new(&settings->diagnosis, &w->diagnosis);
    if (r >= 0 && settings->journal) {
        if (access(settings->journal, R_OK | X_OK) < 0) {
            problem_set(problem, -errno, "%s: %s", settings->journal, strerror(errno));
            problem_remedy(problem, "Name the directory that `sonde serve --data` writes to.");
            return -ENOENT;
        }
        journal_reader_init(&w->journal, settings->journal, (struct journal_position){0});
    } else if (r >= 0) {
        const struct receiver_settings receiver = {.diagnosis = w->diagnosis, .idle_ns = settings->idle_ns};
        r = receiver_new(&receiver, &w->receiver, problem);
    }
    if (r < 0)
        return r;
    *ret_rollout = w;
    w = NULL;
    return 0;
}

void rollout_free(struct rollout *w)
{
    if (!w)
        return;
    receiver_free(w->receiver);
    diagnosis_free(w->diagnosis);
    journal_reader_done(&w->journal);
    alerts_done(&w->alerts);
    free(w);
}

bool rollout_handle(struct rollout *w, const struct http_request *request, struct http_response *response)
{
    return w->receiver && receiver_handle(w->receiver, request, response);
}

void rollout_handle_call(struct rollout *w, const struct grpc_call *call, struct grpc_answer *answer)
{
    receiver_handle_call(w->receiver, call, answer);
}

bool rollout_is_slower(const struct rollout *w)
{
    return w->found;
}

enum outcome rollout_outcome(const struct rollout *w)
{
    return w->outcome;
}

void rollout_input_words(const struct rollout *w, struct text *to)
{
    diagnosis_input_words(w->diagnosis, to);
}
