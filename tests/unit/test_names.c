/* SPDX-License-Identifier: Apache-2.0 */
#include "span/names.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static void each_string_has_one_number(void **state)
{
    struct names names = {0};
    char name[16];
    assert_int_equal(names_find(&names, SLICE("0")), NAMES_NONE);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 1000; i++) {
            int n = snprintf(name, sizeof(name), "%u", i);
            assert_int_equal(names_put(&names, (struct slice){name, (size_t)n}), i);
            assert_string_equal(names_get(&names, i), name);
        }
    assert_int_equal(names_find(&names, SLICE("7")), 7);
    names_done(&names);
}

static void what_is_not_utf8_is_kept_as_it_is_shown(void **state)
{
    struct names names = {0};
    uint32_t odd = names_put(&names, SLICE("shop\377"));
    assert_string_equal(names_get(&names, odd), "shop\357\277\275");
    assert_int_equal(names_put(&names, SLICE("shop\377")), odd);
    assert_int_equal(names_put(&names, SLICE("shop\357\277\275")), odd);
    assert_int_equal(names_find(&names, SLICE("shop\376")), odd); /* which is shown alike */
    assert_int_equal(names_find(&names, SLICE("other\377")), NAMES_NONE);
    assert_int_equal(names.strings.count, 1);
    names_done(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_string_has_one_number),
                                       cmocka_unit_test(what_is_not_utf8_is_kept_as_it_is_shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
