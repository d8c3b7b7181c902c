/* Errors that a version adds for a part of the requests: the part is named, and none where there is none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/error_cause.h"

#include <stdio.h>

#include "base/clock.h"
#include "diagnose/diagnosis.h"
#include "diagnose/judge.h"
#include "diagnose/stats.h"
#include "test.h"

enum { REQUESTS = 4000, MANY = 12000, SEEDS = 5 };

/* Requests have a region (4), a plan (3) and a shard (8), each by chance, and zone is another name of region.
 * Those of the first `planted` of region=r1, plan=p2, shard=s3 fail with these probabilities; others with
 * base, the newer ones with base + everywhere. */
struct plan {
    unsigned planted;
    double newer_fails, older_fails;
    double base, everywhere;
    uint64_t first_seed; /* of five: chance alone may make all requests of one fail more often */
    bool many;           /* MANY requests */
    bool one_host;       /* serves all of region r1, of the newer side */
    bool status;         /* failures have an attribute that says so */
    bool also_r3;        /* region r3 fails as r1 does */
    bool three_shards;   /* s1, s3 and s5 fail instead */
    double beside_fails; /* of the newer ones of region r1 that are not of plan p2 */
    double always_p2;    /* of both sides' plan p2, of which the newer side has three times as many */
};

static void add_request(struct diagnosis *diagnosis, struct stats_random *random, const struct plan *plan,
                        uint64_t i)
{
    bool newer = i % 2;
    unsigned region = (unsigned)(stats_random_unit(random) * 4),
             kind = (unsigned)(stats_random_unit(random) * (plan->always_p2 > 0 && newer ? 9 : 3)),
             shard = (unsigned)(stats_random_unit(random) * 8);
    kind = kind > 2 ? 2 : kind;
    bool chosen = plan->planted > 0 && (region == 1 || (plan->also_r3 && region == 3)) &&
                  (plan->planted < 2 || kind == 2) && (plan->planted < 3 || shard == 3);
    if (plan->three_shards)
        chosen = shard == 1 || shard == 3 || shard == 5;
    double probability = chosen  ? newer ? plan->newer_fails : plan->older_fails
                         : newer ? plan->base + plan->everywhere
                                 : plan->base;
    if (newer && region == 1 && kind != 2 && plan->beside_fails > 0)
        probability = plan->beside_fails;
    if (kind == 2)
        probability += plan->always_p2;
    bool fails = stats_random_unit(random) < probability;
    char values[4][16];
    snprintf(values[0], sizeof(values[0]), "r%u", region);
    snprintf(values[1], sizeof(values[1]), "p%u", kind);
    snprintf(values[2], sizeof(values[2]), "s%u", shard);
    snprintf(values[3], sizeof(values[3]), "%c%u", newer ? 'n' : 'o',
             !plan->one_host ? (unsigned)(i / 2 % 6)
             : region == 1   ? 6
                             : (unsigned)(i / 2 % 5));
    struct span_attribute attributes[] = {
        {SLICE("region"), slice_of(values[0])},
        {SLICE("plan"), slice_of(values[1])},
        {SLICE("shard"), slice_of(values[2])},
        {SLICE("http.response.status_code"), fails ? SLICE("500") : SLICE("200")}};
    struct span_resource resource = {
        .service = SLICE("shop"), .version = newer ? SLICE("2") : SLICE("1"), .host = slice_of(values[3])};
    struct span span = {.trace_low = i + 1,
                        .id = i + 1,
                        .start_ns = (1000000 + i) * NS_PER_S,
                        .end_ns = (1000000 + i) * NS_PER_S + NS_PER_S / 100,
                        .name = SLICE("buy"),
                        .kind = SPAN_KIND_SERVER,
                        .error = fails,
                        .resource = &resource,
                        .attributes = attributes,
                        .attribute_count = plan->status ? 4 : 3};
    span_resource_conventions(&resource);
    assert_int_equal(span_sink_put(diagnosis_sink(diagnosis), &span), 0);
}

enum expected { NOTHING, WHOLE, PART };

/* Asserts whether the newer version fails more often, as a whole or in a part, and for which requests. */
static void check(struct plan plan, enum expected expected, const char *const *parts)
{
    for (uint64_t seed = plan.first_seed; seed < plan.first_seed + SEEDS; seed++) {
        struct diagnosis_settings settings = {0};
        struct judge_settings judging = {0};
        struct diagnosis *diagnosis;
        struct judgement judgement;
        struct stats_random random;
        struct text words = {0};
        stats_random_init(&random, seed);
        assert_int_equal(diagnosis_new(&settings, &diagnosis), 0);
        for (uint64_t i = 0; i < (plan.many ? MANY : REQUESTS); i++)
            add_request(diagnosis, &random, &plan, i);
        assert_int_equal(diagnosis_flush(diagnosis, UINT64_MAX), 0);
        assert_int_equal(judge(diagnosis_book(diagnosis), &judging, &judgement), 0);
        assert_int_equal(judgement.verdicts.count, 1);
        const struct verdict *v = &judgement.verdicts.at[0];
        const struct error_cause *found = expected == PART ? &v->error_part.where : &v->error_cause;
        assert_true(v->errors.more == (expected == WHOLE));
        assert_int_equal(v->error_part.more, expected == PART);
        size_t count = 0;

        cause_words(diagnosis_book(diagnosis), &found->cause, &words);
        for (; expected && parts[count]; count++)
            assert_non_null(strstr(text_get(&words), parts[count]));
        if (expected)
            assert_int_equal(found->cause.length, count);
        if (count) {
            double covered = plan.three_shards ? 0.25 : plan.also_r3 ? 0.4 : 0.6;
            assert_true((expected == PART || found->cause.coverage > covered) &&
                        found->share > (covered < 0.5 ? 2 : 3) * found->share_outside);
            assert_true(found->share > found->share_older && found->errors <= found->cause.requests);
        }
        text_done(&words);
        judgement_done(&judgement);
        diagnosis_free(diagnosis);
    }
}

static void one_attribute_is_named(void **state)
{
    check((struct plan){.planted = 1, .newer_fails = 0.1, .older_fails = 0.005, .base = 0.005}, WHOLE,
          (const char *const[]){"region=r1", NULL});
}

static void combinations_of_two_and_three_are_named(void **state)
{
    check((struct plan){.planted = 2, .newer_fails = 0.25, .older_fails = 0.005, .base = 0.005}, WHOLE,
          (const char *const[]){"region=r1", "plan=p2", NULL});
    check((struct plan){.planted = 3, .newer_fails = 0.8, .base = 0.001}, WHOLE,
          (const char *const[]){"region=r1", "plan=p2", "shard=s3", NULL});
}

static void errors_everywhere_have_no_part(void **state)
{
    check((struct plan){.base = 0.01, .everywhere = 0.05}, WHOLE, (const char *const[]){NULL});
}

static void what_failed_before_is_not_named(void **state)
{
    check(
        (struct plan){.planted = 1, .newer_fails = 0.2, .older_fails = 0.2, .base = 0.01, .everywhere = 0.06},
        WHOLE, (const char *const[]){NULL});
}

static void a_part_that_all_together_hardly_show_is_found(void **state)
{
    check((struct plan){.planted = 3, .newer_fails = 0.4, .base = 0.04, .many = true, .first_seed = 1}, PART,
          (const char *const[]){"region=r1", "plan=p2", "shard=s3", NULL});
}

static void chance_is_no_part(void **state)
{
    check((struct plan){.base = 0.01, .first_seed = 16}, NOTHING, NULL);
    check((struct plan){.planted = 3, .newer_fails = 0.7, .older_fails = 0.7, .base = 0.01, .first_seed = 16},
          NOTHING, NULL);
}

/* A region that only one newer host serves: the host may be what fails. */
static void a_host_is_no_part(void **state)
{
    check((struct plan){.planted = 3, .newer_fails = 0.5, .base = 0.01, .one_host = true, .first_seed = 16},
          NOTHING, NULL);
}

/* An attribute that is a consequence of failing says nothing of where. */
static void outcomes_are_no_causes(void **state)
{
    check((struct plan){.planted = 1, .newer_fails = 0.1, .base = 0.005, .status = true}, WHOLE,
          (const char *const[]){"region=r1", NULL});
}

/* Two regions that fail explain more than all requests do, and the first of them is named. */
static void two_parts_are_not_everywhere(void **state)
{
    check(
        (struct plan){.planted = 1, .newer_fails = 0.3, .older_fails = 0.005, .base = 0.005, .also_r3 = true},
        WHOLE, (const char *const[]){"region=r", NULL});
}

/* So do three shards of eight, of which two would leave a third of the errors. */
static void three_parts_are_not_everywhere(void **state)
{
    check((struct plan){.newer_fails = 0.3, .older_fails = 0.005, .base = 0.005, .three_shards = true}, WHOLE,
          (const char *const[]){"shard=s", NULL});
}

/* A region of which one plan fails most, but the others, too. */
static void the_worst_part_does_not_stand_for_the_whole(void **state)
{
    check(
        (struct plan){
            .planted = 2, .newer_fails = 0.5, .older_fails = 0.005, .base = 0.005, .beside_fails = 0.05},
        WHOLE, (const char *const[]){"region=r1", NULL});
}

/* A plan that always failed, and is asked for more often now: that its requests are more is no cause. */
static void like_is_compared_with_like(void **state)
{
    check((struct plan){.planted = 1,
                        .newer_fails = 0.4,
                        .older_fails = 0.005,
                        .base = 0.005,
                        .many = true,
                        .always_p2 = 0.2},
          WHOLE, (const char *const[]){"region=r1", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_attribute_is_named),
        cmocka_unit_test(combinations_of_two_and_three_are_named),
        cmocka_unit_test(errors_everywhere_have_no_part),
        cmocka_unit_test(what_failed_before_is_not_named),
        cmocka_unit_test(outcomes_are_no_causes),
        cmocka_unit_test(two_parts_are_not_everywhere),
        cmocka_unit_test(three_parts_are_not_everywhere),
        cmocka_unit_test(the_worst_part_does_not_stand_for_the_whole),
        cmocka_unit_test(like_is_compared_with_like),
        cmocka_unit_test(a_part_that_all_together_hardly_show_is_found),
        cmocka_unit_test(chance_is_no_part),
        cmocka_unit_test(a_host_is_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
