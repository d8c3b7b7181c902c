/* Spans that wait, packed and read back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/packed.h"

#include <string.h>

#include "test.h"

static uint64_t mix(uint64_t number)
{
    return number * 0x9e3779b97f4a7c15ull;
}

/* Spans of all sorts: roots, repeated processes and labels, times backwards and at the limits. */
static struct part make_part(uint64_t i)
{
    uint64_t extreme = i % 7 == 0 ? INT64_MAX - i : 1700000000000000000ull + mix(i) % 1000000;
    return (struct part){.id = mix(i + 1),
                         .parent = i % 5 ? mix(i) : 0,
                         .start_ns = i % 11 ? extreme : 0,
                         .end_ns = i % 13   ? (uint64_t)INT64_MAX
                                   : i % 11 ? extreme
                                            : 0,
                         .service = (uint32_t)(i / 3),
                         .version = (uint32_t)(i / 6),
                         .host = i % 17 ? 4 : UINT32_MAX,
                         .name = (uint32_t)mix(i),
                         .labels = (uint32_t)(i / 4),
                         .up = PART_NONE,
                         .kind = (uint8_t)(i % 6),
                         .error = i % 3 == 0,
                         .shared = i % 4 == 0};
}

static void expect_back(struct packed_pool *pool, const struct packed *packed, uint64_t from, uint64_t to)
{
    struct parts back = {0};
    assert_int_equal(packed_read(pool, packed, &back), 0);
    assert_int_equal(back.count, to - from);
    for (uint64_t i = from; i < to; i++) {
        struct part part = make_part(i);
        assert_memory_equal(&back.at[i - from], &part, sizeof(part));
    }
    array_done(&back);
}

static void what_is_packed_comes_back(void **state)
{
    struct packed_pool pool = {0};
    struct packed packed = {0};
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 1000; i++) {
            struct part part = make_part(i);
            assert_int_equal(packed_add(&pool, &packed, &part), 0);
        }
        expect_back(&pool, &packed, 0, 1000);
        packed_clear(&pool, &packed);
        assert_int_equal(packed.count, 0);
        assert_int_equal(packed_pool_bytes(&pool), 0);
    }
    packed_pool_done(&pool);
}

/* Traces that grow in turns, and end in another order; what they leave is used again. */
static void traces_share_a_pool(void **state)
{
    enum { TRACES = 700, SPANS = 90 };
    struct packed_pool pool = {0};
    static struct packed packed[TRACES], first;
    struct part part = make_part(1);
    size_t most = 0;
    assert_int_equal(packed_add(&pool, &first, &part), 0);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < SPANS; i++)
            for (uint64_t t = 0; t < TRACES; t++) {
                part = make_part(t * SPANS + i);
                assert_int_equal(packed_add(&pool, &packed[t], &part), 0);
            }
        most = round == 0 ? pool.taken : most;
        assert_int_equal(pool.taken, most);
        for (uint64_t k = 0; k < TRACES; k++) {
            uint64_t t = k * 101 % TRACES;
            expect_back(&pool, &packed[t], t * SPANS, (t + 1) * SPANS);
            packed_clear(&pool, &packed[t]);
        }
    }
    assert_true(pool.chunks.count > 1);
    expect_back(&pool, &first, 1, 2);
    packed_clear(&pool, &first);
    assert_int_equal(pool.chunks.count, 0); /* given back */
    packed_pool_done(&pool);
}

/* What exporters send: a span, its children, their parent after them, siblings. */
static void related_ids_come_back(void **state)
{
    static const uint64_t IDS[][2] = {{1, 0}, {2, 1}, {3, 1}, {4, 3}, {9, 8}, {8, 7}, {7, 0},
                                      {7, 7}, {7, 7}, {0, 7}, {0, 0}, {5, 0}, {5, 5}, {6, 0}};
    struct packed_pool pool = {0};
    struct packed packed = {0};
    struct parts back = {0};
    for (size_t i = 0; i < ARRAY_SIZE(IDS); i++) {
        struct part part = {.id = IDS[i][0], .parent = IDS[i][1], .up = PART_NONE};
        assert_int_equal(packed_add(&pool, &packed, &part), 0);
    }
    assert_int_equal(packed_read(&pool, &packed, &back), 0);
    for (size_t i = 0; i < ARRAY_SIZE(IDS); i++) {
        assert_int_equal(back.at[i].id, IDS[i][0]);
        assert_int_equal(back.at[i].parent, IDS[i][1]);
    }
    packed_clear(&pool, &packed);
    packed_pool_done(&pool);
    array_done(&back);
}

static void spans_of_a_process_take_few_bytes(void **state)
{
    struct packed_pool pool = {0};
    struct packed packed = {0};
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t start = 1700000000000000000ull + i * 100000;
        struct part part = {.id = mix(i + 1),
                            .parent = mix(i),
                            .start_ns = start,
                            .end_ns = start + 2000000,
                            .service = 1,
                            .version = 2,
                            .host = 300,
                            .name = 40,
                            .labels = 7};
        assert_int_equal(packed_add(&pool, &packed, &part), 0);
    }
    assert_in_range(packed.length, 1200, 1900);
    assert_in_range(packed_pool_bytes(&pool), packed.length, packed.length + packed.length / 8);
    packed_pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_comes_back), cmocka_unit_test(traces_share_a_pool),
        cmocka_unit_test(related_ids_come_back), cmocka_unit_test(spans_of_a_process_take_few_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
