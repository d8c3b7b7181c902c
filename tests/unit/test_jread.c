/* SPDX-License-Identifier: Apache-2.0 */
#include "span/jread.h"

#include <errno.h>
#include <string.h>

#include "test.h"

static struct arena scratch;

static struct jread reader(const char *text)
{
    struct jread json;
    jread_init(&json, text, strlen(text), &scratch, NULL);
    return json;
}

static void reads_members_in_order(void **state)
{
    struct jread json =
        reader("{\"a\": [1, \"22\", -3], \"b\":{}, \"c\" : \"x\\n\\u00e9\\ud83d\\ude00\", \"d\":null}");
    struct slice key;
    char seen[8] = "";
    for (jread_object(&json); jread_member(&json, &key);) {
        strncat(seen, key.at, 1);
        if (slice_is(key, "a")) {
            jread_array(&json);
            assert_true(jread_element(&json));
            assert_int_equal(jread_u64(&json), 1);
            assert_true(jread_element(&json));
            assert_int_equal(jread_u64(&json), 22);
            assert_true(jread_element(&json));
            assert_true(slice_is(jread_string(&json), "-3"));
            assert_false(jread_element(&json));
        } else if (slice_is(key, "c")) {
            assert_true(slice_is(jread_string(&json), "x\n\xc3\xa9\xf0\x9f\x98\x80"));
        } else {
            jread_skip(&json);
        }
    }
    assert_int_equal(json.error, 0);
    assert_string_equal(seen, "abcd");
    arena_done(&scratch);
}

static void faults_are_errors(void **state)
{
    static const char *const broken[] = {
        "{",    "{\"a\"}",     "{\"a\":}", "{\"a\":1,}",      "{\"a\":1 \"b\":2}",   "{\"a\":\"x",
        "[1,2", "{\"a\":tru}", "{a:1}",    "{\"a\":\"\\q\"}", "{\"a\":\"\\u12g4\"}", ""};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct jread json = reader(broken[i]);
        struct slice key;
        if (*broken[i] == '[')
            for (jread_array(&json); jread_element(&json);)
                jread_string(&json);
        else
            for (jread_object(&json); jread_member(&json, &key);)
                jread_string(&json);
        assert_int_equal(json.error, -EBADMSG);
    }
    struct jread json = reader("123456789012345678901234567890");
    jread_u64(&json);
    assert_int_equal(json.error, -EBADMSG);
    arena_done(&scratch);
}

static void a_trailing_comma_is_named(void **state)
{
    static const char *const texts[] = {"{\"a\":1,}", "[1,]", "{\"a\":\n1,\n\n}"};
    static const char *const places[] = {"line 1 (byte 6): ", "line 1 (byte 2): ", "line 2 (byte 7): "};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct jread json;
        struct slice key;
        struct problem problem = {0};
        jread_init(&json, texts[i], strlen(texts[i]), &scratch, &problem);
        if (texts[i][0] == '[')
            for (jread_array(&json); jread_element(&json);)
                jread_u64(&json);
        else
            for (jread_object(&json); jread_member(&json, &key);)
                jread_u64(&json);
        assert_int_equal(json.error, -EBADMSG);
        assert_non_null(strstr(problem.what, "a comma before the end of the object or array"));
        assert_non_null(strstr(problem.what, places[i]));
        struct problem again = {0};
        assert_int_equal(jread_check(texts[i], strlen(texts[i]), &again), -EBADMSG);
        assert_string_equal(again.what, problem.what);
    }
    arena_done(&scratch);
}

/* One document after another, as in JSON lines. */
static void documents_are_checked_to_the_end(void **state)
{
    struct problem problem = {0};
    assert_int_equal(jread_check("{\"a\":[]}\n [1] 2 \n", 17, &problem), 0);
    assert_int_equal(jread_check("{}\n{\"a\":[1,]}\n", 14, &problem), -EBADMSG);
    assert_non_null(strstr(problem.what, "line 2 (byte 10): a comma before the end"));
    assert_int_equal(jread_check("", 0, NULL), -EBADMSG);
}

/* What nobody asks for is checked like the rest. */
static void what_is_skipped_is_checked_too(void **state)
{
    static const char *const broken[] = {"{\"a\":1,}",
                                         "[1,]",
                                         "[[1,],2]",
                                         "{\"x\":{\"a\":1,},\"b\":2}",
                                         "{\"a\" 1}",
                                         "[1 2]",
                                         "{]",
                                         "[}",
                                         "{\"a\":1 \"b\":2}",
                                         "[,1]",
                                         "{1:2}",
                                         "{\"a\":,}",
                                         "[1:2]",
                                         "{,}",
                                         "[\"x]",
                                         "]"};
    static const char *const sound[] = {"{\"a\":[1,{\"b\":[]},{}],\"c\":{\"d\":\"\\\"}\"}} ",
                                        "[]",
                                        "{}",
                                        "[[[]],[]]",
                                        "\"}\"",
                                        "-1.5e3",
                                        "null"};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct jread json = reader(broken[i]);
        jread_skip(&json);
        if (json.error != -EBADMSG)
            fail_msg("%s", broken[i]);
    }
    for (size_t i = 0; i < sizeof(sound) / sizeof(sound[0]); i++) {
        struct jread json = reader(sound[i]);
        jread_skip(&json);
        if (json.error || json.depth || json.at != sound[i] + strcspn(sound[i], " "))
            fail_msg("%s", sound[i]);
    }
    struct problem problem = {0};
    struct jread json;
    jread_init(&json, "{\"a\":[1,]}", 10, &scratch, &problem);
    jread_skip(&json);
    assert_non_null(strstr(problem.what, "a comma before the end of the object or array"));
}

static void depth_is_limited(void **state)
{
    static char bomb[200001];
    memset(bomb, '[', 200000);
    struct jread json = reader(bomb);
    jread_skip(&json);
    assert_int_equal(json.error, -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_members_in_order),    cmocka_unit_test(faults_are_errors),
        cmocka_unit_test(a_trailing_comma_is_named), cmocka_unit_test(what_is_skipped_is_checked_too),
        cmocka_unit_test(depth_is_limited),          cmocka_unit_test(documents_are_checked_to_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
