/* Spans into traces: spans arrive in any order, in many batches, some twice, some late, some never. Strings
 * become numbers on the way in, so a span that waits takes about 25 bytes (packed.h). A trace is handed on
 * when it was idle for long enough, when there are too many waiting, or at the end. A span is sent when it
 * ends, so a trace whose root has not come is still running: it waits longer. One that gets spans without end
 * is handed on all the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPAN_ASSEMBLE_H
#define SPAN_ASSEMBLE_H

#include "span/labels.h"
#include "span/table.h"

#define PART_NONE UINT32_MAX

/* One span of an assembled trace. Strings are numbers in the assembler's names; 0 is the
 * empty string. */
struct part {
    uint64_t id, parent;
    uint64_t start_ns, end_ns; /* CLOCK_REALTIME of its host; skew corrected after trace_link() */
    uint32_t service, version, host, name;
    uint32_t labels; /* a set: of the span, its resource and the joined tables */
    uint32_t up;     /* index of the parent, or PART_NONE; after trace_link() */
    uint8_t kind;    /* enum span_kind */
    bool error;
    bool shared; /* see SPAN_SHARED_BIT */
    bool orphan; /* names a parent that is not in the trace; after trace_link() */
};

struct parts {
    struct part *at;
    size_t count, capacity;
};

struct trace {
    uint64_t high, low;
    struct part *parts;
    size_t count;
};

struct assembler_counts {
    uint64_t spans, traces;
    uint64_t late;         /* arrived after their trace was handed on */
    uint64_t hurried;      /* traces handed on early because too many spans were waiting */
    uint64_t endless;      /* traces handed on though spans of them kept arriving */
    uint64_t oversized;    /* spans above what one trace may have */
    uint64_t names_folded; /* uses of a name, service, version or host beyond those that are kept */
};

struct assembler_settings {
    size_t waiting_max;       /* spans that may wait; 0: as many as memory allows */
    size_t waiting_bytes_max; /* memory for what waits; 0: 256 MiB */
    size_t trace_max;         /* spans of one trace; 0: 100,000 */
    size_t names_max; /* different names, services, versions and hosts; 0: 100,000. Others are "(other)" */
    uint64_t patience_ns;  /* how much longer a trace without its root waits than others, and how old one may
                            * get that never falls idle; 0: 10 minutes */
    struct table **tables; /* joined to every resource; borrowed */
    size_t table_count;
    /* Takes a finished trace (not linked yet), borrowed for the call. 0 or a negative errno. */
    int (*take)(void *context, struct trace *trace);
    void *context;
};

struct assembler;

int assembler_new(const struct assembler_settings *settings, struct assembler **ret_assembler);

/* A span, at a time of arrival (any steady clock; 0 for files). */
int assembler_add(struct assembler *assembler, const struct span *span, uint64_t now_ns);

/* Hands on every trace with a root whose last span arrived before idle_since_ns, and every other one whose
 * last span arrived before that less the patience; all of them with UINT64_MAX. */
int assembler_flush(struct assembler *assembler, uint64_t idle_since_ns);

struct names *assembler_names(struct assembler *assembler);
struct labels *assembler_labels(struct assembler *assembler);
const struct assembler_counts *assembler_get_counts(const struct assembler *assembler);
void assembler_free(struct assembler *assembler);

#endif
