/* Room for rows that is taken and given back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/tables.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/macro.h"
#include "test.h"
#include "unwind/ehframe.h"

enum { LIMIT = 1000 };

static void what_is_given_back_is_joined_and_taken_again(void **state)
{
    struct unwind_row rows[LIMIT];
    uint64_t pages[LIMIT];
    struct tables t = {.row_limit = LIMIT, .page_limit = LIMIT};
    tables_init(&t, rows, pages);
    uint32_t a = tables_take(&t, 300), b = tables_take(&t, 300), c = tables_take(&t, 300);
    assert_true(a && a + 300 == b && b + 300 == c && c + 300 <= LIMIT);
    assert_false(t.full);
    assert_int_equal(tables_take(&t, 300), 0);
    assert_true(t.full);
    assert_int_equal(t.lacked, 300);
    assert_int_equal(tables_room(&t), LIMIT - 1 - 900);
    tables_give(&t, a, 300);
    tables_give(&t, c, 300);
    assert_int_equal(t.rows_used, 300);
    assert_int_equal(tables_take(&t, 300), 0); /* the kernel may still read them */
    tables_settle(&t);
    assert_int_equal(tables_room(&t), LIMIT - 1 - 600); /* c's, and what lies behind */
    assert_int_equal(tables_take(&t, 300), a);
    tables_give(&t, a, 300);
    tables_give(&t, b, 300);
    tables_settle(&t);
    assert_int_equal(t.free_rows.count, 1);
    assert_int_equal(tables_take(&t, LIMIT - 1), 1);
    assert_int_equal(t.rows_used, LIMIT - 1);
    tables_done(&t);
}

/* A file whose rows found no room gets them when another one was forgotten. */
static void a_file_gives_its_rows_back(void **state)
{
    struct native_files *files = NULL;
    struct native *native = NULL;
    struct unwind_table *table = NULL;
    struct native_file *first = NULL, *second = NULL;
    assert_int_equal(native_files_new(&files), 0);
    assert_int_equal(native_open_shared(getpid(), files, &native, NULL), 0);
    array_foreach (&native_modules(native)->list, m) {
        struct native_file *file = m->has_bias ? native_file_of(native, m) : NULL;
        if (!file || !(table = native_file_table(file)))
            continue;
        first = first ? first : file;
        second = file;
    }
    assert_true(first && second && first != second);
    uint32_t limit = (uint32_t)MAX(native_file_table(first)->count, native_file_table(second)->count) + 1;
    struct unwind_row *rows = calloc(limit, sizeof(*rows));
    uint64_t *pages = calloc(limit, sizeof(*pages));
    struct tables small = {.row_limit = 2, .page_limit = 2};
    tables_init(&small, rows, pages);
    assert_null(tables_of(&small, first));
    assert_true(small.too_small && !small.full); /* nothing that is given back would help */
    tables_done(&small);
    struct tables t = {.row_limit = limit, .page_limit = limit};
    tables_init(&t, rows, pages);
    size_t count = native_file_table(first)->count;
    const struct table_range *range = tables_of(&t, first);
    assert_non_null(range);
    assert_int_equal(range->rows_high - range->rows_low, count);
    assert_ptr_equal(tables_of(&t, first), range);
    assert_null(tables_of(&t, second));
    assert_true(t.full);
    tables_drop(&t, *native_file_note(first));
    tables_settle(&t);
    assert_non_null(tables_of(&t, second));
    native_free(native);
    native_files_free(files);
    tables_done(&t);
    free(rows);
    free(pages);
}

/* Of a file that a process led into before it ended; of others nothing is read. */
static void rows_outlive_a_process(void **state)
{
    struct native_files *files = NULL;
    struct native *native = NULL;
    struct native_file *met = NULL, *unmet = NULL;
    assert_int_equal(native_files_new(&files), 0);
    assert_int_equal(native_open_shared(getpid(), files, &native, NULL), 0);
    array_foreach (&native_modules(native)->list, m) {
        struct native_file *file = m->has_bias ? native_file_of(native, m) : NULL;
        if (file && !met && native_file_table(file))
            met = file;
        else if (file)
            unmet = file;
    }
    assert_true(met && unmet);
    uint32_t count = (uint32_t)native_file_table(met)->count, limit = 5 * count;
    struct unwind_row *rows = calloc(limit, sizeof(*rows));
    uint64_t *pages = calloc(limit, sizeof(*pages));
    struct tables small = {.row_limit = 3 * count, .page_limit = limit};
    tables_init(&small, rows, pages);
    tables_keep(&small, met); /* more than a quarter */
    assert_true(!*native_file_note(met) && !small.full && !small.rows_used);
    tables_done(&small);
    struct tables t = {.row_limit = limit, .page_limit = limit};
    tables_init(&t, rows, pages);
    tables_keep(&t, unmet);
    assert_true(!*native_file_note(unmet) && !native_file_met(unmet));
    tables_keep(&t, met);
    tables_keep(&t, met);
    assert_int_equal(*native_file_note(met), 1);
    assert_int_equal(t.rows_used, count);
    native_free(native);
    native_files_trim(files, 256);
    assert_int_equal(native_file_table(met)->count, count);
    assert_true(native_file_table(met)->borrowed);
    native_files_free(files);
    tables_done(&t);
    free(rows);
    free(pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_given_back_is_joined_and_taken_again),
                                       cmocka_unit_test(a_file_gives_its_rows_back),
                                       cmocka_unit_test(rows_outlive_a_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
