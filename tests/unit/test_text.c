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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(grows),
                                       cmocka_unit_test(what_a_terminal_obeys_is_shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
