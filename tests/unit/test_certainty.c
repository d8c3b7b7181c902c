/* Intervals of a profile's shares: known values, how often they hold (bench/steer.mjs measures it exactly),
 * targets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/certainty.h"

#include <math.h>
#include <string.h>

#include "diagnose/stats.h"
#include "profile/formats.h"
#include "profile/windows.h"
#include "test.h"

enum { FUNCTIONS = 6, SECONDS = 64 };
static const double SHARES[FUNCTIONS] = {0.4, 0.25, 0.2, 0.1, 0.04, 0.01};

/* Samples of a program whose shares wander from second to second. */
static struct profile *sampled(struct stats_random *random, int per_second, double wander)
{
    struct profile *p;
    uint32_t nodes[FUNCTIONS];
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(profile_windows_begin(p), 0);
    uint32_t main_node = profile_child(p, 0, profile_named_frame(p, "main", FRAME_NATIVE));
    for (int f = 0; f < FUNCTIONS; f++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", f);
        nodes[f] = profile_child(p, main_node, profile_named_frame(p, name, FRAME_NATIVE));
    }
    for (int second = 0; second < SECONDS; second++) {
        double share[FUNCTIONS], sum = 0;
        for (int f = 0; f < FUNCTIONS; f++)
            sum += share[f] = SHARES[f] * (1 + wander * (stats_random_unit(random) - 0.5));
        for (int i = 0; i < per_second; i++) {
            double at = stats_random_unit(random) * sum;
            int f = 0;
            while (f < FUNCTIONS - 1 && at >= share[f])
                at -= share[f++];
            profile_count(p, nodes[f], 1, 1000);
            profile_windows_add(p, nodes[f], 1000, 1000000000ull * (uint64_t)(second + 1));
        }
    }
    return p;
}

static const struct profile_interval *of(struct profile *p, const char *name)
{
    return profile_interval_of(p, profile_named_frame(p, name, FRAME_NATIVE));
}

static void intervals_hold(void **state)
{
    (void)state;
    enum { RUNS = 300 };
    struct stats_random random;
    stats_random_init(&random, 11);
    for (int wander = 0; wander < 2; wander++) {
        int held = 0, all = 0;
        double width = 0;
        for (int run = 0; run < RUNS; run++) {
            struct profile *p = sampled(&random, 50, wander);
            assert_int_equal(certainty_measure(p), 0);
            for (int f = 0; f < FUNCTIONS; f++) {
                char name[16];
                snprintf(name, sizeof(name), "f%d", f);
                const struct profile_interval *i = of(p, name);
                assert_non_null(i);
                assert_true(i->self_low <= i->self && i->self <= i->self_high);
                all++;
                held +=
                    i->self_low <= SHARES[f] + 0.003 * wander && SHARES[f] - 0.003 * wander <= i->self_high;
                width += f ? 0 : i->self_high - i->self_low;
            }
            const struct profile_interval *i = of(p, "main");
            assert_true(fabs(i->total - 1) < 1e-9 && fabs(i->total_high - 1) < 1e-9 && i->self == 0);
            profile_free(p);
        }
        assert_in_range(held * 1000 / all, 930, 980);
        /* 3,200 independent samples give 2 * t * sqrt(0.4 * 0.6 / 3200) = 0.0369 */
        assert_true(wander || fabs(width / RUNS - 0.0369) < 0.003);
    }
}

/* Without windows or processes four samples are one draw, and it is said. */
/* A program that does one thing for five seconds on average, then another: longer than a block, so that
 * neighbouring blocks are alike. Each of three functions takes 0.8 of its own third of the time, and 0.1 of
 * the others'. */
static struct profile *in_phases(struct stats_random *random, int per_second)
{
    enum { THINGS = 3 };
    struct profile *p;
    uint32_t nodes[THINGS], thing = 0;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(profile_windows_begin(p), 0);
    for (int f = 0; f < THINGS; f++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", f);
        nodes[f] = profile_child(p, 0, profile_named_frame(p, name, FRAME_NATIVE));
    }
    for (int second = 0; second < SECONDS; second++) {
        if (!second || stats_random_unit(random) < 0.2)
            thing = (uint32_t)(stats_random_unit(random) * THINGS);
        for (int i = 0; i < per_second; i++) {
            double at = stats_random_unit(random);
            uint32_t f = at < 0.8 ? thing : (thing + (at < 0.9 ? 1 : 2)) % THINGS;
            profile_count(p, nodes[f], 1, 1000);
            profile_windows_add(p, nodes[f], 1000, 1000000000ull * (uint64_t)(second + 1));
        }
    }
    return p;
}

static void intervals_hold_for_long_phases(void **state)
{
    (void)state;
    enum { RUNS = 400 };
    struct stats_random random;
    int held = 0, all = 0;
    stats_random_init(&random, 5);
    for (int run = 0; run < RUNS; run++) {
        struct profile *p = in_phases(&random, 40);
        assert_int_equal(certainty_measure(p), 0);
        for (int f = 0; f < 3; f++) {
            char name[16];
            snprintf(name, sizeof(name), "f%d", f);
            const struct profile_interval *i = of(p, name);
            assert_non_null(i);
            held += i->self_low <= 1.0 / 3 && 1.0 / 3 <= i->self_high;
            all++;
        }
        profile_free(p);
    }
    print_message("%d of %d\n", held, all);
    assert_in_range(held * 1000 / all, 920, 985);
}

static void without_blocks(void **state)
{
    (void)state;
    static const char TEXT[] = "main;a 600\nmain;b 400\n";
    struct profile *p;
    struct problem problem;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(folded_read(p, TEXT, strlen(TEXT), &problem), 0);
    assert_int_equal(certainty_measure(p), 0);
    const struct profile_interval *i = of(p, "a");
    assert_true(fabs(i->self - 0.6) < 1e-9);
    assert_true(fabs(i->self_low - 0.5379) < 1e-3 && fabs(i->self_high - 0.6590) < 1e-3);
    assert_non_null(strstr(p->intervals->basis, "quarter"));
    profile_free(p);
    assert_int_equal(profile_new(&p), 0); /* and of nothing nothing is known */
    assert_int_equal(certainty_measure(p), 0);
    assert_null(p->intervals);
    profile_free(p);
}

static void targets(void **state)
{
    (void)state;
    struct certainty_target t;
    struct stats_random random;
    assert_int_equal(certainty_target_read("5%@1%", &t), 0);
    assert_true(fabs(t.error - 0.05) < 1e-12 && fabs(t.above - 0.01) < 1e-12);
    assert_int_equal(certainty_target_read("2.5%", &t), 0);
    assert_true(fabs(t.error - 0.025) < 1e-12 && fabs(t.above - 0.01) < 1e-12);
    static const char *const WRONG[] = {"",   "5",      "5%@",   "5%@1",    "5%@1%x",
                                        "0%", "-1%@1%", "5%@0%", "5%@101%", "x%"};
    for (size_t i = 0; i < ARRAY_SIZE(WRONG); i++)
        assert_int_equal(certainty_target_read(WRONG[i], &t), -EINVAL);
    stats_random_init(&random, 12);
    struct profile *p = sampled(&random, 500, 0);
    struct certainty_reached r = certainty_check(p, &(struct certainty_target){0.1, 0.05});
    assert_false(r.reached); /* nothing was measured */
    assert_int_equal(certainty_measure(p), 0);
    r = certainty_check(p, &(struct certainty_target){0.1, 0.05});
    assert_true(r.reached);
    assert_int_equal(r.functions, 9); /* four functions, themselves and in all, and main */
    assert_int_equal(r.unknown, 0);
    assert_true(r.times < 1);
    r = certainty_check(p, &(struct certainty_target){0.01, 0.05});
    assert_false(r.reached);
    /* f3: 10 %, 32,000 samples: 2.131 * sqrt(0.9 / 0.1 / 32000) = 3.6 % */
    assert_true(r.worst > 0.02 && r.worst < 0.06 && r.times > 4 && r.times < 36);
    r = certainty_check(p, &(struct certainty_target){0.01, 1.01});
    assert_false(r.reached);
    assert_int_equal(r.functions, 0);
    profile_free(p);
}

/* They go where the profile goes. */
static void copied_and_written(void **state)
{
    (void)state;
    struct stats_random random;
    struct text bytes = {0};
    struct profile *copy, *read;
    struct problem problem;
    stats_random_init(&random, 13);
    struct profile *p = sampled(&random, 50, 0);
    assert_int_equal(certainty_measure(p), 0);
    assert_int_equal(profile_new(&copy), 0);
    (void)profile_named_frame(copy, "f3", FRAME_NATIVE); /* other ids */
    assert_int_equal(profile_intervals_copy(copy, p), 0);
    assert_true(fabs(of(copy, "f3")->self_low - of(p, "f3")->self_low) < 1e-12);
    assert_null(of(copy, "elsewhere"));
    assert_int_equal(pprof_write(p, &bytes), 0); /* with comments: read as before */
    assert_int_equal(profile_new(&read), 0);
    assert_int_equal(pprof_read(read, text_get(&bytes), bytes.length, &problem), 0);
    assert_int_equal(certainty_measure(read), 0);
    assert_true(fabs(of(read, "f3")->self_low - of(p, "f3")->self_low) < 1e-6);
    text_done(&bytes);
    profile_free(read);
    profile_free(copy);
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_hold),     cmocka_unit_test(intervals_hold_for_long_phases),
        cmocka_unit_test(without_blocks),     cmocka_unit_test(targets),
        cmocka_unit_test(copied_and_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
