/* SPDX-License-Identifier: Apache-2.0 */
#include "history/codec.h"

#include "naive_history.h"

enum { SPACE = CODEC_CELLS_BYTES + 64 };

/* Numbers of n magnitudes: all widths from 0 to 64, alone and mixed. */
static void numbers_come_back(void **state)
{
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        uint64_t in[CODEC_MAX], out[CODEC_MAX], sums[CODEC_MAX + 1];
        unsigned n = (unsigned)random_below(&random, CODEC_MAX + 1);
        unsigned shifts[3] = {(unsigned)random_below(&random, 64), (unsigned)random_below(&random, 64), 63};
        for (unsigned i = 0; i < n; i++)
            in[i] = random_next(&random) >> shifts[random_below(&random, 1 + round % 3)];
        uint8_t data[SPACE] = {0};
        const uint8_t *end = numbers_write(data, in, n);
        assert_true(end - data <= CODEC_NUMBERS_BYTES - 8);
        struct numbers numbers;
        assert_ptr_equal(numbers_open(&numbers, data, end, n), end);
        numbers_all(&numbers, n, out);
        numbers_sums(&numbers, 5, n, sums);
        uint64_t sum = 5;
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(out[i], in[i]);
            assert_int_equal(numbers_get(&numbers, i), in[i]);
            assert_int_equal(sums[i], sum);
            sum += in[i];
        }
        if (end > data) /* cut short: refused */
            assert_null(numbers_open(&numbers, data, end - 1, n));
    }
}

static void two_widths_save_room(void **state)
{
    uint64_t in[CODEC_MAX];
    for (unsigned i = 0; i < CODEC_MAX; i++)
        in[i] = i % 2 ? 1000 : 1000000000;
    uint8_t data[SPACE];
    assert_true(numbers_write(data, in, CODEC_MAX) - data < 2 + 8 + 32 * 10 / 8 + 32 * 30 / 8 + 2);
}

static struct cell random_cell(uint64_t *random, unsigned kind)
{
    uint64_t n = random_next(random);
    switch (kind == 5 ? n % 4 : kind) {
    case 0:
        return (struct cell){n >> 60, HISTORY_INT};
    case 1:
        return n & 16 ? (struct cell){0} : (struct cell){n >> 57, HISTORY_STRING};
    case 2:
        return (struct cell){n, n & 2 ? HISTORY_DOUBLE : HISTORY_INT};
    case 3:
        return n % 3 ? (struct cell){n, HISTORY_INT} : (struct cell){0};
    case 4: /* the whole range, with null: no room for one more code */
        return n % 3 == 0 ? (struct cell){0} : (struct cell){n & 4 ? 1ull << 63 : INT64_MAX, HISTORY_INT};
    default:
        return (struct cell){0};
    }
}

static void cells_come_back(void **state)
{
    uint64_t random = 2;
    for (int round = 0; round < 20000; round++) {
        struct cell in[CODEC_MAX], out[CODEC_MAX];
        unsigned n = 1 + (unsigned)random_below(&random, CODEC_MAX), kind = (unsigned)round % 7;
        for (unsigned i = 0; i < n; i++)
            in[i] = random_cell(&random, kind);
        uint8_t data[SPACE] = {0};
        const uint8_t *end = cells_write(data, in, n);
        assert_true(end - data <= CODEC_CELLS_BYTES - 8);
        struct cells cells;
        assert_int_equal(cells_open(&cells, data, end, n), 0);
        assert_ptr_equal(cells_end(&cells), end);
        cells_all(&cells, n, out);
        for (unsigned i = 0; i < n; i++) {
            assert_true(cell_equal(out[i], in[i]));
            assert_true(cell_equal(cells_get(&cells, i), in[i]));
        }
        if (cells_open(&cells, data, end - 1, n) == 0) /* a list is read only when it is used */
            assert_null(cells_end(&cells));
    }
}

static void few_values_take_few_bits(void **state)
{
    struct cell in[CODEC_MAX];
    uint8_t data[SPACE];
    for (unsigned i = 0; i < CODEC_MAX; i++)
        in[i] = (struct cell){1000000 + i % 4, HISTORY_INT};
    assert_true(cells_write(data, in, CODEC_MAX) - data <= 5 + CODEC_MAX / 4);
    for (unsigned i = 0; i < CODEC_MAX; i++) /* far apart: a list */
        in[i] = (struct cell){i % 4 * 1000000000ull, HISTORY_INT};
    assert_true(cells_write(data, in, CODEC_MAX) - data <= 1 + 4 * 7 + CODEC_MAX / 4);
}

/* Any bytes: an error or some numbers, but nothing outside is read (the sanitizer watches). */
static void nonsense_is_survived(void **state)
{
    uint64_t random = 3;
    for (int round = 0; round < 20000; round++) {
        size_t size = 1 + random_below(&random, 60);
        uint8_t *data = malloc(size + BITS_SLACK);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)random_next(&random);
        memset(data + size, 0, BITS_SLACK);
        unsigned n = 1 + (unsigned)random_below(&random, CODEC_MAX);
        struct numbers numbers;
        struct cells cells;
        uint64_t out[CODEC_MAX];
        struct cell some[CODEC_MAX];
        if (numbers_open(&numbers, data, data + size, n)) {
            numbers_all(&numbers, n, out);
            numbers_get(&numbers, n - 1);
        }
        if (cells_open(&cells, data, data + size, n) == 0) {
            cells_all(&cells, n, some);
            cells_get(&cells, n - 1);
            cells_end(&cells);
        }
        free(data);
    }
}

static void varints_and_zigzag(void **state)
{
    const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
    for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
        uint8_t data[VARINT_MAX];
        uint64_t back = 0;
        uint8_t *end = varint_put(data, values[i]);
        assert_ptr_equal(varint_get(data, end, &back), end);
        assert_int_equal(back, values[i]);
        assert_null(varint_get(data, end - 1, &back));
        assert_int_equal(unzigzag(zigzag((int64_t)values[i])), values[i]);
    }
    assert_int_equal(zigzag(-1), 1);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(bits_set(UINT64_MAX >> i), 64 - i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back),    cmocka_unit_test(two_widths_save_room),
        cmocka_unit_test(cells_come_back),      cmocka_unit_test(few_values_take_few_bits),
        cmocka_unit_test(nonsense_is_survived), cmocka_unit_test(varints_and_zigzag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
