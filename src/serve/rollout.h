/* Watching a rollout of one service while it runs, for `sonde watch` and whoever else decides by it: spans
 * come in, by HTTP or from the journal of a server, and are compared again and again. By e-values
 * (settings.judge.sequential), which stay valid however often that is done. Each slow-down is reported once,
 * and its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_ROLLOUT_H
#define SERVE_ROLLOUT_H

#include "diagnose/diagnosis.h"
#include "serve/alerts.h"
#include "serve/receiver.h"

struct rollout_settings {
    struct diagnosis_settings diagnosis;
    const struct judge_settings *judge; /* borrowed, as all that it names */
    const char *journal; /* the data directory of a server whose journal is followed; NULL: rollout_handle()
                            receives */
    uint64_t idle_ns;    /* a trace is complete so long after its last span */
    const char
        *bundle; /* a page with the evidence is written there while something is slower; NULL: none is */
    /* An alert that is firing or resolved. 0: it is delivered; a negative errno: it stays pending, and is
     * tried again at the next comparison. */
    int (*tell)(void *context, const struct alert *alert);
    void *context;
};

struct rollout;

/* 0 or a negative errno with problem set; -ENOENT: there is no such journal. */
int rollout_new(const struct rollout_settings *settings, struct rollout **ret_rollout,
                struct problem *problem);
void rollout_free(struct rollout *rollout);
DEFINE_FREEP(struct rollout, rollout_free)

/* Takes /v1/traces; false when the path is another one, or a journal is followed. Safe from several threads.
 */
bool rollout_handle(struct rollout *rollout, const struct http_request *request,
                    struct http_response *response);

/* The same for a call over gRPC, whatever it is; not while a journal is followed. */
void rollout_handle_call(struct rollout *rollout, const struct grpc_call *call, struct grpc_answer *answer);

/* Compares now, and tells what is new. last: also of traces that could still get spans. The report is the
 * caller's (report_done()), also on failure. 0 or a negative errno. */
int rollout_compare(struct rollout *rollout, bool last, struct report *report);

/* Tells what is still pending; whether anything is left. */
bool rollout_tell(struct rollout *rollout);

/* Whether a slow-down was found since the beginning; the outcome of the last comparison. */
bool rollout_is_slower(const struct rollout *rollout);
enum outcome rollout_outcome(const struct rollout *rollout);

/* What came in, in words (diagnosis_input_words()). */
void rollout_input_words(const struct rollout *rollout, struct text *to);

#endif
