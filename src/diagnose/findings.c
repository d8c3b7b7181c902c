/* A judgement as findings of the report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/diagnosis.h"
#include "diagnose/saturation.h"

/* A text that was built, owned by the finding's arena, and the builder emptied. */
static const char *keep(struct finding *finding, struct text *text)
{
    const char *kept = finding_say(finding, "%s", text_get(text));
    text_clear(text);
    return kept;
}

static const char *milliseconds(double ns, char *buffer)
{
    return clock_format_duration(ns > 0 ? (uint64_t)ns : 0, buffer, 24);
}

/* A duration of a measure: what the title speaks of. */
static double measured(const struct sketch *sketch, enum regress_measure measure)
{
    double mean, variance;
    if (measure == MEASURE_P95)
        return sketch_quantile(sketch, 0.95);
    if (measure == MEASURE_P99)
        return sketch_quantile(sketch, 0.99);
    sketch_log_moments(sketch, &mean, &variance);
    return exp(mean);
}

/* The shortest cause that is not "everywhere", when it is worth naming. */
static const struct cause *named_cause(const struct verdict *verdict)
{
    if (verdict->subgroup.slower)
        return &verdict->subgroup.cause;
    const struct cause *best = verdict->cause_count ? &verdict->causes[0] : NULL;
    return best && best->length && best->gain > 0 ? best : NULL;
}

/* Whom the finding is about: the service whose version changed, but a callee is not to blame for what grew
 * above it. */
static uint32_t culprit_of(const struct book *book, const struct verdict *v)
{
    if (!v->of_callers || !v->change_count)
        return v->service;
    const struct forest_change *c = &v->changes[0];
    bool below = book->paths.at[c->path].service == v->service &&
                 (c->kind == CHANGE_SLOWER || c->kind == CHANGE_EDGE || c->kind == CHANGE_FASTER);
    return below ? v->service : book->paths.at[book->buckets.at[v->bucket].type].service;
}

static const char *say_part_title(const struct book *book, const struct verdict *v, const char *bucket,
                                  struct finding *f)
{
    const struct error_cause *where = &v->error_part.where;
    struct text words = {0};
    cause_words(book, &where->cause, &words);
    const char *title =
        finding_say(f, "%s fails in %.2f %% of its requests where %s instead of %.2f %% since %s %s", bucket,
                    where->share * 100, text_get(&words), where->share_older * 100,
                    names_get(book->names, v->service), names_get(book->names, v->since));
    text_done(&words);
    return title;
}

static const char *say_subgroup_title(const struct book *book, const struct verdict *v, const char *bucket,
                                      struct finding *f)
{
    struct text words = {0};
    cause_words(book, &v->subgroup.cause, &words);
    const char *title =
        finding_say(f, "%s is %.2f times slower where %s since %s %s", bucket, v->subgroup.cause.ratio,
                    text_get(&words), names_get(book->names, v->service), names_get(book->names, v->since));
    text_done(&words);
    return title;
}

static void say_title(const struct book *book, const struct verdict *v, struct finding *f)
{
    struct text bucket = {0};
    char before[24], after[24];
    const struct regress_result *r = &v->result;
    book_bucket_words(book, &book->buckets.at[v->bucket], &bucket);
    if (judge_by_errors(v) && v->error_part.more)
        f->title = say_part_title(book, v, text_get(&bucket), f);
    else if (judge_by_errors(v))
        f->title = finding_say(f, "%s fails in %.2f %% of its requests instead of %.2f %% since %s %s",
                               text_get(&bucket), v->errors.rate_newer * 100, v->errors.rate_older * 100,
                               names_get(book->names, v->service), names_get(book->names, v->since));
    else if (v->subgroup.slower)
        f->title = say_subgroup_title(book, v, text_get(&bucket), f);
    else
        f->title = finding_say(f, "%s is %.2f times slower (%s %s instead of %s) %s %s %s", text_get(&bucket),
                               r->ratio[r->measure],
                               r->measure == MEASURE_MIDDLE ? "typically" : regress_measure_name(r->measure),
                               milliseconds(measured(&v->newer, r->measure), after),
                               milliseconds(measured(&v->older, r->measure), before),
                               v->of_callers ? "where it calls" : "since", names_get(book->names, v->service),
                               names_get(book->names, v->since));
    text_done(&bucket);
}

/* The call path of a change, from the root of the request. */
static void say_chain(const struct book *book, const struct verdict *v, uint32_t path, struct text *to)
{
    array_foreach (&book->buckets.at[v->bucket].groups, group)
        if (book_has_version(book, group->combination, v->service, v->version) && group->above != BOOK_NONE) {
            book_path_chain(book, group->above, to);
            text_add(to, " > ");
            break;
        }
    book_path_chain(book, path, to);
}

static void say_errors(const struct book *book, const struct verdict *v, struct text *to)
{
    const struct error_result *e = &v->errors;
    if (e->errors_newer + e->errors_older > 0)
        text_addf(
            to,
            "%.0f errors in %llu requests against %.0f in %llu, ratio %.2f, 95 %% interval %.2f to %.2f, "
            "adjusted p = %.2g. ",
            e->errors_newer, (unsigned long long)v->result.newer_requests, e->errors_older,
            (unsigned long long)v->result.older_requests, e->ratio, e->low, e->high, e->adjusted_p);
    const struct error_cause *where = judge_error_cause(v);
    if (where->cause.length) {
        text_add(to, v->error_part.more ? "More are where " : "They are where ");
        cause_words(book, &where->cause, to);
        text_addf(to, ": %.2f %% of the %llu requests fail there (%.2f %% before), %.2f %% elsewhere",
                  where->share * 100, (unsigned long long)where->cause.requests, where->share_older * 100,
                  where->share_outside * 100);
        if (v->error_part.more)
            text_addf(to, "; adjusted p = %.2g", v->error_part.adjusted_p);
        text_add(to, ". ");
    }
}

static void say_detail(const struct book *book, const struct verdict *v, struct finding *f)
{
    struct text words = {0};
    const struct regress_result *r = &v->result;
    if (judge_fails_more(v))
        say_errors(book, v, &words);
    if (judge_takes_longer(v) && v->change_count) {
        text_add(&words, "On the critical path, ");
        forest_change_words(book, &v->changes[0], &words);
        text_addf(&words, "; that is %.0f %% of the growth. Call path: ", v->changes[0].share * 100);
        say_chain(book, v, v->changes[0].path, &words);
        text_add(&words, ". ");
    }
    const struct cause *cause = named_cause(v);
    if (judge_takes_longer(v) && cause) {
        text_add(&words, "The slow-down is where ");
        cause_words(book, cause, &words);
        text_addf(&words, " (%.2f times, elsewhere %.2f times). ", cause->ratio, cause->ratio_outside);
    }
    if (v->subgroup.slower)
        text_addf(&words,
                  "There the ratio's 95 %% interval is %.2f to %.2f, adjusted p = %.2g; %llu requests on %zu "
                  "host%s against %llu on %zu. All requests together hardly show it: ",
                  v->subgroup.low, v->subgroup.high, v->subgroup.adjusted_p,
                  (unsigned long long)v->subgroup.cause.requests, v->subgroup.hosts,
                  v->subgroup.hosts == 1 ? "" : "s", (unsigned long long)v->subgroup.base_requests,
                  v->subgroup.base_hosts);
    text_addf(&words,
              "%s%s: ratio %.2f, 95 %% interval %.2f to %.2f, adjusted p = %.2g; %llu requests on %zu host%s "
              "against %llu on %zu; Z = %.2f against the older requests",
              judge_by_errors(v) ? "Latency, " : "", regress_method_words(r->method), r->ratio[r->measure],
              r->low[r->measure], r->high[r->measure], r->adjusted_p, (unsigned long long)r->newer_requests,
              r->newer_hosts, r->newer_hosts == 1 ? "" : "s", (unsigned long long)r->older_requests,
              r->older_hosts, r->z);
    if (v->z_versions != 0)
        text_addf(&words, ", %.2f against the older versions", v->z_versions);
    text_add(&words, v->concurrent ? "; both over the same time." : "; over different times.");
    if (v->older_bucket != v->bucket) {
        text_add(&words, " The older versions call it ");
        book_path_words(book, book->buckets.at[v->older_bucket].type, &words);
        text_add(&words, ".");
    }
    if (v->newer_request.count && v->older_request.count && v->newer_request.count >= v->newer.count / 2) {
        char before[24], after[24];
        text_addf(&words, " The requests that it is part of take %s on average, %s before.",
                  milliseconds(sketch_mean(&v->newer_request), after),
                  milliseconds(sketch_mean(&v->older_request), before));
    }
    f->detail = keep(f, &words);
    text_done(&words);
}

static int add_texts(const struct book *book, const struct verdict *v, struct finding *f)
{
    struct text words = {0};
    const struct bucket *bucket = &book->buckets.at[v->bucket];
    book_path_words(book, bucket->type, &words);
    const struct group *group = &bucket->groups.at[0];
    if (group->above != BOOK_NONE) {
        uint32_t root = group->above;
        while (book->paths.at[root].parent != BOOK_NONE)
            root = book->paths.at[root].parent;
        text_clear(&words);
        book_path_words(book, root, &words);
    }
    int r = finding_add_text(f, "request_type", keep(f, &words));
    book_bucket_words(book, bucket, &words);
    r |= finding_add_text(f, "bucket", keep(f, &words));
    uint32_t culprit = culprit_of(book, v);
    r |= finding_add_text(f, "service", names_get(book->names, culprit));
    if (culprit != v->service)
        r |= finding_add_text(f, "callee", names_get(book->names, v->service));
    r |= finding_add_text(f, culprit == v->service ? "version" : "callee_version",
                          names_get(book->names, v->version));
    if (culprit == v->service) {
        r |= finding_add_text(f, "base_version", names_get(book->names, v->base));
        r |= finding_add_text(f, "since_version", names_get(book->names, v->since));
    }
    r |= finding_add_text(f, "measure",
                          judge_by_errors(v) ? "errors" : regress_measure_name(v->result.measure));
    r |= finding_add_text(f, "compared_over", v->concurrent ? "same time" : "different times");
    r |= finding_add_text(f, "method", judge_test_words(v));
    text_done(&words);
    return r;
}

static int add_numbers(const struct verdict *v, double e_value, struct finding *f)
{
    const struct regress_result *result = &v->result;
    const struct error_result *errors = &v->errors;
    const struct subgroup *part = &v->subgroup;
    struct judge_figures figures = judge_figures(v);
    int r = finding_add_real(f, "ratio", figures.ratio);
    r |= finding_add_real(f, "ratio_low", figures.low);
    r |= finding_add_real(f, "ratio_high", figures.high);
    r |= finding_add_real(f, "p_value", figures.p);
    r |= finding_add_real(f, "adjusted_p_value", figures.adjusted_p);
    if (part->slower) {
        r |= finding_add_count(f, "subgroup_requests_count", part->cause.requests);
        r |= finding_add_count(f, "subgroup_base_requests_count", part->base_requests);
    }
    r |= finding_add_real(f, "error_share", errors->rate_newer);
    r |= finding_add_real(f, "base_error_share", errors->rate_older);
    r |= finding_add_real(f, "mix_ratio", v->mix_ratio);
    r |= finding_add_real(f, "cost_share", v->cost_share);
    if (e_value > 0)
        r |= finding_add_real(f, "e_value", e_value);
    r |= finding_add_real(f, "z_score", result->z);
    if (v->z_versions != 0)
        r |= finding_add_real(f, "z_score_versions", v->z_versions);
    r |= finding_add_real(f, "effect_size", result->effect);
    r |= finding_add_count(f, "requests_count", result->newer_requests);
    r |= finding_add_count(f, "base_requests_count", result->older_requests);
    r |= finding_add_count(f, "hosts_count", result->newer_hosts);
    r |= finding_add_count(f, "base_hosts_count", result->older_hosts);
    r |= finding_add_count(f, "mean_ns", (uint64_t)sketch_mean(&v->newer));
    r |= finding_add_count(f, "base_mean_ns", (uint64_t)sketch_mean(&v->older));
    r |= finding_add_count(f, "p95_ns", (uint64_t)sketch_quantile(&v->newer, 0.95));
    r |= finding_add_count(f, "base_p95_ns", (uint64_t)sketch_quantile(&v->older, 0.95));
    r |= finding_add_count(f, "p99_ns", (uint64_t)sketch_quantile(&v->newer, 0.99));
    r |= finding_add_count(f, "base_p99_ns", (uint64_t)sketch_quantile(&v->older, 0.99));
    return r;
}

static int add_path_and_cause(const struct book *book, const struct verdict *v, struct finding *f)
{
    struct text words = {0};
    int r = 0;
    if (judge_takes_longer(v) && v->change_count) {
        const struct forest_change *c = &v->changes[0];
        say_chain(book, v, c->path, &words);
        r |= finding_add_text(f, "path", keep(f, &words));
        r |= finding_add_text(f, "path_change", forest_change_name(c->kind));
        r |= finding_add_count(f, "path_ns", (uint64_t)c->after_ns);
        r |= finding_add_count(f, "base_path_ns", (uint64_t)c->before_ns);
        r |= finding_add_real(f, "path_share", c->share);
        r |= finding_add_real(f, "concurrency", c->concurrency_after);
        r |= finding_add_real(f, "base_concurrency", c->concurrency_before);
    }
    const struct cause *cause = judge_takes_longer(v) ? named_cause(v) : NULL;
    if (judge_by_errors(v))
        cause = judge_error_cause(v)->cause.length ? &judge_error_cause(v)->cause : NULL;
    if (cause) {
        cause_words(book, cause, &words);
        r |= finding_add_text(f, "cause", keep(f, &words));
        r |= finding_add_real(f, "cause_coverage", cause->coverage);
        r |= finding_add_real(f, "cause_ratio", cause->ratio);
        r |= finding_add_real(f, "cause_ratio_outside", cause->ratio_outside);
    }
    if (judge_takes_longer(v) && v->rule.length) {
        cause_words(book, &v->rule, &words);
        r |= finding_add_text(f, "rule_cause", keep(f, &words));
    }
    text_done(&words);
    return r;
}

/* Those that failed. */
static int add_failed(const struct book *book, const struct verdict *v, struct finding *f)
{
    const struct path *root = &book->paths.at[book->buckets.at[v->bucket].type];
    uint64_t count = v->error_part.more ? v->error_part.where.errors : (uint64_t)ceil(v->errors.errors_newer);
    struct finding_affected failed = {.service = names_get(book->names, root->service),
                                      .path = names_get(book->names, root->name),
                                      .role = "failed",
                                      .count = count,
                                      .start_ns = v->first_ns};
    return finding_add_affected(f, &failed, 8);
}

/* The slowest requests one by one, and all others together. */
static int add_affected(const struct book *book, const struct verdict *v, struct finding *f)
{
    const struct bucket *bucket = &book->buckets.at[v->bucket];
    const struct path *root = &book->paths.at[bucket->type];
    double before_ns = sketch_mean(&v->older), delay_ns = fmax(sketch_mean(&v->newer) - before_ns, 0);
    f->cost_ns = (uint64_t)(delay_ns * (double)v->served); /* also of those that were not compared */
    struct finding_affected others = {.service = names_get(book->names, root->service),
                                      .path = names_get(book->names, root->name),
                                      .count = v->served,
                                      .start_ns = v->first_ns,
                                      .delay_ns = (uint64_t)delay_ns};
    int r = 0;
    array_foreach (&bucket->groups, group) {
        if (!book_has_version(book, group->combination, v->service, v->version))
            continue;
        for (int i = 0; i < BOOK_EXEMPLARS && others.count; i++) {
            const struct exemplar *e = &group->slow[i];
            char id[40];
            if (!e->parts)
                continue;
            snprintf(id, sizeof(id), "%016llx%016llx", (unsigned long long)e->high,
                     (unsigned long long)e->low);
            struct finding_affected one = {.id = e->high ? id : id + 16,
                                           .service = others.service,
                                           .path = others.path,
                                           .count = 1,
                                           .start_ns = e->parts[0].start_ns,
                                           .delay_ns = (uint64_t)fmax((double)e->duration_ns - before_ns, 0)};
            r |= finding_add_affected(f, &one, 8);
            others.count--;
        }
    }
    if (others.count)
        r |= finding_add_affected(f, &others, 8);
    return r;
}

#define CRITICAL_COST   0.5  /* of the service's newer requests' time, added */
#define CRITICAL_ERRORS 0.05 /* of requests, that fail beyond the older share */

static enum finding_severity severity_of(const struct verdict *v)
{
    bool many = v->errors.more && v->errors.rate_newer - v->errors.rate_older >= CRITICAL_ERRORS;
    return many || (v->result.slower && v->cost_share >= CRITICAL_COST) ? SEVERITY_CRITICAL
                                                                        : SEVERITY_WARNING;
}

/* The service at which the change lies: calls made otherwise are the caller's. */
static const struct path *place_of(const struct book *book, const struct verdict *v)
{
    const struct path *type = &book->paths.at[book->buckets.at[v->bucket].type];
    if (!v->change_count || !judge_takes_longer(v))
        return type;
    const struct path *path = &book->paths.at[v->changes[0].path];
    bool callers = v->changes[0].kind == CHANGE_MORE_CALLS || v->changes[0].kind == CHANGE_SEQUENTIAL ||
                   v->changes[0].kind == CHANGE_APPEARED;
    return callers && path->service != type->service && path->parent != BOOK_NONE
               ? &book->paths.at[path->parent]
               : path;
}

static void say_remedy(const struct book *book, const struct verdict *v, struct finding *f)
{
    const char *service = names_get(book->names, v->service), *version = names_get(book->names, v->version),
               *base = names_get(book->names, v->base), *since = names_get(book->names, v->since);
    const struct path *place = place_of(book, v);
    uint32_t culprit = culprit_of(book, v);
    if (culprit != v->service)
        f->remedy = finding_say(
            f,
            "Look at %s: where it calls %s %s it takes longer itself; nothing grew in %s or on the "
            "way to it.",
            names_get(book->names, culprit), service, version, service);
    else if (place->service != v->service)
        f->remedy =
            finding_say(f,
                        "Look at %s, which %s %s waits for longer. Stop the rollout of %s %s, or roll back "
                        "to %s, if it calls %s otherwise than before.",
                        names_get(book->names, place->service), service, version, service, version, base,
                        names_get(book->names, place->service));
    else if (v->since != v->version)
        f->remedy = finding_say(
            f,
            "Roll %s back to %s, the last version before it got slower; %s, which runs now, is as "
            "slow as %s. Look at the call path named above.",
            service, base, version, since);
    else if (v->order_unknown)
        f->remedy = finding_say(f,
                                "Nothing shows which of %s and %s is the newer one (--candidate VERSION says "
                                "it). If it is %s, stop "
                                "the rollout of %s %s, or roll back to %s. Look at %s.",
                                version, base, version, service, version, base,
                                judge_by_errors(v) ? "the requests that fail" : "the call path named above");
    else
        f->remedy =
            finding_say(f, "Stop the rollout of %s %s, or roll back to %s, and look at %s.", service, version,
                        base, judge_by_errors(v) ? "the requests that fail" : "the call path named above");
}

int diagnosis_add_finding(const struct book *book, const struct verdict *v, double e_value,
                          struct report *report, struct finding **ret_finding)
{
    struct finding *f = report_add_finding(report, FINDING_regression, severity_of(v));
    if (!f)
        return -ENOMEM;
    const struct path *where = place_of(book, v);
    f->where.service = names_get(book->names, where->service);
    f->where.function = names_get(book->names, where->name);
    f->from_ns = v->first_ns;
    f->to_ns = v->last_ns;
    say_title(book, v, f);
    say_detail(book, v, f);
    say_remedy(book, v, f);
    int r = add_texts(book, v, f);
    r |= add_numbers(v, e_value, f);
    r |= add_path_and_cause(book, v, f);
    r |= judge_by_errors(v) ? add_failed(book, v, f) : add_affected(book, v, f);
    if (r)
        return -ENOMEM;
    if (ret_finding)
        *ret_finding = f;
    return 0;
}

/* A host that is slow by itself. */
static int add_bad_host(const struct book *book, const struct bad_host *bad, struct report *report)
{
    struct finding *f = report_add_finding(report, FINDING_outlier_instance, SEVERITY_WARNING);
    const struct bucket *bucket = &book->buckets.at[bad->bucket];
    const struct path *type = &book->paths.at[bucket->type];
    const char *service = names_get(book->names, type->service), *host = names_get(book->names, bad->host);
    struct text words = {0};
    char own[24], others[24];
    if (!f)
        return -ENOMEM;
    book_bucket_words(book, bucket, &words);
    f->where.service = service;
    f->where.function = names_get(book->names, type->name);
    f->from_ns = bad->first_ns;
    f->to_ns = bad->last_ns;
    f->cost_ns = (uint64_t)(fmax(bad->own_ns - bad->median_ns, 0) * (double)bad->requests);
    f->title =
        finding_say(f, "%s takes %.2f times as long on %s as on its equals (typically %s instead of %s)",
                    text_get(&words), bad->ratio, host, milliseconds(bad->own_ns, own),
                    milliseconds(bad->median_ns, others));
    f->detail = finding_say(
        f,
        "The slowest of %zu hosts that run %s %s%s; p = %.2g for the slowest of them. It is left out "
        "where versions are compared.",
        bad->equals, service, names_get(book->names, bad->version),
        bad->buckets > 1 ? ", in several operations" : "", bad->p);
    f->remedy = finding_say(
        f, "Take %s out of service and look at the machine: it is not the version's doing.", host);
    int r = finding_add_text(f, "instance", host);
    r |= finding_add_text(f, "bucket", keep(f, &words));
    r |= finding_add_text(f, "service", service);
    r |= finding_add_text(f, "version", names_get(book->names, bad->version));
    r |= finding_add_count(f, "equals_count", bad->equals);
    r |= finding_add_real(f, "ratio", bad->ratio);
    r |= finding_add_count(f, "total_ns", (uint64_t)bad->own_ns);
    r |= finding_add_count(f, "median_ns", (uint64_t)bad->median_ns);
    r |= finding_add_real(f, "p_value", bad->p);
    r |= finding_add_count(f, "requests_count", bad->requests);
    text_done(&words);
    return r ? -ENOMEM : 0;
}

int diagnosis_report(const struct diagnosis *diagnosis, const struct judge_settings *settings,
                     struct report *report, struct judgement *ret_judgement)
{
    const struct book *book = diagnosis_book(diagnosis);
    struct judgement judgement;
    int r = judge(book, settings, &judgement);
    if (r < 0)
        return r;
    array_foreach (&judgement.verdicts, v)
        if (r == 0 && v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE)
            r = diagnosis_add_finding(book, v, settings->sequential ? v->sequential.e_value : 0, report,
                                      NULL);
    array_foreach (&judgement.bad_hosts, bad)
        if (r == 0)
            r = add_bad_host(book, bad, report);
    if (r == 0)
        r = saturation_report(book, &judgement, report);
    array_foreach (&judgement.days, change)
        if (r == 0)
            r = diagnosis_add_day_change(book, change, report, NULL);
    if (r == 0)
        r = diagnosis_report_losses(diagnosis, report);
    report_sort(report);
    if (r == 0 && !report->findings.count)
        report->nothing = diagnosis_say_nothing(diagnosis, settings, &judgement, report);
    report->extra = json_object();
    json_object_set_new(report->extra, "diagnosis", diagnosis_document(diagnosis, &judgement));
    if (r < 0)
        judgement_done(&judgement);
    else
        *ret_judgement = judgement;
    return r;
}
