/* See contrast.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/contrast.h"

#include <math.h>

#include "base/macro.h"
#include "diagnose/hosts.h"
#include "diagnose/match.h"
#include "diagnose/outliers.h"

#define MIX_RATIO_MIN 1.1   /* from which a change of the mix is said */
#define MIX_PART_MIN  0.5   /* of the whole difference, in logarithms */
#define BAD_HOST_P    0.001 /* for the slowest of a side's hosts, before it is left out */
#define TIMES_TRIED   2     /* all of it, and what both sides share */
#define LATER_LOG     0.1   /* part of the level that came later, from which on that is said */
#define DOUBTFUL_P    0.025 /* from which on down the smaller p of the two decides, else the certainty */

/* What the match says of the mix: most of the difference, and hardly any of it is left within classes. */
static void judge_mix(const struct match *match, struct verdict *verdict)
{
    double within = log(fmax(verdict->result.ratio[MEASURE_MIDDLE], 1e-9));
    verdict->mix_ratio = exp(match->mix);
    verdict->mix_label = match->mix_label;
    verdict->mix_share_older = match->mix_share_older;
    verdict->mix_share_newer = match->mix_share_newer;
    verdict->mix_changed =
        match->mix >= log(MIX_RATIO_MIN) && match->mix >= MIX_PART_MIN * (match->mix + fmax(within, 0));
}

static int pool_clusters(const struct clusters *clusters, struct sketch *into)
{
    int r = 0;
    array_foreach (&clusters->sketches, s)
        if (r == 0)
            r = sketch_merge(into, s);
    return r;
}

/* One bad host speaks for itself, not for a version: it is left out of its side. */
static void leave_out(struct clusters *clusters, uint32_t *ret_host)
{
    struct outlier worst;
    *ret_host = NAMES_NONE;
    if (!outliers_find(clusters->list.at, clusters->list.count, HOSTS_REQUESTS_MIN, &worst) ||
        worst.p > BAD_HOST_P)
        return;
    *ret_host = clusters->list.at[worst.at].host;
    sketch_done(&clusters->sketches.at[worst.at]);
    clusters->sketches.at[worst.at] = (struct sketch){0};
}

/* All that is known of both sides over one choice of time. */
static int test_match(const struct book *book, const struct contrast_of *of,
                      const struct match_settings *matching, const struct regress_settings *regress,
                      struct verdict *verdict, bool *ret_shares_time)
{
    struct match match;
    int r = match_sides(book, of->older, of->older_count, of->newer, of->newer_count, matching, &match);
    if (r < 0)
        return r;
    leave_out(&match.older, &verdict->left_out[0]);
    leave_out(&match.newer, &verdict->left_out[1]);
    /* Requests of other classes have tails of their own, whatever the version. */
    struct contrast contrast = {.older = match.older.list.at,
                                .newer = match.newer.list.at,
                                .older_count = match.older.list.count,
                                .newer_count = match.newer.list.count,
                                .middle_only = match.uneven || fabs(match.mix) >= log(MIX_RATIO_MIN),
                                .time_spread = match.time_spread};
    regress_test(&contrast, regress, &verdict->result);
    sequential_test(&contrast, regress->host_spread, &verdict->sequential);
    errors_test(&match, &verdict->errors);
    verdict->concurrent = match.concurrent;
    verdict->waiting = match.waiting;
    verdict->time_spread = match.time_spread;
    verdict->grew = match.grew;
    judge_mix(&match, verdict);
    r = pool_clusters(&match.older, &verdict->older);
    if (r == 0)
        r = pool_clusters(&match.newer, &verdict->newer);
    *ret_shares_time = match.shares_time;
    match_done(&match);
    return r;
}

static double width_of(const struct regress_result *r)
{
    return r->high[MEASURE_MIDDLE] / fmax(r->low[MEASURE_MIDDLE], 1e-9);
}

/* Which of two choices of time speaks: where one of them shows something, that one; else the more certain. */
static bool speaks_first(const struct regress_result *a, const struct regress_result *b)
{
    return fmin(a->p, b->p) <= DOUBTFUL_P ? a->p <= b->p : width_of(a) <= width_of(b);
}

/* How much slower it became later, as far as all time shows: of both sides, or by what the newer one grew. */
static double later_ratio(const struct verdict *all)
{
    double middle = fmax(all->result.ratio[MEASURE_MIDDLE], exp(all->grew));
    return fmax(all->result.ratio[all->result.measure], middle);
}

/* Whether what all time shows was not there while both sides ran: it came later, whatever the version. Where
 * the newer side is seen to have grown later, that is in the uncertainty of all time: what is seen beyond
 * that was there before. */
static bool came_later(const struct verdict *verdict, const struct regress_result *shared)
{
    const struct regress_result *all = &verdict->result;
    enum regress_measure m = all->measure;
    bool known = shared->high[m] > shared->low[m];
    if (verdict->grew > LATER_LOG)
        return all->p > DOUBTFUL_P && fmax(all->ratio[MEASURE_MIDDLE], exp(verdict->grew)) >
                                          fmax(shared->high[MEASURE_MIDDLE], JUDGE_TOLERANCE);
    return all->p <= DOUBTFUL_P && known && all->low[m] > shared->high[m];
}

/* Tests the time that both sides share, and takes what that says where it speaks first. Errors stay those of
 * all time. */
static int test_shared_time(const struct book *book, const struct contrast_of *of,
                            const struct match_settings *matching, const struct regress_settings *regress,
                            struct verdict *verdict)
{
    struct match_settings shared = *matching;
    struct verdict other = *verdict;
    bool ignored;
    shared.shared_time = true;
    other.older = other.newer = (struct sketch){0};
    int r = test_match(book, of, &shared, regress, &other, &ignored);
    if (r == 0 && other.concurrent && other.result.method != METHOD_NONE) {
        double e_value = (verdict->sequential.e_value + other.sequential.e_value) / 2; /* of a mixture */
        bool later = came_later(verdict, &other.result);
        if (later || verdict->result.method == METHOD_NONE || speaks_first(&other.result, &verdict->result)) {
            other.errors = verdict->errors;
            other.later_ratio = later ? later_ratio(verdict) : 1;
            struct verdict swap = *verdict;
            *verdict = other;
            other = swap; /* whose sketches are not needed any more */
        }
        verdict->sequential.e_value = later ? verdict->sequential.e_value : e_value;
        verdict->result.p = fmin(1, verdict->result.p * TIMES_TRIED);
    }
    sketch_done(&other.older);
    sketch_done(&other.newer);
    return r;
}

int contrast_test(const struct book *book, const struct contrast_of *of,
                  const struct judge_settings *settings, double spread, struct verdict *verdict)
{
    struct regress_settings regress = settings->regress;
    struct match_settings matching = {.watching = settings->sequential,
                                      .requests_min = regress.minimum_requests ? regress.minimum_requests
                                                                               : REGRESS_MINIMUM_REQUESTS};
    bool shares_time;
    regress.host_spread = spread;
    verdict->later_ratio = 1;
    int r = test_match(book, of, &matching, &regress, verdict, &shares_time);
    if (r == 0 && shares_time)
        r = test_shared_time(book, of, &matching, &regress, verdict);
    verdict->result.p = fmin(1, verdict->result.p * (double)verdict->sides.tried);
    verdict->sequential.e_value /= (double)verdict->sides.tried;
    if (verdict->waiting)
        verdict->sequential.e_value = verdict->errors.e_value = 1;
    return r;
}
