/* Contrasts whose truth is known: shifts, tails, nothing; many hosts, the same hosts, few hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/sequential.h"

#include <math.h>
#include <string.h>

#include "base/macro.h"
#include "test.h"

enum { HOSTS = 12 };

struct scene {
    struct sketch older[HOSTS], newer[HOSTS];
    struct cluster older_clusters[HOSTS], newer_clusters[HOSTS];
    struct contrast contrast;
};

/* Hosts differ by 8 %; `shift` is added to the logarithm of newer requests, `tail` to one in ten of them. */
static void make(struct scene *s, size_t hosts, int requests, bool paired, double shift, double tail,
                 uint64_t seed)
{
    struct stats_random random;
    double level[HOSTS];
    memset(s, 0, sizeof(*s));
    stats_random_init(&random, seed);
    for (size_t h = 0; h < hosts; h++) {
        level[h] = 0.08 * stats_random_normal(&random);
        for (int i = 0; i < requests; i++)
            sketch_add(&s->older[h], (uint64_t)exp(16 + level[h] + 0.4 * stats_random_normal(&random)));
        s->older_clusters[h] = (struct cluster){(uint32_t)h, &s->older[h]};
    }
    for (size_t h = 0; h < hosts; h++) {
        double here = paired ? level[h] : 0.08 * stats_random_normal(&random);
        for (int i = 0; i < requests; i++)
            sketch_add(&s->newer[h], (uint64_t)exp(16 + here + 0.4 * stats_random_normal(&random) + shift +
                                                   (i % 10 == 0 ? tail : 0)));
        s->newer_clusters[h] = (struct cluster){(uint32_t)(paired ? h : 100 + h), &s->newer[h]};
    }
    s->contrast = (struct contrast){s->older_clusters, s->newer_clusters, hosts, hosts};
}

static void done(struct scene *s)
{
    for (int h = 0; h < HOSTS; h++) {
        sketch_done(&s->older[h]);
        sketch_done(&s->newer[h]);
    }
}

static void shifts_and_tails_are_found(void **state)
{
    static struct scene s;
    struct regress_result r;
    make(&s, HOSTS, 300, false, log(1.5), 0, 1);
    regress_test(&s.contrast, NULL, &r);
    assert_int_equal(r.method, METHOD_HOSTS);
    assert_true(r.p < 1e-6 && r.low[r.measure] < 1.5 && r.high[r.measure] > 1.5);
    assert_true(r.older_requests == HOSTS * 300 && r.newer_hosts == HOSTS && r.paired_hosts == 0);
    done(&s);
    make(&s, HOSTS, 300, false, 0, log(3), 2);
    regress_test(&s.contrast, NULL, &r);
    assert_true(r.p < 1e-4 && r.measure != MEASURE_MIDDLE);
    done(&s);
    make(&s, HOSTS, 300, true, log(1.1), 0, 3);
    regress_test(&s.contrast, NULL, &r);
    assert_int_equal(r.method, METHOD_PAIRED);
    assert_true(r.p < 1e-3);
    done(&s);
    make(&s, 2, 1000, false, log(1.5), 0, 4);
    regress_test(&s.contrast, NULL, &r);
    assert_int_equal(r.method, METHOD_BOOTSTRAP);
    assert_true(r.p < 1e-3);
    done(&s);
}

/* A canary's hosts have few requests each: once other buckets show how much hosts differ, all of them count.
 */
static void few_requests_on_each_host_are_enough(void **state)
{
    static struct scene s;
    struct regress_result alone, known;
    make(&s, 6, 19, false, log(1.4), 0, 5);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) /* three of them have 21 */
            sketch_add(&s.newer[i], (uint64_t)exp(16 + log(1.4)));
    for (int h = 0; h < 6; h++)
        for (int i = 0; i < 20; i++)
            sketch_add(&s.older[h], (uint64_t)exp(16));
    regress_test(&s.contrast, NULL, &alone);
    assert_int_equal(alone.method, METHOD_HOSTS);
    assert_int_equal(alone.newer_hosts, 3);
    regress_test(&s.contrast, &(struct regress_settings){.host_spread = 0.08, .spread_freedom = 200}, &known);
    assert_int_equal(known.method, METHOD_BOOTSTRAP);
    assert_true(known.p < alone.p && known.p < 1e-3);
    done(&s);
}

/* How much a version's effect differs between hosts is borrowed from other buckets; not where this one is of
 * another kind. */
static void six_pairs_borrow_from_other_buckets(void **state)
{
    static struct scene s;
    struct regress_result alone, known, other;
    make(&s, 6, 100, true, log(1.12), 0, 7);
    regress_test(&s.contrast, NULL, &alone);
    regress_test(&s.contrast, &(struct regress_settings){.pair_spread = 0.01, .pair_freedom = 200}, &known);
    assert_int_equal(known.method, METHOD_PAIRED);
    assert_true(known.p_of[MEASURE_MIDDLE] < alone.p_of[MEASURE_MIDDLE]);
    for (int i = 0; i < 3000; i++)
        sketch_add(&s.newer[0], (uint64_t)exp(17));
    regress_test(&s.contrast, NULL, &alone);
    regress_test(&s.contrast, &(struct regress_settings){.pair_spread = 0.01, .pair_freedom = 200}, &other);
    assert_true(other.p_of[MEASURE_MIDDLE] == alone.p_of[MEASURE_MIDDLE]);
    done(&s);
}

static void pairs_of_many_buckets_show_their_spread(void **state)
{
    enum { BUCKETS = 12 };
    static struct scene scenes[BUCKETS];
    struct contrast contrasts[BUCKETS];
    double freedom;
    for (uint64_t i = 0; i < BUCKETS; i++) {
        make(&scenes[i], 6, 1000, true, 0.1 * (double)(i % 3), 0, 200 + i);
        contrasts[i] = scenes[i].contrast;
    }
    double spread = regress_pair_spread(contrasts, BUCKETS, NULL, &freedom); /* the same shift on all hosts */
    assert_true(spread < 0.03 && freedom > 40);
    spread = regress_host_spread(contrasts, BUCKETS, NULL, &freedom);
    assert_true(spread > 0.05 && spread < 0.12 && freedom > 80);
    for (int i = 0; i < BUCKETS; i++)
        done(&scenes[i]);
}

/* Of few requests the slowest few say nothing of a version, and resampling them does not know that. */
static void high_quantiles_take_many_requests(void **state)
{
    static struct scene s;
    static const int requests[] = {30, 110, 510}; /* on two hosts */
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        struct regress_result r;
        int measures = 0;
        make(&s, 2, requests[i], false, 0, log(3), 8);
        regress_test(&s.contrast, NULL, &r);
        assert_int_equal(r.method, METHOD_BOOTSTRAP);
        for (int m = 0; m < MEASURES; m++)
            measures += r.ratio[m] != 1;
        assert_int_equal(measures, 1 + (int)i);
        done(&s);
    }
}

/* Hosts that differ are no slow-down, however many requests they served. */
static void differing_hosts_are_no_regression(void **state)
{
    static struct scene s;
    struct regress_result results[100];
    double e_values[100];
    bool selected[100];
    for (uint64_t i = 0; i < 100; i++) {
        struct sequential_result sequential;
        make(&s, i % 2 ? HOSTS : 3, 200, false, 0, 0, 100 + i);
        regress_test(&s.contrast, NULL, &results[i]);
        sequential_test(&s.contrast, 0.08, &sequential);
        e_values[i] = sequential.e_value;
        assert_true(sequential.low < 1 && sequential.high > 1);
        done(&s);
    }
    assert_true(regress_select(results, 100, NULL) <= 1);
    assert_true(sequential_select(e_values, 100, 0.02, selected) <= 1);
}

static void too_little_data_is_no_verdict(void **state)
{
    static struct scene s;
    struct regress_result r;
    struct sequential_result sequential;
    make(&s, 3, 13, false, log(4), 0, 5);
    regress_test(&s.contrast, NULL, &r);
    assert_int_equal(r.method, METHOD_NONE);
    assert_true(r.p == 1);
    sequential_test(&s.contrast, 0.08, &sequential);
    assert_true(sequential.e_value == 1);
    regress_select(&r, 1, NULL);
    assert_false(r.slower);
    done(&s);
}

static void e_values_grow_with_evidence(void **state)
{
    static struct scene s;
    struct sequential_result few, many;
    make(&s, HOSTS, 40, false, log(1.3), 0, 6);
    sequential_test(&s.contrast, 0.08, &few);
    done(&s);
    make(&s, HOSTS, 1000, false, log(1.3), 0, 6);
    sequential_test(&s.contrast, 0.08, &many);
    done(&s);
    assert_true(many.e_value > few.e_value && many.e_value > 1000);
    assert_true(many.low > 1 && many.low < 1.3 && many.high > 1.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shifts_and_tails_are_found),
                                       cmocka_unit_test(few_requests_on_each_host_are_enough),
                                       cmocka_unit_test(differing_hosts_are_no_regression),
                                       cmocka_unit_test(too_little_data_is_no_verdict),
                                       cmocka_unit_test(six_pairs_borrow_from_other_buckets),
                                       cmocka_unit_test(pairs_of_many_buckets_show_their_spread),
                                       cmocka_unit_test(high_quantiles_take_many_requests),
                                       cmocka_unit_test(e_values_grow_with_evidence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
