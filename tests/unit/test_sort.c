/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"

#include <stdlib.h>

#include "test.h"

struct item {
    uint64_t key;
    uint32_t number;
};

static uint64_t key_of(const void *item)
{
    return ((const struct item *)item)->key;
}

/* qsort() with the number as the last word is the truth. */
static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void sorts_as_qsort_does_and_keeps_the_order_of_equals(void **state)
{
    (void)state;
    static const uint64_t MASKS[] = {0, 3, 0xff00, 0xffffffff, UINT64_MAX, 0xff000000000000ffull};
    uint64_t random = 88172645463325252ull;
    for (size_t m = 0; m < sizeof(MASKS) / sizeof(MASKS[0]); m++)
        for (size_t count = 0; count < 3000; count = count * 3 + 1) {
            struct item *items = calloc(count + 1, sizeof(*items)),
                        *truth = calloc(count + 1, sizeof(*truth));
            for (size_t i = 0; i < count; i++) {
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                items[i] = truth[i] = (struct item){random & MASKS[m], (uint32_t)i};
            }
            assert_int_equal(sort_by_key(items, count, sizeof(*items), key_of), 0);
            if (count)
                qsort(truth, count, sizeof(*truth), compare);
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(items[i].key, truth[i].key);
                assert_int_equal(items[i].number, truth[i].number);
            }
            free(items);
            free(truth);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_as_qsort_does_and_keeps_the_order_of_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
