/* See bundle.h. Pairs of values are [older, newer] throughout; times are nanoseconds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/bundle.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/macro.h"
#include "base/schema.h"
#include "page/page.h"

enum { GROUPS_ROOM = 256, FOREST_ROWS = 400, BUCKETS_ROWS = 60, REQUEST_ROWS = 200, DEPTH_MAX = 12 };

#define CHANGE_SHOWN 0.005 /* of the growth; smaller changes are only counted */

/* ---- values ---- */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *whole(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *nanoseconds(double ns)
{
    return whole(ns > 0 ? (uint64_t)ns : 0);
}

/* Takes both. */
static json_t *pair(json_t *older, json_t *newer)
{
    json_t *both = json_array();
    json_array_append_new(both, older);
    json_array_append_new(both, newer);
    return both;
}

static json_t *words_taken(struct text *words)
{
    json_t *value = json_text(text_get(words));
    text_done(words);
    return value;
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* ---- numbers ---- */

/* The shares of requests that fail, of the part that the verdict is about; null when it is about latency. */
static json_t *failing(const struct verdict *v)
{
    if (!judge_by_errors(v))
        return json_null();
    return v->error_part.more ? pair(real(v->error_part.where.share_older), real(v->error_part.where.share))
                              : pair(real(v->errors.rate_older), real(v->errors.rate_newer));
}

static json_t *numbers(const struct verdict *v)
{
    const struct regress_result *r = &v->result;
    struct judge_figures figures = judge_figures(v);
    json_t *n = json_object();
    set(n, "measure", json_text(judge_by_errors(v) ? "errors" : regress_measure_name(r->measure)));
    set(n, "failing", failing(v));
    set(n, "failing_in_part", json_boolean(judge_by_errors(v) && v->error_part.more));
    set(n, "ratio", real(figures.ratio));
    set(n, "low", real(figures.low));
    set(n, "high", real(figures.high));
    set(n, "test", json_text(judge_test_words(v)));
    set(n, "p", real(figures.p));
    set(n, "adjusted_p", real(figures.adjusted_p));
    set(n, "e_value", real(judge_by_errors(v) ? v->errors.e_value : v->sequential.e_value));
    set(n, "z", real(r->z));
    set(n, "z_versions", v->z_versions != 0 ? real(v->z_versions) : json_null());
    set(n, "effect", real(r->effect));
    set(n, "concurrent", json_boolean(v->concurrent));
    set(n, "mix_ratio", real(v->mix_ratio));
    set(n, "errors", pair(real(v->errors.rate_older), real(v->errors.rate_newer)));
    set(n, "errors_p", real(v->errors.p));
    set(n, "errors_count", pair(whole(v->errors.errors_older), whole(v->errors.errors_newer)));
    set(n, "first_ns", whole(v->first_ns));
    set(n, "last_ns", whole(v->last_ns));
    set(n, "requests", pair(whole(r->older_requests), whole(r->newer_requests)));
    set(n, "hosts", pair(whole(r->older_hosts), whole(r->newer_hosts)));
    return n;
}

static json_t *quantiles(const struct verdict *v)
{
    static const double QUANTILES[] = {0.5, 0.9, 0.95, 0.99, 0.999};
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(QUANTILES); i++) {
        json_t *one = json_array();
        json_array_append_new(one, real(QUANTILES[i]));
        json_array_append_new(one, nanoseconds(sketch_quantile(&v->older, QUANTILES[i])));
        json_array_append_new(one, nanoseconds(sketch_quantile(&v->newer, QUANTILES[i])));
        json_array_append_new(list, one);
    }
    return list;
}

/* [[from_ns, to_ns, count], ...] of the bins that have any. */
static json_t *bins(const struct sketch *sketch)
{
    json_t *list = json_array();
    uint16_t first, end;
    sketch_range(sketch, &first, &end);
    for (uint32_t bin = first; bin < end; bin++) {
        uint64_t count = sketch_bin_count(sketch, (uint16_t)bin);
        if (!count)
            continue;
        json_t *one = json_array();
        json_array_append_new(one, whole(sketch_bin_low((uint16_t)bin)));
        json_array_append_new(one, whole(sketch_bin_low((uint16_t)(bin + 1))));
        json_array_append_new(one, whole(count));
        json_array_append_new(list, one);
    }
    return list;
}

/* ---- what changed ---- */

static json_t *changes(const struct book *book, const struct verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->change_count && !judge_by_errors(v); i++) {
        struct text words = {0}, chain = {0};
        if (fabs(v->changes[i].share) < CHANGE_SHOWN)
            continue;
        json_t *one = json_object();
        forest_change_words(book, &v->changes[i], &words);
        book_path_chain(book, v->changes[i].path, &chain);
        set(one, "kind", json_text(forest_change_name(v->changes[i].kind)));
        set(one, "words", words_taken(&words));
        set(one, "path", words_taken(&chain));
        set(one, "share", real(v->changes[i].share));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *cause(const struct book *book, const struct cause *c)
{
    struct text words = {0};
    json_t *one = json_object();
    cause_words(book, c, &words);
    set(one, "words", words_taken(&words));
    set(one, "ratio", real(c->ratio));
    set(one, "ratio_elsewhere", c->length ? real(c->ratio_outside) : json_null());
    set(one, "coverage", real(c->coverage));
    return one;
}

static json_t *causes(const struct book *book, const struct verdict *v)
{
    json_t *list = json_array();
    const struct cause *failing = &judge_error_cause(v)->cause;
    if (judge_by_errors(v) && failing->length)
        json_array_append_new(list, cause(book, failing));
    for (size_t i = 0; i < v->cause_count && !judge_by_errors(v); i++)
        json_array_append_new(list, cause(book, &v->causes[i]));
    return list;
}

/* The same two versions in the other buckets: where it is not slower is evidence too. */
static json_t *buckets(const struct book *book, const struct judgement *judgement,
                       const struct verdict *shown, size_t *ret_left_out)
{
    json_t *list = json_array();
    size_t rows = 0;
    array_foreach (&judgement->verdicts, v) {
        struct text words = {0};
        if (v->service != shown->service || v->version != shown->version || ++rows > BUCKETS_ROWS)
            continue;
        json_t *one = json_object();
        book_bucket_words(book, &book->buckets.at[v->bucket], &words);
        set(one, "words", words_taken(&words));
        set(one, "shown", json_boolean(v == shown));
        if (v->result.method != METHOD_NONE) {
            struct judge_figures figures = judge_figures(v);
            set(one, "ratio", real(figures.ratio));
            set(one, "low", real(figures.low));
            set(one, "high", real(figures.high));
            set(one, "outcome",
                json_text(judge_by_errors(v) ? "fails-more" : judge_outcome_name(v->outcome)));
        }
        json_array_append_new(list, one);
    }
    *ret_left_out = rows > BUCKETS_ROWS ? rows - BUCKETS_ROWS : 0;
    return list;
}

/* ---- the forest ---- */

/* What the rows of the forest are written from. */
struct rows {
    const struct book *book;
    const struct verdict *verdict;
    const struct forest *sides[2];
    json_t *list;
    size_t count;
};

static bool on_path(const struct verdict *v, uint32_t path)
{
    for (size_t i = 0; i < v->critical_path_length; i++)
        if (v->critical_path[i] == path)
            return true;
    return false;
}

static double per_request(uint64_t ns, const struct forest *forest)
{
    return (double)ns / fmax((double)forest->requests, 1);
}

static const char *kind_words(uint8_t kind)
{
    static const char *const words[] = {"", "", "server", "client", "producer", "consumer"};
    return kind < ARRAY_SIZE(words) ? words[kind] : "";
}

static void add_call(struct rows *rows, uint32_t path, unsigned depth)
{
    static const struct vertex none;
    const struct verdict *v = rows->verdict;
    struct text words = {0};
    json_t *one = json_object(), *calls = json_array(), *p95 = json_array(), *self = json_array(),
           *together = json_array(), *critical = json_array();
    book_path_words(rows->book, path, &words);
    for (int s = 0; s < 2; s++) {
        const struct forest *forest = rows->sides[s];
        const struct vertex *vertex = forest_vertex(forest, path);
        vertex = vertex ? vertex : &none;
        json_array_append_new(calls, real((double)vertex->calls / fmax((double)forest->requests, 1)));
        json_array_append_new(p95, nanoseconds(sketch_quantile(&vertex->duration, 0.95)));
        json_array_append_new(self, nanoseconds(per_request(vertex->self_ns, forest)));
        json_array_append_new(
            together, real(vertex->busy_ns ? (double)vertex->together_ns / (double)vertex->busy_ns : 1));
        json_array_append_new(
            critical, nanoseconds(per_request(vertex->critical_ns + vertex->edge_critical_ns, forest)));
    }
    set(one, "words", words_taken(&words));
    set(one, "kind", json_text(kind_words(rows->book->paths.at[path].kind)));
    set(one, "depth", whole(depth));
    set(one, "on_path", json_boolean(on_path(v, path)));
    set(one, "grew_most",
        json_boolean(!judge_by_errors(v) && v->change_count && v->changes[0].share > 0 &&
                     v->changes[0].path == path));
    set(one, "calls", calls);
    set(one, "p95_ns", p95);
    set(one, "self_ns", self);
    set(one, "at_once", together);
    set(one, "critical_ns", critical);
    json_array_append_new(rows->list, one);
}

/* Depth first below a path; children in order of number. */
static void add_calls(struct rows *rows, uint32_t path, unsigned depth)
{
    if (!forest_vertex(rows->sides[0], path) && !forest_vertex(rows->sides[1], path))
        return;
    if (++rows->count > FOREST_ROWS)
        return;
    add_call(rows, path, depth);
    for (uint32_t child = path + 1; child < rows->book->paths.count; child++)
        if (rows->book->paths.at[child].parent == path)
            add_calls(rows, child, depth + 1);
}

/* ---- exemplars ---- */

static const struct exemplar *pick_slowest(const struct group *const *groups, size_t count)
{
    const struct exemplar *best = NULL;
    for (size_t g = 0; g < count; g++)
        for (int i = 0; i < BOOK_EXEMPLARS; i++) {
            const struct exemplar *e = &groups[g]->slow[i];
            if (e->parts && (!best || e->duration_ns > best->duration_ns))
                best = e;
        }
    return best;
}

/* Of those that were near the median when they came, the nearest to what it is now. */
static const struct exemplar *pick_typical(const struct group *const *groups, size_t count, double median_ns)
{
    const struct exemplar *best = NULL;
    for (size_t g = 0; g < count; g++)
        for (int i = 0; i < BOOK_EXEMPLARS; i++) {
            const struct exemplar *e = &groups[g]->normal[i];
            if (e->parts && (!best || fabs((double)e->duration_ns - median_ns) <
                                          fabs((double)best->duration_ns - median_ns)))
                best = e;
        }
    return best;
}

static unsigned depth_of(const struct exemplar *e, size_t i)
{
    unsigned depth = 0;
    for (uint32_t up = e->parts[i].up; up != PART_NONE && up < e->count && depth < DEPTH_MAX;
         up = e->parts[up].up)
        depth++;
    return depth;
}

static json_t *part(const struct book *book, const struct exemplar *e, size_t i, bool critical)
{
    const struct part *p = &e->parts[i];
    json_t *one = json_object();
    set(one, "service", json_text(names_get(book->names, p->service)));
    set(one, "name", json_text(names_get(book->names, p->name)));
    set(one, "depth", whole(depth_of(e, i)));
    set(one, "start_ns", json_integer((json_int_t)(p->start_ns - e->parts[0].start_ns)));
    set(one, "duration_ns", whole(p->end_ns - p->start_ns));
    set(one, "critical", json_boolean(critical));
    set(one, "error", json_boolean(p->error));
    return one;
}

/* A request with its spans; null for none. */
static json_t *request(const struct book *book, const struct exemplar *e)
{
    struct path_scratch scratch = {0};
    char id[40];
    if (!e)
        return json_null();
    struct trace trace = {e->high, e->low, e->parts, e->count};
    _cleanup_(freep) struct path_time *times = calloc(e->count + 1, sizeof(*times));
    bool known = times && path_find(&trace, 0, &scratch, times) == 0;
    json_t *one = json_object(), *parts = json_array();
    snprintf(id, sizeof(id), "%016llx%016llx", (unsigned long long)e->high, (unsigned long long)e->low);
    for (size_t i = 0; i < MIN(e->count, (size_t)REQUEST_ROWS); i++)
        json_array_append_new(parts, part(book, e, i, known && times[i].on_path && times[i].critical_ns));
    set(one, "trace", json_text(id));
    set(one, "duration_ns", whole(e->duration_ns));
    set(one, "parts", parts);
    set(one, "left_out", whole(e->count - MIN(e->count, (size_t)REQUEST_ROWS)));
    path_scratch_done(&scratch);
    return one;
}

static json_t *requests(const struct book *book, const struct verdict *v)
{
    const struct group *newer[GROUPS_ROOM], *older[GROUPS_ROOM];
    size_t newer_count = judge_newer_groups(book, v, newer, GROUPS_ROOM);
    size_t older_count = judge_older_groups(book, v, older, GROUPS_ROOM);
    json_t *both = json_object();
    set(both, "typical",
        pair(request(book, pick_typical(older, older_count, sketch_quantile(&v->older, 0.5))),
             request(book, pick_typical(newer, newer_count, sketch_quantile(&v->newer, 0.5)))));
    set(both, "slowest",
        pair(request(book, pick_slowest(older, older_count)),
             request(book, pick_slowest(newer, newer_count))));
    return both;
}

/* ---- the document ---- */

static void add_evidence(const struct book *book, const struct judgement *judgement, const struct verdict *v,
                         const struct rows *rows, json_t *one)
{
    struct text words = {0};
    size_t left_out;
    book_bucket_words(book, &book->buckets.at[v->bucket], &words);
    set(one, "bucket", words_taken(&words));
    set(one, "service", json_text(names_get(book->names, v->service)));
    set(one, "versions",
        pair(json_text(v->base == NAMES_NONE ? "older" : names_get(book->names, v->base)),
             json_text(names_get(book->names, v->version))));
    set(one, "numbers", numbers(v));
    set(one, "quantiles", quantiles(v));
    set(one, "mean_ns", pair(nanoseconds(sketch_mean(&v->older)), nanoseconds(sketch_mean(&v->newer))));
    set(one, "distribution", pair(bins(&v->older), bins(&v->newer)));
    set(one, "changes", changes(book, v));
    set(one, "forest", json_incref(rows->list));
    set(one, "forest_left_out", whole(rows->count > FOREST_ROWS ? rows->count - FOREST_ROWS : 0));
    set(one, "requests", requests(book, v));
    set(one, "causes", causes(book, v));
    set(one, "rule", v->rule.length && !judge_by_errors(v) ? cause(book, &v->rule) : json_null());
    set(one, "buckets", buckets(book, judgement, v, &left_out));
    set(one, "buckets_left_out", whole(left_out));
}

static int add_finding(const struct book *book, const struct judgement *judgement, const struct verdict *v,
                       json_t *list)
{
    struct report report = {0};
    struct finding *finding = NULL;
    struct forest before = {0}, after = {0};
    int r = diagnosis_add_finding(book, v, v->sequential.e_value, &report, &finding);
    if (r == 0)
        r = judge_forests(book, v, &before, &after);
    if (r == 0) {
        struct rows rows = {.book = book, .verdict = v, .sides = {&before, &after}, .list = json_array()};
        json_t *one = json_object();
        set(one, "kind", json_text(finding_kinds[finding->kind].name));
        set(one, "title", json_text(finding->title));
        set(one, "detail", json_text(finding->detail));
        set(one, "remedy", json_text(finding->remedy));
        add_calls(&rows, book->buckets.at[v->bucket].type, 0);
        add_evidence(book, judgement, v, &rows, one);
        json_decref(rows.list);
        r = json_array_append_new(list, one) == 0 ? 0 : -ENOMEM;
    }
    forest_done(&before);
    forest_done(&after);
    report_done(&report);
    return r;
}

int bundle_document(const struct diagnosis *diagnosis, const struct judgement *judgement,
                    const struct report *report, struct text *to)
{
    const struct book *book = diagnosis_book(diagnosis);
    struct text read = {0};
    json_t *document = json_object(), *findings = json_array();
    int r = 0;
    diagnosis_input_words(diagnosis, &read);
    set(document, "schema", whole(SCHEMA_regressions));
    set(document, "outcome", json_text(judge_outcome_name(judgement->outcome)));
    set(document, "nothing", report->nothing ? json_text(report->nothing) : json_null());
    set(document, "read", words_taken(&read));
    set(document, "report", report_json(report));
    array_foreach (&judgement->verdicts, v)
        if (r == 0 && v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE)
            r = add_finding(book, judgement, v, findings);
    set(document, "findings", findings);
    _cleanup_(freep) char *dump = json_dumps(document, JSON_COMPACT);
    json_decref(document);
    if (r < 0 || !dump)
        return r < 0 ? r : -ENOMEM;
    text_add(to, dump);
    return to->failed ? -ENOMEM : 0;
}

int bundle_page(const struct text *document, struct text *to)
{
    char sources[64];
    int length = snprintf(sources, sizeof(sources), "{\"schema\":%d,\"regressions\":true,\"sources\":[]}",
                          SCHEMA_page);
    const struct page_part parts[] = {{"sources", sources, (size_t)length},
                                      {"regressions", text_get(document), document->length}};
    return page_file(parts, ARRAY_SIZE(parts), to);
}

int bundle_write(const struct diagnosis *diagnosis, const struct judgement *judgement,
                 const struct report *report, struct text *to)
{
    struct text document = {0};
    int r = bundle_document(diagnosis, judgement, report, &document);
    if (r == 0)
        r = bundle_page(&document, to);
    text_done(&document);
    return r;
}
