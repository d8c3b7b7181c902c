/* See judge.h. SDiag (section 3) compares groups of a bucket by the Z-score of their mean latency; that is
 * reported, and the verdict rests on regress.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/judge.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "base/macro.h"

#define GROUPS_ROOM          256
#define STILL_RUNS_MIN       10 /* requests from which the older version counts as running beside the newer one */
#define CONCURRENT_MIN       300 /* requests of the older side since the newer one arrived */
#define HISTORY_LONG         10  /* versions, from which change points are looked for */
#define HISTORY_REGIME       3   /* versions, of the shortest regime */
#define VERSION_REQUESTS_MIN 20
#define VERSIONS_ROOM        256

struct seen_version {
    uint32_t version;
    uint64_t first_ns;
    const char *name;
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

static int by_age(const void *x, const void *y)
{
    const struct seen_version *a = x, *b = y;
    if (is_number(a->name) && is_number(b->name))
        return strverscmp(a->name + (*a->name == 'v'), b->name + (*b->name == 'v'));
    return a->first_ns < b->first_ns ? -1 : a->first_ns > b->first_ns;
}

int judge_versions(const struct book *book, uint32_t service, uint32_t **ret_versions, size_t *ret_count)
{
    ARRAY(struct seen_version) seen = {0};
    int r = 0;
    array_foreach (&book->buckets, bucket)
        array_foreach (&bucket->groups, group) {
            const struct combination *c = &book->combinations.at[group->combination];
            for (uint32_t i = 0; r == 0 && i < c->count; i++) {
                struct service_version v = book->service_versions.at[c->first + i];
                size_t k = 0;
                while (k < seen.count && seen.at[k].version != v.version)
                    k++;
                if (v.service != service || !v.version)
                    continue;
                if (k == seen.count)
                    r = array_add(&seen, (struct seen_version){v.version, group->first_ns,
                                                               names_get(book->names, v.version)});
                else
                    seen.at[k].first_ns = MIN(seen.at[k].first_ns, group->first_ns);
            }
        }
    if (seen.count)
        qsort(seen.at, seen.count, sizeof(*seen.at), by_age);
    uint32_t *versions = malloc((seen.count + 1) * sizeof(*versions));
    if (!versions)
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < seen.count; i++)
        versions[i] = seen.at[i].version;
    if (r < 0) {
        free(versions);
    } else {
        *ret_versions = versions;
        *ret_count = seen.count;
    }
    array_done(&seen);
    return r;
}

size_t judge_groups(const struct book *book, const struct bucket *bucket, uint32_t service,
                    const uint32_t *versions, size_t version_count, const struct group **groups, size_t room)
{
    size_t n = 0;
    array_foreach (&bucket->groups, group) {
        bool has = false;
        for (size_t v = 0; v < version_count; v++)
            has |= book_has_version(book, group->combination, service, versions[v]);
        if (has && n < room)
            groups[n++] = group;
    }
    return n;
}

/* Both sides of one contrast, while it is judged. */
struct sides {
    const struct group *older[GROUPS_ROOM], *newer[GROUPS_ROOM];
    size_t older_count, newer_count;
};

/* A service's hosts over some groups: pooled sketches. */
struct clusters {
    ARRAY(struct cluster) list;
    ARRAY(struct sketch) sketches;
};

/* A host's requests: all of them, or those since the newest version arrived. */
static int merge_host(struct sketch *into, const struct host *host, bool since)
{
    struct sketch later = {0};
    int r = sketch_merge(&later, &host->latency);
    if (r == 0 && since && host->earlier.count)
        r = sketch_subtract(&later, &host->earlier);
    if (r == 0)
        r = sketch_merge(into, &later);
    sketch_done(&later);
    return r;
}

static int collect_clusters(const struct group *const *groups, size_t count, uint32_t service, bool since,
                            struct clusters *ret_clusters)
{
    struct map index = {0};
    int r = 0;
    for (size_t g = 0; g < count; g++)
        array_foreach (&groups[g]->hosts, host) {
            bool added;
            if (r < 0 || host->service != service)
                continue;
            uint64_t *slot = map_put(&index, host->host, &added);
            if (!slot) {
                r = -ENOMEM;
                continue;
            }
            if (added) {
                *slot = ret_clusters->list.count;
                r = array_add(&ret_clusters->list, (struct cluster){.host = host->host});
                if (r == 0)
                    r = array_add(&ret_clusters->sketches, (struct sketch){0});
            }
            if (r == 0)
                r = merge_host(&ret_clusters->sketches.at[*slot], host, since);
        }
    for (size_t i = 0; r == 0 && i < ret_clusters->list.count; i++)
        ret_clusters->list.at[i].latency = &ret_clusters->sketches.at[i];
    map_done(&index);
    return r;
}

static void clusters_done(struct clusters *clusters)
{
    array_foreach (&clusters->sketches, s)
        sketch_done(s);
    array_done(&clusters->list);
    array_done(&clusters->sketches);
}

static int pool_latency(const struct group *const *groups, size_t count, struct sketch *into)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = sketch_merge(into, &groups[i]->latency);
    return r;
}

/* The paper's Z-score with versions as the sample: against the means of the older versions only. */
static double z_of_versions(const struct verdict *verdict, const struct sides *sides)
{
    double means[GROUPS_ROOM], mean, variance;
    for (size_t i = 0; i < sides->older_count; i++)
        means[i] = sketch_mean(&sides->older[i]->latency);
    stats_moments(means, sides->older_count, &mean, &variance);
    return sides->older_count >= 2 && variance > 0 ? (sketch_mean(&verdict->newer) - mean) / sqrt(variance)
                                                   : 0;
}

/* For a rollout: what the older side served meanwhile, where that is enough. */
static int collect_older(const struct sides *sides, const struct judge_settings *settings,
                         struct verdict *verdict, struct clusters *ret_older)
{
    int r = 0;
    verdict->concurrent = verdict->waiting = false;
    if (settings->sequential) {
        uint64_t requests = 0;
        r = collect_clusters(sides->older, sides->older_count, verdict->clustered_by, true, ret_older);
        array_foreach (&ret_older->sketches, s)
            requests += s->count;
        verdict->concurrent = r == 0 && requests >= STILL_RUNS_MIN;
        verdict->waiting = verdict->concurrent && requests < CONCURRENT_MIN;
        if (r < 0 || verdict->concurrent)
            return r;
        clusters_done(ret_older);
        *ret_older = (struct clusters){0};
    }
    return collect_clusters(sides->older, sides->older_count, verdict->clustered_by, false, ret_older);
}

static int test_contrast(const struct sides *sides, const struct judge_settings *settings, double spread,
                         struct verdict *verdict)
{
    struct clusters older = {0}, newer = {0};
    struct regress_settings regress = settings->regress;
    regress.host_spread = spread;
    int r = collect_clusters(sides->newer, sides->newer_count, verdict->clustered_by, false, &newer);
    if (r == 0)
        r = collect_older(sides, settings, verdict, &older);
    if (r == 0) {
        struct contrast contrast = {older.list.at, newer.list.at, older.list.count, newer.list.count};
        regress_test(&contrast, &regress, &verdict->result);
        sequential_test(&contrast, spread, &verdict->sequential);
        if (verdict->waiting)
            verdict->sequential.e_value = 1;
    }
    clusters_done(&older);
    clusters_done(&newer);
    return r;
}

static double host_spread(const struct book *book, const struct judge_settings *settings)
{
    ARRAY(struct clusters) all = {0};
    ARRAY(struct contrast) contrasts = {0};
    double spread = 0;
    array_foreach (&book->buckets, bucket) {
        const struct group *groups[GROUPS_ROOM];
        size_t n = 0;
        array_foreach (&bucket->groups, group)
            if (n < GROUPS_ROOM)
                groups[n++] = group;
        struct clusters clusters = {0};
        if (collect_clusters(groups, n, book->paths.at[bucket->type].service, false, &clusters) < 0 ||
            array_add(&all, clusters) < 0)
            clusters_done(&clusters);
    }
    array_foreach (&all, c)
        if (array_add(&contrasts, (struct contrast){.older = c->list.at, .older_count = c->list.count}) < 0)
            break;
    spread = regress_host_spread(contrasts.at, contrasts.count, &settings->regress);
    array_foreach (&all, c)
        clusters_done(c);
    array_done(&all);
    array_done(&contrasts);
    return spread;
}

/* Which versions stand on which side. False when there is nothing to compare. */
static bool choose_versions(const struct book *book, const struct judge_settings *settings,
                            const uint32_t *versions, size_t count, size_t *ret_newer, uint32_t *older,
                            size_t *ret_older_count)
{
    size_t newer = count, n = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = names_get(book->names, versions[i]);
        bool is_base = settings->base && strcmp(name, settings->base) == 0;
        if (settings->candidate ? strcmp(name, settings->candidate) == 0 : !is_base)
            newer = i;
    }
    if (newer == count)
        return false;
    for (size_t i = 0; i < count && n < VERSIONS_ROOM; i++) {
        const char *name = names_get(book->names, versions[i]);
        if (settings->base ? strcmp(name, settings->base) == 0 && i != newer : i < newer)
            older[n++] = versions[i];
    }
    *ret_newer = newer;
    *ret_older_count = n;
    return n > 0;
}

static bool same_sides(const struct book *book, const struct verdict *known, uint32_t bucket,
                       const struct sides *sides)
{
    uint64_t older = 0, newer = 0;
    if (known->bucket != bucket)
        return false;
    for (size_t i = 0; i < sides->older_count; i++)
        older += sides->older[i]->requests;
    for (size_t i = 0; i < sides->newer_count; i++)
        newer += sides->newer[i]->requests;
    return known->older.count == older && known->newer.count == newer;
}

static size_t count_hosts(const struct sides *sides, uint32_t service)
{
    size_t n = 0;
    for (size_t i = 0; i < sides->newer_count; i++)
        array_foreach (&sides->newer[i]->hosts, host)
            n += host->service == service;
    return n;
}

static void set_times(const struct sides *sides, struct verdict *verdict)
{
    verdict->first_ns = UINT64_MAX;
    for (size_t i = 0; i < sides->newer_count; i++) {
        verdict->first_ns = MIN(verdict->first_ns, sides->newer[i]->first_ns);
        verdict->last_ns = MAX(verdict->last_ns, sides->newer[i]->last_ns);
    }
}

/* One (bucket, service): finds the sides, tests them, appends the verdict. */
static int judge_one(const struct book *book, const struct judge_settings *settings, uint32_t b,
                     uint32_t service, const uint32_t *versions, size_t version_count, double spread,
                     struct judgement *judgement)
{
    const struct bucket *bucket = &book->buckets.at[b];
    struct sides sides = {0};
    uint32_t here[VERSIONS_ROOM], older[VERSIONS_ROOM];
    size_t here_count = 0, newer, older_count;
    for (size_t v = 0; v < version_count && here_count < VERSIONS_ROOM; v++)
        if (judge_groups(book, bucket, service, &versions[v], 1, sides.newer, 1))
            here[here_count++] = versions[v];
    if (!choose_versions(book, settings, here, here_count, &newer, older, &older_count))
        return 0;
    sides.newer_count = judge_groups(book, bucket, service, &here[newer], 1, sides.newer, GROUPS_ROOM);
    size_t with_both = judge_groups(book, bucket, service, older, older_count, sides.older, GROUPS_ROOM);
    for (size_t i = 0; i < with_both; i++) /* a request that met both versions is the newer one's */
        if (!book_has_version(book, sides.older[i]->combination, service, here[newer]))
            sides.older[sides.older_count++] = sides.older[i];
    array_foreach (&judgement->verdicts, known)
        if (same_sides(book, known, b, &sides)) {
            if (count_hosts(&sides, service) > count_hosts(&sides, known->clustered_by))
                known->clustered_by = service;
            else
                return 0;
            return test_contrast(&sides, settings, spread, known);
        }
    struct verdict verdict = {.bucket = b,
                              .service = service,
                              .version = here[newer],
                              .base = older[older_count - 1],
                              .since = here[newer],
                              .clustered_by = service};
    int r = pool_latency(sides.older, sides.older_count, &verdict.older);
    if (r == 0)
        r = pool_latency(sides.newer, sides.newer_count, &verdict.newer);
    if (r == 0)
        r = test_contrast(&sides, settings, spread, &verdict);
    verdict.z_versions = z_of_versions(&verdict, &sides);
    set_times(&sides, &verdict);
    if (r == 0)
        r = array_add(&judgement->verdicts, verdict);
    if (r < 0) {
        sketch_done(&verdict.older);
        sketch_done(&verdict.newer);
    }
    return r;
}

struct side_of {
    const struct book *book;
    const struct verdict *verdict;
    const uint32_t *older;
    size_t older_count;
};

static int side_of_combination(void *context, uint32_t combination)
{
    const struct side_of *side = context;
    if (book_has_version(side->book, combination, side->verdict->service, side->verdict->version))
        return 1;
    for (size_t i = 0; i < side->older_count; i++)
        if (book_has_version(side->book, combination, side->verdict->service, side->older[i]))
            return 0;
    return -1;
}

/* One version's mean log latency in a bucket; false with too few requests. */
static bool version_level(const struct book *book, const struct verdict *verdict, uint32_t version,
                          double *ret_level)
{
    const struct group *groups[GROUPS_ROOM];
    struct sketch latency = {0};
    double variance;
    size_t n = judge_groups(book, &book->buckets.at[verdict->bucket], verdict->service, &version, 1, groups,
                            GROUPS_ROOM);
    bool enough = pool_latency(groups, n, &latency) == 0 && latency.count >= VERSION_REQUESTS_MIN;
    sketch_log_moments(&latency, ret_level, &variance);
    sketch_done(&latency);
    return enough;
}

/* Since which version: over a long history the last change point (E-divisive: never a single spike); over a
 * short one the oldest version from which on all are nearer to the newer side than to the oldest. */
static uint32_t find_since(const struct book *book, const struct verdict *verdict, const uint32_t *versions,
                           size_t count)
{
    double levels[VERSIONS_ROOM];
    uint32_t known[VERSIONS_ROOM];
    size_t n = 0, points[VERSIONS_ROOM];
    for (size_t v = 0; v < count && n < VERSIONS_ROOM; v++) {
        if (version_level(book, verdict, versions[v], &levels[n]))
            known[n++] = versions[v];
        if (versions[v] == verdict->version)
            break;
    }
    if (n == 0)
        return verdict->version;
    if (n >= HISTORY_LONG) {
        size_t found = stats_change_points(levels, n, HISTORY_REGIME, 0.05, 199, 1, points, VERSIONS_ROOM);
        if (found && levels[n - 1] > levels[points[found - 1] - 1])
            return known[points[found - 1]];
    }
    size_t since = n - 1;
    while (since > 0 && levels[since - 1] >= (levels[0] + levels[n - 1]) / 2)
        since--;
    return known[since];
}

static int explain(const struct book *book, struct verdict *verdict, const uint32_t *versions, size_t count,
                   const struct judge_settings *settings)
{
    const struct bucket *bucket = &book->buckets.at[verdict->bucket];
    struct sides sides = {0};
    struct forest before = {0}, after = {0};
    uint32_t older[VERSIONS_ROOM];
    size_t older_count = 0, newer;
    if (!choose_versions(book, settings, versions, count, &newer, older, &older_count))
        return 0;
    sides.newer_count =
        judge_groups(book, bucket, verdict->service, &verdict->version, 1, sides.newer, GROUPS_ROOM);
    sides.older_count =
        judge_groups(book, bucket, verdict->service, older, older_count, sides.older, GROUPS_ROOM);
    verdict->since = settings->base ? verdict->version : find_since(book, verdict, versions, count);
    int r = forest_init(&before, sides.older, sides.older_count);
    if (r == 0)
        r = forest_init(&after, sides.newer, sides.newer_count);
    if (r == 0)
        r = forest_compare(book, &before, &after, verdict->changes, JUDGE_CHANGES, &verdict->change_count);
    if (r == 0) {
        verdict->critical_path_length =
            forest_critical_path(book, &after, verdict->critical_path, JUDGE_PATH);
        verdict->mean_before_ns = before.mean_ns;
        verdict->mean_after_ns = after.mean_ns;
        struct side_of side = {book, verdict, older, older_count};
        r = cause_search(book, bucket->type, side_of_combination, &side, verdict->causes, JUDGE_CAUSES,
                         &verdict->cause_count, &verdict->rule);
    }
    forest_done(&before);
    forest_done(&after);
    return r;
}

static int by_evidence(const void *x, const void *y)
{
    const struct verdict *a = x, *b = y;
    if (a->result.slower != b->result.slower)
        return b->result.slower - a->result.slower;
    if (a->result.adjusted_p != b->result.adjusted_p)
        return a->result.adjusted_p < b->result.adjusted_p ? -1 : 1;
    return a->result.ratio[a->result.measure] > b->result.ratio[b->result.measure] ? -1 : 1;
}

/* All services, or the one asked for. */
static int judge_services(const struct book *book, const struct judge_settings *settings,
                          struct judgement *judgement, bool explaining)
{
    struct map services = {0};
    int r = 0;
    double spread = explaining ? 0 : host_spread(book, settings);
    array_foreach (&book->service_versions, v)
        if (!map_put(&services, v->service, NULL))
            r = -ENOMEM;
    for (size_t s = 0; r == 0 && s < services.capacity; s++) {
        uint32_t service = (uint32_t)services.slots[s].key, *versions;
        size_t count;
        if (!services.slots[s].used ||
            (settings->service && strcmp(names_get(book->names, service), settings->service) != 0))
            continue;
        r = judge_versions(book, service, &versions, &count);
        if (r < 0)
            break;
        for (uint32_t b = 0; r == 0 && !explaining && count >= 2 && b < book->buckets.count; b++)
            r = judge_one(book, settings, b, service, versions, count, spread, judgement);
        for (size_t i = 0; r == 0 && explaining && i < judgement->verdicts.count; i++)
            if (judgement->verdicts.at[i].result.slower && judgement->verdicts.at[i].service == service)
                r = explain(book, &judgement->verdicts.at[i], versions, count, settings);
        free(versions);
    }
    map_done(&services);
    return r;
}

/* Selection by e-values instead of p-values. */
static size_t select_sequential(const struct judge_settings *settings, struct judgement *j)
{
    _cleanup_(freep) double *e = calloc(j->verdicts.count + 1, sizeof(*e));
    _cleanup_(freep) bool *selected = calloc(j->verdicts.count + 1, sizeof(*selected));
    double q = settings->regress.false_discovery_rate > 0 ? settings->regress.false_discovery_rate : 0.02;
    double least = settings->regress.minimum_ratio > 0 ? settings->regress.minimum_ratio : 1.05;
    size_t slower = 0;
    if (!e || !selected)
        return 0;
    for (size_t i = 0; i < j->verdicts.count; i++)
        e[i] = j->verdicts.at[i].sequential.e_value;
    sequential_select(e, j->verdicts.count, q, selected);
    for (size_t i = 0; i < j->verdicts.count; i++) {
        struct regress_result *r = &j->verdicts.at[i].result;
        r->slower = selected[i] && r->method != METHOD_NONE && r->ratio[r->measure] >= least;
        slower += r->slower;
    }
    return slower;
}

static void name_exemplar(const struct exemplar *e, struct trace_id *ids, size_t room, size_t *count)
{
    bool known = false;
    for (size_t i = 0; i < *count; i++)
        known |= ids[i].high == e->high && ids[i].low == e->low;
    if (e->parts && !known && *count < room)
        ids[(*count)++] = (struct trace_id){e->high, e->low};
}

size_t judgement_exemplars(const struct book *book, const struct judgement *judgement, struct trace_id *ids,
                           size_t room)
{
    size_t n = 0;
    array_foreach (&judgement->verdicts, v) {
        if (!v->result.slower)
            continue;
        array_foreach (&book->buckets.at[v->bucket].groups, group)
            for (int i = 0; i < BOOK_EXEMPLARS; i++) {
                name_exemplar(&group->slow[i], ids, room, &n);
                name_exemplar(&group->normal[i], ids, room, &n);
            }
    }
    return n;
}

int judge(const struct book *book, const struct judge_settings *settings, struct judgement *ret_judgement)
{
    struct judgement j = {0};
    int r = judge_services(book, settings, &j, false);
    _cleanup_(freep) struct regress_result *results = calloc(j.verdicts.count + 1, sizeof(*results));
    if (!results)
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < j.verdicts.count; i++) {
        results[i] = j.verdicts.at[i].result;
        j.untested += results[i].method == METHOD_NONE;
    }
    if (r == 0) {
        j.slower = regress_select(results, j.verdicts.count, &settings->regress);
        for (size_t i = 0; i < j.verdicts.count; i++)
            j.verdicts.at[i].result = results[i];
        if (settings->sequential)
            j.slower = select_sequential(settings, &j);
        if (j.verdicts.count)
            qsort(j.verdicts.at, j.verdicts.count, sizeof(*j.verdicts.at), by_evidence);
        r = judge_services(book, settings, &j, true);
    }
    array_foreach (&book->buckets, bucket)
        j.single_version_buckets += bucket->groups.count < 2;
    if (r < 0)
        judgement_done(&j);
    else
        *ret_judgement = j;
    return r;
}

void judgement_done(struct judgement *judgement)
{
    array_foreach (&judgement->verdicts, v) {
        sketch_done(&v->older);
        sketch_done(&v->newer);
    }
    array_done(&judgement->verdicts);
}
