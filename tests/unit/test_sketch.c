/* SPDX-License-Identifier: Apache-2.0 */
#include "span/sketch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "test.h"

static void bins_are_contiguous_and_narrow(void **state)
{
    for (unsigned bin = 0; bin < SKETCH_BINS; bin++)
        assert_int_equal(sketch_bin(sketch_bin_low((uint16_t)bin)), bin);
    for (unsigned bin = 64; bin + 1 < SKETCH_BINS; bin++) {
        double low = (double)sketch_bin_low((uint16_t)bin),
               next = (double)sketch_bin_low((uint16_t)(bin + 1));
        assert_true(next > low && (next - low) / low <= 1.0 / 64 + 1e-9);
        assert_int_equal(sketch_bin((uint64_t)next - 1 > (uint64_t)low ? (uint64_t)next - 1 : (uint64_t)low),
                         bin);
    }
    assert_int_equal(sketch_bin(UINT64_MAX), SKETCH_BINS - 1);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void quantiles_are_within_their_bin(void **state)
{
    enum { N = 20000 };
    static uint64_t values[N];
    struct sketch sketch = {0};
    srand(7);
    for (int i = 0; i < N; i++) {
        values[i] = (uint64_t)exp(8 + 10.0 * rand() / RAND_MAX);
        assert_int_equal(sketch_add(&sketch, values[i]), 0);
    }
    qsort(values, N, sizeof(values[0]), by_value);
    const double quantiles[] = {0.01, 0.5, 0.9, 0.95, 0.99, 0.999};
    for (size_t i = 0; i < 6; i++) {
        double truth = (double)values[(size_t)ceil(quantiles[i] * N) - 1];
        assert_true(fabs(sketch_quantile(&sketch, quantiles[i]) / truth - 1) <= 0.0079);
    }
    sketch_done(&sketch);
}

static char *bytes_of(const struct sketch *sketch, size_t *ret_length)
{
    struct text text = {0};
    sketch_write(sketch, &text);
    *ret_length = text.length;
    return text_take(&text);
}

static void assert_same_bits(const struct sketch *a, const struct sketch *b)
{
    size_t a_length, b_length;
    char *x = bytes_of(a, &a_length), *y = bytes_of(b, &b_length);
    assert_int_equal(a_length, b_length);
    assert_memory_equal(x, y, a_length);
    free(x);
    free(y);
}

/* The same values over 7 sketches merged in two orders, against one sketch. */
static void merging_is_equal_to_the_bit(void **state)
{
    struct sketch parts[7] = {0}, one = {0}, up = {0}, down = {0};
    srand(3);
    for (int i = 0; i < 5000; i++) {
        uint64_t value = (uint64_t)rand() * (uint64_t)rand();
        sketch_add(&parts[i % 7 * (i % 3 != 0)], value);
        sketch_add(&one, value);
    }
    for (int i = 0; i < 7; i++) {
        sketch_merge(&up, &parts[i]);
        sketch_merge(&down, &parts[6 - i]);
    }
    assert_same_bits(&one, &up);
    assert_same_bits(&one, &down);
    for (int i = 0; i < 6; i++)
        assert_int_equal(sketch_subtract(&up, &parts[i]), 0);
    assert_same_bits(&up, &parts[6]);
    assert_int_equal(sketch_subtract(&up, &one), -EINVAL);
    for (int i = 0; i < 7; i++)
        sketch_done(&parts[i]);
    sketch_done(&one);
    sketch_done(&up);
    sketch_done(&down);
}

static void counters_above_32_bits_are_kept(void **state)
{
    struct sketch sketch = {0}, read = {0};
    assert_int_equal(sketch_add_bin(&sketch, 100, UINT32_MAX), 0);
    assert_int_equal(sketch_add_bin(&sketch, 100, UINT32_MAX), 0);
    assert_int_equal(sketch_add_bin(&sketch, 300, 1), 0);
    assert_true(sketch_bin_count(&sketch, 100) == 2ull * UINT32_MAX);
    size_t length;
    char *bytes = bytes_of(&sketch, &length);
    assert_int_equal(sketch_read(bytes, length, &read), 0);
    assert_same_bits(&sketch, &read);
    for (size_t cut = 0; cut < length; cut++) {
        struct sketch broken = {0};
        assert_int_equal(sketch_read(bytes, cut, &broken), -EBADMSG);
    }
    free(bytes);
    sketch_done(&sketch);
    sketch_done(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_are_contiguous_and_narrow), cmocka_unit_test(quantiles_are_within_their_bin),
        cmocka_unit_test(merging_is_equal_to_the_bit), cmocka_unit_test(counters_above_32_bits_are_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
