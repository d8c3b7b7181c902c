/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/align.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "test.h"

static double uniform(void)
{
    return rand() / (RAND_MAX + 1.0);
}

/* Messages with random delays over a known line: the result lies within the error that it states, and the
 * error is small when delays are. */
static void finds_a_known_line(void **state)
{
    enum { N = 2000 };
    static struct bound upper[N], lower[N];
    srand(1);
    for (int round = 0; round < 200; round++) {
        double slope = (uniform() - 0.5) * 2e-4, intercept = (uniform() - 0.5) * 1e9,
               length = 1e9 + uniform() * 1e11;
        size_t nu = (size_t)(2 + rand() % (N - 2)), nl = (size_t)(2 + rand() % (N - 2)), all_u = nu,
               all_l = nl;
        static struct bound kept_upper[N], kept_lower[N];
        for (size_t i = 0; i < nu; i++) {
            double x = uniform() * length;
            kept_upper[i] = upper[i] =
                (struct bound){x, slope * x + intercept + 1000 - 100000 * log(1 - uniform())};
        }
        for (size_t i = 0; i < nl; i++) {
            double x = uniform() * length;
            kept_lower[i] = lower[i] =
                (struct bound){x, slope * x + intercept - 1000 + 100000 * log(1 - uniform())};
        }
        struct line line;
        assert_int_equal(align_fit(upper, &nu, lower, &nl, 0, length, &line), 0);
        for (size_t i = 0; i < all_u; i++)
            assert_true(line.slope * kept_upper[i].x + line.intercept <= kept_upper[i].y + 1e-3);
        for (size_t i = 0; i < all_l; i++)
            assert_true(line.slope * kept_lower[i].x + line.intercept >= kept_lower[i].y - 1e-3);
        for (double x = 0; x <= length; x += length / 4)
            assert_true(fabs((line.slope - slope) * x + line.intercept - intercept) <= line.error + 1e-3);
        assert_true(line.error_between <= line.error + 1e-3);
        if (all_u > 500 && all_l > 500)
            assert_true(line.error < 20000);
    }
}

static void refuses_what_cannot_be(void **state)
{
    struct bound upper[] = {{0, 10}, {10, 0}}, lower[] = {{0, 5}, {10, 5}};
    size_t nu = 2, nl = 2, none = 0;
    struct line line;
    assert_int_equal(align_fit(upper, &nu, lower, &nl, 0, 10, &line), -ERANGE);
    nu = 2;
    assert_int_equal(align_fit(upper, &nu, lower, &none, 0, 10, &line), -ENODATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_known_line),
        cmocka_unit_test(refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
