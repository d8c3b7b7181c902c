/* The judgement of a book: for every bucket of entries that it saw in more than one version, is the newer
 * side slower, does it fail more often, by what, since when, on which path, and for which attributes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_JUDGE_H
#define DIAGNOSE_JUDGE_H

#include "diagnose/cause.h"
#include "diagnose/compare.h"
#include "diagnose/error_cause.h"
#include "diagnose/errors.h"
#include "diagnose/sequential.h"
#include "diagnose/subgroup.h"
#include "diagnose/throughput.h"
#include "diagnose/versions.h"
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

enum outcome {
    OUTCOME_CANNOT_TELL, /* a slow-down that matters can neither be seen nor ruled out */
    OUTCOME_NOT_SLOWER,
    OUTCOME_SLOWER, /* or fails more often */
};

/* Smaller slow-downs are no findings, unless told otherwise. */
#define JUDGE_MINIMUM_RATIO 1.08

/* A slow-down below this is ruled out by a verdict of "not slower": the upper end of the interval. */
#define JUDGE_TOLERANCE 1.3

/* One service's versions in one bucket: a contrast that was looked at. */
struct verdict {
    uint32_t bucket;
    uint32_t service;
    uint32_t version; /* the newer side's */
    uint32_t base;    /* the newest of the older side's: the one to go back to */
    uint32_t since; /* the first version that is as slow as the newer side: version itself or an older one */
    struct version_sides sides;
    bool of_callers;       /* the bucket is of entries that call the service; only over the same time */
    uint32_t older_bucket; /* the older side's: another one where the newer version renamed the operation */
    struct regress_result result;
    struct error_result errors;
    struct error_cause error_cause; /* of what fails more often */
    struct error_part {
        struct error_cause where; /* p: for the choice; length 0: none */
        double adjusted_p;        /* over all parts of all contrasts */
        bool
            more; /* it fails more often, where all requests together hardly do; not in sequential verdicts */
    } error_part;
    struct sequential_result sequential;
    struct subgroup
        subgroup; /* slower there only, where all requests together are not; not in sequential verdicts */
    enum outcome outcome;
    bool order_unknown;     /* nothing shows which of version and base is the newer one */
    bool order_guessed;     /* nothing but how many requests either has */
    bool waiting;           /* the older side runs too, but has not served enough meanwhile: no verdict yet */
    bool concurrent;        /* both sides over the same time */
    double time_spread;     /* see struct match */
    double grew;            /* likewise */
    double later_ratio;     /* newer / older over all time, which was not there while both ran; 1: nothing */
    uint32_t left_out[2];   /* a bad host of the older, of the newer side: not compared; or NAMES_NONE */
    double mix_ratio;       /* newer / older latency that the mix of classes makes; 1: the same mix */
    bool mix_changed;       /* it would look slower, but for the mix */
    struct label mix_label; /* see struct match */
    double mix_share_older, mix_share_newer;
    uint32_t follows;  /* the service whose slow-down explains this one; or NAMES_NONE */
    uint64_t served;   /* requests of the newer version so far, also outside of the time compared */
    double cost_share; /* what the slow-down adds to the time of all of the service's newer requests */
    /* What a verdict would take, when it cannot be told: 0 where that is not what is missing. */
    uint64_t hosts_wanted, requests_wanted;
    double minutes_wanted; /* at the newer side's rate */
    /* The paper's Z against the spread of the older versions' means; 0 with fewer than two. */
    double z_versions;
    uint64_t first_ns, last_ns;                 /* of the newer side's requests */
    struct sketch older, newer;                 /* latencies, standardised */
    struct sketch older_request, newer_request; /* of the whole requests */
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

/* A host on which a bucket's entries are much slower than on its equals. */
struct bad_host {
    uint32_t bucket, host, version; /* the version that it runs */
    size_t equals;                  /* hosts of that version, itself included */
    size_t buckets;                 /* of the service in which it is the odd one */
    double ratio, p;
    double median_ns, own_ns; /* middle latencies, of the others and of it */
    uint64_t requests, first_ns, last_ns;
};

struct judgement {
    ARRAY(struct verdict) verdicts;       /* slower ones first, by their evidence */
    ARRAY(struct bad_host) bad_hosts;     /* each host of a service once */
    ARRAY(struct throughput) throughputs; /* of the contrasts, where it is known how long requests wait */
    ARRAY(struct backlog) backlogs;       /* queues that grow and that no version's throughput explains */
    ARRAY(struct day_change) days;        /* against the days before: each service once */
    enum outcome outcome;                 /* of all together: what a gate asks for */
    size_t slower;                        /* that are no consequence of others */
    size_t untested;                      /* with too little data on either side */
    size_t untold;                        /* that cannot be told, these included */
    double told_share;                    /* of the newer versions' requests that a verdict covers */
};

/* What a verdict that cannot be told would take; how the mix of requests changed. */
void judge_wanted_words(const struct verdict *verdict, struct text *to);
void judge_mix_words(const struct book *book, const struct verdict *verdict, struct text *to);

/* Slower, as a whole or in a subgroup (else it is slower for its errors). */
bool judge_takes_longer(const struct verdict *verdict);

/* Fails more often, as a whole or in a part. */
bool judge_fails_more(const struct verdict *verdict);

/* Errors are what the verdict is about, rather than latency. */
bool judge_by_errors(const struct verdict *verdict);

/* What the verdict rests on: newer / older of latency or errors, of all requests or of the part. */
struct judge_figures {
    double ratio, low, high; /* with its 95 % interval */
    double p, adjusted_p;
};
struct judge_figures judge_figures(const struct verdict *verdict);

/* The test that these come from. */
const char *judge_test_words(const struct verdict *verdict);

/* Where the errors are: what explains all that were added, or the part that fails more often. Length 0:
 * nowhere in particular. */
const struct error_cause *judge_error_cause(const struct verdict *verdict);

const char *judge_outcome_name(enum outcome outcome); /* "slower", "not-slower", "cannot-tell" */

int judge(const struct book *book, const struct judge_settings *settings, struct judgement *ret_judgement);
void judgement_done(struct judgement *judgement);

/* The traces that are kept as evidence of what is slower, of both sides. At most room; returns how many. */
size_t judgement_exemplars(const struct book *book, const struct judgement *judgement, struct trace_id *ids,
                           size_t room);

/* A verdict's groups of either side; borrowed, at most room. Returns how many. */
size_t judge_older_groups(const struct book *book, const struct verdict *verdict, const struct group **groups,
                          size_t room);
size_t judge_newer_groups(const struct book *book, const struct verdict *verdict, const struct group **groups,
                          size_t room);

/* The forests of both sides; an operation that was renamed has its new name on both. -ENOMEM. */
int judge_forests(const struct book *book, const struct verdict *verdict, struct forest *ret_before,
                  struct forest *ret_after);

/* The groups of a bucket in which a service has one of these versions; borrowed, at most room. */
size_t judge_groups(const struct book *book, const struct bucket *bucket, uint32_t service,
                    const uint32_t *versions, size_t version_count, const struct group **groups, size_t room);

#endif
