/* See judge.h. SDiag (section 3) compares groups of a bucket by the Z-score of their mean latency; that is
 * reported, and the verdict rests on regress.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/judge.h"

#include <errno.h>
#include <math.h>

#include "base/macro.h"
#include "diagnose/contrast.h"
#include "diagnose/day_changes.h"
#include "diagnose/hosts.h"
#include "diagnose/saturation.h"
#include "diagnose/select.h"

#define GROUPS_ROOM      256
#define SUSPICIOUS_P     0.05 /* adjusted; with a ratio of SUSPICIOUS_RATIO it is no "not slower" */
#define SUSPICIOUS_RATIO 1.2
#define TOLD_SHARE_MIN   0.5 /* of the newer requests, for a verdict over all */
#define LONE_MAX         64  /* operations of one side only */
#define RENAMED_SHARE \
    1.3 /* how much shares of the requests may differ, for a new name of the same operation */
#define FOLLOWS_SHARE 0.5 /* of the growth that lies at another service which is slower itself */

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

static void verdict_done(struct verdict *v)
{
    sketch_done(&v->older);
    sketch_done(&v->newer);
    sketch_done(&v->older_request);
    sketch_done(&v->newer_request);
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

static void set_times(const struct sides *sides, struct verdict *verdict)
{
    verdict->first_ns = UINT64_MAX;
    for (size_t i = 0; i < sides->newer_count; i++) {
        verdict->first_ns = MIN(verdict->first_ns, sides->newer[i]->first_ns);
        verdict->last_ns = MAX(verdict->last_ns, sides->newer[i]->last_ns);
        verdict->served += sides->newer[i]->requests;
    }
}

size_t judge_older_groups(const struct book *book, const struct verdict *v, const struct group **groups,
                          size_t room)
{
    return judge_groups(book, &book->buckets.at[v->older_bucket], v->service, v->sides.older,
                        v->sides.older_count, groups, room);
}

size_t judge_newer_groups(const struct book *book, const struct verdict *v, const struct group **groups,
                          size_t room)
{
    return judge_groups(book, &book->buckets.at[v->bucket], v->service, &v->version, 1, groups, room);
}

static void find_sides(const struct book *book, const struct verdict *verdict, struct sides *sides)
{
    sides->newer_count = judge_newer_groups(book, verdict, sides->newer, GROUPS_ROOM);
    sides->older_count = judge_older_groups(book, verdict, sides->older, GROUPS_ROOM);
}

int judge_forests(const struct book *book, const struct verdict *v, struct forest *ret_before,
                  struct forest *ret_after)
{
    struct sides sides = {0};
    struct forest before = {0}, after = {0};
    find_sides(book, v, &sides);
    int r = forest_init(&before, sides.older, sides.older_count);
    if (r == 0 && v->older_bucket != v->bucket)
        r = forest_rename(book, &before, book->buckets.at[v->older_bucket].type,
                          book->buckets.at[v->bucket].type);
    if (r == 0)
        r = forest_init(&after, sides.newer, sides.newer_count);
    if (r < 0) {
        forest_done(&before);
        return r;
    }
    *ret_before = before;
    *ret_after = after;
    return 0;
}

struct side_of {
    const struct book *book;
    const struct verdict *verdict;
};

static int side_of_combination(void *context, uint32_t combination)
{
    const struct side_of *side = context;
    const struct verdict *v = side->verdict;
    if (book_has_version(side->book, combination, v->service, v->version))
        return 1;
    for (size_t i = 0; i < v->sides.older_count; i++)
        if (book_has_version(side->book, combination, v->service, v->sides.older[i]))
            return 0;
    return -1;
}

/* Whether the newer side is slower for some combination of attributes. Cells are of entries, over all time.
 */
static int find_subgroup(const struct book *book, const struct judge_settings *settings, double spread,
                         struct verdict *v)
{
    struct side_of side = {book, v};
    if (settings->sequential || v->of_callers || v->older_bucket != v->bucket ||
        v->result.method == METHOD_NONE)
        return 0;
    struct excess_of of = {book->buckets.at[v->bucket].type, book->buckets.at[v->bucket].labels,
                           side_of_combination, &side};
    return subgroup_search(book, &of, spread, &v->subgroup);
}

/* Where errors have become more. Cells are of entries, over all time. */
static int find_error_cause(const struct book *book, const struct judge_settings *settings, struct verdict *v)
{
    struct side_of side = {book, v};
    struct excess_of of = {book->buckets.at[v->bucket].type, book->buckets.at[v->bucket].labels,
                           side_of_combination, &side};
    v->error_part.where.p = 1;
    if (v->of_callers || v->older_bucket != v->bucket || v->errors.errors_newer < 1)
        return 0;
    int r = error_cause_search(book, &of, v->errors.dispersion, &v->error_cause, &v->error_part.where);
    if (settings->sequential)
        v->error_part.where = (struct error_cause){.p = 1};
    return r;
}

/* Finds the groups of a verdict's versions, tests them, appends it. */
static int judge_sides(const struct book *book, const struct judge_settings *settings, double spread,
                       struct verdict *planned, struct judgement *judgement)
{
    struct verdict verdict = *planned;
    struct sides sides = {0};
    verdict.version = verdict.sides.newer;
    verdict.since = verdict.sides.since;
    verdict.base = verdict.sides.older[verdict.sides.older_count - 1];
    find_sides(book, &verdict, &sides);
    int r = contrast_test(
        book, &(struct contrast_of){sides.older, sides.newer, sides.older_count, sides.newer_count}, settings,
        spread, &verdict);
    for (size_t i = 0; r == 0 && i < sides.older_count; i++)
        r = sketch_merge(&verdict.older_request, &sides.older[i]->request);
    for (size_t i = 0; r == 0 && i < sides.newer_count; i++)
        r = sketch_merge(&verdict.newer_request, &sides.newer[i]->request);
    verdict.z_versions = z_of_versions(&verdict, &sides);
    set_times(&sides, &verdict);
    if (r == 0)
        r = find_subgroup(book, settings, spread, &verdict);
    if (r == 0)
        r = find_error_cause(book, settings, &verdict);
    /* What is above a service changes for other reasons, too: only the same time tells. */
    bool told = !verdict.of_callers || verdict.concurrent;
    if (r == 0 && told)
        r = array_add(&judgement->verdicts, verdict);
    if (r < 0 || !told)
        verdict_done(&verdict);
    return r;
}

/* Whether it is known which of the verdict's versions is the newer one. */
static void set_order(const struct judge_settings *settings, const struct version_list *list,
                      struct verdict *verdict)
{
    const struct version_sides *sides = &verdict->sides;
    bool last = !settings->base && !settings->candidate && sides->newer == list->versions[list->count - 1] &&
                sides->older[sides->older_count - 1] == list->versions[list->count - 2];
    verdict->order_unknown = last && list->unsure;
    verdict->order_guessed = last && list->guessed;
}

/* One bucket of a service. */
static int judge_one(const struct book *book, const struct judge_settings *settings, uint32_t b,
                     const struct version_list *list, double spread, struct judgement *judgement)
{
    const struct bucket *bucket = &book->buckets.at[b];
    uint32_t service = book_judged(book, bucket);
    const struct group *any;
    uint32_t here[VERSIONS_ROOM];
    size_t here_count = 0;
    struct verdict verdict = {.bucket = b, .service = service, .follows = NAMES_NONE, .mix_ratio = 1};
    for (size_t v = 0; v < list->count && here_count < VERSIONS_ROOM; v++)
        if (judge_groups(book, bucket, service, &list->versions[v], 1, &any, 1))
            here[here_count++] = list->versions[v];
    if (!versions_choose(book, bucket, here, here_count, settings->base, settings->candidate, &verdict.sides))
        return 0;
    set_order(settings, list, &verdict);
    verdict.older_bucket = b;
    verdict.of_callers = bucket->callee != NAMES_NONE;
    return judge_sides(book, settings, spread, &verdict, judgement);
}

static int explain(const struct book *book, struct verdict *verdict)
{
    struct forest before, after;
    int r = judge_forests(book, verdict, &before, &after);
    if (r < 0)
        return r;
    r = forest_compare(book, &before, &after, verdict->changes, JUDGE_CHANGES, &verdict->change_count);
    if (r == 0) {
        verdict->critical_path_length =
            forest_critical_path(book, &after, verdict->critical_path, JUDGE_PATH);
        verdict->mean_before_ns = before.mean_ns;
        verdict->mean_after_ns = after.mean_ns;
        struct side_of side = {book, verdict};
        if (verdict->older_bucket == verdict->bucket && !verdict->of_callers)
            r = cause_search(book, book->buckets.at[verdict->bucket].type, side_of_combination, &side,
                             verdict->causes, JUDGE_CAUSES, &verdict->cause_count, &verdict->rule);
    }
    forest_done(&before);
    forest_done(&after);
    return r;
}

static double evidence_of(const struct verdict *v)
{
    double p = fmin(v->result.adjusted_p, v->errors.adjusted_p);
    p = v->error_part.more ? fmin(p, v->error_part.adjusted_p) : p;
    return v->subgroup.slower ? fmin(p, v->subgroup.adjusted_p) : p;
}

static int by_evidence(const void *x, const void *y)
{
    const struct verdict *a = x, *b = y;
    if (a->outcome != b->outcome)
        return a->outcome > b->outcome ? -1 : 1;
    double p = evidence_of(a), q = evidence_of(b);
    if (p != q)
        return p < q ? -1 : 1;
    return a->result.ratio[a->result.measure] > b->result.ratio[b->result.measure] ? -1 : 1;
}

/* ---- operations that a version renamed ---- */

/* A bucket that only one side has: its share of that side's requests. */
struct lone {
    uint32_t bucket;
    double share;
};

static bool has_any(const struct book *book, const struct bucket *bucket, uint32_t service,
                    const uint32_t *versions, size_t count)
{
    const struct group *any;
    return judge_groups(book, bucket, service, versions, count, &any, 1) > 0;
}

static int by_share(const void *x, const void *y)
{
    const struct lone *a = x, *b = y;
    return a->share > b->share ? -1 : a->share < b->share;
}

/* Buckets of a service in which only the versions `of` served, the largest share first. */
static size_t find_lone(const struct book *book, uint32_t service, const uint32_t *of, size_t of_count,
                        const uint32_t *others, size_t other_count, struct lone *list)
{
    double all = 0;
    size_t n = 0;
    for (uint32_t b = 0; b < book->buckets.count; b++) {
        const struct bucket *bucket = &book->buckets.at[b];
        const struct group *groups[GROUPS_ROOM];
        double requests = 0;
        if (bucket->whole || bucket->callee != NAMES_NONE || book_judged(book, bucket) != service)
            continue;
        size_t count = judge_groups(book, bucket, service, of, of_count, groups, GROUPS_ROOM);
        for (size_t g = 0; g < count; g++)
            requests += (double)groups[g]->requests;
        all += requests;
        if (count && n < LONE_MAX && !has_any(book, bucket, service, others, other_count))
            list[n++] = (struct lone){b, requests};
    }
    for (size_t i = 0; i < n; i++)
        list[i].share /= all;
    qsort(list, n, sizeof(*list), by_share);
    return n;
}

/* Operations that the newest version does not have any more, and others in their place with as large a share
 * of the requests, of the same kind and the same bucketing attributes: the same ones, renamed. */
static int judge_renamed(const struct book *book, const struct judge_settings *settings, uint32_t service,
                         const struct version_list *list, double spread, struct judgement *judgement)
{
    struct lone gone[LONE_MAX], come[LONE_MAX];
    struct verdict verdict = {.service = service, .follows = NAMES_NONE, .mix_ratio = 1};
    const struct bucket none = {0};
    int r = 0;
    if (!versions_choose(book, &none, list->versions, list->count, settings->base, settings->candidate,
                         &verdict.sides))
        return 0;
    set_order(settings, list, &verdict);
    size_t gone_count = find_lone(book, service, verdict.sides.older, verdict.sides.older_count,
                                  &verdict.sides.newer, 1, gone);
    size_t come_count = find_lone(book, service, &verdict.sides.newer, 1, verdict.sides.older,
                                  verdict.sides.older_count, come);
    for (size_t i = 0; i < come_count; i++)
        for (size_t k = 0; r == 0 && k < gone_count; k++) {
            const struct bucket *a = &book->buckets.at[gone[k].bucket],
                                *b = &book->buckets.at[come[i].bucket];
            double ratio = come[i].share / fmax(gone[k].share, 1e-9);
            if (gone[k].share == 0 || a->labels != b->labels || ratio > RENAMED_SHARE ||
                ratio < 1 / RENAMED_SHARE || book->paths.at[a->type].kind != book->paths.at[b->type].kind)
                continue;
            verdict.bucket = come[i].bucket;
            verdict.older_bucket = gone[k].bucket;
            gone[k].share = 0; /* taken */
            r = judge_sides(book, settings, spread, &verdict, judgement);
            break;
        }
    return r;
}

/* All services, or the one asked for. */
static int judge_services(const struct book *book, const struct judge_settings *settings, double spread,
                          struct judgement *judgement)
{
    struct map services = {0};
    int r = 0;
    array_foreach (&book->service_versions, v)
        if (!map_put(&services, v->service, NULL))
            r = -ENOMEM;
    map_foreach (&services, slot) {
        uint32_t service = (uint32_t)slot->key;
        struct version_list list;
        if (r < 0 || (settings->service && strcmp(names_get(book->names, service), settings->service) != 0))
            continue;
        r = versions_list(book, service, &list);
        if (r < 0)
            break;
        for (uint32_t b = 0; r == 0 && list.count >= 2 && b < book->buckets.count; b++)
            if (!book->buckets.at[b].whole && book_judged(book, &book->buckets.at[b]) == service)
                r = judge_one(book, settings, b, &list, spread, judgement);
        if (r == 0 && list.count >= 2)
            r = judge_renamed(book, settings, service, &list, spread, judgement);
        free(list.versions);
    }
    map_done(&services);
    return r;
}

/* ---- the verdicts together ---- */

bool judge_fails_more(const struct verdict *v)
{
    return v->errors.more || v->error_part.more;
}

const struct error_cause *judge_error_cause(const struct verdict *v)
{
    return v->error_part.more ? &v->error_part.where : &v->error_cause;
}

bool judge_by_errors(const struct verdict *v)
{
    double p = v->errors.more ? v->errors.adjusted_p : v->error_part.adjusted_p;
    return judge_fails_more(v) && !(v->result.slower && v->result.adjusted_p < p) && !v->subgroup.slower;
}

struct judge_figures judge_figures(const struct verdict *v)
{
    const struct regress_result *all = &v->result;
    const struct error_result *errors = &v->errors;
    const struct error_part *failing = &v->error_part;
    const struct subgroup *slow = &v->subgroup;
    double most = 1e9;
    if (judge_by_errors(v) && failing->more)
        return (struct judge_figures){failing->where.cause.ratio, failing->where.low,
                                      fmin(failing->where.high, most), failing->where.p, failing->adjusted_p};
    if (judge_by_errors(v))
        return (struct judge_figures){errors->ratio, errors->low, fmin(errors->high, most), errors->p,
                                      errors->adjusted_p};
    if (slow->slower)
        return (struct judge_figures){slow->cause.ratio, slow->low, fmin(slow->high, most), slow->p,
                                      slow->adjusted_p};
    return (struct judge_figures){all->ratio[all->measure], all->low[all->measure], all->high[all->measure],
                                  all->p, all->adjusted_p};
}

const char *judge_test_words(const struct verdict *v)
{
    if (judge_by_errors(v))
        return v->error_part.more ? "scan of attribute combinations for errors"
                                  : "test of errors within strata of time";
    return regress_method_words(v->result.method);
}

bool judge_takes_longer(const struct verdict *v)
{
    return v->result.slower || v->subgroup.slower;
}

/* How often what is there would be needed for an interval that ends at the tolerance. */
static double times_wanted(const struct regress_result *r)
{
    double reach = log(r->high[MEASURE_MIDDLE]) - log(r->ratio[MEASURE_MIDDLE]);
    double room = log(JUDGE_TOLERANCE) - fmax(log(r->ratio[MEASURE_MIDDLE]), 0);
    return room > 0.05 ? fmin(reach * reach / (room * room), 100) : 4;
}

static void find_outcome(const struct judge_settings *settings, struct verdict *v)
{
    const struct regress_result *r = &v->result;
    uint64_t least =
        settings->regress.minimum_requests ? settings->regress.minimum_requests : REGRESS_MINIMUM_REQUESTS;
    uint64_t fewer = MIN(v->older.count, v->newer.count);
    bool suspicious = (r->adjusted_p <= SUSPICIOUS_P && r->ratio[r->measure] >= SUSPICIOUS_RATIO) ||
                      v->later_ratio >= SUSPICIOUS_RATIO;
    if (judge_takes_longer(v) || judge_fails_more(v)) {
        v->outcome = OUTCOME_SLOWER;
    } else if (r->method != METHOD_NONE && !suspicious && r->high[MEASURE_MIDDLE] <= JUDGE_TOLERANCE) {
        v->outcome = OUTCOME_NOT_SLOWER;
    } else {
        v->outcome = OUTCOME_CANNOT_TELL;
        if (r->method == METHOD_NONE || v->waiting) {
            least = v->waiting ? MATCH_CONCURRENT_MIN : least;
            v->requests_wanted = least > fewer ? least : fewer + 1;
        } else if (r->method == METHOD_BOOTSTRAP || r->method == METHOD_HOSTS || r->method == METHOD_PAIRED) {
            v->hosts_wanted = (uint64_t)ceil(fmax((double)MIN(r->older_hosts, r->newer_hosts), 1) *
                                             fmax(times_wanted(r), 1.2));
        }
        double minutes = (double)(v->last_ns - MIN(v->first_ns, v->last_ns)) / 60e9;
        if (v->requests_wanted && v->served > 1 && minutes > 0)
            v->minutes_wanted = ((double)v->requests_wanted - (double)MIN(fewer, v->requests_wanted)) *
                                minutes / (double)v->served;
    }
}

/* Where nothing shows which version is the newer one, neither may be slower than the other, or fail more
 * often: they are judged the other way round, too, as a family of their own. Where their requests let it be
 * guessed, the one that counts as the older must not be found to be slower. */
static int judge_reversed(const struct book *book, const struct judge_settings *settings, double spread,
                          struct judgement *j)
{
    struct judgement reversed = {0};
    int r = 0;
    array_foreach (&j->verdicts, v) {
        struct verdict plan = {.bucket = v->older_bucket,
                               .older_bucket = v->bucket,
                               .service = v->service,
                               .follows = NAMES_NONE,
                               .mix_ratio = 1,
                               .of_callers = v->of_callers,
                               .sides = v->sides};
        if (r < 0 || !v->order_guessed || v->outcome != OUTCOME_NOT_SLOWER)
            continue;
        plan.sides.newer = plan.sides.since = v->base;
        plan.sides.older[plan.sides.older_count - 1] = v->version;
        r = judge_sides(book, settings, spread, &plan, &reversed);
    }
    if (r == 0)
        r = select_verdicts(settings, &reversed);
    array_foreach (&reversed.verdicts, other) {
        find_outcome(settings, other);
        array_foreach (&j->verdicts, v)
            if (v->order_guessed && v->bucket == other->older_bucket && v->older_bucket == other->bucket &&
                v->service == other->service && v->of_callers == other->of_callers &&
                v->outcome == OUTCOME_NOT_SLOWER &&
                (other->outcome == OUTCOME_SLOWER ||
                 (v->order_unknown && other->outcome == OUTCOME_CANNOT_TELL)))
                v->outcome = OUTCOME_CANNOT_TELL;
    }
    judgement_done(&reversed);
    return r;
}

/* Of the service's newer requests' time, what this slow-down adds. */
static void find_cost(const struct judgement *j, struct verdict *v)
{
    double expected = 0;
    array_foreach (&j->verdicts, other)
        if (other->service == v->service && other->version == v->version &&
            other->of_callers == v->of_callers)
            expected += sketch_mean(&other->older) * (double)other->served;
    double added = fmax(sketch_mean(&v->newer) - sketch_mean(&v->older), 0) * (double)v->served;
    v->cost_share = expected > 0 ? added / expected : 0;
}

/* A caller whose growth lies at a service that is slower itself is no finding of its own. */
static void find_consequences(const struct book *book, struct judgement *j)
{
    array_foreach (&j->verdicts, v) {
        if (!judge_takes_longer(v) || (judge_fails_more(v) && !v->of_callers))
            continue;
        bool there =
            v->change_count && v->changes[0].share >= FOLLOWS_SHARE && v->changes[0].kind == CHANGE_SLOWER;
        uint32_t at = there ? book->paths.at[v->changes[0].path].service : NAMES_NONE;
        uint32_t caller = book->paths.at[book->buckets.at[v->bucket].type].service;
        bool above =
            v->change_count && v->changes[0].share >= FOLLOWS_SHARE &&
            (v->changes[0].kind == CHANGE_EDGE || book->paths.at[v->changes[0].path].service != v->service);
        if (v->of_callers && !above)
            v->follows = v->service; /* which is judged where it stands */
        array_foreach (&j->verdicts, other) {
            if (other == v || other->outcome != OUTCOME_SLOWER || other->of_callers)
                continue;
            bool itself = v->of_callers && (other->service == v->service || other->service == caller);
            if (itself || (other->service == at && at != v->service))
                v->follows = other->service;
        }
    }
}

/* One answer for a gate: the newer versions' requests are what it is about. */
static void conclude(const struct judge_settings *settings, struct judgement *j)
{
    double told = 0, all = 0;
    bool suspicious = false;
    array_foreach (&j->verdicts, v) {
        if (v->of_callers) {
            j->slower += v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE;
            continue;
        }
        j->slower += v->outcome == OUTCOME_SLOWER && v->follows == NAMES_NONE;
        j->untold += v->outcome == OUTCOME_CANNOT_TELL;
        j->untested += v->result.method == METHOD_NONE;
        told += v->outcome == OUTCOME_CANNOT_TELL ? 0 : (double)v->served;
        all += (double)v->served;
        suspicious |= v->outcome == OUTCOME_CANNOT_TELL && v->result.method != METHOD_NONE &&
                      v->result.adjusted_p <= SUSPICIOUS_P &&
                      v->result.ratio[v->result.measure] >= SUSPICIOUS_RATIO;
    }
    array_foreach (&j->throughputs, t)
        j->slower += t->outcome == THROUGHPUT_FEWER;
    j->told_share = all > 0 ? told / all : 0;
    j->outcome = j->slower                                                   ? OUTCOME_SLOWER
                 : all > 0 && j->told_share >= TOLD_SHARE_MIN && !suspicious ? OUTCOME_NOT_SLOWER
                                                                             : OUTCOME_CANNOT_TELL;
}

const char *judge_outcome_name(enum outcome outcome)
{
    static const char *const names[] = {"cannot-tell", "not-slower", "slower"};
    return names[outcome];
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
        if (v->outcome != OUTCOME_SLOWER)
            continue;
        const struct group *groups[2 * GROUPS_ROOM];
        size_t count = judge_older_groups(book, v, groups, GROUPS_ROOM);
        count += judge_newer_groups(book, v, groups + count, GROUPS_ROOM);
        for (size_t g = 0; g < count; g++)
            for (int i = 0; i < BOOK_EXEMPLARS; i++) {
                name_exemplar(&groups[g]->slow[i], ids, room, &n);
                name_exemplar(&groups[g]->normal[i], ids, room, &n);
            }
    }
    return n;
}

int judge(const struct book *book, const struct judge_settings *asked, struct judgement *ret_judgement)
{
    struct judgement j = {0};
    struct judge_settings with_spread = *asked;
    const struct judge_settings *settings = &with_spread;
    hosts_spread(book, &with_spread.regress);
    int r = judge_services(book, settings, with_spread.regress.host_spread, &j);
    if (r == 0)
        r = hosts_judge(book, settings, &j);
    if (r == 0)
        r = select_verdicts(settings, &j);
    array_foreach (&j.verdicts, v) {
        find_outcome(settings, v);
        if (v->outcome == OUTCOME_SLOWER)
            find_cost(&j, v);
        if (r == 0 && v->outcome == OUTCOME_SLOWER)
            r = explain(book, v);
    }
    if (r == 0)
        r = judge_reversed(book, settings, with_spread.regress.host_spread, &j);
    if (r < 0) {
        judgement_done(&j);
        return r;
    }
    if (j.verdicts.count)
        qsort(j.verdicts.at, j.verdicts.count, sizeof(*j.verdicts.at), by_evidence);
    find_consequences(book, &j);
    if (saturation_judge(book, settings, &j) < 0 || day_changes_judge(book, settings, &j) < 0) {
        judgement_done(&j);
        return -ENOMEM;
    }
    conclude(settings, &j);
    *ret_judgement = j;
    return 0;
}

void judgement_done(struct judgement *judgement)
{
    array_foreach (&judgement->verdicts, v)
        verdict_done(v);
    array_done(&judgement->verdicts);
    array_done(&judgement->bad_hosts);
    array_done(&judgement->days);
    array_done(&judgement->throughputs);
    array_done(&judgement->backlogs);
}
