/* Windows of a profile against sums of the same samples, also when they grow, and through pprof. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/windows.h"

#include <math.h>
#include <string.h>

#include "profile/formats.h"
#include "test.h"

enum { SAMPLES = 5000, STEP_NS = 7000000 };

static struct profile *sampled(void)
{
    struct profile *p;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(profile_windows_begin(p), 0);
    uint32_t outer = profile_named_frame(p, "outer", FRAME_NATIVE),
             inner = profile_named_frame(p, "inner", FRAME_NATIVE);
    uint32_t top = profile_child(p, 0, outer), below = profile_child(p, top, inner),
             again = profile_child(p, below, outer); /* recursion counts once */
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint32_t node = i % 3 == 0 ? top : i % 3 == 1 ? below : again;
        profile_count(p, node, 1, 1000);
        profile_windows_add(p, node, 1000, 1000000000 + i * STEP_NS);
    }
    return p;
}

static double sum(const float *weights)
{
    double all = 0;
    for (int i = 0; i < WINDOWS; i++)
        all += (double)weights[i];
    return all;
}

static void nothing_is_lost(void **state)
{
    (void)state;
    struct profile *p = sampled();
    const struct profile_windows *w = p->windows;
    uint32_t outer = profile_named_frame(p, "outer", FRAME_NATIVE),
             inner = profile_named_frame(p, "inner", FRAME_NATIVE);
    assert_in_range(w->used, WINDOWS / 2, WINDOWS);
    assert_true(w->width_ns * w->used >= (uint64_t)SAMPLES * STEP_NS);
    assert_true(fabs(sum(w->frames.at[outer].total) - 1000.0 * SAMPLES) < 1);
    assert_true(fabs(sum(w->frames.at[outer].self) + sum(w->frames.at[inner].self) - 1000.0 * SAMPLES) < 1);
    for (uint32_t i = 0; i + 1 < w->used; i++) { /* all but the last are as long as each other */
        double expected = 1000.0 * (double)w->width_ns / STEP_NS;
        assert_true(fabs((double)w->frames.at[outer].total[i] - expected) <= 2000);
    }
    profile_free(p);
}

static void through_pprof(void **state)
{
    (void)state;
    struct profile *p = sampled(), *read;
    struct text bytes = {0};
    struct problem problem;
    assert_int_equal(pprof_write(p, &bytes), 0);
    assert_int_equal(profile_new(&read), 0);
    assert_int_equal(pprof_read(read, text_get(&bytes), bytes.length, &problem), 0);
    assert_non_null(read->windows);
    assert_int_equal(read->windows->used, p->windows->used);
    for (size_t f = 1; f < p->frames.count; f++) {
        const char *name = profile_text(p, p->frames.at[f].name);
        uint32_t same = profile_named_frame(read, name, FRAME_NATIVE);
        assert_true(same < read->windows->frames.count);
        assert_memory_equal(&p->windows->frames.at[f], &read->windows->frames.at[same],
                            sizeof(struct window_weights));
    }
    /* A second profile in the same: what the windows of both together would be, nobody knows. */
    assert_int_equal(pprof_read(read, text_get(&bytes), bytes.length, &problem), 0);
    assert_null(read->windows);
    text_done(&bytes);
    profile_free(read);
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(through_pprof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
