/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <string.h>

#include "test.h"

static void grows(void **state)
{
    struct text text = {0};
    assert_string_equal(text_get(&text), "");
    for (int i = 0; i < 1000; i++)
        text_addf(&text, "%d,", i);
    text_add(&text, "end");
    assert_false(text.failed);
    assert_int_equal(text.length, strlen(text_get(&text)));
    assert_string_equal(text_get(&text) + text.length - 7, "999,end");
    char *taken = text_take(&text);
    assert_non_null(taken);
    assert_int_equal(text.length, 0);
    free(taken);
    taken = text_take(&text);
    assert_string_equal(taken, "");
    free(taken);
}

static void what_a_terminal_obeys_is_shown(void **state)
{
    struct text text = {0};
    static const char NAME[] = "a\033[2J\n\tb\177\302\233m\302\240\303\237\302";
    text_add_visible(&text, NAME, sizeof(NAME) - 1);
    assert_string_equal(text_get(&text), "a\\x1b[2J\\x0a\\x09b\\x7f\\x9bm\302\240\303\237\302");
    text_done(&text);
}

static void urls_are_decoded(void **state)
{
    char good[] = "%5Ba%5d%20%C3%a9b", plain[] = "a+b", none[] = "%5B%", half[] = "%5B%4", other[] = "%5B%4g",
         nul[] = "%5B%00";
    assert_true(text_decode_percent(good));
    assert_string_equal(good, "[a] \xc3\xa9"
                              "b");
    assert_true(text_decode_percent(plain));
    assert_string_equal(plain, "a+b");
    assert_false(text_decode_percent(none));
    assert_false(text_decode_percent(half));
    assert_false(text_decode_percent(other));
    assert_string_equal(other, "%5B%4g");
    assert_false(text_decode_percent(nul));
}

static void expect_utf8(const char *bytes, size_t length, const char *shown)
{
    struct text text = {0};
    text_add_utf8(&text, bytes, length);
    assert_string_equal(text_get(&text), shown);
    assert_int_equal(text_is_utf8(bytes, length),
                     strlen(shown) == length && memcmp(shown, bytes, length) == 0);
    text_done(&text);
}

static void what_is_not_utf8_is_replaced(void **state)
{
    expect_utf8("", 0, "");
    expect_utf8("caf\303\251 \360\237\230\200", 10, "caf\303\251 \360\237\230\200");
    expect_utf8("caf\303\251", 4, "caf\357\277\275"); /* cut within a character */
    expect_utf8("a\377b", 3, "a\357\277\275b");
    expect_utf8("\300\257", 2, "\357\277\275\357\277\275");                 /* longer than it need be */
    expect_utf8("\355\240\200", 3, "\357\277\275\357\277\275\357\277\275"); /* half of a pair */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(urls_are_decoded), cmocka_unit_test(grows),
                                       cmocka_unit_test(what_is_not_utf8_is_replaced),
                                       cmocka_unit_test(what_a_terminal_obeys_is_shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
