/* What is recommended for services whose threads and periods are known. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/tuning.h"

#include <math.h>
#include <stdio.h>

#include "diagnose/stats.h"
#include "test.h"

static void sampled(struct profile *p, int tid, int function, uint64_t samples)
{
    char text[64];
    uint32_t node = profile_child(p, 0, profile_named_frame(p, "shop (1)", FRAME_GROUP));
    snprintf(text, sizeof(text), "thread worker (%d)", tid);
    node = profile_child(p, node, profile_named_frame(p, text, FRAME_GROUP));
    snprintf(text, sizeof(text), "f%d", function);
    node = profile_child(p, node, profile_named_frame(p, text, FRAME_NATIVE));
    profile_count(p, node, samples, samples * 10);
}

/* Threads have fewer and fewer samples of the same functions: what is pruned is missing of each alike. */
static struct profile *service(void)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    for (int tid = 1; tid <= 400; tid++)
        for (int f = 1; f <= 50; f++)
            sampled(p, tid, f, (uint64_t)(1e6 / tid / f) + 1);
    return p;
}

static void the_smallest_share_that_is_acceptable(void **state)
{
    (void)state;
    struct profile *p = service();
    struct tuning t;
    assert_int_equal(tuning_measure(p, 3, &t), 0);
    for (int i = 0; i < TUNING_STEPS; i++) {
        double left = 100 - t.steps[i].percent;
        assert_true(t.steps[i].error_percent <= left * 1.1 + 1e-9); /* what is folded, of each function */
        assert_true(t.steps[i].time_ns > 0 && t.steps[i].bytes > 0);
        assert_true(i == 0 || t.steps[i].bytes >= t.steps[i - 1].bytes);
    }
    assert_true(t.steps[TUNING_STEPS - 1].error_percent == 0);
    assert_true(t.slope > 0); /* 400 threads take longer than 20 */
    assert_true(t.error_fit_error < 2);
    assert_true(t.percent >= 96 && t.percent <= 99.5);
    double error = t.percent;
    assert_int_equal(tuning_measure(p, 30, &t), 0);
    assert_true(t.percent < error && t.percent >= 60);
    assert_int_equal(tuning_measure(p, 0, &t), 0);
    assert_true(t.percent >= 99.99);
    profile_free(p);
}

/* Nothing was sampled, or there are no threads: nothing is pruned, and nothing breaks. */
static void nothing_to_prune(void **state)
{
    (void)state;
    struct profile *p;
    struct tuning t;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(tuning_measure(p, 1, &t), 0);
    assert_true(isfinite(t.percent) && isfinite(t.slope) && isfinite(t.fitted_percent));
    profile_free(p);
}

static void periods(void **state)
{
    (void)state;
    struct stats_random random;
    double values[120];
    int found = 0;
    stats_random_init(&random, 8);
    for (int i = 0; i < 120; i++)
        values[i] = (i % 12 == 0 ? 0.3 : 0.01) + 0.01 * stats_random_unit(&random);
    assert_int_equal(tuning_period(values, 120), 12);
    for (int run = 0; run < 200; run++) {
        for (int i = 0; i < 120; i++)
            values[i] = stats_random_normal(&random);
        found += tuning_period(values, 120) != 0;
    }
    assert_true(found <= 20); /* 5 % */
    for (int i = 0; i < 120; i++)
        values[i] = 1;
    assert_int_equal(tuning_period(values, 120), 0);
    assert_int_equal(tuning_period(values, 0), 0);
    assert_int_equal(tuning_period(values, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_share_that_is_acceptable),
        cmocka_unit_test(nothing_to_prune),
        cmocka_unit_test(periods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
