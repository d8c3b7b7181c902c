/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "history/tile.h"
#include "test.h"

enum { SPAN = 1 << 16, ROWS = 70 };

/* Group "a" has two rows that run in the first half and one that counts; then each of the groups "g3" to
 * "g69" has a row, whose number is 1 in every 2^n-th quarter. */
static struct history *made(char path[TEST_PATH], struct source_row rows[ROWS])
{
    struct history_options options = {.size = sizeof(options), .start_ns = 1000};
    struct history *history;
    memset(rows, 0, ROWS * sizeof(*rows));
    int fd = mkstemp(test_path(path));
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(history_create(path, &options, &history, NULL), 0);
    for (unsigned i = 0; i < ROWS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "row%u", i);
        assert_int_equal(history_add(history, HISTORY_ROOT, name, &rows[i].quark, NULL), 0);
        rows[i].path = strdup(name);
        rows[i].counts = i == 2;
        snprintf(rows[i].group, sizeof(rows[i].group), i < 3 ? "a" : "g%u", i);
    }
    for (unsigned i = 0; i < ROWS; i++)
        assert_int_equal(history_modify(history, 1000, rows[i].quark,
                                        i < 2 ? history_string("running") : history_int(i % 2), NULL),
                         0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(
            history_modify(history, 1000 + SPAN / 2, rows[i].quark, history_string("blocked"), NULL), 0);
    assert_int_equal(history_close(history, 1000 + SPAN, NULL), 0);
    history_free(history);
    assert_int_equal(history_open(path, &history, NULL), 0);
    return history;
}

static void gone(struct history *history, struct source_row rows[ROWS], const char *path)
{
    history_free(history);
    for (unsigned i = 0; i < ROWS; i++)
        free(rows[i].path);
    unlink(path);
}

/* The value of a cell as it stands in the tile's table; -1: none. */
static double cell(const struct text *tile, size_t row, size_t column)
{
    uint16_t rows, value;
    uint32_t table;
    size_t at = row * TILE_COLUMNS + column;
    memcpy(&rows, tile->at + 4, 2);
    memcpy(&table, tile->at + 20, 4);
    assert_true(row < rows);
    if (!tile->at[TILE_HEADER + 2 * (size_t)rows * TILE_COLUMNS + at])
        return -1;
    memcpy(&value, tile->at + TILE_HEADER + 2 * at, 2);
    const char *text = tile->at + table + 1;
    while (value--)
        text = strchr(text, ',') + 1;
    return strtod(text, NULL);
}

static void rows_at_work_are_added_up(void **state)
{
    char path[TEST_PATH];
    struct source_row rows[ROWS];
    struct history *history = made(path, rows);
    struct groups *groups;
    assert_int_equal(groups_make(history, rows, ROWS, NULL, &groups, NULL), 0);
    unsigned whole = tile_zoom_whole(history);
    assert_int_equal(groups_zoom(groups), whole - GROUPS_DEEPER);
    for (unsigned zoom = whole - GROUPS_DEEPER; zoom <= whole; zoom++) {
        size_t columns = SPAN >> zoom;
        for (size_t column = 0; column < columns; column += 100) {
            struct text tile = {0};
            assert_int_equal(groups_tile(groups, 0, zoom, column / TILE_COLUMNS, &tile), 0);
            assert_true(cell(&tile, 0, column % TILE_COLUMNS) == (column < columns / 2 ? 2 : 0));
            assert_true(cell(&tile, 1, column % TILE_COLUMNS) == 1); /* row 3 */
            assert_true(cell(&tile, 2, column % TILE_COLUMNS) == 0); /* row 4 */
            text_done(&tile);
        }
    }
    struct text tile = {0};
    assert_int_equal(groups_tile(groups, 1, whole, 0, &tile), 0); /* the 65th group and on: rows 66, 67 */
    assert_true(cell(&tile, 0, 5) == 0 && cell(&tile, 1, 5) == 1);
    text_done(&tile);
    assert_int_equal(groups_tile(groups, 2, whole, 0, &tile), -ENOENT);
    assert_int_equal(groups_tile(groups, 0, whole, 1, &tile), -ERANGE);
    assert_int_equal(groups_tile(groups, 0, whole - GROUPS_DEEPER - 1, 0, &tile), -ERANGE);
    assert_int_equal(groups_tile(groups, 0, TILE_ZOOM_MAX + 1, 0, &tile), -ERANGE);
    text_done(&tile);
    groups_free(groups);
    bool cancel = true;
    assert_int_equal(groups_make(history, rows, ROWS, &cancel, &groups, NULL), -ECANCELED);
    gone(history, rows, path);
}

static void what_is_kept_is_of_this_history_and_these_rows(void **state)
{
    char path[TEST_PATH], file[TEST_PATH + 8];
    struct source_row rows[ROWS];
    struct history *history = made(path, rows);
    struct groups *groups, *again;
    struct text first = {0}, second = {0};
    _cleanup_(freep) char *data = NULL;
    size_t length;
    snprintf(file, sizeof(file), "%s.groups", path);
    assert_int_equal(groups_make(history, rows, ROWS, NULL, &groups, NULL), 0);
    assert_int_equal(groups_write(groups, file), 0);
    assert_int_equal(groups_read(file, history, rows, ROWS, &again), 0);
    unsigned zoom = groups_zoom(groups);
    assert_int_equal(groups_tile(groups, 0, zoom, 1, &first), 0);
    assert_int_equal(groups_tile(again, 0, zoom, 1, &second), 0);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.at, second.at, first.length);
    groups_free(again);
    assert_int_equal(groups_read(file, history, rows, ROWS - 1, &again), -ESTALE);
    snprintf(rows[5].group, sizeof(rows[5].group), "other");
    assert_int_equal(groups_read(file, history, rows, ROWS, &again), -ESTALE);
    snprintf(rows[5].group, sizeof(rows[5].group), "g5");
    assert_int_equal(groups_read("/nowhere/groups", history, rows, ROWS, &again), -ENOENT);
    /* Cut, and with nonsense in it. */
    assert_int_equal(file_read(file, 1 << 26, &data, &length), 0);
    assert_int_equal(file_replace(file, data, length - 1), 0);
    assert_int_equal(groups_read(file, history, rows, ROWS, &again), -ESTALE);
    memset(data + length / 2, 0xff, length / 2);
    assert_int_equal(file_replace(file, data, length), 0);
    assert_int_equal(groups_read(file, history, rows, ROWS, &again), 0);
    text_done(&second);
    assert_int_equal(groups_tile(again, 1, zoom, 1, &second), 0);
    groups_free(again);
    groups_free(groups);
    text_done(&first);
    text_done(&second);
    unlink(file);
    gone(history, rows, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_at_work_are_added_up),
        cmocka_unit_test(what_is_kept_is_of_this_history_and_these_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
