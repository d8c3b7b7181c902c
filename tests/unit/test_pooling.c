/* Pooled windows: sums stay, high rates serve low ones within a regime, and regimes keep apart. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/pooling.h"

#include <math.h>
#include <string.h>

#include "profile/windows.h"
#include "test.h"

/* A window of two functions; every sample stands for `period`. */
static struct profile *window_of(uint64_t a, uint64_t b, uint64_t period)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    uint32_t main_node = profile_child(p, 0, profile_named_frame(p, "main", FRAME_NATIVE));
    if (b) /* in another order: ids differ between windows */
        profile_count(p, profile_child(p, main_node, profile_named_frame(p, "b", FRAME_NATIVE)), b,
                      b * period);
    if (a)
        profile_count(p, profile_child(p, main_node, profile_named_frame(p, "a", FRAME_NATIVE)), a,
                      a * period);
    return p;
}

static void add(struct pool *pool, size_t regime, bool fresh, uint64_t a, uint64_t b, uint64_t period)
{
    struct profile *p = window_of(a, b, period);
    assert_int_equal(pool_add(pool, regime, fresh, p), 0);
    profile_free(p);
}

static uint64_t own(const struct profile *p, const char *name, bool count)
{
    uint64_t sum = 0;
    array_foreach (&p->nodes, n)
        if (strcmp(profile_text(p, p->frames.at[n->frame].name), name) == 0)
            sum += count ? n->count : n->weight;
    return sum;
}

static void high_rates_serve_low_ones(void **state)
{
    (void)state;
    struct profile *out;
    struct pool *pool;
    assert_int_equal(profile_new(&out), 0);
    assert_int_equal(profile_windows_begin(out), 0);
    assert_int_equal(pool_new(out, 1000, &pool), 0);
    add(pool, 0, true, 6000, 4000, 1000); /* 10 s at 1,000 Hz: 60 % in a */
    for (int i = 0; i < 9; i++)
        add(pool, 0, false, i % 2 ? 5 : 7, i % 2 ? 5 : 3, 1000000); /* 90 s at 1 Hz: by chance 61 % */
    assert_int_equal(pool_finish(pool, out), 0);
    uint64_t *totals = profile_totals(out);
    assert_int_equal(totals[0], 100000000); /* all weights, exactly */
    free(totals);
    double share = (double)own(out, "a", false) / 100000000;
    assert_true(fabs(share - 6055.0 / 10090) < 1e-6); /* by samples; weights alone give 0.61 */
    assert_int_equal(own(out, "a", true), 6055);
    assert_int_equal(out->windows->used, 10);
    double windows = 0;
    for (int i = 0; i < WINDOWS; i++)
        windows += (double)out->windows->frames.at[profile_named_frame(out, "a", FRAME_NATIVE)].self[i];
    assert_true(fabs(windows / 1e8 - share) < 1e-4);
    pool_free(pool);
    profile_free(out);
}

/* The rate was high in one regime and low in the other: each counts for its time. */
static void regimes_keep_apart(void **state)
{
    (void)state;
    struct profile *out;
    struct pool *pool;
    assert_int_equal(profile_new(&out), 0);
    assert_int_equal(pool_new(out, 1000, &pool), 0);
    add(pool, 0, true, 10000, 0, 1000);
    add(pool, 1, true, 0, 10, 1000000);
    add(pool, 0, false, 10, 0, 1000000);
    add(pool, 1, true, 5, 5, 1000000); /* its number is another's now */
    assert_int_equal(pool_finish(pool, out), 0);
    assert_int_equal(own(out, "a", false), 25000000);
    assert_int_equal(own(out, "b", false), 15000000);
    pool_free(pool);
    profile_free(out);
}

/* What was sampled often is not what was sampled seldom: pooled, the profile would say 59 % for a. */
static void regimes_that_are_none_are_not_pooled(void **state)
{
    (void)state;
    struct profile *out;
    struct pool *pool;
    assert_int_equal(profile_new(&out), 0);
    assert_int_equal(pool_new(out, 1000, &pool), 0);
    add(pool, 0, true, 6000, 4000, 1000);
    for (int i = 0; i < 90; i++)
        add(pool, 0, false, 1, 9, 1000000);
    assert_int_equal(pool_finish(pool, out), 0);
    assert_int_equal(own(out, "a", false) + own(out, "b", false), 910000000);
    double share = (double)own(out, "a", false) / 910000000;
    assert_true(fabs(share - 0.1055) < 0.01); /* by time */
    assert_int_equal(own(out, "a", true), 6090);
    pool_free(pool);
    profile_free(out);
}

/* More places than are kept: rare callers go, no weight does. */
static void folded_when_large(void **state)
{
    (void)state;
    struct profile *out, *p;
    struct pool *pool;
    char name[16];
    assert_int_equal(profile_new(&out), 0);
    assert_int_equal(pool_new(out, 100, &pool), 0);
    for (int w = 0; w < 4; w++) {
        assert_int_equal(profile_new(&p), 0);
        for (int i = 0; i < 200; i++) {
            snprintf(name, sizeof(name), "f%d", w * 100 + i);
            profile_count(p, profile_child(p, 0, profile_named_frame(p, name, FRAME_NATIVE)), 1, 10);
        }
        assert_int_equal(pool_add(pool, 0, w == 0, p), 0);
        profile_free(p);
    }
    assert_int_equal(pool_finish(pool, out), 0);
    uint64_t *totals = profile_totals(out);
    assert_int_equal(totals[0], 8000);
    free(totals);
    assert_true(out->nodes.count <= 301);
    pool_free(pool);
    profile_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(high_rates_serve_low_ones),
        cmocka_unit_test(regimes_keep_apart),
        cmocka_unit_test(regimes_that_are_none_are_not_pooled),
        cmocka_unit_test(folded_when_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
