/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

/* Random puts and removes against a plain array. */
static void behaves_like_an_array(void **state)
{
    enum { KEYS = 500 };
    static uint64_t truth[KEYS];
    static bool there[KEYS];
    memset(there, 0, sizeof(there));
    struct map map = {0};
    srand(1);
    size_t count = 0;
    for (int i = 0; i < 200000; i++) {
        unsigned key = (unsigned)rand() % KEYS;
        if (rand() % 2) {
            bool added;
            uint64_t *value = map_put(&map, key * 4096, &added);
            assert_non_null(value);
            assert_int_equal(added, !there[key]);
            count += added;
            truth[key] = *value = (uint64_t)i;
            there[key] = true;
        } else {
            assert_int_equal(map_remove(&map, key * 4096), there[key]);
            count -= there[key];
            there[key] = false;
        }
        unsigned other = (unsigned)rand() % KEYS;
        uint64_t *found = map_get(&map, other * 4096);
        assert_int_equal(found != NULL, there[other]);
        if (found)
            assert_int_equal(*found, truth[other]);
        assert_int_equal(map.count, count);
    }
    struct map copy;
    assert_int_equal(map_copy(&copy, &map), 0);
    map_clear(&map);
    assert_int_equal(copy.count, count);
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(map_get(&copy, key * 4096) ? *map_get(&copy, key * 4096) : 0,
                         there[key] ? truth[key] : 0);
    map_done(&copy);
    map_done(&map);
}

static void empty_map_finds_nothing(void **state)
{
    struct map map = {0};
    assert_null(map_get(&map, 0));
    assert_false(map_remove(&map, 0));
    map_foreach (&map, slot) {
        fail();
    }
    map_done(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(behaves_like_an_array),
                                       cmocka_unit_test(empty_map_finds_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
