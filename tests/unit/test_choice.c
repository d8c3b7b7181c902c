/* SPDX-License-Identifier: Apache-2.0 */
#include "base/choice.h"

#include "test.h"

static void choices_are_words(void **state)
{
    static const char *const names[] = {"A", "B", "C"}, *const expected[] = {"", "A", "A or B", "A, B or C"};
    char words[32] = "before", few[6];
    for (size_t count = 0; count <= 3; count++) {
        choice_say(names, count, words, sizeof(words));
        assert_string_equal(words, expected[count]);
    }
    choice_say(names, 3, few, sizeof(few));
    assert_string_equal(few, "A, B ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices_are_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
