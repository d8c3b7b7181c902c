/* See beside.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/beside.h"

#include <string.h>

#include "base/map.h"
#include "diagnose/diagnosis.h"

#define THROUGHPUT "throughput"

/* What stays the same while one thing is seen again and again. */
static uint64_t fingerprint_of(const char *service, const char *what, const char *which)
{
    struct text words = {0};
    text_addf(&words, "%s|%s|%s", service, what, which);
    uint64_t hash = map_hash(text_get(&words), words.length);
    text_done(&words);
    return hash;
}

/* Requests of a bucket so far: while there are more, what was found is still so. */
static uint64_t requests_of(const struct bucket *bucket)
{
    uint64_t requests = 0;
    array_foreach (&bucket->groups, group)
        requests += group->requests;
    return requests;
}

static const char *service_of(const struct book *book, uint32_t bucket)
{
    return names_get(book->names, book->paths.at[book->buckets.at[bucket].type].service);
}

/* Takes the finding out of its report, and puts it before the alerts. */
static int see(struct alerts *alerts, const struct book *book, uint32_t bucket, const char *what,
               const char *which, const struct finding *finding)
{
    bool fires;
    return alerts_see(alerts, fingerprint_of(service_of(book, bucket), what, which),
                      requests_of(&book->buckets.at[bucket]), finding->title, finding_json(finding), &fires);
}

static int see_throughput(struct alerts *alerts, const struct book *book, const struct throughput *t)
{
    struct report one = {0};
    struct finding *finding;
    int r = diagnosis_add_throughput(book, t, &one, &finding);
    if (r == 0)
        r = see(alerts, book, t->bucket, THROUGHPUT, names_get(book->names, t->version), finding);
    report_done(&one);
    return r;
}

static int see_backlog(struct alerts *alerts, const struct book *book, const struct backlog *b)
{
    struct report one = {0};
    struct finding *finding;
    struct text words = {0};
    book_bucket_words(book, &book->buckets.at[b->bucket], &words);
    int r = diagnosis_add_backlog(book, b, &one, &finding);
    if (r == 0)
        r = see(alerts, book, b->bucket, "queue", text_get(&words), finding);
    text_done(&words);
    report_done(&one);
    return r;
}

/* One alert for as long as that is so and the service is asked. */
static int see_day(struct alerts *alerts, const struct book *book, const struct day_change *change)
{
    struct report one = {0};
    struct finding *finding;
    int r = diagnosis_add_day_change(book, change, &one, &finding);
    if (r == 0)
        r = see(alerts, book, change->bucket, "the days before", "", finding);
    report_done(&one);
    return r;
}

/* Evidence that was enough once is not lost: of e-values the largest so far may count (Ville's inequality).
 */
static bool is_shown(struct alerts *alerts, const struct book *book, const struct throughput *t)
{
    uint64_t fingerprint =
        fingerprint_of(service_of(book, t->bucket), THROUGHPUT, names_get(book->names, t->version));
    return t->outcome == THROUGHPUT_FEWER ||
           (t->tested && t->ratio < 1 && alerts_is_firing(alerts, fingerprint));
}

int beside_see(struct alerts *alerts, const struct book *book, const struct judgement *judgement,
               bool *ret_version)
{
    bool version = false;
    int r = 0;
    array_foreach (&judgement->throughputs, t)
        if (r == 0 && is_shown(alerts, book, t)) {
            r = see_throughput(alerts, book, t);
            version = true;
        }
    array_foreach (&judgement->backlogs, b)
        if (r == 0)
            r = see_backlog(alerts, book, b);
    array_foreach (&judgement->days, change)
        if (r == 0)
            r = see_day(alerts, book, change);
    if (r == 0)
        *ret_version = version;
    return r;
}

bool beside_blames_version(const struct alert *alert)
{
    const char *kind = json_string_value(json_object_get(alert->finding, "kind"));
    return kind && (strcmp(kind, finding_kinds[FINDING_regression].name) == 0 ||
                    strcmp(kind, finding_kinds[FINDING_less_throughput].name) == 0);
}
