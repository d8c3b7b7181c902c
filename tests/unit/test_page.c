/* SPDX-License-Identifier: Apache-2.0 */
#include "page/page.h"

#include <string.h>

#include "test.h"

static void files_carry_their_data_and_no_more(void **state)
{
    struct text html = {0};
    const struct page_part parts[] = {{"s/0/request?id=\"<&", "</script><script>alert(1)</script>", 34},
                                      {"empty", "", 0}};
    assert_int_equal(page_file(parts, 2, &html), 0);
    const char *data = strstr(text_get(&html), "data-part=\"s/0/request?id=&#34;&#60;&#38;\">");
    assert_non_null(data);
    assert_null(strstr(text_get(&html), "alert(1)"));
    assert_non_null(strstr(data, "data-part=\"empty\">"));
    const char *policy = strstr(text_get(&html), "http-equiv=\"Content-Security-Policy\"");
    assert_non_null(policy);
    assert_true(policy < strstr(text_get(&html), "<style>"));
    assert_non_null(strstr(policy, "connect-src 'none'"));
    text_done(&html);
}

static void policies_name_the_script_and_the_style(void **state)
{
    struct text policy = {0};
    size_t length;
    page_policy("'self'", &policy);
    assert_non_null(strstr(text_get(&policy), "default-src 'none'; script-src 'sha256-"));
    assert_non_null(strstr(text_get(&policy), "style-src 'sha256-"));
    assert_non_null(strstr(text_get(&policy), "connect-src 'self'"));
    const char *html = page_html(&length);
    assert_non_null(memmem(html, length, "<!--data-->", 11));
    text_done(&policy);
}

static void strings_are_quoted(void **state)
{
    struct text to = {0};
    page_json_string(&to, "a\"b\\c\n\x01");
    assert_string_equal(text_get(&to), "\"a\\\"b\\\\c\\u000a\\u0001\"");
    text_done(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_carry_their_data_and_no_more),
                                       cmocka_unit_test(policies_name_the_script_and_the_style),
                                       cmocka_unit_test(strings_are_quoted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
