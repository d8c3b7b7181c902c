/* Slow-downs of a part of the requests: found and named where there is one, nothing where chance, drift,
 * hosts or what was slow before could be taken for one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/subgroup.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "diagnose/diagnosis.h"
#include "diagnose/judge.h"
#include "diagnose/stats.h"
#include "test.h"

/* Requests have a region (4), a plan (3) and a shard (8), each by chance. Those of region 1 and plan 2 take
 * longer by these logarithms; where that is narrow, only those of shard 3 do. */
struct plan {
    double newer_takes, older_takes;
    bool narrow;
    bool humps;       /* half of all requests take four times as long as the others */
    double drift;     /* log, of all newer requests */
    double bad_host;  /* log, of one newer host, which serves region 1 alone */
    double long_tail; /* share of requests that take 30 times as long */
    uint64_t seed;
};

static void add_request(struct diagnosis *diagnosis, struct stats_random *random, const struct plan *plan,
                        uint64_t i)
{
    bool newer = i % 2;
    unsigned region = (unsigned)(stats_random_unit(random) * 4),
             kind = (unsigned)(stats_random_unit(random) * 3),
             shard = (unsigned)(stats_random_unit(random) * 8), at = (unsigned)(i / 2 % 4);
    char values[4][16];
    if (plan->bad_host > 0)
        at = region == 1 ? 3 : (unsigned)(i / 2 % 3);
    snprintf(values[0], sizeof(values[0]), "r%u", region);
    snprintf(values[1], sizeof(values[1]), "p%u", kind);
    snprintf(values[2], sizeof(values[2]), "s%u", shard);
    snprintf(values[3], sizeof(values[3]), "%c%u", newer ? 'n' : 'o', at);
    struct span_attribute attributes[] = {{SLICE("region"), slice_of(values[0])},
                                          {SLICE("plan"), slice_of(values[1])},
                                          {SLICE("shard"), slice_of(values[2])}};
    struct span_resource resource = {
        .service = SLICE("shop"), .version = newer ? SLICE("2") : SLICE("1"), .host = slice_of(values[3])};
    bool chosen = region == 1 && kind == 2 && (!plan->narrow || shard == 3);
    double spread = plan->humps ? 0.12 : 0.4;
    double log_ns = log(1e7) + spread * stats_random_normal(random) + (newer ? plan->drift : 0) +
                    (plan->humps && stats_random_unit(random) < 0.5 ? log(4) : 0) +
                    (chosen ? newer ? plan->newer_takes : plan->older_takes : 0) +
                    (newer && at == 3 ? plan->bad_host : 0) +
                    (stats_random_unit(random) < plan->long_tail ? log(30) : 0);
    struct span span = {.trace_low = i + 1,
                        .id = i + 1,
                        .start_ns = (1000000 + i) * NS_PER_S,
                        .end_ns = (1000000 + i) * NS_PER_S + (uint64_t)exp(log_ns),
                        .name = SLICE("buy"),
                        .kind = SPAN_KIND_SERVER,
                        .resource = &resource,
                        .attributes = attributes,
                        .attribute_count = 3};
    span_resource_conventions(&resource);
    assert_int_equal(span_sink_put(diagnosis_sink(diagnosis), &span), 0);
}

/* Whether a version is slower, as a whole or in a part; and what part there is. */
static bool judge_plan(const struct plan *plan, struct diagnosis **ret_diagnosis,
                       struct subgroup *ret_subgroup)
{
    struct diagnosis_settings settings = {0};
    struct judge_settings judging = {0};
    struct judgement judgement;
    struct stats_random random;
    stats_random_init(&random, plan->seed);
    assert_int_equal(diagnosis_new(&settings, ret_diagnosis), 0);
    for (uint64_t i = 0; i < 2400; i++)
        add_request(*ret_diagnosis, &random, plan, i);
    assert_int_equal(diagnosis_flush(*ret_diagnosis, UINT64_MAX), 0);
    assert_int_equal(judge(diagnosis_book(*ret_diagnosis), &judging, &judgement), 0);
    assert_int_equal(judgement.verdicts.count, 1);
    *ret_subgroup = judgement.verdicts.at[0].subgroup;
    assert_true(ret_subgroup->tested);
    bool slower = judge_takes_longer(&judgement.verdicts.at[0]);
    judgement_done(&judgement);
    return slower;
}

static void a_part_is_found_and_named(void **state)
{
    struct plan plan = {.newer_takes = log(1.8), .seed = 5};
    struct diagnosis *diagnosis;
    struct subgroup found;
    struct text words = {0};
    assert_true(judge_plan(&plan, &diagnosis, &found));
    assert_true(found.p < 1e-6);
    cause_words(diagnosis_book(diagnosis), &found.cause, &words);
    assert_true(strcmp(text_get(&words), "region=r1 and plan=p2") == 0 ||
                strcmp(text_get(&words), "plan=p2 and region=r1") == 0);
    assert_true(found.low < 1.8 && found.high > 1.8 && found.cause.ratio_outside < 1.1);
    assert_int_equal(found.hosts, 4);
    text_done(&words);
    diagnosis_free(diagnosis);
}

/* A dozen requests twice as slow: their mean says too little where half of all take four times as long, but
 * hardly any took as long as they do. */
static void a_part_is_found_between_two_humps(void **state)
{
    struct plan plan = {.newer_takes = log(2), .narrow = true, .humps = true};
    unsigned right = 0;
    for (plan.seed = 1; plan.seed <= 10; plan.seed++) {
        struct diagnosis *diagnosis;
        struct subgroup found;
        judge_plan(&plan, &diagnosis, &found);
        right += found.slower && found.cause.length == 3 && found.low < 2 && found.high > 2;
        diagnosis_free(diagnosis);
    }
    assert_true(right >= 8);
}

static void check_nothing(struct plan plan)
{
    for (plan.seed = 1; plan.seed <= 10; plan.seed++) {
        struct diagnosis *diagnosis;
        struct subgroup found;
        judge_plan(&plan, &diagnosis, &found);
        assert_false(found.slower);
        diagnosis_free(diagnosis);
    }
}

static void nothing_is_found_in_chance(void **state)
{
    check_nothing((struct plan){0});
    check_nothing((struct plan){.long_tail = 0.1});
    check_nothing((struct plan){.humps = true});
    check_nothing((struct plan){.humps = true, .long_tail = 0.1});
}

static void what_was_slow_before_is_no_slow_down(void **state)
{
    check_nothing((struct plan){.newer_takes = log(3), .older_takes = log(3)});
    check_nothing((struct plan){.newer_takes = log(2), .older_takes = log(2), .humps = true});
    check_nothing((struct plan){.newer_takes = log(2), .older_takes = log(2), .narrow = true, .humps = true});
}

static void drift_is_no_part(void **state)
{
    check_nothing((struct plan){.drift = 0.6});
    check_nothing((struct plan){.drift = 0.6, .humps = true});
}

/* A region that one host serves differs as hosts do; one host proves nothing about it. */
static void a_host_is_no_part(void **state)
{
    check_nothing((struct plan){.bad_host = 0.08});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_is_found_and_named),  cmocka_unit_test(a_part_is_found_between_two_humps),
        cmocka_unit_test(nothing_is_found_in_chance), cmocka_unit_test(what_was_slow_before_is_no_slow_down),
        cmocka_unit_test(drift_is_no_part),           cmocka_unit_test(a_host_is_no_part)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
