/* See saturation.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/saturation.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/diagnosis.h"

#define GROUPS_ROOM 256

/* A queue is looked at again and again while it grows, and every burst makes one for a moment: what a watch
 * says is surer, and has lasted. */
#define WATCHED_P  1e-4
#define WATCHED_NS (300 * NS_PER_S)

/* ---- judging ---- */

static int judge_throughput(const struct book *book, const struct verdict *v, struct judgement *judgement)
{
    const struct group *older[GROUPS_ROOM], *newer[GROUPS_ROOM];
    struct throughput t;
    size_t older_count = judge_older_groups(book, v, older, GROUPS_ROOM),
           newer_count = judge_newer_groups(book, v, newer, GROUPS_ROOM);
    int r = throughput_test(book, &book->buckets.at[v->bucket], older, older_count, newer, newer_count, &t);
    if (r < 0 || !isfinite(t.usual_wait_ns))
        return r;
    t.bucket = v->bucket;
    t.service = v->service;
    t.version = v->version;
    t.base = v->base;
    return array_add(&judgement->throughputs, t);
}

static bool is_explained(const struct judgement *judgement, uint32_t service)
{
    array_foreach (&judgement->throughputs, t)
        if (t->service == service && t->outcome == THROUGHPUT_FEWER)
            return true;
    return false;
}

static int judge_backlogs(const struct book *book, const struct judge_settings *settings,
                          struct judgement *judgement)
{
    int r = 0;
    for (uint32_t b = 0; r == 0 && b < book->buckets.count; b++) {
        const struct bucket *bucket = &book->buckets.at[b];
        uint32_t service = book->paths.at[bucket->type].service;
        struct backlog backlog;
        bool grows;
        if (bucket->whole || bucket->callee != NAMES_NONE || is_explained(judgement, service) ||
            (settings->service && strcmp(names_get(book->names, service), settings->service) != 0))
            continue;
        r = backlog_find(book, b, &grows, &backlog);
        if (settings->sequential)
            grows &= backlog.p <= WATCHED_P && backlog.last_ns - backlog.since_ns >= WATCHED_NS;
        if (r == 0 && grows)
            r = array_add(&judgement->backlogs, backlog);
    }
    return r;
}

int saturation_judge(const struct book *book, const struct judge_settings *settings,
                     struct judgement *judgement)
{
    double rate = settings->regress.false_discovery_rate > 0 ? settings->regress.false_discovery_rate : 0.02;
    int r = 0;
    array_foreach (&judgement->verdicts, v)
        if (r == 0 && !v->of_callers && v->older_bucket == v->bucket)
            r = judge_throughput(book, v, judgement);
    if (settings->sequential)
        throughput_decide_watched(judgement->throughputs.at, judgement->throughputs.count, rate);
    else
        throughput_decide(judgement->throughputs.at, judgement->throughputs.count, rate);
    return r < 0 ? r : judge_backlogs(book, settings, judgement);
}

/* ---- findings ---- */

static const char *name_bucket(const struct book *book, uint32_t at, struct finding *f)
{
    const struct bucket *bucket = &book->buckets.at[at];
    const struct path *type = &book->paths.at[bucket->type];
    struct text words = {0};
    book_bucket_words(book, bucket, &words);
    const char *name = finding_say(f, "%s", text_get(&words));
    text_done(&words);
    f->where.service = names_get(book->names, type->service);
    f->where.function = names_get(book->names, type->name);
    return name;
}

static const char *duration(struct finding *f, double ns)
{
    char buffer[24];
    return finding_say(f, "%s", clock_format_duration((uint64_t)fmax(ns, 0), buffer, sizeof(buffer)));
}

int diagnosis_add_throughput(const struct book *book, const struct throughput *t, struct report *report,
                             struct finding **ret_finding)
{
    struct finding *f = report_add_finding(report, FINDING_less_throughput, SEVERITY_WARNING);
    if (!f)
        return -ENOMEM;
    const char *bucket = name_bucket(book, t->bucket, f), *version = names_get(book->names, t->version),
               *base = names_get(book->names, t->base);
    f->from_ns = t->first_ns;
    f->to_ns = t->last_ns;
    f->cost_ns = (uint64_t)(fmax(t->wait_ns - t->usual_wait_ns, 0) * (double)t->requests);
    f->title = finding_say(f,
                           "%s: a host of %s %s completes %.2f times as many requests as one of %s, while "
                           "others wait for it",
                           bucket, f->where.service, version, t->ratio, base);
    f->detail = finding_say(
        f,
        "%.2f a second against %.2f, 95 %% interval of the ratio %.2f to %.2f, %zu and %zu hosts; p = %.2g. "
        "Meanwhile requests wait for %s; at the best of times %s. %s",
        t->rate, t->base_rate, t->low, t->high, t->hosts, t->base_hosts, t->p, duration(f, t->wait_ns),
        duration(f, t->usual_wait_ns),
        t->older_waited ? "Both are what hosts completed while requests waited for them."
                        : "Nothing waited for the older version, whose hosts may have been able to do more.");
    f->remedy = finding_say(f,
                            "Stop the rollout of %s, or roll back to %s: compare how many requests a host "
                            "works on at once, and what it waits for between two of them.",
                            version, base);
    int r = finding_add_text(f, "service", f->where.service);
    r |= finding_add_text(f, "version", version);
    r |= finding_add_text(f, "base_version", base);
    r |= finding_add_text(f, "bucket", bucket);
    r |= finding_add_real(f, "ratio", t->ratio);
    r |= finding_add_real(f, "ratio_low", t->low);
    r |= finding_add_real(f, "ratio_high", t->high);
    r |= finding_add_real(f, "completed_per_s", t->rate);
    r |= finding_add_real(f, "base_completed_per_s", t->base_rate);
    r |= finding_add_count(f, "wait_ns", (uint64_t)t->wait_ns);
    r |= finding_add_count(f, "usual_wait_ns", (uint64_t)t->usual_wait_ns);
    r |= finding_add_count(f, "hosts_count", t->hosts);
    r |= finding_add_count(f, "base_hosts_count", t->base_hosts);
    r |= finding_add_count(f, "requests_count", t->requests);
    r |= finding_add_real(f, "p_value", t->p);
    if (ret_finding)
        *ret_finding = f;
    return r ? -ENOMEM : 0;
}

int diagnosis_add_backlog(const struct book *book, const struct backlog *b, struct report *report,
                          struct finding **ret_finding)
{
    struct finding *f = report_add_finding(report, FINDING_growing_queue, SEVERITY_WARNING);
    if (!f)
        return -ENOMEM;
    const char *bucket = name_bucket(book, b->bucket, f);
    f->from_ns = b->since_ns;
    f->to_ns = b->last_ns;
    f->cost_ns = (uint64_t)(fmax(b->wait_ns - b->usual_wait_ns, 0) / 2 * (double)b->requests);
    f->title =
        finding_say(f, "%s completes %.0f %% of what comes: requests wait for %s and longer and longer",
                    bucket, b->completed * 100, duration(f, b->wait_ns));
    f->detail = finding_say(f, "95 %% interval %.0f to %.0f %%; at the best of times requests wait for %s.",
                            b->low * 100, b->high * 100, duration(f, b->usual_wait_ns));
    int r = finding_add_text(f, "service", f->where.service);
    r |= finding_add_text(f, "bucket", bucket);
    r |= finding_add_real(f, "completed_share", b->completed);
    r |= finding_add_real(f, "completed_share_low", b->low);
    r |= finding_add_real(f, "completed_share_high", b->high);
    r |= finding_add_count(f, "wait_ns", (uint64_t)b->wait_ns);
    r |= finding_add_count(f, "usual_wait_ns", (uint64_t)b->usual_wait_ns);
    r |= finding_add_count(f, "requests_count", b->requests);
    if (ret_finding)
        *ret_finding = f;
    return r ? -ENOMEM : 0;
}

int saturation_report(const struct book *book, const struct judgement *judgement, struct report *report)
{
    int r = 0;
    array_foreach (&judgement->throughputs, t)
        if (r == 0 && t->outcome == THROUGHPUT_FEWER)
            r = diagnosis_add_throughput(book, t, report, NULL);
    array_foreach (&judgement->backlogs, b)
        if (r == 0)
            r = diagnosis_add_backlog(book, b, report, NULL);
    return r;
}

json_t *saturation_document(const struct book *book, const struct judgement *judgement)
{
    json_t *list = json_array();
    struct text words = {0};
    array_foreach (&judgement->throughputs, t) {
        json_t *one = json_object();
        text_clear(&words);
        book_bucket_words(book, &book->buckets.at[t->bucket], &words);
        json_object_set_new(one, "service", json_string(names_get(book->names, t->service)));
        json_object_set_new(one, "version", json_string(names_get(book->names, t->version)));
        json_object_set_new(one, "base_version", json_string(names_get(book->names, t->base)));
        json_object_set_new(one, "bucket", json_string(text_get(&words)));
        json_object_set_new(one, "outcome", json_string(throughput_outcome_name(t->outcome)));
        if (t->tested) {
            json_object_set_new(one, "ratio", json_real(t->ratio));
            json_object_set_new(one, "ratio_low", json_real(t->low));
            json_object_set_new(one, "ratio_high", json_real(t->high));
            json_object_set_new(one, "p_value", json_real(t->p));
            json_object_set_new(one, "wait_ns", json_real(t->wait_ns));
        }
        json_object_set_new(one, "usual_wait_ns", json_real(t->usual_wait_ns));
        json_array_append_new(list, one);
    }
    text_done(&words);
    return list;
}
