/* The one bad host among its equals. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/outliers.h"

#include <math.h>

#include "diagnose/stats.h"
#include "test.h"

#define HOSTS 6

static bool find(const double *factors, size_t hosts, struct outlier *ret_outlier)
{
    struct sketch sketches[HOSTS] = {0};
    struct cluster clusters[HOSTS];
    struct stats_random random;
    stats_random_init(&random, 7);
    for (size_t h = 0; h < hosts; h++) {
        for (int i = 0; i < 300; i++)
            assert_int_equal(sketch_add(&sketches[h], (uint64_t)(1e7 * factors[h] *
                                                                 exp(0.3 * stats_random_normal(&random)))),
                             0);
        clusters[h] = (struct cluster){(uint32_t)h, &sketches[h]};
    }
    bool found = outliers_find(clusters, hosts, 20, ret_outlier);
    for (size_t h = 0; h < hosts; h++)
        sketch_done(&sketches[h]);
    return found;
}

static void one_bad_host_is_found(void **state)
{
    struct outlier o;
    assert_true(find((double[]){1, 0.95, 3, 1.05, 1, 1.02}, 6, &o));
    assert_int_equal(o.at, 2);
    assert_true(o.ratio > 2.7 && o.ratio < 3.3 && o.p < 1e-3);
}

static void hosts_that_differ_are_no_outliers(void **state)
{
    struct outlier o;
    assert_false(find((double[]){1, 0.9, 1.1, 1.15, 0.95, 1.3}, 6, &o));
    if (find((double[]){1, 0.5, 1.6, 2, 0.7, 2.6}, 6, &o))
        assert_true(o.p > 0.1);
}

static void three_hosts_tell_nothing(void **state)
{
    struct outlier o;
    assert_false(find((double[]){1, 1, 4}, 3, &o));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_bad_host_is_found),
                                       cmocka_unit_test(hosts_that_differ_are_no_outliers),
                                       cmocka_unit_test(three_hosts_tell_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
