/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/perfmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

static struct perfmap *parse(const char *text)
{
    struct perfmap *map = NULL;
    char *copy = strdup(text);
    assert_int_equal(perfmap_parse(copy, strlen(copy), &map), 0);
    return map;
}

static void finds_names(void **state)
{
    struct perfmap *map =
        parse("7f00 10 LazyCompile:~f /a b.js:1\n7f20 8 g\nnonsense\n10 zz x\n7f40 0 empty\n7f50 4 half");
    assert_int_equal(perfmap_count(map), 2);
    assert_string_equal(perfmap_find(map, 0x7f00), "LazyCompile:~f /a b.js:1");
    assert_string_equal(perfmap_find(map, 0x7f0f), "LazyCompile:~f /a b.js:1");
    assert_null(perfmap_find(map, 0x7f10));
    assert_string_equal(perfmap_find(map, 0x7f27), "g");
    assert_null(perfmap_find(map, 0x7f50));
    assert_null(perfmap_find(map, 0));
    perfmap_free(map);
}

static void later_lines_win(void **state)
{
    struct perfmap *map = parse("100 10 old\n100 10 new\n");
    assert_string_equal(perfmap_find(map, 0x105), "new");
    perfmap_free(map);
}

static void survives_anything(void **state)
{
    srand(4);
    for (int round = 0; round < 20000; round++) {
        size_t length = (size_t)(rand() % 60);
        char *data = malloc(length + 1);
        for (size_t i = 0; i < length; i++)
            data[i] = "0123f \nx\xff-"[rand() % 11];
        data[length] = '\0';
        struct perfmap *map = NULL;
        assert_int_equal(perfmap_parse(data, length, &map), 0);
        perfmap_find(map, (uint64_t)rand());
        perfmap_free(map);
    }
}

static void absent_is_not_an_error_of_ours(void **state)
{
    struct perfmap *map;
    assert_int_equal(perfmap_read(getpid(), &map), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_names), cmocka_unit_test(later_lines_win),
                                       cmocka_unit_test(survives_anything),
                                       cmocka_unit_test(absent_is_not_an_error_of_ours)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
