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

static void what_is_packed_comes_back(void **state)
{
    struct packed packed = {0};
    struct parts back = {0};
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 1000; i++) {
            struct part part = make_part(i);
            assert_int_equal(packed_add(&packed, &part), 0);
        }
        array_clear(&back);
        assert_int_equal(packed_read(&packed, &back), 0);
        assert_int_equal(back.count, 1000);
        for (uint64_t i = 0; i < 1000; i++) {
            struct part part = make_part(i);
            assert_memory_equal(&back.at[i], &part, sizeof(part));
        }
        packed_clear(&packed);
        assert_int_equal(packed.count, 0);
    }
    packed_done(&packed);
    array_done(&back);
}

static void spans_of_a_process_take_few_bytes(void **state)
{
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
        assert_int_equal(packed_add(&packed, &part), 0);
    }
    assert_in_range(packed.length, 1700, 2600);
    packed_done(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_packed_comes_back),
                                       cmocka_unit_test(spans_of_a_process_take_few_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
