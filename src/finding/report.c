/* See report.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "finding/report.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/json_text.h"
#include "base/schema.h"

struct finding *report_add_finding(struct report *report, enum finding_kind kind,
                                   enum finding_severity severity)
{
    const struct finding_kind_description *description = &finding_kinds[kind];
    assert(severity >= description->least && severity <= description->most);
    struct finding *finding = arena_alloc(&report->arena, sizeof(*finding));
    if (!finding || array_add(&report->findings, finding) < 0)
        return NULL;
    finding->kind = kind;
    finding->severity = severity;
    finding->title = finding->detail = "";
    finding->remedy = description->remedy;
    finding->arena = &report->arena;
    return finding;
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

int report_add_loss(struct report *report, const char *reason, const char *where, uint64_t count)
{
    if (!count)
        return 0;
    array_foreach (&report->losses, loss)
        if (same(loss->reason, reason) && same(loss->where, where)) {
            loss->count += count;
            return 0;
        }
    struct report_loss loss = {.reason = arena_strdup(&report->arena, reason),
                               .where = where ? arena_strdup(&report->arena, where) : NULL,
                               .count = count};
    if (!loss.reason || (where && !loss.where))
        return -ENOMEM;
    return array_add(&report->losses, loss);
}

int report_add_missing(struct report *report, const char *what, const char *why, const char *remedy)
{
    array_foreach (&report->missing, m)
        if (strcmp(m->what, what) == 0 && strcmp(m->why, why) == 0)
            return 0;
    struct report_missing missing = {.what = arena_strdup(&report->arena, what),
                                     .why = arena_strdup(&report->arena, why),
                                     .remedy = remedy ? arena_strdup(&report->arena, remedy) : NULL};
    if (!missing.what || !missing.why || (remedy && !missing.remedy))
        return -ENOMEM;
    return array_add(&report->missing, missing);
}

int report_add_overhead(struct report *report, const char *name, double value)
{
    struct report_cost cost = {arena_strdup(&report->arena, name), value};
    return cost.name ? array_add(&report->overhead, cost) : -ENOMEM;
}

static int by_rank(const void *a, const void *b)
{
    const struct finding *x = *(struct finding *const *)a, *y = *(struct finding *const *)b;
    if ((x->kind == FINDING_events_lost) != (y->kind == FINDING_events_lost))
        return x->kind == FINDING_events_lost ? -1 : 1;
    bool loud_x = x->severity > SEVERITY_INFO, loud_y = y->severity > SEVERITY_INFO;
    if (loud_x != loud_y)
        return loud_x ? -1 : 1;
    if (x->cost_ns != y->cost_ns)
        return x->cost_ns > y->cost_ns ? -1 : 1;
    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    if (x->from_ns != y->from_ns)
        return x->from_ns < y->from_ns ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

void report_sort(struct report *report)
{
    if (report->findings.count)
        qsort(report->findings.at, report->findings.count, sizeof(*report->findings.at), by_rank);
}

/* Below a hundredth a loss is reported among the limits only; above a tenth verdicts may be wrong. */
static const double LOSS_SAID = 0.01, LOSS_WARNED = 0.1;

int report_judge_losses(struct report *report, uint64_t events, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t lost = 0;
    array_foreach (&report->losses, loss)
        lost += loss->count;
    double share = lost ? (double)lost / ((double)lost + (double)events) : 0;
    if (share < LOSS_SAID)
        return 0;
    bool heavy = share >= LOSS_WARNED;
    struct finding *f =
        report_add_finding(report, FINDING_events_lost, heavy ? SEVERITY_WARNING : SEVERITY_INFO);
    if (!f)
        return -ENOMEM;
    f->from_ns = from_ns;
    f->to_ns = to_ns;
    f->title = finding_say(f, "%.*f %% of the events were lost%s", share < 0.1 || share > 0.99 ? 1 : 0,
                           share * 100, heavy ? ": this report is based on the rest" : "");
    f->detail =
        heavy
            ? "Requests, operations and stalls may be missing or cut short: other findings may be wrong, and "
              "their absence proves nothing. Why they were lost is listed below."
            : "Some requests or operations may be missing. Why they were lost is listed below.";
    finding_add_count(f, "lost_count", lost);
    finding_add_count(f, "events_count", events);
    finding_add_real(f, "lost_share", share);
    array_foreach (&report->findings, other)
        if (heavy && (*other)->severity == SEVERITY_CRITICAL)
            (*other)->severity = SEVERITY_WARNING;
    report_sort(report);
    return 0;
}

bool report_lost(const struct report *report)
{
    return report->losses.count > 0;
}

int report_gate(const struct report *report, const char *gate)
{
    enum finding_severity severity = finding_severity_by_name(gate);
    enum finding_kind kind = finding_kind_by_name(gate);
    if (severity == SEVERITY_COUNT && kind == FINDING_KIND_COUNT)
        return -EINVAL;
    array_foreach (&report->findings, f)
        if (severity < SEVERITY_COUNT ? (*f)->severity >= severity
                                      : (*f)->kind == kind && (*f)->severity > SEVERITY_INFO)
            return 1;
    return 0;
}

/* ---- JSON ---- */

static json_t *json_positive(int64_t number)
{
    return number > 0 ? json_integer(number) : json_null();
}

static json_t *json_place(const struct finding_place *place)
{
    json_t *source = json_null();
    if (place->file || place->function)
        source = json_pack("{s:o, s:o, s:o, s:o}", "function", json_text(place->function), "file",
                           json_text(place->file), "line", json_positive(place->line), "column",
                           json_positive(place->column));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "service", json_text(place->service), "process",
                     json_positive(place->process), "thread", json_positive(place->thread), "layer",
                     json_text(place->layer), "source", source);
}

static json_t *json_evidence(const struct finding *finding)
{
    json_t *object = json_object();
    array_foreach (&finding->evidence, e) {
        json_t *value = e->type == EVIDENCE_COUNT  ? json_integer((json_int_t)e->count)
                        : e->type == EVIDENCE_REAL ? json_real(e->real)
                                                   : json_text(e->text);
        json_object_set_new(object, e->name, value);
    }
    return object;
}

static json_t *json_affected(const struct finding *finding)
{
    json_t *array = json_array();
    array_foreach (&finding->affected, a)
        json_array_append_new(
            array, json_pack("{s:o, s:o, s:o, s:o, s:o, s:s, s:I, s:o, s:I}", "request", json_text(a->id),
                             "service", json_text(a->service), "method", json_text(a->method), "path",
                             json_text(a->path), "route", json_text(a->route ? a->route : a->path), "role",
                             a->role ? a->role : "waited", "count", (json_int_t)a->count, "start_ns",
                             json_positive((int64_t)a->start_ns), "delay_ns", (json_int_t)a->delay_ns));
    return array;
}

json_t *finding_json(const struct finding *f)
{
    json_t *to = f->to_ns == UINT64_MAX ? json_null() : json_integer((json_int_t)f->to_ns);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "kind",
                     finding_kinds[f->kind].name, "severity", finding_severity_name(f->severity), "title",
                     json_text(f->title), "detail", json_text(f->detail), "where", json_place(&f->where),
                     "from_ns", (json_int_t)f->from_ns, "to_ns", to, "evidence", json_evidence(f), "affected",
                     json_affected(f), "affected_count", (json_int_t)f->affected_count, "cost_ns",
                     (json_int_t)f->cost_ns, "remedy", json_text(f->remedy), "link", json_text(f->link));
}

static json_t *json_losses(const struct report *report)
{
    json_t *array = json_array();
    array_foreach (&report->losses, loss)
        json_array_append_new(array, json_pack("{s:o, s:o, s:I}", "reason", json_text(loss->reason), "where",
                                               json_text(loss->where), "count", (json_int_t)loss->count));
    return array;
}

static json_t *json_overhead(const struct report *report)
{
    json_t *object = json_object();
    array_foreach (&report->overhead, cost) {
        bool whole = cost->value >= 0 && cost->value < 9e15 && cost->value == (double)(int64_t)cost->value;
        json_object_set_new(object, cost->name,
                            whole ? json_integer((json_int_t)cost->value) : json_real(cost->value));
    }
    return object;
}

static json_t *json_missing(const struct report *report)
{
    json_t *array = json_array();
    array_foreach (&report->missing, m)
        json_array_append_new(array, json_pack("{s:o, s:o, s:o}", "what", json_text(m->what), "why",
                                               json_text(m->why), "remedy", json_text(m->remedy)));
    return array;
}

json_t *report_json(const struct report *report)
{
    json_t *findings = json_array();
    array_foreach (&report->findings, f)
        json_array_append_new(findings, finding_json(*f));
    json_t *requests = report->requests ? json_incref(report->requests) : json_array();
    json_t *document = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "schema", SCHEMA_report, "findings",
                                 findings, "requests", requests, "losses", json_losses(report), "overhead",
                                 json_overhead(report), "missing", json_missing(report));
    if (!document)
        return NULL;
    if (report->nothing && !report->findings.count)
        json_object_set_new(document, "nothing", json_text(report->nothing));
    if (report->to_ns) {
        json_object_set_new(document, "from_ns", json_integer((json_int_t)report->from_ns));
        json_object_set_new(document, "to_ns", json_integer((json_int_t)report->to_ns));
    }
    if (report->extra)
        json_object_update_missing(document, report->extra);
    return document;
}

void report_done(struct report *report)
{
    array_foreach (&report->findings, f) {
        array_done(&(*f)->evidence);
        array_done(&(*f)->affected);
    }
    array_done(&report->findings);
    array_done(&report->losses);
    array_done(&report->overhead);
    array_done(&report->missing);
    json_decref(report->requests);
    json_decref(report->extra);
    arena_done(&report->arena);
    *report = (struct report){0};
}
