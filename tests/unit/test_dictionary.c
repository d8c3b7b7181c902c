/* SPDX-License-Identifier: Apache-2.0 */
#include "history/dictionary.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static void each_string_has_one_number(void **state)
{
    struct dictionary d = {0};
    char name[32];
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 20000; i++) {
            uint32_t number = UINT32_MAX;
            int n = snprintf(name, sizeof(name), "%u%s", i, i % 2 ? "" : "/even");
            assert_int_equal(dictionary_add(&d, name, (size_t)n, &number), 0);
            assert_int_equal(number, i);
            assert_string_equal(d.strings.at[i], name);
        }
    dictionary_done(&d);
}

/* A string is its bytes up to the length, not a prefix of a known one nor an extension. */
static void prefixes_are_other_strings(void **state)
{
    struct dictionary d = {0};
    uint32_t a, b, c, again;
    assert_int_equal(dictionary_add(&d, "abc", 3, &a), 0);
    assert_int_equal(dictionary_add(&d, "abc", 2, &b), 0);
    assert_int_equal(dictionary_add(&d, "", 0, &c), 0);
    assert_true(a != b && b != c && a != c);
    assert_string_equal(d.strings.at[b], "ab");
    assert_int_equal(dictionary_add(&d, "abX", 2, &again), 0);
    assert_int_equal(again, b);
    dictionary_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_string_has_one_number),
                                       cmocka_unit_test(prefixes_are_other_strings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
