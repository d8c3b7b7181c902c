/* See day_changes.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/day_changes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "diagnose/diagnosis.h"

#define HOUR_NS       (3600 * NS_PER_S)
#define FOLLOWS_SHARE 0.5 /* of the growth, that lies at a service that is called */

typedef ARRAY(struct day_change) changes;

static uint32_t service_of(const struct book *book, const struct day_change *change)
{
    return book->paths.at[book->buckets.at[change->bucket].type].service;
}

static double error_share(const struct day_hour *hour)
{
    return hour->requests ? (double)hour->errors / hour->requests : 0;
}

/* A slower version is a finding of its own. */
static bool has_slower_version(const struct judgement *judgement, uint32_t service)
{
    array_foreach (&judgement->verdicts, v)
        if (v->service == service && v->outcome == OUTCOME_SLOWER)
            return true;
    return false;
}

static bool calls(const struct book *book, const struct bucket *bucket, uint32_t service)
{
    array_foreach (&bucket->groups, group)
        array_foreach (&group->vertices, vertex)
            if (book->paths.at[vertex->path].service == service)
                return true;
    return false;
}

static double grown_ns(const struct day_change *c)
{
    enum day_measure m = c->measure == DAY_ERRORS ? DAY_MIDDLE : c->measure;
    return exp(c->now.level[m]) - exp(c->yesterday.level[m]);
}

/* Whether what a service calls has grown by as much, or fails, too: then that is the finding. */
static bool follows(const struct book *book, const changes *all, const struct day_change *change)
{
    uint32_t service = service_of(book, change);
    array_foreach (all, other) {
        uint32_t callee = service_of(book, other);
        bool same = (other->measure == DAY_ERRORS) == (change->measure == DAY_ERRORS);
        bool enough = change->measure == DAY_ERRORS || grown_ns(other) >= FOLLOWS_SHARE * grown_ns(change);
        if (callee != service && same && enough && calls(book, &book->buckets.at[change->bucket], callee) &&
            !calls(book, &book->buckets.at[other->bucket], service))
            return true;
    }
    return false;
}

/* The clearest change of each service. */
static int keep_clearest(const struct book *book, const struct day_change *change,
                         struct judgement *judgement)
{
    array_foreach (&judgement->days, known) {
        if (service_of(book, known) != service_of(book, change))
            continue;
        if (change->p < known->p)
            *known = *change;
        return 0;
    }
    return array_add(&judgement->days, *change);
}

int day_changes_judge(const struct book *book, const struct judge_settings *settings,
                      struct judgement *judgement)
{
    changes all = {0}, clear = {0};
    struct day_fleet fleet;
    int r = days_learn(&book->days, &fleet);
    for (uint32_t b = 0; r == 0 && b < book->days.lines.count; b++)
        for (int m = 0; r == 0 && m < DAY_MEASURES; m++) {
            struct day_change change;
            uint32_t service = book->paths.at[book->buckets.at[b].type].service;
            if ((settings->service && strcmp(names_get(book->names, service), settings->service) != 0) ||
                !days_compare(&book->days.lines.at[b], (enum day_measure)m, &fleet, &change))
                continue;
            change.bucket = b;
            r = array_add(&all, change);
        }
    array_foreach (&all, change)
        if (r == 0 && change->p * (double)all.count <= DAY_FALSE_ALARMS && days_matter(change))
            r = array_add(&clear, *change);
    array_foreach (&clear, change)
        if (r == 0 && !has_slower_version(judgement, service_of(book, change)) &&
            !follows(book, &clear, change))
            r = keep_clearest(book, change, judgement);
    array_done(&all);
    array_done(&clear);
    return r;
}

/* ---- words ---- */

/* A version of the service that came since yesterday's hour; NAMES_NONE: none. */
static uint32_t version_since(const struct book *book, const struct day_change *change)
{
    uint32_t service = service_of(book, change);
    uint64_t yesterday_ns = (change->yesterday.hour + 1ull) * HOUR_NS;
    array_foreach (&book->buckets.at[change->bucket].groups, group) {
        const struct combination *c = &book->combinations.at[group->combination];
        const struct service_version *v = &book->service_versions.at[c->first];
        if (c->count && v->service == service && v->version && group->first_ns >= yesterday_ns)
            return v->version;
    }
    return NAMES_NONE;
}

static const char *value_words(const struct day_hour *hour, enum day_measure measure, char to[32])
{
    if (measure == DAY_ERRORS)
        snprintf(to, 32, "%.1f %%", 100 * error_share(hour));
    else
        clock_format_duration((uint64_t)exp(hour->level[measure]), to, 32);
    return to;
}

static const char *hour_words(const struct day_hour *hour, char to[40])
{
    time_t seconds = (time_t)hour->hour * 3600;
    struct tm utc;
    gmtime_r(&seconds, &utc);
    snprintf(to, 40, "%04d-%02d-%02d %02d:00 UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
             utc.tm_hour);
    return to;
}

/* Since when, where it is more than the newest hour. */
static const char *since_words(const struct day_change *c, char to[96])
{
    struct day_hour first = {.hour = c->now.hour + 1 - (uint32_t)c->hours};
    char hour[40];
    *to = '\0';
    if (c->hours > 1 && c->measure == DAY_ERRORS)
        snprintf(to, 96, "So it is since %s. ", hour_words(&first, hour));
    else if (c->hours > 1)
        snprintf(to, 96, "Since %s it is %.2f times the usual time. ", hour_words(&first, hour), c->ratio);
    return to;
}

static void say(const struct book *book, const struct day_change *c, const char *bucket, struct finding *f)
{
    static const char *const what[] = {"takes", "takes, in the 95th percentile,", "fails in"};
    char now[32], yesterday[32], week[32] = "", hour[40], since[96];
    uint32_t version = version_since(book, c);
    if (c->last_week.requests)
        value_words(&c->last_week, c->measure, week);
    f->title =
        finding_say(f, "%s %s %s%s: at this hour it was %s yesterday%s%s%s", bucket, what[c->measure],
                    value_words(&c->now, c->measure, now), c->measure == DAY_ERRORS ? " of the requests" : "",
                    value_words(&c->yesterday, c->measure, yesterday), *week ? " and " : "", week,
                    *week ? " a week ago" : "");
    f->detail = finding_say(
        f,
        "In the hour from %s on, %u requests, against %u yesterday%s. %sHow much an hour differs from day "
        "to day is taken from the days before (p = %.2g). %s%s%s",
        hour_words(&c->now, hour), c->now.requests, c->yesterday.requests,
        c->last_week.requests ? finding_say(f, " and %u a week ago", c->last_week.requests) : "",
        since_words(c, since), c->p,
        version == NAMES_NONE ? "No version came since then"
                              : "What version came since then was not found to be slower: ",
        version == NAMES_NONE ? "" : names_get(book->names, version), ".");
}

int diagnosis_add_day_change(const struct book *book, const struct day_change *c, struct report *report,
                             struct finding **ret_finding)
{
    static const char *const measures[] = {"middle", "p95", "errors"};
    struct finding *f = report_add_finding(report, FINDING_slower_than_before, SEVERITY_WARNING);
    const struct bucket *bucket = &book->buckets.at[c->bucket];
    const struct path *type = &book->paths.at[bucket->type];
    struct text words = {0};
    if (!f)
        return -ENOMEM;
    book_bucket_words(book, bucket, &words);
    const char *name = finding_say(f, "%s", text_get(&words));
    text_done(&words);
    f->where.service = names_get(book->names, type->service);
    f->where.function = names_get(book->names, type->name);
    f->from_ns = c->now.hour * HOUR_NS;
    f->to_ns = f->from_ns + HOUR_NS;
    f->cost_ns = (uint64_t)(fmax(grown_ns(c), 0) * c->now.requests);
    say(book, c, name, f);
    uint32_t version = version_since(book, c);
    enum day_measure m = c->measure == DAY_HIGH ? DAY_HIGH : DAY_MIDDLE;
    int r = finding_add_text(f, "service", f->where.service);
    r |= finding_add_text(f, "bucket", name);
    r |= finding_add_text(f, "measure", measures[c->measure]);
    if (version != NAMES_NONE)
        r |= finding_add_text(f, "version", names_get(book->names, version));
    r |= finding_add_real(f, "ratio", c->ratio);
    r |= finding_add_count(f, "hours_count", c->hours);
    r |= finding_add_count(f, "level_ns", (uint64_t)exp(c->now.level[m]));
    r |= finding_add_count(f, "yesterday_ns", (uint64_t)exp(c->yesterday.level[m]));
    r |= finding_add_real(f, "error_share", error_share(&c->now));
    r |= finding_add_real(f, "yesterday_error_share", error_share(&c->yesterday));
    r |= finding_add_count(f, "requests_count", c->now.requests);
    r |= finding_add_count(f, "yesterday_requests_count", c->yesterday.requests);
    if (c->last_week.requests) {
        r |= finding_add_count(f, "last_week_ns", (uint64_t)exp(c->last_week.level[m]));
        r |= finding_add_real(f, "last_week_error_share", error_share(&c->last_week));
        r |= finding_add_count(f, "last_week_requests_count", c->last_week.requests);
    }
    r |= finding_add_count(f, "days_count", c->days);
    r |= finding_add_real(f, "p_value", c->p);
    if (ret_finding)
        *ret_finding = f;
    return r ? -ENOMEM : 0;
}
