/* The finding: a verdict in words with its evidence. Every analysis produces findings of this one shape; the
 * command line, the web page, alerts and --json print the same ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINDING_FINDING_H
#define FINDING_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/macro.h"
#include "base/text.h"
#include "finding/kinds.h"

enum finding_severity {
    SEVERITY_INFO,     /* worth knowing, nobody's fault or nobody suffered */
    SEVERITY_WARNING,  /* requests suffered */
    SEVERITY_CRITICAL, /* and it had not ended when the trace did */
    SEVERITY_COUNT
};

/* Where it happened; what is unknown is NULL or 0. */
struct finding_place {
    const char *service;
    int64_t process;   /* pid */
    int64_t thread;    /* tid */
    const char *layer; /* "http", "js", "v8", "libuv", "kernel", "redis", or another model's */
    const char *function;
    const char *file;
    uint32_t line, column; /* from 1 */
};

/* A fact behind the verdict: a number with its unit in its name, or a text. */
struct finding_evidence {
    const char *name; /* "blocked_ns"; one of the kind's table */
    enum { EVIDENCE_COUNT, EVIDENCE_REAL, EVIDENCE_TEXT } type;
    union {
        uint64_t count;
        double real;
        const char *text;
    };
};

/* A request that suffered, or several of one endpoint. */
struct finding_affected {
    const char *id; /* for `sonde spans --request`; NULL for several */
    const char *service;
    const char *method;
    const char *path;  /* of several: the route */
    const char *route; /* the endpoint that it belongs to, "/users/:id": prose groups by it; NULL: path */
    const char *role;  /* "waited", "caused it"; NULL: waited */
    uint64_t count;    /* requests this entry stands for, at least 1 */
    uint64_t start_ns;
    uint64_t delay_ns; /* theirs together; 0 unknown */
};

struct finding {
    enum finding_kind kind;
    enum finding_severity severity;
    const char *title;  /* one sentence without full stop: what, where, how much */
    const char *detail; /* the cause, in sentences */
    struct finding_place where;
    uint64_t from_ns, to_ns; /* the trace's clock; to_ns is UINT64_MAX when it had not ended */
    ARRAY(struct finding_evidence) evidence;
    ARRAY(struct finding_affected) affected; /* the worst first; may be fewer than affected_count */
    uint64_t affected_count;
    uint64_t cost_ns;    /* time lost by requests: findings are ranked by it */
    const char *remedy;  /* what to do; the kind's own unless the analysis knows better */
    const char *link;    /* into the view; NULL for none */
    struct arena *arena; /* of the report that owns this finding: its strings live there */
};

struct finding_evidence_description {
    const char *name;
    const char *text;
};

struct finding_kind_description {
    const char *name;
    enum finding_severity least, most;                   /* that a finding of this kind may have */
    const char *text;                                    /* what it means */
    const char *remedy;                                  /* what to do about it in general */
    const struct finding_evidence_description *evidence; /* ended by an entry without a name */
};

/* Indexed by enum finding_kind. */
extern const struct finding_kind_description finding_kinds[FINDING_KIND_COUNT];

/* The kind of that name, or FINDING_KIND_COUNT. */
enum finding_kind finding_kind_by_name(const char *name);

/* "info", "warning", "critical"; and back, SEVERITY_COUNT for none of them. */
const char *finding_severity_name(enum finding_severity severity);
enum finding_severity finding_severity_by_name(const char *name);

/* A text made as printf does, owned by the finding's arena; "" when memory is exhausted. */
const char *finding_say(struct finding *finding, const char *format, ...) _printf_(2, 3);

/* Adds evidence. name and text are copied. 0 or -ENOMEM; -EINVAL when the kind's table does not list name. */
int finding_add_count(struct finding *finding, const char *name, uint64_t value);
int finding_add_real(struct finding *finding, const char *name, double value);
int finding_add_text(struct finding *finding, const char *name, const char *text);

/* The evidence of that name, or NULL. */
const struct finding_evidence *finding_get_evidence(const struct finding *finding, const char *name);

/* Adds a request that suffered; its strings are copied. Counts it also where it is not kept (limit entries
 * are). 0 or -ENOMEM. */
int finding_add_affected(struct finding *finding, const struct finding_affected *affected, size_t limit);

/* The manual's list of kinds, as Markdown: doc/findings.md. */
void finding_write_manual(struct text *to);

#endif
