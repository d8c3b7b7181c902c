/* See hosts.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/hosts.h"

#include <math.h>

#include "base/macro.h"
#include "diagnose/outliers.h"

/* A group's hosts, each with all that it served. */
static int pool_hosts(const struct group *group, struct clusters *to)
{
    int r = 0;
    array_foreach (&group->hosts, host) {
        if (r == 0)
            r = array_add(&to->list, (struct cluster){.host = host->host});
        if (r == 0)
            r = array_add(&to->sketches, (struct sketch){0});
        array_foreach (&host->strata, stratum)
            if (r == 0)
                r = sketch_merge(&to->sketches.at[to->sketches.count - 1], &stratum->latency);
    }
    for (size_t i = 0; r == 0 && i < to->list.count; i++)
        to->list.at[i].latency = &to->sketches.at[i];
    return r;
}

/* The two largest groups of a bucket; NULL where there are fewer. */
static void find_largest(const struct bucket *bucket, const struct group **ret_first,
                         const struct group **ret_second)
{
    *ret_first = *ret_second = NULL;
    array_foreach (&bucket->groups, group) {
        if (!*ret_first || group->requests > (*ret_first)->requests) {
            *ret_second = *ret_first;
            *ret_first = group;
        } else if (!*ret_second || group->requests > (*ret_second)->requests) {
            *ret_second = group;
        }
    }
}

/* Of each bucket the largest group, for the spread between hosts, and the two largest, for that of pairs. */
void hosts_spread(const struct book *book, struct regress_settings *settings)
{
    ARRAY(struct clusters) all = {0}; /* by twos */
    ARRAY(struct contrast) sides = {0}, pairs = {0};
    array_foreach (&book->buckets, bucket) {
        const struct group *groups[2];
        find_largest(bucket, &groups[0], &groups[1]);
        if (bucket->whole || bucket->callee != NAMES_NONE)
            continue;
        for (int i = 0; i < 2; i++) {
            struct clusters clusters = {0};
            if (groups[i] && pool_hosts(groups[i], &clusters) < 0) {
                clusters_done(&clusters);
                clusters = (struct clusters){0};
            }
            if (array_add(&all, clusters) < 0) {
                clusters_done(&clusters);
                break; /* what is there has to do */
            }
        }
    }
    for (size_t i = 0; i + 1 < all.count; i += 2) {
        const struct clusters *first = &all.at[i], *second = &all.at[i + 1];
        struct contrast side = {.older = first->list.at, .older_count = first->list.count}, pair = side;
        pair.newer = second->list.at;
        pair.newer_count = second->list.count;
        if (array_add(&sides, side) < 0 || array_add(&pairs, pair) < 0)
            break;
    }
    settings->host_spread = regress_host_spread(sides.at, sides.count, settings, &settings->spread_freedom);
    settings->pair_spread = regress_pair_spread(pairs.at, pairs.count, settings, &settings->pair_freedom);
    array_foreach (&all, c)
        clusters_done(c);
    array_done(&all);
    array_done(&sides);
    array_done(&pairs);
}

/* Remembers a host once, with the bucket in which it stands out most. */
static int add_bad_host(const struct book *book, const struct bad_host *bad, struct judgement *judgement)
{
    uint32_t service = book->paths.at[book->buckets.at[bad->bucket].type].service;
    array_foreach (&judgement->bad_hosts, known) {
        if (known->host != bad->host ||
            book->paths.at[book->buckets.at[known->bucket].type].service != service)
            continue;
        size_t buckets = known->buckets + 1;
        if (bad->p < known->p)
            *known = *bad;
        known->buckets = buckets;
        return 0;
    }
    return array_add(&judgement->bad_hosts, *bad);
}

int hosts_judge(const struct book *book, const struct judge_settings *settings, struct judgement *judgement)
{
    double q = settings->regress.false_discovery_rate > 0 ? settings->regress.false_discovery_rate : 0.02;
    ARRAY(struct bad_host) all = {0};
    size_t looked_at = 0;
    int r = 0;
    for (uint32_t b = 0; b < book->buckets.count; b++) {
        const struct bucket *bucket = &book->buckets.at[b];
        uint32_t service = book->paths.at[bucket->type].service;
        if (bucket->whole || bucket->callee != NAMES_NONE ||
            (settings->service && strcmp(names_get(book->names, service), settings->service) != 0))
            continue;
        array_foreach (&bucket->groups, group) {
            struct clusters hosts = {0};
            struct outlier worst;
            if (r == 0)
                r = pool_hosts(group, &hosts);
            looked_at += hosts.list.count >= OUTLIERS_HOSTS_MIN;
            if (r == 0 && outliers_find(hosts.list.at, hosts.list.count, HOSTS_REQUESTS_MIN, &worst)) {
                const struct combination *c = &book->combinations.at[group->combination];
                struct bad_host bad = {.bucket = b,
                                       .host = hosts.list.at[worst.at].host,
                                       .version = book->service_versions.at[c->first].version,
                                       .equals = hosts.list.count,
                                       .buckets = 1,
                                       .ratio = worst.ratio,
                                       .p = worst.p,
                                       .median_ns = exp(worst.level),
                                       .own_ns = exp(worst.level) * worst.ratio,
                                       .requests = hosts.list.at[worst.at].latency->count,
                                       .first_ns = group->first_ns,
                                       .last_ns = group->last_ns};
                r = array_add(&all, bad);
            }
            clusters_done(&hosts);
        }
    }
    array_foreach (&all, bad)
        if (r == 0 && bad->p * (double)looked_at <= q)
            r = add_bad_host(book, bad, judgement);
    array_done(&all);
    return r;
}
