/* The judgement of a book: for every bucket and every service that it saw in more than one version, is the
 * newer side slower, by what, since when, on which path, and for which attributes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_JUDGE_H
#define DIAGNOSE_JUDGE_H

#include "diagnose/cause.h"
#include "diagnose/compare.h"
#include "diagnose/sequential.h"
#include "span/store.h"

#define JUDGE_CHANGES 12
#define JUDGE_CAUSES  5
#define JUDGE_PATH    64

struct judge_settings {
    struct regress_settings regress;
    const char *service;   /* only this service's versions; NULL: all services */
    const char *base;      /* compared with this version; NULL: the newest against all older ones */
    bool sequential;       /* the verdict rests on e-values, which may be looked at again and again */
    const char *candidate; /* this version against the base; NULL: the newest */
};

/* One service's versions in one bucket: a contrast that was looked at. */
struct verdict {
    uint32_t bucket;
    uint32_t service;
    uint32_t version; /* the newer side's */
    uint32_t base;    /* the newest of the older side's; or NAMES_NONE */
    uint32_t since; /* the first version that is as slow as the newer side: version itself or an older one */
    uint32_t clustered_by; /* the service whose hosts are the clusters */
    struct regress_result result;
    struct sequential_result sequential;
    bool waiting;    /* the older side runs too, but has not served enough meanwhile: no verdict yet */
    bool concurrent; /* both sides over the same time */
    /* The paper's Z against the spread of the older versions' means; 0 with fewer than two. */
    double z_versions;
    uint64_t first_ns, last_ns; /* of the newer side's requests */
    struct sketch older, newer; /* latencies */
    /* Only of verdicts that are slower: */
    struct forest_change changes[JUDGE_CHANGES];
    size_t change_count;
    uint32_t critical_path[JUDGE_PATH];
    size_t critical_path_length;
    struct cause causes[JUDGE_CAUSES];
    size_t cause_count;
    struct cause rule;
    double mean_before_ns, mean_after_ns;
};

struct judgement {
    ARRAY(struct verdict) verdicts; /* slower ones first, by their evidence */
    size_t slower;
    size_t untested;               /* with too little data on either side */
    size_t single_version_buckets; /* with nothing to compare */
};

int judge(const struct book *book, const struct judge_settings *settings, struct judgement *ret_judgement);
void judgement_done(struct judgement *judgement);

/* The traces that are kept as evidence of what is slower, of both sides. At most room; returns how many. */
size_t judgement_exemplars(const struct book *book, const struct judgement *judgement, struct trace_id *ids,
                           size_t room);

/* The versions of a service over the whole book, oldest first: by number where both look like version
 * numbers, else by first arrival. Owned by the caller. */
int judge_versions(const struct book *book, uint32_t service, uint32_t **ret_versions, size_t *ret_count);

/* The groups of a bucket in which a service has one of these versions; borrowed, at most room. */
size_t judge_groups(const struct book *book, const struct bucket *bucket, uint32_t service,
                    const uint32_t *versions, size_t version_count, const struct group **groups, size_t room);

#endif
