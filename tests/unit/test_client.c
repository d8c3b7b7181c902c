/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client.h"

#include <errno.h>
#include <string.h>

#include "test.h"

static void what_is_no_letter_is_escaped(void **state)
{
    struct text text = {0};
    http_escape(&text, "SELECT a-b_c.d~e FROM t WHERE x='50 %' + \xc3\xa4\n");
    assert_string_equal(text_get(&text),
                        "SELECT%20a-b_c.d~e%20FROM%20t%20WHERE%20x%3D%2750%20%25%27%20%2B%20%C3%A4%0A");
    text_done(&text);
}

/* The library is there, is found, and says what went wrong. */
static void nobody_listens(void **state)
{
    struct problem problem = {0};
    struct text answer = {0};
    assert_int_equal(http_post("http://127.0.0.1:1/", "text/plain", "x", 1, 5000, &answer, &problem), -EIO);
    assert_non_null(strstr(problem.what, "http://127.0.0.1:1/"));
    assert_int_equal(answer.length, 0);
    text_done(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_letter_is_escaped),
        cmocka_unit_test(nobody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
