/* Records of several rings leave in order of time, and none before it is certain that no earlier one comes.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel_order.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/macro.h"
#include "test.h"

static void add(struct kernel_order *order, uint32_t lane, uint64_t end_ns)
{
    const struct kernel_record record = {.head = {.end_ns = end_ns, .event = lane + 1}};
    assert_int_equal(kernel_order_add(order, lane, &record), 0);
}

/* Takes all until then; how many, each not before the one before it. */
static size_t take(struct kernel_order *order, uint64_t until_ns, uint64_t *last_ns)
{
    size_t count = 0;
    kernel_order_begin(order);
    for (const struct kernel_record *r; (r = kernel_order_take(order, until_ns)); count++) {
        assert_true(r->head.end_ns >= *last_ns);
        assert_true(r->head.end_ns <= until_ns);
        *last_ns = r->head.end_ns;
    }
    kernel_order_end(order);
    return count;
}

static void lanes_are_merged_by_time(void **state)
{
    enum { LANES = 7, RECORDS = 20000 };
    struct kernel_order order = {0};
    uint64_t now_ns = NS_PER_S, last_ns = 0, newest_ns = 0;
    size_t taken = 0;
    (void)state;
    srand(1);
    assert_int_equal(kernel_order_init(&order, LANES), 0);
    for (size_t i = 0; i < RECORDS; i++) {
        uint32_t lane = (uint32_t)rand() % LANES;
        now_ns += (uint64_t)rand() % 3000;
        /* In its ring it may stand behind one that interrupted it. */
        uint64_t end_ns = rand() % 10 ? now_ns : now_ns - MIN((uint64_t)rand() % 1000, now_ns);
        newest_ns = MAX(newest_ns, end_ns);
        add(&order, lane, end_ns);
        if (rand() % 100 == 0)
            taken += take(&order, kernel_order_watermark(&order, now_ns), &last_ns);
    }
    assert_true(taken > RECORDS / 2);
    taken += take(&order, UINT64_MAX, &last_ns);
    assert_int_equal(taken, RECORDS);
    assert_int_equal(last_ns, newest_ns);
    kernel_order_done(&order);
}

static void nothing_leaves_before_the_least_watermark(void **state)
{
    struct kernel_order order = {0};
    uint64_t last_ns = 0;
    (void)state;
    assert_int_equal(kernel_order_init(&order, 2), 0);
    add(&order, 0, 10 * NS_PER_MS);
    /* Ring 1 was empty when it was read at 10 ms: one that ended at 9 ms may still come. */
    uint64_t watermark = kernel_order_watermark(&order, 10 * NS_PER_MS);
    assert_true(watermark < 9 * NS_PER_MS);
    assert_int_equal(take(&order, watermark, &last_ns), 0);
    add(&order, 1, 9 * NS_PER_MS);
    add(&order, 1, 30 * NS_PER_MS);
    /* Ring 1 is known until nearly 30 ms, ring 0 until shortly before it was read. */
    watermark = kernel_order_watermark(&order, 20 * NS_PER_MS);
    assert_true(watermark >= 10 * NS_PER_MS && watermark < 20 * NS_PER_MS);
    assert_int_equal(take(&order, watermark, &last_ns), 2);
    assert_int_equal(last_ns, 10 * NS_PER_MS);
    /* Where every ring has a later record nobody is waited for. */
    add(&order, 0, 31 * NS_PER_MS);
    watermark = kernel_order_watermark(&order, 20 * NS_PER_MS);
    assert_true(watermark > 29 * NS_PER_MS && watermark < 30 * NS_PER_MS);
    assert_int_equal(take(&order, UINT64_MAX, &last_ns), 2);
    kernel_order_done(&order);
}

static void a_lane_that_is_never_empty_keeps_little(void **state)
{
    struct kernel_order order = {0};
    uint64_t last_ns = 0;
    (void)state;
    assert_int_equal(kernel_order_init(&order, 1), 0);
    for (uint64_t i = 1; i <= 100000; i++) {
        add(&order, 0, i * NS_PER_US);
        if (i % 100 == 0)
            (void)take(&order, (i - 50) * NS_PER_US, &last_ns);
    }
    assert_true(kernel_order_bytes(&order) < 2000 * sizeof(struct kernel_record));
    kernel_order_done(&order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_are_merged_by_time),
        cmocka_unit_test(nothing_leaves_before_the_least_watermark),
        cmocka_unit_test(a_lane_that_is_never_empty_keeps_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
