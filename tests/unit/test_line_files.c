/* Paths of source files in the heads of line tables, made by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/line_files.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "test.h"

struct table {
    uint8_t bytes[512];
    size_t size;
};

static void put(struct table *t, const void *bytes, size_t size)
{
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

/* The table's head up to what differs, with the lengths that finish() fills in. */
static void begin(struct table *t, uint16_t version)
{
    const uint8_t start[] = {0, 0, 0, 0, (uint8_t)version, 0}, sizes[] = {8, 0}, length[4] = {0},
                  program[] = {1, 1, 1, 0xfb, 14, 4, 0, 1, 1}; /* three opcodes have operands */
    *t = (struct table){0};
    put(t, start, sizeof(start));
    if (version >= 5)
        put(t, sizes, sizeof(sizes));
    put(t, length, sizeof(length));
    put(t, program + (version < 4), sizeof(program) - (version < 4));
}

static void finish(struct table *t, uint16_t version)
{
    size_t at = version >= 5 ? 8 : 6;
    uint32_t head = (uint32_t)(t->size - at - 4), all;
    memcpy(t->bytes + at, &head, sizeof(head));
    put(t, "\1\2\3", 3); /* the program: not looked at */
    all = (uint32_t)(t->size - 4);
    memcpy(t->bytes, &all, sizeof(all));
}

static void make_old(struct table *t, uint16_t version)
{
    static const char DIRECTORIES[] = "include\0/usr/include\0", FILES[] = "main.c\0\0\0\0"
                                                                           "own.h\0\1\0\0"
                                                                           "stdio.h\0\2\0\0"
                                                                           "/abs/olute.c\0\2\0\0"
                                                                           "lost.h\0\7\0\0";
    begin(t, version);
    put(t, DIRECTORIES, sizeof(DIRECTORIES));
    put(t, FILES, sizeof(FILES));
    finish(t, version);
}

static const char STRINGS[] = "/home\0include\0main.c\0own.h";

/* Strings in three forms, directories in two. */
static void make_new(struct table *t)
{
    const uint8_t directories[] = {1, DW_LNCT_path, DW_FORM_line_strp, 2, 0, 0, 0, 0, 6, 0, 0, 0},
                  fields[] = {3,
                              DW_LNCT_path,
                              DW_FORM_strp,
                              DW_LNCT_directory_index,
                              DW_FORM_udata,
                              DW_LNCT_MD5,
                              DW_FORM_data16,
                              3},
                  main_c[] = {14, 0, 0, 0, 0}, own_h[] = {21, 0, 0, 0, 1}, lost[] = {21, 0, 0, 0, 9},
                  sum[16] = {0xff};
    begin(t, 5);
    put(t, directories, sizeof(directories));
    put(t, fields, sizeof(fields));
    put(t, main_c, sizeof(main_c));
    put(t, sum, sizeof(sum));
    put(t, own_h, sizeof(own_h));
    put(t, sum, sizeof(sum));
    put(t, lost, sizeof(lost));
    put(t, sum, sizeof(sum));
    finish(t, 5);
}

static int find(const struct table *t, size_t size, uint64_t number, const char *directory,
                const char *expected)
{
    /* A copy of exactly that size: the build with sanitizers sees what is read behind it. */
    uint8_t *copy = malloc(size + 1);
    const struct line_section strings = {(const uint8_t *)STRINGS, sizeof(STRINGS)};
    const struct line_sections sections = {{copy + 1, size}, strings, strings};
    struct text path = {0};
    assert_non_null(copy);
    memcpy(copy + 1, t->bytes, size);
    int r = line_file_path(&sections, 0, number, directory, &path);
    if (r == 0 && expected)
        assert_string_equal(text_get(&path), expected);
    text_done(&path);
    free(copy);
    return r;
}

static void finds_files_up_to_version_4(void **state)
{
    struct table t;
    for (uint16_t version = 2; version <= 4; version++) {
        make_old(&t, version);
        assert_int_equal(find(&t, t.size, 1, "/home", "/home/main.c"), 0);
        assert_int_equal(find(&t, t.size, 1, NULL, "main.c"), 0);
        assert_int_equal(find(&t, t.size, 2, "/home", "include/own.h"), 0);
        assert_int_equal(find(&t, t.size, 3, "/home", "/usr/include/stdio.h"), 0);
        assert_int_equal(find(&t, t.size, 4, "/home", "/abs/olute.c"), 0);
        assert_int_equal(find(&t, t.size, 5, "/home", NULL), -EBADMSG); /* no such directory */
        assert_int_equal(find(&t, t.size, 6, "/home", NULL), -ENOENT);
        assert_int_equal(find(&t, t.size, 0, "/home", NULL), -ENOENT);
    }
}

static void finds_files_of_version_5(void **state)
{
    struct table t;
    make_new(&t);
    assert_int_equal(find(&t, t.size, 0, NULL, "/home/main.c"), 0);
    assert_int_equal(find(&t, t.size, 1, NULL, "include/own.h"), 0);
    assert_int_equal(find(&t, t.size, 2, NULL, NULL), -ENOENT); /* its directory */
    assert_int_equal(find(&t, t.size, 3, NULL, NULL), -ENOENT);
    assert_int_equal(find(&t, t.size, UINT64_MAX, NULL, NULL), -ENOENT);
}

/* Each part of a table, and each byte of it with another value. */
static void refuses_what_makes_no_sense(void **state)
{
    struct table t;
    for (int made = 0; made < 2; made++) {
        made ? make_new(&t) : make_old(&t, 4);
        for (size_t size = 0; size < t.size; size++)
            assert_int_equal(find(&t, size, 1, "/home", NULL), -EBADMSG);
        for (size_t at = 0; at < t.size; at++)
            for (int value = 0; value < 256; value += 51) {
                struct table other = t;
                other.bytes[at] = (uint8_t)value;
                int r = find(&other, t.size, 1, "/home", NULL);
                assert_true(r == 0 || r == -EBADMSG || r == -ENOENT || r == -ENOTSUP);
            }
    }
    const struct line_sections none = {0};
    struct text path = {0};
    assert_int_equal(line_file_path(&none, 0, 1, NULL, &path), -EBADMSG);
    assert_int_equal(path.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_files_up_to_version_4),
                                       cmocka_unit_test(finds_files_of_version_5),
                                       cmocka_unit_test(refuses_what_makes_no_sense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
