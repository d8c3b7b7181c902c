/* See versions.h. Over a long history the base ends at the last change point at which the level rose
 * (E-divisive: never a single spike); over a short one it is what lies nearer to the lowest level than to the
 * newest version's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/versions.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/stats.h"

#define MISSED_MIN     10 /* requests that a version would have had before its first one, had it run */
#define SAME_TIME      3  /* requests between the first ones of two versions that came together */
#define MOST_TIMES     3  /* as many requests: of two from the beginning the older one, the other a canary */
#define COMMIT_LENGTH  7  /* of a commit's abbreviated name, at least */
#define HISTORY_LONG   10 /* versions, from which change points are looked for */
#define HISTORY_REGIME 3  /* versions, of the shortest regime */
#define REQUESTS_MIN   20 /* of a version, before it has a level */
#define RISE_MIN       0.095 /* log 1.1: smaller rises within the history are not told from its noise */
#define SLOWER_ALREADY 0.14  /* log 1.15 above the lowest level: no base */

struct seen_version {
    uint32_t version;
    uint64_t first_ns, last_ns, requests;
    const char *name;
    bool arrived; /* later than what was seen begins */
    bool left;    /* before what was seen ends */
};

static bool is_number(const char *version)
{
    if (*version == 'v')
        version++;
    if (!isdigit((unsigned char)*version))
        return false;
    for (; *version; version++)
        if (!isdigit((unsigned char)*version) && *version != '.' && *version != '-')
            return false;
    return true;
}

/* Whether the word around a place is the abbreviated name of a commit: its digits are no numbers. */
static bool is_commit(const char *name, size_t at)
{
    size_t from = at, to = at;
    bool letters = false;
    while (from > 0 && isalnum((unsigned char)name[from - 1]))
        from--;
    while (isalnum((unsigned char)name[to]))
        to++;
    for (size_t i = from; i < to; i++) {
        if (!isxdigit((unsigned char)name[i]) &&
            !(i == from && name[i] == 'g')) /* as `git describe` has it */
            return false;
        letters |= isalpha((unsigned char)name[i]);
    }
    return letters && to - from >= COMMIT_LENGTH;
}

/* Whether the first difference between two names is one of numbers: "release-9" and "release-12". */
static bool differ_by_number(const char *a, const char *b)
{
    size_t same = 0;
    while (a[same] && a[same] == b[same])
        same++;
    bool first = isdigit((unsigned char)a[same]), second = isdigit((unsigned char)b[same]);
    bool within = same > 0 && isdigit((unsigned char)a[same - 1]);
    return ((first && second) || (within && (first || second))) && !is_commit(a, same) && !is_commit(b, same);
}

static double rate_of(const struct seen_version *v)
{
    return (double)v->requests / fmax((double)(v->last_ns - v->first_ns), 1);
}

/* Below 0: a is older, above: b is; 0: neither times nor names show it. */
static int compare_known_age(const struct seen_version *a, const struct seen_version *b)
{
    bool together = a->arrived == b->arrived;
    if (a->arrived && b->arrived)
        together = fabs((double)a->first_ns - (double)b->first_ns) * fmin(rate_of(a), rate_of(b)) < SAME_TIME;
    else if (!together)
        return a->arrived ? 1 : -1;
    if (!together)
        return a->first_ns < b->first_ns ? -1 : 1;
    if (is_number(a->name) && is_number(b->name))
        return strverscmp(a->name + (*a->name == 'v'), b->name + (*b->name == 'v'));
    if (differ_by_number(a->name, b->name))
        return strverscmp(a->name, b->name);
    if (a->left != b->left)
        return a->left ? -1 : 1;
    return 0;
}

/* The same, where need be by who has most of the requests, which is no more than a guess: a canary, or the
 * remainder of a version that is nearly gone. */
static int compare_age(const struct seen_version *a, const struct seen_version *b)
{
    int age = compare_known_age(a, b);
    if (age)
        return age;
    if (a->requests >= MOST_TIMES * b->requests || b->requests >= MOST_TIMES * a->requests)
        return a->requests > b->requests ? -1 : 1;
    return 0;
}

static bool is_older(const struct seen_version *a, const struct seen_version *b)
{
    int age = compare_age(a, b);
    return age ? age < 0 : a->first_ns < b->first_ns;
}

static int see(const struct book *book, const struct group *group, uint32_t service,
               struct seen_version *list, size_t room, size_t *count)
{
    const struct combination *c = &book->combinations.at[group->combination];
    struct service_version v = book->service_versions.at[c->first];
    size_t k = 0;
    while (k < *count && list[k].version != v.version)
        k++;
    if (v.service != service || !v.version || (k == *count && k == room))
        return 0;
    if (k == *count)
        list[(*count)++] = (struct seen_version){
            v.version, group->first_ns, group->last_ns, 0, names_get(book->names, v.version), false, false};
    list[k].first_ns = MIN(list[k].first_ns, group->first_ns);
    list[k].last_ns = MAX(list[k].last_ns, group->last_ns);
    list[k].requests += group->requests;
    return 0;
}

int versions_list(const struct book *book, uint32_t service, struct version_list *ret_list)
{
    _cleanup_(freep) struct seen_version *seen = calloc(VERSIONS_ROOM, sizeof(*seen));
    uint32_t *versions = malloc(VERSIONS_ROOM * sizeof(*versions));
    size_t count = 0;
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;
    if (!seen || !versions) {
        free(versions);
        return -ENOMEM;
    }
    array_foreach (&book->buckets, bucket)
        if (!bucket->whole && bucket->callee == NAMES_NONE && book_judged(book, bucket) == service)
            array_foreach (&bucket->groups, group)
                see(book, group, service, seen, VERSIONS_ROOM, &count);
    for (size_t i = 0; i < count; i++) {
        begin_ns = MIN(begin_ns, seen[i].first_ns);
        end_ns = MAX(end_ns, seen[i].last_ns);
    }
    for (size_t i = 0; i < count; i++) {
        seen[i].arrived = (double)(seen[i].first_ns - begin_ns) * rate_of(&seen[i]) >= MISSED_MIN;
        seen[i].left = (double)(end_ns - seen[i].last_ns) * rate_of(&seen[i]) >= MISSED_MIN;
    }
    for (size_t i = 1; i < count; i++) /* few, and no order that qsort() could rely on */
        for (size_t k = i; k > 0 && is_older(&seen[k], &seen[k - 1]); k--) {
            struct seen_version swap = seen[k];
            seen[k] = seen[k - 1];
            seen[k - 1] = swap;
        }
    for (size_t i = 0; i < count; i++)
        versions[i] = seen[i].version;
    bool guessed = count >= 2 && compare_known_age(&seen[count - 2], &seen[count - 1]) == 0;
    bool unsure = guessed && compare_age(&seen[count - 2], &seen[count - 1]) == 0;
    *ret_list = (struct version_list){versions, count, guessed, unsure};
    return 0;
}

/* ---- the base ---- */

/* A version's mean log latency; false with too few requests. */
static bool find_level(const struct book *book, const struct bucket *bucket, uint32_t version,
                       double *ret_level)
{
    double variance;
    array_foreach (&bucket->groups, group) {
        const struct combination *c = &book->combinations.at[group->combination];
        if (book->service_versions.at[c->first].version != version || group->latency.count < REQUESTS_MIN)
            continue;
        sketch_log_moments(&group->latency, ret_level, &variance);
        return true;
    }
    return false;
}

/* Where the newest version's level begins: [*ret_from, *ret_since) is the base. False when it begins with the
 * newest version. */
static bool find_rise(const double *levels, size_t n, size_t *ret_from, size_t *ret_since)
{
    size_t points[VERSIONS_ROOM], last = n - 1;
    if (n >= HISTORY_LONG) {
        size_t found = stats_change_points(levels, n, HISTORY_REGIME, 0.05, 199, 1, points, VERSIONS_ROOM);
        for (size_t i = found; i-- > 0;)
            if (levels[last] > levels[points[i] - 1] + RISE_MIN) {
                *ret_since = points[i];
                *ret_from = i ? points[i - 1] : 0;
                return true;
            }
    }
    double lowest = levels[0];
    for (size_t i = 1; i < last; i++)
        lowest = fmin(lowest, levels[i]);
    double middle = (lowest + levels[last]) / 2;
    size_t since = last;
    if (levels[last] - lowest < RISE_MIN)
        return false;
    while (since > 0 && levels[since - 1] > middle)
        since--;
    if (since == last || since == 0)
        return false;
    size_t from = since;
    while (from > 0 && levels[from - 1] <= middle)
        from--;
    *ret_since = since;
    *ret_from = from;
    return true;
}

static bool choose_by_name(const struct book *book, const uint32_t *versions, size_t newer, const char *base,
                           size_t count, struct version_sides *sides)
{
    for (size_t i = 0; i < count; i++)
        if (i != newer && strcmp(names_get(book->names, versions[i]), base) == 0)
            sides->older[sides->older_count++] = versions[i];
    return sides->older_count > 0;
}

bool versions_choose(const struct book *book, const struct bucket *bucket, const uint32_t *versions,
                     size_t count, const char *base, const char *candidate, struct version_sides *ret_sides)
{
    struct version_sides sides = {.tried = 1};
    size_t newer = count;
    count = MIN(count, (size_t)VERSIONS_ROOM);
    for (size_t i = 0; i < count; i++) {
        const char *name = names_get(book->names, versions[i]);
        if (candidate ? strcmp(name, candidate) == 0 : !base || strcmp(name, base) != 0)
            newer = i;
    }
    if (newer >= count)
        return false;
    sides.newer = sides.since = versions[newer];
    if (base) {
        if (!choose_by_name(book, versions, newer, base, count, &sides))
            return false;
        *ret_sides = sides;
        return true;
    }
    double levels[VERSIONS_ROOM];
    uint32_t known[VERSIONS_ROOM];
    size_t n = 0, from = 0, since;
    for (size_t i = 0; i <= newer; i++)
        if (find_level(book, bucket, versions[i], &levels[n]))
            known[n++] = versions[i];
    bool newest_known = n > 0 && known[n - 1] == versions[newer];
    if (newest_known && n >= 2 && find_rise(levels, n, &from, &since)) {
        for (size_t i = from; i < since; i++)
            sides.older[sides.older_count++] = known[i];
        sides.since = known[since];
        sides.tried = n - 1;
    } else if (newest_known && n >= 2) {
        double lowest = levels[0];
        for (size_t i = 1; i + 1 < n; i++)
            lowest = fmin(lowest, levels[i]);
        for (size_t i = 0; i + 1 < n; i++) /* what was mended meanwhile is no base either */
            if (levels[i] <= lowest + SLOWER_ALREADY)
                sides.older[sides.older_count++] = known[i];
    } else {
        for (size_t i = 0; i < newer; i++)
            sides.older[sides.older_count++] = versions[i];
    }
    *ret_sides = sides;
    return sides.older_count > 0;
}
