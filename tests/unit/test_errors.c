/* Errors of two sides: known answers, hosts that differ, times that differ. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/errors.h"

#include <math.h>

#include "test.h"

/* Two sides of hosts with these errors of 1,000 requests each, all over one stratum of time. */
static struct error_result test_of(const double *older, const double *newer, size_t hosts)
{
    struct match match = {0};
    struct error_result result;
    double errors = 0, n = 2000 * (double)hosts;
    for (size_t h = 0; h < hosts; h++)
        errors += older[h] + newer[h];
    for (size_t h = 0; h < 2 * hosts; h++) {
        bool is_newer = h >= hosts;
        struct error_count e = {.host = (uint32_t)h,
                                .newer = is_newer,
                                .requests = 1000,
                                .errors = is_newer ? newer[h - hosts] : older[h],
                                .expected = 1000 * errors / n};
        assert_int_equal(array_add(&match.errors, e), 0);
    }
    match.error_variance = errors * (n - errors) / n / 4 * n / (n - 1);
    errors_test(&match, &result);
    match_done(&match);
    return result;
}

static void as_many_are_no_evidence(void **state)
{
    struct error_result r = test_of((double[]){10, 12, 11}, (double[]){11, 10, 12}, 3);
    assert_true(r.p > 0.3 && r.e_value < 1);
    assert_true(r.low < 1 && r.high > 1);
    assert_true(test_of((double[]){0, 0, 0}, (double[]){0, 0, 0}, 3).p == 1);
}

/* 10 against 25 of 35, an even chance each: P(X >= 25) = 0.0083 (binomial). */
static void few_errors_are_counted_exactly(void **state)
{
    struct error_result r = test_of((double[]){5, 5}, (double[]){12, 13}, 2);
    assert_true(fabs(r.p - 0.00834) < 0.0005);
    assert_true(fabs(r.ratio - 2.43) < 0.02);
}

static void hosts_that_differ_count_for_less(void **state)
{
    struct error_result even = test_of((double[]){10, 10, 10}, (double[]){30, 30, 30}, 3);
    struct error_result one = test_of((double[]){10, 10, 10}, (double[]){4, 6, 80}, 3);
    assert_true(even.p < 1e-6 && even.e_value > 1e4);
    assert_true(one.dispersion > 5);
    assert_true(one.p > 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_many_are_no_evidence),
                                       cmocka_unit_test(few_errors_are_counted_exactly),
                                       cmocka_unit_test(hosts_that_differ_count_for_less)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
