/* Records that wait: in their order, in their places, and no more of them than may be. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "test.h"

/* ---- allocations fail: the linker sends these calls here (see meson.build) ---- */

static bool memory_is_out;

void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
    return memory_is_out ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return memory_is_out ? NULL : __real_realloc(p, size);
}

static void they_stay_where_they_are(void **state)
{
    struct records records = {0};
    struct record first, record;
    uint64_t data[300];
    for (uint64_t i = 0; i < 1000; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(data); k++)
            data[k] = i;
        assert_int_equal(records_add(&records, data, sizeof(data) - 3 * (i % 2)), 0);
    }
    assert_true(records_take(&records, &first));
    assert_int_equal(first.size, sizeof(data));
    assert_int_equal(*(const uint64_t *)first.data, 0);
    for (uint64_t i = 1; i < 1000; i++) {
        assert_true(records_ahead(&records, 999 - i, &record)); /* the last, as long as it comes next */
        assert_int_equal(*(const uint64_t *)record.data, 999);
        assert_true(records_take(&records, &record));
        assert_int_equal(record.size, sizeof(data) - 3 * (i % 2));
        assert_int_equal((uintptr_t)record.data % 8, 0);
        assert_int_equal(*(const uint64_t *)record.data, i);
        if (i == 500)
            for (int k = 0; k < 1000; k++)
                assert_int_equal(records_add(&records, data, 8), 0);
    }
    for (int k = 0; k < 1000; k++)
        assert_true(records_take(&records, &record));
    assert_false(records_ahead(&records, 0, &record));
    assert_false(records_take(&records, &record));
    assert_int_equal(records.bytes, 0);
    records_done(&records);
}

static void there_is_an_end(void **state)
{
    static uint8_t large[RECORD_BYTES_MAX + 1];
    struct records records = {0};
    struct record record;
    assert_int_equal(records_add(&records, large, sizeof(large)), -E2BIG);
    for (int i = 0; i < (int)RECORDS_BYTES_MAX / (int)RECORD_BYTES_MAX; i++) {
        assert_false(records_full(&records));
        assert_int_equal(records_add(&records, large, RECORD_BYTES_MAX), 0);
    }
    assert_true(records_full(&records));
    assert_true(records_take(&records, &record));
    assert_false(records_full(&records));
    assert_true(records_take(&records, &record));
    assert_int_equal(records.blocks.count, RECORDS_BYTES_MAX / RECORD_BYTES_MAX - 1); /* the first has gone */
    while (records_take(&records, &record))
        ;
    assert_false(records_full(&records));
    records_done(&records);
}

static void what_is_not_kept_is_counted(void **state)
{
    struct records records = {0};
    struct record record;
    uint64_t data = 1;
    size_t kept = 1;
    memory_is_out = true;
    assert_int_equal(records_add(&records, &data, sizeof(data)), -ENOMEM);
    memory_is_out = false;
    assert_int_equal(records.not_kept, 1);
    assert_int_equal(records_add(&records, &data, sizeof(data)), 0);
    memory_is_out = true; /* there is a block, and a list, which has to grow at some time */
    for (data++; records_add(&records, &data, sizeof(data)) == 0; data++)
        kept++;
    assert_true(kept >= 8);
    assert_int_equal(records_add(&records, &data, sizeof(data)), -ENOMEM);
    assert_int_equal(records.not_kept, 3);
    memory_is_out = false;
    assert_int_equal(records_add(&records, &data, sizeof(data)), 0); /* goes on */
    for (uint64_t i = 1; i <= kept + 1; i++) {
        assert_true(records_take(&records, &record));
        assert_int_equal(*(const uint64_t *)record.data, i);
    }
    assert_false(records_take(&records, &record));
    assert_int_equal(records.not_kept, 3);
    records_done(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_stay_where_they_are),
        cmocka_unit_test(there_is_an_end),
        cmocka_unit_test(what_is_not_kept_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
