/* A diagnosis from spans to findings: a sink for decoders, the assembler and the book behind it, and the
 * report at the end. What the commands and the server use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_DIAGNOSIS_H
#define DIAGNOSE_DIAGNOSIS_H

#include "diagnose/judge.h"
#include "diagnose/locate.h"
#include "finding/report.h"

struct diagnosis_settings {
    const char *const *bucket_by; /* attribute keys, ended by NULL; NULL: the defaults */
    struct table **tables;        /* joined to every resource; borrowed */
    size_t table_count;
    size_t waiting_max;       /* spans that may wait for their trace; 0: the assembler's default */
    size_t waiting_bytes_max; /* and their memory; 0: the assembler's default */
    uint64_t patience_ns;     /* with traces whose root has not come; 0: the assembler's default */
    bool
        days; /* compares today with yesterday and last week; judge_settings.regress has the rate of errors */
    /* Called with every linked request and the index of its root, for other analyses; may be NULL. */
    int (*request)(void *context, const struct trace *trace, const struct path_time *times);
    void *request_context;
};

struct diagnosis;

int diagnosis_new(const struct diagnosis_settings *settings, struct diagnosis **ret_diagnosis);

/* For decoders; its counts are the diagnosis'. Spans arrive at the time last set. */
struct span_sink *diagnosis_sink(struct diagnosis *diagnosis);
void diagnosis_set_time(struct diagnosis *diagnosis, uint64_t now_ns);

/* Hands on traces that were idle since then, those without a root later (UINT64_MAX: all of them). */
int diagnosis_flush(struct diagnosis *diagnosis, uint64_t idle_since_ns);

const struct book *diagnosis_book(const struct diagnosis *diagnosis);
const struct assembler_counts *diagnosis_counts(const struct diagnosis *diagnosis);

/* Bytes held by names, sketches and traces that wait; grows with groups, not with spans. */
size_t diagnosis_held_bytes(const struct diagnosis *diagnosis);

/* Judges, and writes what was found: findings of kind `regression`, losses, what is missing, and "diagnosis"
 * as an extra member (buckets, contrasts, attributes proposed). The judgement is returned too, for bundles;
 * the caller frees it with judgement_done(). */
int diagnosis_report(const struct diagnosis *diagnosis, const struct judge_settings *settings,
                     struct report *report, struct judgement *ret_judgement);

/* The "diagnosis" member. Owned by the caller; members are missing when memory is short. */
json_t *diagnosis_document(const struct diagnosis *diagnosis, const struct judgement *judgement);

/* One verdict as a finding of the report. e_value: of the sequential test, or 0. */
int diagnosis_add_finding(const struct book *book, const struct verdict *verdict, double e_value,
                          struct report *report, struct finding **ret_finding);

/* One change against the days before as a finding of the report; ret_finding may be NULL. */
int diagnosis_add_day_change(const struct book *book, const struct day_change *change, struct report *report,
                             struct finding **ret_finding);

/* One version whose hosts complete fewer requests, one queue that grows; ret_finding may be NULL. */
int diagnosis_add_throughput(const struct book *book, const struct throughput *throughput,
                             struct report *report, struct finding **ret_finding);
int diagnosis_add_backlog(const struct book *book, const struct backlog *backlog, struct report *report,
                          struct finding **ret_finding);

/* The service that explains best what differs from a normal period, where that is sure enough. */
int diagnosis_add_suspect(const struct suspect *suspect, struct report *report);

/* Why there are no findings, owned by the report. */
const char *diagnosis_say_nothing(const struct diagnosis *diagnosis, const struct judge_settings *settings,
                                  const struct judgement *judgement, struct report *report);

/* What was odd about the traces, and was put right. */
struct diagnosis_oddity {
    const char *name;  /* "duplicates" */
    const char *words; /* "came more than once" */
    uint64_t count;
};
#define DIAGNOSIS_ODDITIES 5
void diagnosis_oddities(const struct diagnosis *diagnosis, struct diagnosis_oddity *ret_oddities);

/* What was read, in a line or two: spans, requests, buckets, and what was odd about them. */
void diagnosis_input_words(const struct diagnosis *diagnosis, struct text *to);

/* Losses by reason and what is missing, without judging. */
int diagnosis_report_losses(const struct diagnosis *diagnosis, struct report *report);

void diagnosis_free(struct diagnosis *diagnosis);
DEFINE_FREEP(struct diagnosis, diagnosis_free)

#endif
