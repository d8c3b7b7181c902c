/* A version that came host by host and stayed alone: what is said of it is what the time that both share
 * shows, not what the day did afterwards. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/contrast.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "diagnose/diagnosis.h"
#include "test.h"

enum { REQUESTS = 9000, HOSTS = 6 };

struct plan {
    double takes;          /* of the newer version, log */
    double day;            /* how much a day's load adds at its peak, log */
    double later;          /* what is added to both in the last third, log */
    double begins, slower; /* share of a host's time with the newer version in which that takes longer; log */
};

static struct judgement judge_plan(const struct plan *plan, bool sequential, struct diagnosis **ret_diagnosis)
{
    struct diagnosis_settings settings = {0};
    struct judge_settings judging = {.sequential = sequential};
    struct judgement judgement;
    struct stats_random random;
    stats_random_init(&random, 11);
    assert_int_equal(diagnosis_new(&settings, ret_diagnosis), 0);
    for (uint64_t i = 1; i <= REQUESTS; i++) {
        double share = (double)i / REQUESTS;
        int number = (int)(stats_random_next(&random) % HOSTS);
        double came = 0.25 + 0.2 * number / HOSTS;
        bool newer = share >= came;
        char host[16];
        snprintf(host, sizeof(host), "h%d", number);
        struct span_resource resource = {
            .service = SLICE("shop"), .version = newer ? SLICE("2") : SLICE("1"), .host = slice_of(host)};
        double ns =
            1e7 * exp(plan->day * sin(M_PI * share) + (share > 0.67 ? plan->later : 0) +
                      (newer ? plan->takes : 0) + (newer && share < came + plan->begins ? plan->slower : 0) +
                      0.01 * number + 0.25 * stats_random_normal(&random));
        struct span span = {.trace_low = i,
                            .id = i,
                            .start_ns = (1000000 + 4 * i) * NS_PER_S,
                            .end_ns = (1000000 + 4 * i) * NS_PER_S + (uint64_t)ns,
                            .name = SLICE("buy"),
                            .kind = SPAN_KIND_SERVER,
                            .resource = &resource};
        span_resource_conventions(&resource);
        assert_int_equal(span_sink_put(diagnosis_sink(*ret_diagnosis), &span), 0);
    }
    assert_int_equal(diagnosis_flush(*ret_diagnosis, UINT64_MAX), 0);
    assert_int_equal(judge(diagnosis_book(*ret_diagnosis), &judging, &judgement), 0);
    assert_int_equal(judgement.verdicts.count, 1);
    return judgement;
}

static void check(const struct plan *plan, bool sequential, enum outcome outcome)
{
    struct diagnosis *diagnosis;
    struct judgement judgement = judge_plan(plan, sequential, &diagnosis);
    const struct verdict *v = &judgement.verdicts.at[0];
    assert_int_equal(v->outcome, outcome);
    assert_true(v->later_ratio == 1);
    if (outcome == OUTCOME_SLOWER)
        assert_true(v->concurrent && fabs(log(v->result.ratio[v->result.measure]) - plan->takes) < 0.1);
    judgement_done(&judgement);
    diagnosis_free(diagnosis);
}

static void a_slow_down_is_seen_beside_a_days_load(void **state)
{
    check(&(struct plan){.takes = log(1.4), .day = 0.5}, false, OUTCOME_SLOWER);
    check(&(struct plan){.takes = log(1.4), .day = -0.5}, false, OUTCOME_SLOWER);
}

/* Who looks again and again does not take back in the evening what was found in the morning. */
static void an_alarm_stays(void **state)
{
    check(&(struct plan){.takes = log(1.4), .day = 0.5}, true, OUTCOME_SLOWER);
}

static void a_days_load_is_no_slow_down(void **state)
{
    check(&(struct plan){.day = 0.5}, false, OUTCOME_NOT_SLOWER);
    check(&(struct plan){.day = 0.5}, true, OUTCOME_NOT_SLOWER);
}

/* Hosts that warm up are not what a version is judged by. */
static void a_slow_start_is_left_out(void **state)
{
    check(&(struct plan){.begins = 0.012, .slower = log(2)}, false, OUTCOME_NOT_SLOWER);
}

static void what_came_later_is_not_the_versions_for_certain(void **state)
{
    for (int sequential = 0; sequential < 2; sequential++) {
        struct diagnosis *diagnosis;
        struct text words = {0};
        struct judgement judgement = judge_plan(&(struct plan){.later = log(1.6)}, sequential, &diagnosis);
        const struct verdict *v = &judgement.verdicts.at[0];
        assert_int_equal(v->outcome, OUTCOME_CANNOT_TELL);
        assert_true(v->later_ratio > 1.2);
        judge_wanted_words(v, &words);
        assert_non_null(strstr(text_get(&words), "times as slow later"));
        text_done(&words);
        judgement_done(&judgement);
        diagnosis_free(diagnosis);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_down_is_seen_beside_a_days_load), cmocka_unit_test(an_alarm_stays),
        cmocka_unit_test(a_days_load_is_no_slow_down), cmocka_unit_test(a_slow_start_is_left_out),
        cmocka_unit_test(what_came_later_is_not_the_versions_for_certain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
