/* Like with like: what time and the mix of requests do to both sides is taken out, what the newer side does
 * itself is not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/match.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "diagnose/diagnosis.h"
#include "diagnose/stats.h"
#include "test.h"

/* What a test plans: requests a side, and the log latency that time and mix add. */
struct plan {
    double newer_from;      /* share of the time */
    double drift;           /* log, over all of the time */
    double dear[2];         /* share of dear requests, which take three times as long, of either side */
    double newer_takes;     /* log */
    double grows_at, grows; /* share of the time, log */
    bool alone;             /* the newer side, once it is there */
    double rolls;           /* share of the time in which four hosts get the newer version one by one */
    bool shared;            /* compared over the time that both share */
    double warms,
        warm_for; /* log, and for what share of the time: a host that has just got the newer version */
};

static struct match match_of(const struct plan *plan, struct diagnosis **ret_diagnosis)
{
    struct diagnosis_settings settings = {0};
    struct stats_random random;
    struct match match;
    stats_random_init(&random, 3);
    assert_int_equal(diagnosis_new(&settings, ret_diagnosis), 0);
    for (uint64_t i = 1; i <= 4000; i++) {
        double share = (double)i / 4000;
        int number = (int)(i / 2 % 4);
        double begins = plan->newer_from + plan->rolls * number / 4;
        bool newer = share > begins && (plan->alone || plan->rolls > 0 || i % 2),
             dear = stats_random_unit(&random) < plan->dear[newer];
        char host[16];
        snprintf(host, sizeof(host), "%c%d", newer && plan->rolls == 0 ? 'n' : 'o', number);
        struct span_attribute tenant = {SLICE("tenant"), dear ? SLICE("big") : SLICE("small")};
        struct span_resource resource = {
            .service = SLICE("shop"), .version = newer ? SLICE("2") : SLICE("1"), .host = slice_of(host)};
        double ns = 1e7 * exp(plan->drift * share + (dear ? log(3) : 0) + (newer ? plan->newer_takes : 0) +
                              (plan->grows > 0 && share > plan->grows_at ? plan->grows : 0) +
                              (newer && share < begins + plan->warm_for ? plan->warms : 0) +
                              0.2 * stats_random_normal(&random));
        struct span span = {.trace_low = i,
                            .id = i,
                            .start_ns = (1000000 + i) * NS_PER_S,
                            .end_ns = (1000000 + i) * NS_PER_S + (uint64_t)ns,
                            .name = SLICE("buy"),
                            .kind = SPAN_KIND_SERVER,
                            .resource = &resource,
                            .attributes = &tenant,
                            .attribute_count = 1};
        span_resource_conventions(&resource);
        assert_int_equal(span_sink_put(diagnosis_sink(*ret_diagnosis), &span), 0);
    }
    assert_int_equal(diagnosis_flush(*ret_diagnosis, UINT64_MAX), 0);
    const struct group *sides[2] = {0};
    const struct book *book = diagnosis_book(*ret_diagnosis);
    array_foreach (&book->buckets, bucket)
        for (size_t g = 0; !bucket->whole && bucket->callee == NAMES_NONE && g < bucket->groups.count; g++)
            sides[g] = &bucket->groups.at[g];
    bool swapped =
        strcmp(
            names_get(book->names,
                      book->service_versions.at[book->combinations.at[sides[0]->combination].first].version),
            "2") == 0;
    struct match_settings matching = {.shared_time = plan->shared, .requests_min = 100};
    assert_int_equal(match_sides(book, &sides[swapped], 1, &sides[!swapped], 1, &matching, &match), 0);
    return match;
}

/* The mean log latency of a side. */
static double level(const struct clusters *clusters)
{
    double sum = 0, n = 0, mean, variance;
    array_foreach (&clusters->sketches, s) {
        sketch_log_moments(s, &mean, &variance);
        sum += mean * (double)s->count;
        n += (double)s->count;
    }
    return sum / n;
}

static void check(struct plan plan, double mix)
{
    struct diagnosis *diagnosis;
    struct match match = match_of(&plan, &diagnosis);
    assert_true(match.concurrent);
    assert_true(match.older.list.count == 4 && match.newer.list.count == 4);
    double difference = level(&match.newer) - level(&match.older);
    assert_true(fabs(difference - plan.newer_takes) < 0.03);
    assert_true(fabs(match.mix - mix) < 0.05);
    match_done(&match);
    diagnosis_free(diagnosis);
}

static void drift_is_not_the_versions(void **state)
{
    check((struct plan){.newer_from = 0.5, .drift = 0.6}, 0);
    check((struct plan){.newer_from = 0.5, .drift = -0.6, .newer_takes = 0.3}, 0);
}

static void a_mix_is_not_the_versions(void **state)
{
    check((struct plan){.dear = {0.1, 0.6}}, 0.5 * log(3));
    check((struct plan){.dear = {0.6, 0.1}, .newer_takes = 0.4}, -0.5 * log(3));
}

/* Without a time that both share, how far the older side moves by itself is said. */
static void different_times_cost_certainty(void **state)
{
    struct diagnosis *diagnosis;
    struct plan plan = {.newer_from = 0.5, .drift = 0.6, .alone = true};
    struct match match = match_of(&plan, &diagnosis);
    assert_false(match.concurrent);
    assert_true(match.time_spread > 0.1 && match.time_spread < 0.2); /* half of half of the drift */
    match_done(&match);
    diagnosis_free(diagnosis);
}

/* What grew before the newer version came did not grow because of it. */
static void growth_before_the_newer_version_costs_certainty(void **state)
{
    struct diagnosis *diagnosis;
    struct plan plan = {.newer_from = 0.5, .grows_at = 0.46, .grows = 0.3, .alone = true};
    struct match match = match_of(&plan, &diagnosis);
    assert_false(match.concurrent);
    assert_true(match.time_spread > 0.2 && match.time_spread < 0.3);
    match_done(&match);
    diagnosis_free(diagnosis);
    plan.grows_at = 0.5; /* with the newer version */
    match = match_of(&plan, &diagnosis);
    assert_true(match.time_spread < 0.05);
    match_done(&match);
    diagnosis_free(diagnosis);
}

/* Host by host, and then alone for long: over all time drift counts for the newer version, over the time that
 * both share it does not. */
static void what_came_host_by_host_is_compared_while_both_ran(void **state)
{
    struct diagnosis *diagnosis;
    struct plan plan = {.newer_from = 0.3, .rolls = 0.2, .drift = 0.8, .newer_takes = 0.2};
    struct match match = match_of(&plan, &diagnosis);
    assert_true(!match.concurrent && match.shares_time);
    assert_true(level(&match.newer) - level(&match.older) > 0.5);
    match_done(&match);
    diagnosis_free(diagnosis);
    plan.shared = true;
    match = match_of(&plan, &diagnosis);
    assert_true(match.concurrent && !match.shares_time && match.time_spread == 0);
    assert_true(fabs(level(&match.newer) - level(&match.older) - 0.2) < 0.05);
    match_done(&match);
    diagnosis_free(diagnosis);
}

/* A moment that both share is not enough. */
static void all_at_once_shares_no_time(void **state)
{
    struct diagnosis *diagnosis;
    struct plan plan = {.newer_from = 0.5, .alone = true, .shared = true};
    struct match match = match_of(&plan, &diagnosis);
    assert_true(!match.concurrent && !match.shares_time);
    match_done(&match);
    diagnosis_free(diagnosis);
}

/* The level of what is slower than all but so many of a side. */
static double high_level(const struct clusters *clusters)
{
    struct sketch all = {0};
    array_foreach (&clusters->sketches, s)
        assert_int_equal(sketch_merge(&all, s), 0);
    double high = log(fmax(sketch_quantile(&all, 0.95), 1));
    sketch_done(&all);
    return high;
}

/* What comes while the last host changes hits the newer side more, which serves most of the requests then. */
static void an_incident_at_the_end_of_the_shared_time_is_nobodys(void **state)
{
    for (double at = 0.42; at < 0.445; at += 0.004) {
        struct diagnosis *diagnosis;
        struct plan plan = {
            .newer_from = 0.3, .rolls = 0.2, .grows_at = at, .grows = log(2.2), .shared = true};
        struct match match = match_of(&plan, &diagnosis);
        assert_true(match.concurrent);
        double middle = level(&match.newer) - level(&match.older);
        double high = high_level(&match.newer) - high_level(&match.older);
        assert_true(fabs(middle) < 0.06);
        assert_true(high < 0.3);
        match_done(&match);
        diagnosis_free(diagnosis);
    }
}

/* A host's first slot of time with the newer version is not whole: what it warms up for as long as a slot
 * lies in the next one, too. */
static void hosts_that_warm_up_are_left_out(void **state)
{
    struct diagnosis *diagnosis;
    struct plan plan = {.newer_from = 0.3, .rolls = 0.4, .warms = log(2), .warm_for = 0.016, .shared = true};
    struct match match = match_of(&plan, &diagnosis);
    assert_true(match.concurrent);
    assert_true(fabs(level(&match.newer) - level(&match.older)) < 0.02);
    match_done(&match);
    diagnosis_free(diagnosis);
}

/* What grew when the older side had long gone is not known to be the newer version's. */
static void growth_after_the_rollout_costs_certainty(void **state)
{
    struct diagnosis *diagnosis;
    struct plan plan = {.newer_from = 0.3, .rolls = 0.2, .grows_at = 0.7, .grows = 0.3};
    struct match match = match_of(&plan, &diagnosis);
    assert_true(!match.concurrent && match.shares_time);
    assert_true(match.grew > 0.1 && match.grew < 0.2); /* somewhat more than half of the growth */
    assert_true(match.time_spread >= match.grew);
    match_done(&match);
    diagnosis_free(diagnosis);
    plan = (struct plan){.newer_from = 0.3, .rolls = 0.2, .newer_takes = 0.3};
    match = match_of(&plan, &diagnosis); /* slower from the beginning: that is the version */
    assert_true(match.shares_time && match.grew < 0.01);
    match_done(&match);
    diagnosis_free(diagnosis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drift_is_not_the_versions),
                                       cmocka_unit_test(a_mix_is_not_the_versions),
                                       cmocka_unit_test(different_times_cost_certainty),
                                       cmocka_unit_test(growth_before_the_newer_version_costs_certainty),
                                       cmocka_unit_test(what_came_host_by_host_is_compared_while_both_ran),
                                       cmocka_unit_test(all_at_once_shares_no_time),
                                       cmocka_unit_test(an_incident_at_the_end_of_the_shared_time_is_nobodys),
                                       cmocka_unit_test(hosts_that_warm_up_are_left_out),
                                       cmocka_unit_test(growth_after_the_rollout_costs_certainty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
