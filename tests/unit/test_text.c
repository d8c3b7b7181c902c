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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(grows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
