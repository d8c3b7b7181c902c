/* The report: the one document that every analysis ends in. It owns its findings, in one arena. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINDING_REPORT_H
#define FINDING_REPORT_H

#include <jansson.h>

#include "finding/finding.h"

/* Events that were not recorded or could not be read. */
struct report_loss {
    const char *reason; /* "ring-full" */
    const char *where;  /* service or file; NULL for all */
    uint64_t count;     /* events */
};

/* Something that could not be seen, why, and how to mend it. */
struct report_missing {
    const char *what;
    const char *why;
    const char *remedy; /* NULL when there is none */
};

/* A figure of what tracing or the analysis itself cost: "collector_cpu_share", "events_count". */
struct report_cost {
    const char *name; /* with its unit */
    double value;
};

/* Zero-initialise to use; report_done() when finished. */
struct report {
    struct arena arena;
    ARRAY(struct finding *) findings;
    ARRAY(struct report_loss) losses;
    ARRAY(struct report_cost) overhead;
    ARRAY(struct report_missing) missing;
    json_t *requests;        /* array, or NULL when the analysis has none; owned */
    json_t *extra;           /* object whose members join the document, or NULL; owned */
    const char *nothing;     /* why there are no findings, in words; NULL when not said */
    uint64_t from_ns, to_ns; /* what the analysis covers; 0, 0 unknown */
};

/* A finding of that kind, empty but for the kind's remedy, owned by the report; NULL when memory is
 * exhausted. severity: one that the kind may have. */
struct finding *report_add_finding(struct report *report, enum finding_kind kind,
                                   enum finding_severity severity);

/* These copy their strings. 0 or -ENOMEM. A loss with the reason and place of an earlier one adds to it; what
 * is missing for the same reason in several processes is told once. */
int report_add_loss(struct report *report, const char *reason, const char *where, uint64_t count);
int report_add_missing(struct report *report, const char *what, const char *why, const char *remedy);
int report_add_overhead(struct report *report, const char *name, double value);

/* Ranks: warnings before information, then by the time that they cost requests. */
void report_sort(struct report *report);

/* Once all losses are known: when a large share of the events is missing, that leads the report as a finding,
 * and no other one is more than a warning. events: those that were read; [from_ns, to_ns]: when they were
 * lost. 0 or -ENOMEM. */
int report_judge_losses(struct report *report, uint64_t events, uint64_t from_ns, uint64_t to_ns);

/* Whether events were lost: then the exit status is 4. */
bool report_lost(const struct report *report);

/* A gate: "warning", "info" or "critical" (that severity or above), or the name of a kind. 1 when a finding
 * is at or above it, 0 when none is, -EINVAL when it is neither. */
int report_gate(const struct report *report, const char *gate);

/* One of its findings as it is in the document, a new reference; NULL when memory is exhausted. */
json_t *finding_json(const struct finding *finding);

/* The document, a new reference owned by the caller; NULL when memory is exhausted. Keys are in the order of
 * the manual. */
json_t *report_json(const struct report *report);

void report_done(struct report *report);

#endif
