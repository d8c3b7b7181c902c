/* The evidence of a canary's first requests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/sequential.h"

#include <math.h>
#include <string.h>

#include "test.h"

enum { HOSTS = 6, OLDER = 100 };

struct scene {
    struct sketch older[HOSTS], newer[HOSTS];
    struct cluster older_clusters[HOSTS], newer_clusters[HOSTS];
};

/* Some requests of either side take `tail` longer, in logarithms. */
static double draw(struct stats_random *random, double tail)
{
    return 16 + 0.25 * stats_random_normal(random) + (stats_random_unit(random) < 0.02 ? tail : 0);
}

/* The evidence that `requests` newer ones on each host give, which take longer by `shift`. */
static double e_value_of(int requests, double shift, double tail, uint64_t seed)
{
    static struct scene s;
    struct stats_random random;
    struct sequential_result result;
    struct contrast contrast = {s.older_clusters, s.newer_clusters, HOSTS, HOSTS};
    memset(&s, 0, sizeof(s));
    stats_random_init(&random, seed);
    for (uint32_t h = 0; h < HOSTS; h++) {
        for (int i = 0; i < OLDER; i++)
            assert_int_equal(sketch_add(&s.older[h], (uint64_t)exp(draw(&random, tail))), 0);
        for (int i = 0; i < requests; i++)
            assert_int_equal(sketch_add(&s.newer[h], (uint64_t)exp(draw(&random, tail) + shift)), 0);
        s.older_clusters[h] = (struct cluster){h, &s.older[h]};
        s.newer_clusters[h] = (struct cluster){HOSTS + h, &s.newer[h]};
    }
    sequential_test(&contrast, 0.02, &result);
    for (int h = 0; h < HOSTS; h++) {
        sketch_done(&s.older[h]);
        sketch_done(&s.newer[h]);
    }
    return result.e_value;
}

static void the_first_requests_are_enough(void **state)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        assert_true(e_value_of(10, log(2), log(10), seed) > 1000);
        assert_true(e_value_of(6, log(2), log(10), seed) == 1); /* 36 requests */
    }
}

/* Of requests that may take thirty times as long, two or three among sixty are no slow-down. */
static void a_long_tail_is_no_slow_down(void **state)
{
    enum { TRIALS = 3000 };
    unsigned alarms = 0;
    for (uint64_t seed = 1; seed <= TRIALS; seed++)
        alarms += e_value_of(10, 0, log(30), seed) >= 100;
    assert_true(alarms <= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_requests_are_enough),
                                       cmocka_unit_test(a_long_tail_is_no_slow_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
