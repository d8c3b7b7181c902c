/* A judgement as the "diagnosis" member of the report document. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/json_text.h"
#include "base/macro.h"
#include "diagnose/diagnosis.h"
#include "diagnose/saturation.h"

#define BUCKETS_SHOWN   1000
#define PROPOSALS_SHOWN 20

static json_t *text_json(struct text *text)
{
    json_t *json = json_text(text_get(text));
    text_clear(text);
    return json;
}

/* Requests more than three standard deviations of the logarithm above their group's mean, and the slowest of
 * them. */
static void add_outliers(const struct group *group, json_t *to)
{
    double mean, variance;
    sketch_log_moments(&group->latency, &mean, &variance);
    double threshold = exp(mean + 3 * sqrt(variance));
    json_t *slowest = json_array();
    for (int i = 0; i < BOOK_EXEMPLARS; i++) {
        const struct exemplar *e = &group->slow[i];
        char id[40];
        if (!e->parts || (double)e->duration_ns <= threshold)
            continue;
        snprintf(id, sizeof(id), "%016llx%016llx", (unsigned long long)e->high, (unsigned long long)e->low);
        json_t *one = json_object();
        json_object_set_new(one, "trace", json_string(id));
        json_object_set_new(one, "duration_ns", json_integer((json_int_t)e->duration_ns));
        json_object_set_new(one, "z_score", json_real((log((double)e->duration_ns) - mean) / sqrt(variance)));
        json_array_append_new(slowest, one);
    }
    json_object_set_new(to, "outlier_threshold_ns", json_real(fmin(threshold, 9e18)));
    json_object_set_new(
        to, "outlier_requests",
        json_integer((json_int_t)sketch_count_above(&group->latency, (uint64_t)fmin(threshold, 9e18))));
    json_object_set_new(to, "outliers", slowest);
}

static json_t *bucket_json(const struct book *book, const struct bucket *bucket)
{
    struct text words = {0};
    json_t *json = json_object(), *groups = json_array();
    const struct group *newest = NULL;
    book_bucket_words(book, bucket, &words);
    json_object_set_new(json, "bucket", text_json(&words));
    array_foreach (&bucket->groups, group) {
        json_t *g = json_object();
        newest = !newest || group->requests > newest->requests ? group : newest;
        book_combination_words(book, group->combination, &words);
        json_object_set_new(g, "versions", text_json(&words));
        json_object_set_new(g, "requests", json_integer((json_int_t)group->requests));
        json_object_set_new(g, "errors", json_integer((json_int_t)group->errors));
        json_object_set_new(g, "mean_ns", json_integer((json_int_t)sketch_mean(&group->latency)));
        json_object_set_new(g, "p50_ns", json_integer((json_int_t)sketch_quantile(&group->latency, 0.5)));
        json_object_set_new(g, "p95_ns", json_integer((json_int_t)sketch_quantile(&group->latency, 0.95)));
        json_object_set_new(g, "p99_ns", json_integer((json_int_t)sketch_quantile(&group->latency, 0.99)));
        add_outliers(group, g);
        json_array_append_new(groups, g);
    }
    json_object_set_new(json, "groups", groups);
    struct forest forest;
    if (newest && forest_init(&forest, &newest, 1) == 0) {
        uint32_t paths[JUDGE_PATH];
        size_t n = forest_critical_path(book, &forest, paths, JUDGE_PATH);
        json_t *path = json_array();
        for (size_t i = 0; i < n; i++) {
            const struct vertex *v = forest_vertex(&forest, paths[i]);
            json_t *step = json_object();
            book_path_words(book, paths[i], &words);
            json_object_set_new(step, "call", text_json(&words));
            json_object_set_new(step, "p95_ns",
                                json_integer((json_int_t)sketch_quantile(&v->duration, 0.95)));
            json_object_set_new(step, "critical_ns",
                                json_integer((json_int_t)(v->critical_ns / forest.requests)));
            json_object_set_new(step, "edge_ns",
                                json_integer((json_int_t)(v->edge_critical_ns / forest.requests)));
            json_array_append_new(path, step);
        }
        json_object_set_new(json, "critical_path", path);
        forest_done(&forest);
    }
    text_done(&words);
    return json;
}

static json_t *verdict_json(const struct book *book, const struct verdict *v)
{
    struct text words = {0};
    const struct regress_result *r = &v->result;
    json_t *json = json_object();
    book_bucket_words(book, &book->buckets.at[v->bucket], &words);
    json_object_set_new(json, "bucket", text_json(&words));
    json_object_set_new(json, "service", json_string(names_get(book->names, v->service)));
    json_object_set_new(json, "version", json_string(names_get(book->names, v->version)));
    json_object_set_new(json, "base_version", json_string(names_get(book->names, v->base)));
    json_object_set_new(json, "verdict", json_string(judge_outcome_name(v->outcome)));
    json_object_set_new(json, "slower", json_boolean(r->slower));
    json_object_set_new(json, "more_errors", json_boolean(judge_fails_more(v)));
    json_object_set_new(json, "error_share", json_real(v->errors.rate_newer));
    json_object_set_new(json, "base_error_share", json_real(v->errors.rate_older));
    json_object_set_new(json, "errors_p_value", json_real(v->errors.p));
    json_object_set_new(json, "of_callers", json_boolean(v->of_callers));
    json_object_set_new(json, "same_time", json_boolean(v->concurrent));
    json_object_set_new(json, "order_unknown", json_boolean(v->order_unknown));
    json_object_set_new(json, "mix_ratio", json_real(v->mix_ratio));
    if (v->mix_changed) {
        judge_mix_words(book, v, &words);
        json_object_set_new(json, "mix_changed", text_json(&words));
    }
    if (v->follows != NAMES_NONE)
        json_object_set_new(json, "follows", json_string(names_get(book->names, v->follows)));
    if (v->outcome == OUTCOME_CANNOT_TELL) {
        judge_wanted_words(v, &words);
        json_object_set_new(json, "wanted", text_json(&words));
    }
    json_object_set_new(json, "method", json_string(regress_method_words(r->method)));
    json_object_set_new(json, "measure", json_string(regress_measure_name(r->measure)));
    json_object_set_new(json, "ratio", json_real(r->ratio[r->measure]));
    json_object_set_new(json, "ratio_low", json_real(r->low[r->measure]));
    json_object_set_new(json, "ratio_high", json_real(r->high[r->measure]));
    json_object_set_new(json, "p_value", json_real(r->p));
    json_object_set_new(json, "adjusted_p_value", json_real(r->adjusted_p));
    json_object_set_new(json, "e_value", json_real(v->sequential.e_value));
    json_object_set_new(json, "z_score", json_real(r->z));
    json_object_set_new(json, "z_score_versions", json_real(v->z_versions));
    json_object_set_new(json, "effect_size", json_real(r->effect));
    json_object_set_new(json, "requests", json_integer((json_int_t)r->newer_requests));
    json_object_set_new(json, "base_requests", json_integer((json_int_t)r->older_requests));
    json_object_set_new(json, "hosts", json_integer((json_int_t)r->newer_hosts));
    json_object_set_new(json, "base_hosts", json_integer((json_int_t)r->older_hosts));
    json_t *changes = json_array();
    for (size_t i = 0; i < v->change_count; i++) {
        const struct forest_change *c = &v->changes[i];
        json_t *change = json_object();
        book_path_chain(book, c->path, &words);
        json_object_set_new(change, "path", text_json(&words));
        json_object_set_new(change, "change", json_string(forest_change_name(c->kind)));
        json_object_set_new(change, "before_ns", json_integer((json_int_t)c->before_ns));
        json_object_set_new(change, "after_ns", json_integer((json_int_t)c->after_ns));
        json_object_set_new(change, "share", json_real(c->share));
        json_object_set_new(change, "concurrency_before", json_real(c->concurrency_before));
        json_object_set_new(change, "concurrency_after", json_real(c->concurrency_after));
        json_array_append_new(changes, change);
    }
    json_object_set_new(json, "changes", changes);
    json_t *causes = json_array();
    for (size_t i = 0; i < v->cause_count; i++) {
        const struct cause *c = &v->causes[i];
        json_t *cause = json_object();
        cause_words(book, c, &words);
        json_object_set_new(cause, "where", text_json(&words));
        json_object_set_new(cause, "coverage", json_real(c->coverage));
        json_object_set_new(cause, "ratio", json_real(c->ratio));
        json_object_set_new(cause, "ratio_outside", json_real(c->ratio_outside));
        json_object_set_new(cause, "requests", json_integer((json_int_t)c->requests));
        json_array_append_new(causes, cause);
    }
    json_object_set_new(json, "causes", causes);
    const struct error_cause *where = judge_error_cause(v);
    if (where->cause.length) {
        json_t *cause = json_object();
        cause_words(book, &where->cause, &words);
        json_object_set_new(cause, "where", text_json(&words));
        json_object_set_new(cause, "coverage", json_real(where->cause.coverage));
        json_object_set_new(cause, "errors", json_integer((json_int_t)where->errors));
        json_object_set_new(cause, "requests", json_integer((json_int_t)where->cause.requests));
        json_object_set_new(cause, "error_share", json_real(where->share));
        json_object_set_new(cause, "base_error_share", json_real(where->share_older));
        json_object_set_new(cause, "error_share_outside", json_real(where->share_outside));
        json_object_set_new(json, "error_cause", cause);
    }
    text_done(&words);
    return json;
}

static json_t *proposals_json(const struct book *book)
{
    struct proposal proposals[PROPOSALS_SHOWN];
    struct text words = {0};
    size_t n = 0;
    json_t *list = json_array();
    if (cause_propose(book, proposals, PROPOSALS_SHOWN, &n) < 0)
        return list;
    for (size_t i = 0; i < n; i++) {
        json_t *p = json_object();
        book_path_words(book, proposals[i].type, &words);
        json_object_set_new(p, "request_type", text_json(&words));
        json_object_set_new(p, "attribute", json_string(labels_key_name(book->labels, proposals[i].key)));
        json_object_set_new(p, "explained_share", json_real(proposals[i].explained));
        json_object_set_new(p, "values", json_integer(proposals[i].values));
        json_object_set_new(p, "requests", json_integer((json_int_t)proposals[i].requests));
        json_object_set_new(p, "in_use", json_boolean(proposals[i].in_use));
        json_array_append_new(list, p);
    }
    text_done(&words);
    return list;
}

json_t *diagnosis_document(const struct diagnosis *diagnosis, const struct judgement *judgement)
{
    const struct book *book = diagnosis_book(diagnosis);
    json_t *json = json_object(), *buckets = json_array(), *contrasts = json_array(), *in = json_object();
    size_t shown = 0;
    array_foreach (&book->buckets, bucket)
        if (bucket->whole && shown++ < BUCKETS_SHOWN)
            json_array_append_new(buckets, bucket_json(book, bucket));
    shown = 0;
    array_foreach (&judgement->verdicts, v)
        if (shown++ < BUCKETS_SHOWN)
            json_array_append_new(contrasts, verdict_json(book, v));
    json_object_set_new(in, "spans", json_integer((json_int_t)diagnosis_counts(diagnosis)->spans));
    json_object_set_new(in, "traces", json_integer((json_int_t)diagnosis_counts(diagnosis)->traces));
    json_object_set_new(in, "requests", json_integer((json_int_t)book->counts.requests));
    struct diagnosis_oddity odd[DIAGNOSIS_ODDITIES];
    diagnosis_oddities(diagnosis, odd);
    for (size_t i = 0; i < DIAGNOSIS_ODDITIES; i++)
        json_object_set_new(in, odd[i].name, json_integer((json_int_t)odd[i].count));
    json_object_set_new(json, "verdict", json_string(judge_outcome_name(judgement->outcome)));
    json_object_set_new(json, "told_share", json_real(judgement->told_share));
    json_object_set_new(json, "input", in);
    json_object_set_new(json, "bucket_count", json_integer((json_int_t)book_bucket_count(book)));
    json_object_set_new(json, "buckets", buckets);
    json_object_set_new(json, "contrasts", contrasts);
    json_object_set_new(json, "throughput", saturation_document(book, judgement));
    json_object_set_new(json, "attributes", proposals_json(book));
    return json;
}
