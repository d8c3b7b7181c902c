/* Pruning by thread: what is kept, that sums hold, and that the stated error is the true one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/prune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile/formats.h"
#include "test.h"

static void sampled(struct profile *p, int pid, int tid, const char *function, uint64_t samples)
{
    char text[96];
    snprintf(text, sizeof(text), "shop (%d)", pid);
    uint32_t node = profile_child(p, 0, profile_named_frame(p, text, FRAME_GROUP));
    if (tid) {
        snprintf(text, sizeof(text), "thread worker (%d)", tid);
        node = profile_child(p, node, profile_named_frame(p, text, FRAME_GROUP));
    }
    node = profile_child(p, node, profile_named_frame(p, "main", FRAME_NATIVE));
    node = profile_child(p, node, profile_named_frame(p, function, FRAME_NATIVE));
    profile_count(p, node, samples, samples * 10);
}

static uint64_t own(const struct profile *p, const char *name)
{
    uint64_t sum = 0;
    array_foreach (&p->nodes, n)
        if (strcmp(profile_text(p, p->frames.at[n->frame].name), name) == 0)
            sum += n->weight;
    return sum;
}

/* Four threads have 99 %, a hundred the rest: 40 samples of "hot" among them, and all of "rare". */
static struct profile *many_threads(void)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(&p), 0);
    for (int tid = 1; tid <= 100; tid++)
        sampled(p, 100, 10 + tid, tid <= 40 ? "hot" : "rare", 1);
    for (int tid = 1; tid <= 4; tid++) {
        sampled(p, 100, tid, "hot", 2000);
        sampled(p, 100, tid, "warm", 475);
    }
    return p;
}

static void sums_hold_and_the_error_is_stated(void **state)
{
    (void)state;
    struct profile *p = many_threads();
    struct prune_result result;
    assert_int_equal(prune_threads(p, 99, true, &result), 0);
    assert_int_equal(result.threads, 104);
    assert_int_equal(result.kept, 4);
    assert_int_equal(result.weight, 100000);
    assert_int_equal(result.rare_weight, 1000);
    assert_int_equal(own(p, PRUNE_RARE), 1000);
    assert_int_equal(own(p, "hot"), 80000);
    assert_int_equal(own(p, "warm"), 19000);
    uint64_t *totals = profile_totals(p);
    assert_int_equal(totals[0], 100000);
    free(totals);
    assert_true(result.nodes_after < result.nodes_before / 10);
    /* hot lost 40 of 8040, warm nothing, rare all. */
    assert_int_equal(result.errors[0].top, 3);
    assert_true(fabs(result.errors[0].mean - (100 * 40.0 / 8040 + 0 + 100) / 3) < 1e-9);
    assert_true(fabs(result.errors[0].largest - 100) < 1e-9);
    assert_int_equal(result.errors[PRUNE_TOPS - 1].top, 3);
    profile_free(p);
}

static void all_is_nothing_pruned(void **state)
{
    (void)state;
    struct profile *p = many_threads();
    struct prune_result result;
    assert_int_equal(prune_threads(p, 100, true, &result), 0);
    assert_int_equal(result.kept, 104);
    assert_int_equal(result.rare_weight, 0);
    assert_int_equal(own(p, PRUNE_RARE), 0);
    assert_true(result.errors[0].largest == 0);
    profile_free(p);
}

/* A process's busiest thread is kept whatever was asked, and each process has its own P99. */
static void each_process_for_itself(void **state)
{
    (void)state;
    struct profile *p = NULL;
    struct prune_result result;
    assert_int_equal(profile_new(&p), 0);
    sampled(p, 100, 1, "hot", 100000);
    sampled(p, 200, 2, "small", 10);
    sampled(p, 200, 3, "smaller", 4);
    sampled(p, 300, 0, "alone", 5);
    assert_int_equal(prune_threads(p, 50, false, &result), 0);
    assert_int_equal(result.threads, 3);
    assert_int_equal(result.kept, 2);
    assert_int_equal(own(p, "small"), 100);
    assert_int_equal(own(p, "smaller"), 0);
    assert_int_equal(own(p, "alone"), 50); /* without threads: as it was */
    array_foreach (&p->nodes, n)
        assert_true(strncmp(profile_text(p, p->frames.at[n->frame].name), "thread ", 7) != 0);
    profile_free(p);
}

/* Folded text does not say what is a group. */
static void by_the_form_of_names(void **state)
{
    (void)state;
    static const char TEXT[] = "shop (7);thread a (8);main;hot 990\nshop (7);thread b (9);main;hot 6\n"
                               "shop (7);thread c (10);main;other 4\n";
    struct profile *p = NULL;
    struct problem problem;
    struct prune_result result;
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(folded_read(p, TEXT, strlen(TEXT), &problem), 0);
    assert_int_equal(prune_threads(p, 60, true, &result), 0);
    assert_int_equal(result.threads, 3);
    assert_int_equal(result.kept, 1);
    assert_int_equal(result.rare_weight, 10);
    profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_hold_and_the_error_is_stated),
        cmocka_unit_test(all_is_nothing_pruned),
        cmocka_unit_test(each_process_for_itself),
        cmocka_unit_test(by_the_form_of_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
