/* The divergence of two distributions against values computed by hand, and its law under equal ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/divergence.h"

#include <math.h>
#include <string.h>

#include "diagnose/stats.h"
#include "profile/formats.h"
#include "test.h"

static void of_two(struct distribution *d, double first, double second)
{
    assert_int_equal(distribution_add(d, 1, first), 0);
    assert_int_equal(distribution_add(d, 2, second), 0);
}

static void known_values(void **state)
{
    (void)state;
    struct distribution a = {0}, b = {0}, c = {0};
    struct divergence d;
    of_two(&a, 500, 500);
    of_two(&b, 900, 100);
    /* 0.5 ln(0.5/0.7) / 2 + 0.9 ln(0.9/0.7) / 2 + 0.5 ln(0.5/0.3) / 2 + 0.1 ln(0.1/0.3) / 2 */
    assert_int_equal(divergence_of(&a, &b, 10, &d), 0);
    assert_int_equal(d.cells, 2);
    assert_true(fabs(d.nats - 0.1017492) < 1e-6);
    assert_true(fabs(d.scale - 4000) < 1e-9);
    assert_true(fabs(d.cell[0].nats - d.nats) < 1e-12); /* of two cells each says all */
    assert_int_equal(distribution_add(&c, 3, 700), 0);
    assert_int_equal(divergence_of(&a, &c, 10, &d), 0);
    assert_true(fabs(d.nats - M_LN2) < 1e-9); /* nothing in common */
    /* Only the hottest are told apart: 2 is among the others. */
    assert_int_equal(divergence_of(&a, &b, 1, &d), 0);
    assert_int_equal(d.cells, 2);
    assert_int_equal(d.cell[0].key, 1);
    assert_int_equal(d.cell[1].key, 0);
    distribution_done(&a);
    distribution_done(&b);
    distribution_done(&c);
}

static void nothing_diverges_from_nothing(void **state)
{
    (void)state;
    struct distribution a = {0}, b = {0};
    struct divergence d;
    assert_int_equal(divergence_of(&a, &b, 10, &d), 0);
    assert_int_equal(d.cells, 0);
    of_two(&a, 3, 1);
    assert_int_equal(divergence_of(&a, &b, 10, &d), 0);
    assert_int_equal(d.cells, 0);
    assert_int_equal(distribution_merge(&b, &a, 1), 0);
    assert_int_equal(distribution_merge(&b, &a, -1), 0);
    assert_true(fabs(b.samples) < 1e-12);
    distribution_done(&a);
    distribution_done(&b);
}

/* Of equal distributions the scaled divergence has the mean of chi-squared, and exceeds its 5 % in 5 %. */
static void equal_distributions(void **state)
{
    (void)state;
    enum { PAIRS = 2000, CELLS = 11 };
    struct stats_random random;
    double sum = 0, above = 0;
    stats_random_init(&random, 5);
    for (int i = 0; i < PAIRS; i++) {
        struct distribution side[2] = {0};
        struct divergence d;
        for (int s = 0; s < 2; s++)
            for (int n = 0; n < (s ? 700 : 1500); n++)
                assert_int_equal(
                    distribution_add(&side[s], 1 + (uint64_t)(stats_random_unit(&random) * CELLS), 1), 0);
        assert_int_equal(divergence_of(&side[0], &side[1], CELLS - 1, &d), 0);
        assert_int_equal(d.cells, CELLS);
        sum += d.nats * d.scale;
        above += stats_chi_square_above(d.nats * d.scale, CELLS - 1) < 0.05;
        distribution_done(&side[0]);
        distribution_done(&side[1]);
    }
    assert_true(fabs(sum / PAIRS - (CELLS - 1)) < 0.5);
    assert_true(above / PAIRS > 0.03 && above / PAIRS < 0.075);
}

/* Functions are the same by name, whatever ids two profiles gave them. */
static void of_profiles(void **state)
{
    (void)state;
    struct profile *p, *q;
    struct problem problem;
    struct distribution a = {0}, b = {0};
    struct divergence d;
    const char *one = "main;x 1\nmain;x;y 1\n", *two = "main;z;y 1\nmain;x 1\n";
    assert_int_equal(profile_new(&p), 0);
    assert_int_equal(profile_new(&q), 0);
    assert_int_equal(folded_read(p, one, strlen(one), &problem), 0);
    assert_int_equal(folded_read(q, two, strlen(two), &problem), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(distribution_add_profile(&a, p), 0);
        assert_int_equal(distribution_add_profile(&b, q), 0);
    }
    assert_true(fabs(a.samples - 40) < 1e-9);
    assert_int_equal(a.cells.count, 2);
    assert_int_equal(divergence_of(&a, &b, 10, &d), 0);
    assert_true(d.nats < 1e-12);
    distribution_done(&a);
    distribution_done(&b);
    profile_free(p);
    profile_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(nothing_diverges_from_nothing),
        cmocka_unit_test(equal_distributions),
        cmocka_unit_test(of_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
