/* SPDX-License-Identifier: Apache-2.0 */
#include "history/attributes.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static uint32_t add(struct attributes *a, const char *path)
{
    uint32_t quark = ATTRIBUTE_NONE;
    assert_int_equal(attributes_path(a, path, true, &quark), 0);
    return quark;
}

static void assert_path(const struct attributes *a, uint32_t quark, const char *path)
{
    struct text text = {0};
    attributes_print(a, quark, &text);
    assert_string_equal(text_get(&text), path);
    text_done(&text);
}

static void paths_lead_back(void **state)
{
    struct attributes a;
    attributes_init(&a);
    uint32_t found, op = add(&a, "Redis/127.0.0.1:7000/Threads/4711/Operation");
    assert_int_equal(op, 4); /* its four parents were made first */
    assert_int_equal(add(&a, "Redis/127.0.0.1:7000/Threads/4711/Operation"), op);
    assert_path(&a, op, "Redis/127.0.0.1:7000/Threads/4711/Operation");
    assert_int_equal(attributes_path(&a, "Redis/127.0.0.1:7000/Threads/4711", false, &found), 0);
    assert_int_equal(found, 3);
    assert_int_equal(attributes_path(&a, "Redis/x", false, &found), -ENOENT);
    assert_int_equal(attributes_path(&a, "/Redis", true, &found), -EINVAL);
    assert_int_equal(attributes_path(&a, "Redis/", true, &found), -EINVAL);
    assert_int_equal(attributes_add(&a, 99, "x", 1, &found), -EINVAL);
    attributes_done(&a);
}

static void slashes_and_stars_can_be_names(void **state)
{
    const char *const names[] = {"/api/users/:id", "a\\b", "*", "**", "\\", "x*y", "***"};
    struct attributes a;
    attributes_init(&a);
    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
        uint32_t quark, found;
        assert_int_equal(attributes_add(&a, ATTRIBUTE_NONE, names[i], strlen(names[i]), &quark), 0);
        assert_int_equal(quark, i);
        struct text text = {0};
        attributes_print(&a, quark, &text);
        assert_int_equal(attributes_path(&a, text_get(&text), false, &found), 0);
        assert_int_equal(found, quark);
        uint32_t *list;
        size_t count;
        assert_int_equal(attributes_list(&a, text_get(&text), &list, &count), 0);
        assert_int_equal(count, 1);
        assert_int_equal(list[0], quark);
        free(list);
        text_done(&text);
    }
    attributes_done(&a);
}

static void assert_list(const struct attributes *a, const char *pattern, size_t count,
                        const uint32_t *expected)
{
    uint32_t *list;
    size_t found;
    assert_int_equal(attributes_list(a, pattern, &list, &found), 0);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list[i], expected[i]);
    free(list);
}

static void wildcards(void **state)
{
    struct attributes a;
    attributes_init(&a);
    /* 0 T, 1 T/1, 2 T/1/Op, 3 T/2, 4 T/2/Op, 5 T/2/Op/Op, 6 CPU, 7 CPU/Op */
    add(&a, "T/1/Op");
    add(&a, "T/2/Op/Op");
    add(&a, "CPU/Op");
    assert_list(&a, "T/*/Op", 2, (uint32_t[]){2, 4});
    assert_list(&a, "*", 2, (uint32_t[]){0, 6});
    assert_list(&a, "*/*", 3, (uint32_t[]){1, 3, 7});
    assert_list(&a, "**", 8, (uint32_t[]){0, 1, 2, 3, 4, 5, 6, 7});
    assert_list(&a, "**/Op", 4, (uint32_t[]){2, 4, 5, 7});
    assert_list(&a, "T/**", 6, (uint32_t[]){0, 1, 2, 3, 4, 5});
    assert_list(&a, "T/**/Op", 3, (uint32_t[]){2, 4, 5});
    assert_list(&a, "**/**/Op/**", 4, (uint32_t[]){2, 4, 5, 7});
    assert_list(&a, "T/3/Op", 0, NULL);
    assert_list(&a, "\\*", 0, NULL);
    uint32_t *list;
    size_t count;
    assert_int_equal(attributes_list(&a, "T//Op", &list, &count), -EINVAL);
    attributes_done(&a);
}

static void many_attributes(void **state)
{
    struct attributes a;
    attributes_init(&a);
    char name[32];
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t quark, parent = i ? i / 3 : ATTRIBUTE_NONE;
        int n = snprintf(name, sizeof(name), "n%u", i % 1000);
        if (attributes_add(&a, parent == i ? ATTRIBUTE_NONE : parent, name, (size_t)n, &quark) < 0)
            fail();
        assert_true(quark <= i);
    }
    for (uint32_t q = 0; q < a.all.count; q++) {
        uint32_t found;
        const struct attribute *at = &a.all.at[q];
        assert_int_equal(attributes_find(&a, at->parent, at->name, strlen(at->name), &found), 0);
        assert_int_equal(found, q);
    }
    attributes_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_lead_back),
        cmocka_unit_test(slashes_and_stars_can_be_names),
        cmocka_unit_test(wildcards),
        cmocka_unit_test(many_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
