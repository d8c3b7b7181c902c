/* See trace_diff.h. What differs by more than the traces themselves vary: means are compared by Welch's t on
 * block means (breakdown.h), over all comparisons at a false-discovery rate (Benjamini-Hochberg), and a
 * difference must also be large enough to matter. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/schema.h"
#include "model/breakdown.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/reading.h"
#include "diagnose/stats.h"

enum { BLOCKS_NEEDED = 4, SIDES = 2 };

static const double FALSE_DISCOVERIES = 0.05;
/* Of the latency that it is part of: less is not worth a line. */
static const double EFFECT_MIN = 0.05;
static const double EFFECT_MIN_NS = 20000;

enum verdict { VERDICT_NOISE, VERDICT_SLOWER, VERDICT_FASTER, VERDICT_NEW, VERDICT_GONE, VERDICT_TOO_FEW };
static const char *const VERDICTS[] = {"within-noise", "slower", "faster", "new", "gone", "too-few"};

/* One thing in both traces. */
struct change {
    double mean_ns[SIDES], error_ns[SIDES];
    uint64_t count[SIDES];
    unsigned blocks[SIDES];
    double scale_ns; /* what an effect is compared with */
    double p, adjusted;
    enum verdict verdict;
};

struct part_change {
    const char *layer, *name;
    double share[SIDES];
    struct change change;
};

struct endpoint_change {
    const char *service, *method, *route;
    const struct endpoint *endpoint[SIDES];
    struct change change;
    ARRAY(struct part_change) parts;
};

struct operation_change {
    const struct operation_kind *kind[SIDES];
    struct change change;
};

struct comparison {
    const char *folder[SIDES];
    struct analysis *analysis[SIDES];
    struct report report[SIDES];
    ARRAY(struct endpoint_change) endpoints;
    ARRAY(struct operation_change) operations;
};

bool trace_diff_is_trace(const char *path)
{
    static const char *const SIGNS[] = {"metadata", "ctf/metadata", "manifest.json"};
    char file[4096];
    for (size_t i = 0; i < ARRAY_SIZE(SIGNS); i++) {
        snprintf(file, sizeof(file), "%s/%s", path, SIGNS[i]);
        if (access(file, F_OK) == 0)
            return true;
    }
    return false;
}

/* ---- what belongs together ---- */

static struct endpoint_change *endpoint_change_get(struct comparison *c, const struct breakdown_endpoint *e)
{
    array_foreach (&c->endpoints, known)
        if (strcmp(known->service, e->service) == 0 && strcmp(known->method, e->method) == 0 &&
            strcmp(known->route, e->route) == 0)
            return known;
    struct endpoint_change fresh = {.service = e->service, .method = e->method, .route = e->route};
    return array_add(&c->endpoints, fresh) < 0 ? NULL : &c->endpoints.at[c->endpoints.count - 1];
}

static struct part_change *part_change_get(struct endpoint_change *e, const struct part *part)
{
    array_foreach (&e->parts, known)
        if (strcmp(known->layer, part->layer) == 0 && strcmp(known->name, part->name) == 0)
            return known;
    struct part_change fresh = {.layer = part->layer, .name = part->name};
    return array_add(&e->parts, fresh) < 0 ? NULL : &e->parts.at[e->parts.count - 1];
}

static struct operation_change *operation_change_get(struct comparison *c, const struct operation_kind *kind)
{
    array_foreach (&c->operations, known) {
        const struct operation_kind *other = known->kind[0] ? known->kind[0] : known->kind[1];
        if (strcmp(other->service, kind->service) == 0 && strcmp(other->layer, kind->layer) == 0 &&
            strcmp(other->name, kind->name) == 0)
            return known;
    }
    return array_add(&c->operations, (struct operation_change){0}) < 0
               ? NULL
               : &c->operations.at[c->operations.count - 1];
}

static void set_side(struct change *change, int side, const struct breakdown *b, const struct blocks *sums,
                     const struct blocks *counts, uint64_t count)
{
    change->mean_ns[side] = blocks_mean(b, sums, counts, &change->error_ns[side], &change->blocks[side]);
    change->count[side] = count;
}

static int add_endpoint(struct comparison *c, int side, const struct breakdown *b,
                        const struct breakdown_endpoint *e)
{
    struct endpoint_change *to = endpoint_change_get(c, e);
    if (!to)
        return -ENOMEM;
    set_side(&to->change, side, b, &e->latency_ns, &e->requests, e->count);
    size_t count;
    const struct endpoint *all = analysis_endpoints(c->analysis[side], &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].service, e->service) == 0 && strcmp(all[i].method, e->method) == 0 &&
            strcmp(all[i].route, e->route) == 0)
            to->endpoint[side] = &all[i];
    array_foreach (&e->parts, part) {
        struct part_change *p = part_change_get(to, part);
        if (!p)
            return -ENOMEM;
        set_side(&p->change, side, b, &part->time_ns, &e->requests, part->requests);
        p->share[side] =
            to->change.mean_ns[side] > 0 ? p->change.mean_ns[side] / to->change.mean_ns[side] : 0;
    }
    return 0;
}

static int add_side(struct comparison *c, int side)
{
    const struct breakdown *b = analysis_breakdown(c->analysis[side]);
    array_foreach (&b->endpoints, e)
        if (add_endpoint(c, side, b, e) < 0)
            return -ENOMEM;
    array_foreach (&b->operations, kind) {
        struct operation_change *to = operation_change_get(c, kind);
        if (!to)
            return -ENOMEM;
        to->kind[side] = kind;
        set_side(&to->change, side, b, &kind->total_ns, &kind->count, kind->attl.count);
    }
    return 0;
}

/* ---- noise or not ---- */

static void test_change(struct change *c)
{
    double ve = c->error_ns[0] * c->error_ns[0], vf = c->error_ns[1] * c->error_ns[1];
    c->p = 1;
    if (c->blocks[0] < BLOCKS_NEEDED || c->blocks[1] < BLOCKS_NEEDED || ve + vf <= 0)
        return;
    double t = fabs(c->mean_ns[1] - c->mean_ns[0]) / sqrt(ve + vf);
    double freedom = (ve + vf) * (ve + vf) / (ve * ve / (c->blocks[0] - 1) + vf * vf / (c->blocks[1] - 1));
    c->p = MIN(2 * stats_student_above(t, freedom), 1.0);
}

/* others: how many requests (operations) there were in which it could have been. */
static void judge(struct change *c, const uint64_t others[SIDES])
{
    double difference = c->mean_ns[1] - c->mean_ns[0];
    bool large = fabs(difference) >= MAX(EFFECT_MIN * c->scale_ns, EFFECT_MIN_NS);
    if (!c->count[0] || !c->count[1]) {
        int there = c->count[1] > 0;
        if (c->count[there] < BLOCKS_NEEDED || others[!there] < BLOCKS_NEEDED)
            c->verdict = VERDICT_TOO_FEW;
        else
            c->verdict = !large ? VERDICT_NOISE : there ? VERDICT_NEW : VERDICT_GONE;
    } else if (c->blocks[0] < BLOCKS_NEEDED || c->blocks[1] < BLOCKS_NEEDED) {
        c->verdict = VERDICT_TOO_FEW;
    } else if (c->adjusted < FALSE_DISCOVERIES && large) {
        c->verdict = difference > 0 ? VERDICT_SLOWER : VERDICT_FASTER;
    }
}

/* The comparisons in one order, twice. */
#define foreach_change(comparison, body)                \
    do {                                                \
        array_foreach (&(comparison)->endpoints, e_) {  \
            struct change *change = &e_->change;        \
            body;                                       \
            array_foreach (&e_->parts, p_) {            \
                change = &p_->change;                   \
                body;                                   \
            }                                           \
        }                                               \
        array_foreach (&(comparison)->operations, o_) { \
            struct change *change = &o_->change;        \
            body;                                       \
        }                                               \
    } while (0)

static int judge_all(struct comparison *c)
{
    size_t count = 0, i = 0;
    foreach_change(c, (test_change(change), count++));
    double *p = calloc(count + 1, sizeof(*p)), *adjusted = calloc(count + 1, sizeof(*adjusted));
    bool *rejected = calloc(count + 1, sizeof(*rejected));
    int r = p && adjusted && rejected ? 0 : -ENOMEM;
    if (r == 0) {
        foreach_change(c, p[i++] = change->p);
        stats_benjamini_hochberg(p, count, FALSE_DISCOVERIES, rejected, adjusted);
        i = 0;
        foreach_change(c, change->adjusted = adjusted[i++]);
    }
    free(p);
    free(adjusted);
    free(rejected);
    array_foreach (&c->endpoints, e) {
        const uint64_t *requests = e->change.count;
        uint64_t plenty[SIDES] = {UINT64_MAX, UINT64_MAX};
        e->change.scale_ns = MAX(e->change.mean_ns[0], e->change.mean_ns[1]);
        judge(&e->change, plenty);
        array_foreach (&e->parts, part) {
            part->change.scale_ns = e->change.scale_ns;
            judge(&part->change, requests);
        }
    }
    array_foreach (&c->operations, o) {
        uint64_t plenty[SIDES] = {UINT64_MAX, UINT64_MAX};
        o->change.scale_ns = MAX(o->change.mean_ns[0], o->change.mean_ns[1]);
        judge(&o->change, plenty);
    }
    return r;
}

static double weight(const struct change *c)
{
    bool told = c->verdict != VERDICT_NOISE && c->verdict != VERDICT_TOO_FEW;
    return (told ? 1e18 : 0) + fabs(c->mean_ns[1] - c->mean_ns[0]);
}

static int by_part(const void *a, const void *b)
{
    double x = weight(&((const struct part_change *)a)->change),
           y = weight(&((const struct part_change *)b)->change);
    return (x < y) - (x > y);
}

static int by_endpoint(const void *a, const void *b)
{
    const struct change *x = &((const struct endpoint_change *)a)->change,
                        *y = &((const struct endpoint_change *)b)->change;
    /* What all requests of it together gained or lost. */
    double wx = weight(x) * (double)MAX(x->count[0], x->count[1]),
           wy = weight(y) * (double)MAX(y->count[0], y->count[1]);
    return (wx < wy) - (wx > wy);
}

static int by_operation(const void *a, const void *b)
{
    double x = weight(&((const struct operation_change *)a)->change),
           y = weight(&((const struct operation_change *)b)->change);
    return (x < y) - (x > y);
}

static void sort_all(struct comparison *c)
{
    array_foreach (&c->endpoints, e)
        if (e->parts.count)
            qsort(e->parts.at, e->parts.count, sizeof(*e->parts.at), by_part);
    if (c->endpoints.count)
        qsort(c->endpoints.at, c->endpoints.count, sizeof(*c->endpoints.at), by_endpoint);
    if (c->operations.count)
        qsort(c->operations.at, c->operations.count, sizeof(*c->operations.at), by_operation);
}

/* ---- findings ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The same fault at the same place, whatever the process number and the amount. */
static bool same_finding(const struct finding *a, const struct finding *b)
{
    static const char *const IDENTITY[] = {"pattern", "command", "occupied_by", "called"};
    if (a->kind != b->kind || !same_text(a->where.service, b->where.service) ||
        !same_text(a->where.function, b->where.function) || !same_text(a->where.file, b->where.file))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(IDENTITY); i++) {
        const struct finding_evidence *x = finding_get_evidence(a, IDENTITY[i]),
                                      *y = finding_get_evidence(b, IDENTITY[i]);
        if (!x != !y || (x && x->type == EVIDENCE_TEXT && !same_text(x->text, y->text)))
            return false;
    }
    return true;
}

static const struct finding *find_same(const struct report *report, const struct finding *finding)
{
    array_foreach (&report->findings, f)
        if (same_finding(*f, finding))
            return *f;
    return NULL;
}

/* ---- for people ---- */

static const char *ns_text(double ns, char *to, size_t size)
{
    return clock_format_duration((uint64_t)MAX(ns, 0), to, size);
}

static void print_difference(const struct change *c)
{
    char by[32], error[32];
    double difference = c->mean_ns[1] - c->mean_ns[0];
    const char *colour = c->verdict == VERDICT_SLOWER || c->verdict == VERDICT_NEW ? cli_style(1, STYLE_RED)
                         : c->verdict == VERDICT_FASTER || c->verdict == VERDICT_GONE
                             ? cli_style(1, STYLE_GREEN)
                             : "";
    cli_printf(stdout, "%s%c%s%s ±%s", colour, difference < 0 ? '-' : '+',
               ns_text(fabs(difference), by, sizeof(by)), cli_style(1, STYLE_NONE),
               ns_text(2 * sqrt(c->error_ns[0] * c->error_ns[0] + c->error_ns[1] * c->error_ns[1]), error,
                       sizeof(error)));
}

static void print_parts(const struct endpoint_change *e, unsigned top)
{
    size_t quiet = 0;
    array_foreach (&e->parts, part) {
        const struct change *c = &part->change;
        if (c->verdict == VERDICT_NOISE || c->verdict == VERDICT_TOO_FEW || !top) {
            quiet++;
            continue;
        }
        char before[32], after[32];
        cli_printf(stdout, "   %-6s %10s %3.0f %%  %10s %3.0f %%  ", part->layer,
                   ns_text(c->mean_ns[0], before, sizeof(before)), 100 * part->share[0],
                   ns_text(c->mean_ns[1], after, sizeof(after)), 100 * part->share[1]);
        print_difference(c);
        cli_printf(stdout, "  %s%s\n", part->name,
                   c->verdict == VERDICT_NEW    ? " (new)"
                   : c->verdict == VERDICT_GONE ? " (gone)"
                                                : "");
        top--;
    }
    if (quiet)
        cli_printf(stdout, "   %s%zu part%s of its latency within noise%s\n", cli_style(1, STYLE_DIM), quiet,
                   quiet == 1 ? "" : "s", cli_style(1, STYLE_NONE));
}

static void print_endpoint(const struct endpoint_change *e, unsigned top)
{
    static const char *const SAID[] = {"within noise", "slower", "faster",
                                       "new",          "gone",   "too few requests to decide"};
    char before[32], after[32], p95[2][32];
    const struct change *c = &e->change;
    cli_printf(stdout, "\n%s%s %s%s  %s%s%s: %s\n", cli_style(1, STYLE_BOLD), e->method, e->route,
               cli_style(1, STYLE_NONE), cli_style(1, STYLE_DIM), e->service, cli_style(1, STYLE_NONE),
               SAID[c->verdict]);
    cli_printf(stdout, "   mean %s -> %s (", ns_text(c->mean_ns[0], before, sizeof(before)),
               ns_text(c->mean_ns[1], after, sizeof(after)));
    print_difference(c);
    cli_printf(stdout, "), p95 %s -> %s, %llu -> %llu requests\n",
               e->endpoint[0] ? ns_text(sketch_quantile(&e->endpoint[0]->latency, 0.95), p95[0], 32) : "-",
               e->endpoint[1] ? ns_text(sketch_quantile(&e->endpoint[1]->latency, 0.95), p95[1], 32) : "-",
               (unsigned long long)c->count[0], (unsigned long long)c->count[1]);
    print_parts(e, top);
}

static void print_operations(const struct comparison *c, unsigned top)
{
    size_t quiet = 0;
    bool head = false;
    array_foreach (&c->operations, o) {
        const struct change *change = &o->change;
        if (change->verdict == VERDICT_NOISE || change->verdict == VERDICT_TOO_FEW || !top) {
            quiet++;
            continue;
        }
        if (!head)
            cli_printf(stdout, "\n%sOperations%s, from submission to completion\n", cli_style(1, STYLE_BOLD),
                       cli_style(1, STYLE_NONE));
        head = true;
        const struct operation_kind *kind = o->kind[0] ? o->kind[0] : o->kind[1];
        char before[32], after[32];
        cli_printf(stdout, "   %-6s %10s x%-7llu %10s x%-7llu ", kind->layer,
                   ns_text(change->mean_ns[0], before, sizeof(before)), (unsigned long long)change->count[0],
                   ns_text(change->mean_ns[1], after, sizeof(after)), (unsigned long long)change->count[1]);
        print_difference(change);
        cli_printf(stdout, "  %s of %s%s\n", kind->name, kind->service,
                   change->verdict == VERDICT_NEW    ? " (new)"
                   : change->verdict == VERDICT_GONE ? " (gone)"
                                                     : "");
        top--;
    }
    if (quiet)
        cli_printf(stdout, "%s%s   %zu kind%s of operation within noise%s\n", head ? "" : "\n",
                   cli_style(1, STYLE_DIM), quiet, quiet == 1 ? "" : "s", cli_style(1, STYLE_NONE));
}

static void print_findings(const struct comparison *c)
{
    static const char *const HEADS[] = {"gone", "new"};
    bool any = false;
    for (int side = 1; side >= 0; side--)
        array_foreach (&c->report[side].findings, f) {
            if (find_same(&c->report[!side], *f))
                continue;
            if (!any)
                cli_printf(stdout, "\n%sFindings%s\n", cli_style(1, STYLE_BOLD), cli_style(1, STYLE_NONE));
            any = true;
            cli_printf(stdout, "   %s%-5s%s %s: %s\n", cli_style(1, side ? STYLE_RED : STYLE_GREEN),
                       HEADS[side], cli_style(1, STYLE_NONE), finding_kinds[(*f)->kind].name, (*f)->title);
        }
    array_foreach (&c->report[1].findings, f) {
        const struct finding *was = find_same(&c->report[0], *f);
        if (!was)
            continue;
        if (!any)
            cli_printf(stdout, "\n%sFindings%s\n", cli_style(1, STYLE_BOLD), cli_style(1, STYLE_NONE));
        any = true;
        char before[32], after[32];
        cli_printf(stdout, "   both  %s: %s %s(cost requests %s before, %s after)%s\n",
                   finding_kinds[(*f)->kind].name, (*f)->title, cli_style(1, STYLE_DIM),
                   ns_text((double)was->cost_ns, before, sizeof(before)),
                   ns_text((double)(*f)->cost_ns, after, sizeof(after)), cli_style(1, STYLE_NONE));
    }
}

static void print_text(const struct comparison *c, unsigned top)
{
    size_t changed = 0;
    array_foreach (&c->endpoints, e)
        changed += e->change.verdict != VERDICT_NOISE && e->change.verdict != VERDICT_TOO_FEW;
    cli_printf(stdout, "%zu of %zu endpoint%s changed from %s to %s\n", changed, c->endpoints.count,
               c->endpoints.count == 1 ? "" : "s", c->folder[0], c->folder[1]);
    if (!c->endpoints.count)
        cli_printf(stdout,
                   "Neither trace has a finished HTTP request: `sonde report` says what they hold.\n");
    array_foreach (&c->endpoints, e)
        print_endpoint(e, top);
    print_operations(c, top);
    print_findings(c);
}

/* ---- for programs ---- */

static json_t *change_json(const struct change *c)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "verdict", VERDICTS[c->verdict],
                     "before_mean_ns", c->mean_ns[0], "after_mean_ns", c->mean_ns[1], "change_ns",
                     c->mean_ns[1] - c->mean_ns[0], "error_ns",
                     sqrt(c->error_ns[0] * c->error_ns[0] + c->error_ns[1] * c->error_ns[1]), "before_count",
                     (json_int_t)c->count[0], "after_count", (json_int_t)c->count[1], "p_value", c->p,
                     "adjusted_p_value", c->adjusted);
}

static void set_quantiles(json_t *object, const char *side, const struct sketch *sketch)
{
    static const struct {
        const char *name;
        double quantile;
    } QUANTILES[] = {{"p50_ns", 0.5}, {"p95_ns", 0.95}, {"p99_ns", 0.99}};
    for (size_t i = 0; sketch && i < ARRAY_SIZE(QUANTILES); i++) {
        char key[32];
        snprintf(key, sizeof(key), "%s_%s", side, QUANTILES[i].name);
        json_object_set_new(object, key,
                            json_integer((json_int_t)sketch_quantile(sketch, QUANTILES[i].quantile)));
    }
}

static json_t *endpoints_json(const struct comparison *c)
{
    static const char *const NAMES[] = {"before", "after"};
    json_t *list = json_array();
    array_foreach (&c->endpoints, e) {
        json_t *object = change_json(&e->change), *parts = json_array();
        json_object_set_new(object, "service", json_string(e->service));
        json_object_set_new(object, "method", json_string(e->method));
        json_object_set_new(object, "route", json_string(e->route));
        for (int side = 0; side < SIDES; side++)
            set_quantiles(object, NAMES[side], e->endpoint[side] ? &e->endpoint[side]->latency : NULL);
        array_foreach (&e->parts, part) {
            json_t *p = change_json(&part->change);
            json_object_set_new(p, "layer", json_string(part->layer));
            json_object_set_new(p, "name", json_string(part->name));
            json_object_set_new(p, "before_share", json_real(part->share[0]));
            json_object_set_new(p, "after_share", json_real(part->share[1]));
            json_array_append_new(parts, p);
        }
        json_object_set_new(object, "parts", parts);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *operations_json(const struct comparison *c)
{
    static const char *const NAMES[] = {"before", "after"};
    json_t *list = json_array();
    array_foreach (&c->operations, o) {
        const struct operation_kind *kind = o->kind[0] ? o->kind[0] : o->kind[1];
        json_t *object = change_json(&o->change);
        json_object_set_new(object, "service", json_string(kind->service));
        json_object_set_new(object, "layer", json_string(kind->layer));
        json_object_set_new(object, "name", json_string(kind->name));
        for (int side = 0; side < SIDES; side++)
            set_quantiles(object, NAMES[side], o->kind[side] ? &o->kind[side]->attl : NULL);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *brief_json(const struct finding *f)
{
    return json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s?, s:I, s:I}", "kind", finding_kinds[f->kind].name,
                     "severity", finding_severity_name(f->severity), "title", f->title, "service",
                     f->where.service, "function", f->where.function, "file", f->where.file, "affected_count",
                     (json_int_t)f->affected_count, "cost_ns", (json_int_t)f->cost_ns);
}

static json_t *findings_json(const struct comparison *c)
{
    json_t *lists[SIDES] = {json_array(), json_array()}, *both = json_array();
    for (int side = 0; side < SIDES; side++)
        array_foreach (&c->report[side].findings, f)
            if (!find_same(&c->report[!side], *f))
                json_array_append_new(lists[side], brief_json(*f));
    array_foreach (&c->report[1].findings, f) {
        const struct finding *was = find_same(&c->report[0], *f);
        if (was)
            json_array_append_new(
                both, json_pack("{s:o, s:o}", "before", brief_json(was), "after", brief_json(*f)));
    }
    return json_pack("{s:o, s:o, s:o}", "appeared", lists[1], "vanished", lists[0], "both", both);
}

/* ---- the whole ---- */

static void comparison_done(struct comparison *c)
{
    array_foreach (&c->endpoints, e)
        array_done(&e->parts);
    array_done(&c->endpoints);
    array_done(&c->operations);
    for (int side = 0; side < SIDES; side++) {
        report_done(&c->report[side]);
        analysis_free(c->analysis[side]);
    }
}

int trace_diff(const char *before, const char *after, bool json, unsigned top)
{
    struct comparison c = {.folder = {before, after}};
    struct problem problem = {0};
    int r = 0;
    for (int side = 0; side < SIDES && r == 0; side++) {
        struct analyze_options options = ANALYZE_DEFAULTS;
        options.breakdown = true;
        options.keep_per_endpoint = 0;
        options.keep_slowest = 0;
        r = reading_run(c.folder[side], &options, &problem, &c.analysis[side], &c.report[side]);
        if (r == 0 && (r = add_side(&c, side)) < 0)
            problem_set(&problem, r, "%s: %s", c.folder[side], strerror(-r));
    }
    if (r == 0)
        r = judge_all(&c);
    if (r == 0) {
        sort_all(&c);
        if (json)
            r = cli_print_json(json_pack("{s:i, s:s, s:s, s:o, s:o, s:o}", "schema", SCHEMA_traces_diff,
                                         "before", before, "after", after, "endpoints", endpoints_json(&c),
                                         "operations", operations_json(&c), "findings", findings_json(&c)),
                               JSON_INDENT(1));
        else
            print_text(&c, top);
    }
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "comparing the traces: %s", strerror(-r));
    int status = r < 0 ? cli_fail(r == -EACCES || r == -EPERM ? EXIT_PERMISSION : EXIT_FAILED, &problem)
                 : reading_status(&c.report[0]) != EXIT_DONE ? reading_status(&c.report[0])
                                                             : reading_status(&c.report[1]);
    comparison_done(&c);
    return status;
}
