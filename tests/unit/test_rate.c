/* Rates that follow the load: the rule of the paper step by step, and regimes, triggers and costs on made
 * loads. How often triggers are false in hundreds of hours is measured by bench/steer.mjs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/rate.h"

#include <math.h>
#include <string.h>

#include "diagnose/stats.h"
#include "test.h"

enum { FUNCTIONS = 12 };

/* A window of n samples; function 1's share is that many times what it is otherwise. */
static void window(struct rate *rate, struct stats_random *random, double samples, double planted,
                   struct rate_decision *decision)
{
    struct distribution d = {0};
    double sum = FUNCTIONS - 1 + planted;
    for (int i = 0; i < (int)samples; i++) {
        double at = stats_random_unit(random) * sum;
        uint64_t key = at < planted ? 1 : 2 + (uint64_t)(at - planted);
        assert_int_equal(distribution_add(&d, key, 1), 0);
    }
    assert_int_equal(rate_window(rate, &d, decision), 0);
    distribution_done(&d);
}

static void two(struct rate *rate, double first, double second, struct rate_decision *decision)
{
    struct distribution d = {0};
    assert_int_equal(distribution_add(&d, 1, first), 0);
    assert_int_equal(distribution_add(&d, 2, second), 0);
    assert_int_equal(rate_window(rate, &d, decision), 0);
    distribution_done(&d);
}

/* Algorithm 1: f / lambda when the divergence exceeds theta, f * lambda after more than c windows that do
 * not. */
static void the_papers_rule(void **state)
{
    (void)state;
    struct rate *rate;
    struct rate_decision d;
    assert_int_equal(rate_new(&RATE_PAPER_FINE, 400, &rate), 0);
    for (int i = 0; i < 5; i++) {
        two(rate, 500, 500, &d);
        assert_false(d.changed);
        assert_true(fabs(d.next - 400) < 1e-9);
    }
    two(rate, 500, 500, &d);
    assert_true(fabs(d.next - 320) < 1e-9);
    two(rate, 500, 500, &d);
    assert_true(fabs(d.next - 256) < 1e-9);
    two(rate, 900, 100, &d); /* 0.102 nats */
    assert_true(d.changed);
    assert_true(fabs(d.divergence - 0.10175) < 1e-4 && fabs(d.theta - 0.05) < 1e-12);
    assert_true(fabs(d.next - 320) < 1e-9);
    two(rate, 500, 500, &d); /* at once, again */
    assert_true(fabs(d.next - 400) < 1e-9);
    for (int i = 0; i < 40; i++)
        two(rate, i % 2 ? 900 : 100, i % 2 ? 100 : 900, &d);
    assert_true(fabs(d.next - RATE_PAPER_FINE.most) < 1e-9);
    for (int i = 0; i < 40; i++)
        two(rate, 900, 100, &d);
    assert_true(fabs(d.next - RATE_PAPER_FINE.least) < 1e-9);
    rate_free(rate);
    /* Its other threshold is near the largest divergence there is. */
    assert_int_equal(rate_new(&RATE_PAPER, 400, &rate), 0);
    two(rate, 900, 100, &d);
    two(rate, 100, 900, &d);
    assert_false(d.changed);
    rate_free(rate);
}

static void a_steady_load_costs_little(void **state)
{
    (void)state;
    struct rate *rate;
    struct rate_decision d = {.next = RATE_USUAL.most};
    struct stats_random random;
    stats_random_init(&random, 3);
    assert_int_equal(rate_new(&RATE_USUAL, RATE_USUAL.most, &rate), 0);
    for (int i = 0; i < 300; i++) {
        window(rate, &random, d.next * 10, 1, &d);
        assert_false(d.changed);
    }
    assert_true(fabs(d.next - RATE_USUAL.least) < 1e-9);
    assert_true(d.dispersion < 1.5);
    size_t windows;
    const struct distribution *pool = rate_regime(rate, d.regime, &windows);
    assert_int_equal(windows, 300);
    assert_true(pool->samples > 3 * 10 * RATE_USUAL.most); /* those of the high rates, too */
    rate_free(rate);
}

/* Few samples that come in runs are worth a seventh of their number, which is not known in the beginning:
 * that they differ more than independent ones is no change. */
static void few_samples_in_runs_are_no_change(void **state)
{
    (void)state;
    struct stats_random random;
    struct rate_decision decision;
    long changes = 0;
    stats_random_init(&random, 5);
    for (int start = 0; start < 5; start++) {
        struct rate *rate;
        assert_int_equal(rate_new(&RATE_USUAL, RATE_USUAL.most, &rate), 0);
        for (int w = 0; w < 360; w++) { /* an hour */
            struct distribution d = {0};
            for (double left = 400, run; left >= 1; left -= run) {
                uint64_t function =
                    1 + (uint64_t)(30 * stats_random_unit(&random) * stats_random_unit(&random));
                run = fmin(left, 1 + floor(log(fmax(stats_random_unit(&random), 1e-12)) / log(0.75)));
                assert_int_equal(distribution_add(&d, function, run), 0);
            }
            assert_int_equal(rate_window(rate, &d, &decision), 0);
            changes += decision.changed;
            distribution_done(&d);
        }
        rate_free(rate);
    }
    assert_in_range(changes, 0, 1); /* 0.05 are stated */
}

/* Changes in hours of samples that come in runs of sixteen. */
static long changes_in_long_runs(bool halves)
{
    struct stats_random random;
    struct rate_decision decision;
    long changes = 0;
    stats_random_init(&random, 12);
    for (int start = 0; start < 10; start++) {
        struct rate *rate;
        assert_int_equal(rate_new(&RATE_USUAL, RATE_USUAL.most, &rate), 0);
        for (int w = 0; w < 60; w++) {
            struct distribution d = {0};
            bool told = !halves;
            for (double left = 1200, run; left >= 1; left -= run) {
                uint64_t function =
                    1 + (uint64_t)(30 * stats_random_unit(&random) * stats_random_unit(&random));
                run = fmin(left, 1 + floor(log(fmax(stats_random_unit(&random), 1e-12)) / log(0.9375)));
                if (!told && left <= 600)
                    assert_int_equal(rate_half(rate, &d), 0);
                told |= left <= 600;
                assert_int_equal(distribution_add(&d, function, run), 0);
            }
            assert_int_equal(rate_window(rate, &d, &decision), 0);
            changes += decision.changed;
            distribution_done(&d);
        }
        rate_free(rate);
    }
    return changes;
}

/* How much the halves of windows differ tells how long runs are, long before it is learnt how windows do. */
static void halves_tell_long_runs(void **state)
{
    long without = changes_in_long_runs(false), with = changes_in_long_runs(true);
    assert_in_range(with, 0, 3);
    assert_true(without > 5 * (with + 1));
}

/* And where there are no runs, a change in the fourth window is seen. */
static void halves_tell_that_there_are_no_runs(void **state)
{
    for (int halves = 0; halves < 2; halves++) {
        struct rate *rate;
        struct rate_decision decision;
        struct stats_random random;
        stats_random_init(&random, 13);
        assert_int_equal(rate_new(&RATE_USUAL, RATE_USUAL.most, &rate), 0);
        for (int w = 0; w < 4; w++) {
            struct distribution d = {0};
            for (int i = 0; i < 700; i++) {
                double sum = FUNCTIONS - 1 + (w == 3 ? 8 : 1), at = stats_random_unit(&random) * sum;
                uint64_t key = 1 + (uint64_t)fmax(0, at - (w == 3 ? 7 : 0));
                if (halves && i == 350)
                    assert_int_equal(rate_half(rate, &d), 0);
                assert_int_equal(distribution_add(&d, key, 1), 0);
            }
            assert_int_equal(rate_window(rate, &d, &decision), 0);
            distribution_done(&d);
        }
        assert_true(decision.changed == (halves == 1));
        rate_free(rate);
    }
}

/* Two ways to work that alternate: each is known again, its windows are pooled, and it is not learnt anew. */
static void regimes_are_met_again(void **state)
{
    (void)state;
    struct rate *rate;
    struct rate_decision d = {.next = RATE_USUAL.most};
    struct stats_random random;
    size_t regime[2] = {0}, windows;
    int known = 0, changes = 0;
    stats_random_init(&random, 4);
    assert_int_equal(rate_new(&RATE_USUAL, RATE_USUAL.most, &rate), 0);
    for (int i = 0; i < 60; i++)
        window(rate, &random, 5000, 1, &d);
    for (int i = 0; i < 200; i++) {
        int now = i / 10 % 2;
        window(rate, &random, 5000, now ? 1 : 4, &d);
        changes += d.changed;
        known += d.known;
        assert_true(i % 10 == 0 || !d.changed);
        assert_true(i < 20 || i % 10 || d.regime == regime[now]);
        regime[now] = d.regime;
    }
    assert_int_equal(changes, 20);
    assert_int_equal(known, 19); /* all but the first */
    assert_true(regime[0] != regime[1]);
    (void)rate_regime(rate, regime[0], &windows);
    assert_int_equal(windows, 100);
    rate_free(rate);
}

/* One odd window is no regime that others may be taken for because they resemble it a little; what was odd
 * three times is. */
static void an_odd_window_draws_no_others(void **state)
{
    (void)state;
    struct rate *rate;
    struct rate_decision d;
    struct stats_random random;
    stats_random_init(&random, 11);
    assert_int_equal(rate_new(&RATE_USUAL, RATE_USUAL.most, &rate), 0);
    for (int i = 0; i < 60; i++)
        window(rate, &random, 5000, 1, &d);
    for (int odd = 1; odd <= 3; odd++) {
        window(rate, &random, 5000, 1.5, &d);
        assert_true(d.changed && d.excess > 1 && d.known == (odd > 1));
        window(rate, &random, 5000, 1, &d);
        assert_true(d.changed && d.known);
        window(rate, &random, 5000, 1.24, &d);
        assert_true(d.changed == (odd == 3) && d.excess < 1);
        for (int i = 0; i < 3; i++)
            window(rate, &random, 5000, 1, &d);
        assert_false(d.changed);
    }
    rate_free(rate);
}

/* Windows of a second of a program that does two things for four seconds each, from the start: what changes
 * is known when it comes again, nothing of it is learnt as chance, and the rate falls only as far as it still
 * shows. */
static void two_things_in_turn(void **state)
{
    (void)state;
    struct rate *rate;
    struct rate_decision d = {.next = RATE_USUAL.most};
    struct stats_random random;
    size_t regime[2] = {0};
    int fresh = 0;
    struct rate_options options = RATE_USUAL;
    options.budget = 0;
    stats_random_init(&random, 8);
    assert_int_equal(rate_new(&options, options.most, &rate), 0);
    for (int i = 0; i < 80; i++) {
        int now = i / 4 % 2;
        window(rate, &random, d.next, now ? 1 : 20, &d);
        fresh += d.fresh;
        assert_true(i < 8 || d.regime == regime[now]);
        assert_true(d.next >= 99); /* samples that tell them apart */
        regime[now] = d.regime;
    }
    assert_int_equal(fresh, 1);
    assert_true(regime[0] != regime[1]);
    assert_true(d.next < RATE_USUAL.most && d.dispersion < 2);
    rate_free(rate);
}

/* No window says what the next one is: each has to be sampled itself, all alike. Without a budget, as often
 * as can be. */
static void windows_that_differ_are_sampled_alike(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        struct rate *rate;
        struct rate_decision d = {.next = RATE_USUAL.most};
        struct rate_options options = RATE_USUAL;
        struct stats_random random;
        options.budget = limited ? 0.1 : 0;
        stats_random_init(&random, 9);
        assert_int_equal(rate_new(&options, options.most, &rate), 0);
        for (int i = 0; i < 80; i++) {
            window(rate, &random, 2000, 4 * exp(0.5 * stats_random_normal(&random)), &d);
            assert_true(limited || d.next > options.most / 3); /* once or not at all, before it is known */
            assert_true(d.next >= options.most / 10 - 1e-9);
        }
        assert_true(d.dispersion > 2);
        assert_true(!limited || fabs(d.next - options.most / 10) < 1e-9);
        rate_free(rate);
    }
}

/* What is hot changes in every other window: the rate would not fall. */
static void what_always_changes_costs_no_more_than_the_budget(void **state)
{
    (void)state;
    double spent = RATE_USUAL.most * (400 * RATE_USUAL.budget + 5);
    for (int limited = 0; limited < 2; limited++) {
        struct rate *rate;
        struct stats_random random;
        struct rate_options options = RATE_USUAL;
        struct rate_decision d = {.next = options.first};
        double sum = 0, highest = 0;
        options.budget *= limited;
        stats_random_init(&random, 10);
        assert_int_equal(rate_new(&options, options.first, &rate), 0);
        for (int i = 0; i < 400; i++) {
            sum += d.next;
            highest = fmax(highest, d.next);
            window(rate, &random, d.next * 20, 1 + 5 * (double)(i / 2 % 37), &d);
        }
        assert_true(highest > (limited ? options.most / 2 : options.most) - 1);
        assert_true(limited ? sum < spent : sum > 2 * spent);
        rate_free(rate);
    }
}

/* A function of some 8 % becomes a fifth larger. */
static void small_changes_are_seen(void **state)
{
    (void)state;
    struct rate *rate;
    struct rate_decision d;
    struct stats_random random;
    stats_random_init(&random, 6);
    assert_int_equal(rate_new(&RATE_USUAL, 999, &rate), 0);
    for (int i = 0; i < 200; i++)
        window(rate, &random, 20000, 1, &d);
    bool seen = false;
    for (int i = 0; i < 3 && !seen; i++) {
        window(rate, &random, 20000, 1.2, &d);
        seen = d.changed;
    }
    assert_true(seen);
    assert_true(d.key == 1 || d.key == 0);
    rate_free(rate);
}

/* Nothing runs: nothing diverges, and nothing breaks. */
static void empty_windows(void **state)
{
    (void)state;
    struct rate *rate;
    struct rate_decision d;
    struct distribution none = {0};
    struct stats_random random;
    stats_random_init(&random, 7);
    assert_int_equal(rate_new(&RATE_USUAL, 999, &rate), 0);
    for (int i = 0; i < 300; i++) {
        if (i % 3)
            assert_int_equal(rate_window(rate, &none, &d), 0);
        else
            window(rate, &random, 50, 1, &d);
        assert_false(d.changed);
    }
    rate_free(rate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_papers_rule),
        cmocka_unit_test(a_steady_load_costs_little),
        cmocka_unit_test(few_samples_in_runs_are_no_change),
        cmocka_unit_test(halves_tell_long_runs),
        cmocka_unit_test(halves_tell_that_there_are_no_runs),
        cmocka_unit_test(regimes_are_met_again),
        cmocka_unit_test(an_odd_window_draws_no_others),
        cmocka_unit_test(small_changes_are_seen),
        cmocka_unit_test(empty_windows),
        cmocka_unit_test(two_things_in_turn),
        cmocka_unit_test(windows_that_differ_are_sampled_alike),
        cmocka_unit_test(what_always_changes_costs_no_more_than_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
