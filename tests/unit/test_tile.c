/* Every cell of a tile equals what walking the list of changes finds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/tile.h"

#include <math.h>
#include <stdlib.h>

#include "naive_history.h"

enum { ATTRIBUTES = 5, VALUES = 3, START = 1000 };

struct cells {
    uint16_t rows, columns;
    uint64_t start_ns;
    uint32_t zoom, table;
    const uint16_t *values;
    const uint8_t *shares, *changes, *second_shares;
};

static struct cells open_tile(const struct text *tile)
{
    struct cells c;
    const char *at = tile->at;
    assert_memory_equal(at, "SDT1", 4);
    memcpy(&c.rows, at + 4, 2);
    memcpy(&c.columns, at + 6, 2);
    memcpy(&c.start_ns, at + 8, 8);
    memcpy(&c.zoom, at + 16, 4);
    memcpy(&c.table, at + 20, 4);
    size_t cells = (size_t)c.rows * c.columns;
    assert_int_equal(c.columns, TILE_COLUMNS);
    assert_int_equal(c.table, TILE_HEADER + 7 * cells);
    c.values = (const uint16_t *)(at + TILE_HEADER);
    c.shares = (const uint8_t *)at + TILE_HEADER + 2 * cells;
    c.changes = c.shares + cells;
    c.second_shares = c.changes + cells;
    return c;
}

/* The table is [null,0,1,...] in any order: the integer that stands at a place, -1 for null. */
static int64_t value_at(const struct text *tile, const struct cells *c, unsigned number)
{
    const char *at = tile->at + c->table + 1;
    while (number--)
        at = strchr(at, ',') + 1;
    return strncmp(at, "null", 4) == 0 ? -1 : strtoll(at, NULL, 10);
}

/* How long each value held in [from, to), null first; and the states that begin there. */
static void reduce(const naive_changes *changes, uint64_t from, uint64_t to, uint64_t held[VALUES + 1],
                   uint64_t *ret_begin)
{
    memset(held, 0, (VALUES + 1) * sizeof(*held));
    *ret_begin = 0;
    for (size_t i = 0; i < changes->count; i++) {
        const struct naive_change *change = &changes->at[i];
        uint64_t start = change->time_ns,
                 end = i + 1 < changes->count ? changes->at[i + 1].time_ns : UINT64_MAX;
        uint64_t a = MAX(start, from), b = MIN(end, to);
        if (b > a)
            held[change->value.type == HISTORY_NULL ? 0 : change->value.integer + 1] += b - a;
        bool same =
            i && history_value_equal(changes->at[i - 1].value, change->value); /* set and set back at once */
        *ret_begin += !same && start >= from && start < to;
    }
}

static void check_cell(const struct text *tile, const struct cells *c, const naive_changes *changes,
                       size_t at, uint64_t from, uint64_t to)
{
    uint64_t held[VALUES + 1], begin, most = 0;
    reduce(changes, from, to, held, &begin);
    for (unsigned v = 0; v <= VALUES; v++)
        most = MAX(most, held[v]);
    int64_t value = value_at(tile, c, c->values[at]);
    assert_int_equal(held[value + 1], most); /* equal ones are equally right */
    double share = (double)most / (double)(to - from);
    assert_true(fabs(c->shares[at] - share * 255) <= 1 || c->shares[at] == 1);
    /* Whether the null with which an attribute begins counts is left open. */
    if (from == START && c->changes[at] != (begin ? 64 - __builtin_clzll(begin) : 0))
        begin--;
    assert_int_equal(c->changes[at], begin ? 64 - __builtin_clzll(begin) : 0);
    assert_int_equal(c->second_shares[at] == 0, most == to - from);
}

static void equals_a_naive_reduction(void **state)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        char path[TEST_PATH];
        uint64_t random = seed, time = START;
        uint32_t quarks[ATTRIBUTES], segment = (uint32_t)(16 + random_below(&random, 200));
        struct history_options options = {
            .size = sizeof(options), .start_ns = START, .segment_changes = segment};
        struct history *h;
        struct naive naive;
        close(mkstemp(test_path(path)));
        assert_int_equal(history_create(path, &options, &h, NULL), 0);
        naive_init(&naive, ATTRIBUTES, START);
        for (uint32_t i = 0; i < ATTRIBUTES; i++) {
            char name[8];
            snprintf(name, sizeof(name), "a%u", i);
            assert_int_equal(history_add(h, HISTORY_ROOT, name, &quarks[i], NULL), 0);
        }
        for (unsigned i = 0; i < 1500; i++) {
            uint64_t value = random_below(&random, VALUES + 1);
            struct history_value v = value ? history_int((int64_t)value - 1) : history_null();
            uint32_t quark = (uint32_t)random_below(&random, ATTRIBUTES);
            time += 1 + random_below(&random, 1ull << random_below(&random, 10));
            assert_int_equal(history_modify(h, time, quarks[quark], v, NULL), 0);
            naive_modify(&naive, time, quark, v);
        }
        assert_int_equal(history_close(h, time + 1 + random_below(&random, 500), NULL), 0);
        history_free(h);
        assert_int_equal(history_open(path, &h, NULL), 0);
        struct history_info info;
        history_get_info(h, &info);
        for (unsigned zoom = 0; zoom <= tile_zoom_whole(h); zoom++) {
            uint64_t tiles = ((info.end_ns - START - 1) >> zoom >> 9) + 1,
                     index = random_below(&random, tiles);
            struct text tile = {0};
            assert_int_equal(tile_write(h, quarks, ATTRIBUTES, zoom, index, NULL, &tile, NULL), 0);
            struct cells c = open_tile(&tile);
            assert_int_equal(c.start_ns, START + (index << zoom << 9));
            for (size_t at = 0; at < (size_t)ATTRIBUTES * TILE_COLUMNS; at++) {
                uint64_t from = c.start_ns + ((at % TILE_COLUMNS) << zoom),
                         to = MIN(from + (1ull << zoom), info.end_ns);
                if (from >= info.end_ns)
                    assert_int_equal(c.shares[at], 0);
                else
                    check_cell(&tile, &c, &naive.attributes[at / TILE_COLUMNS], at, from, to);
            }
            assert_int_equal(tile_write(h, quarks, ATTRIBUTES, zoom, tiles, NULL, &tile, NULL), -ERANGE);
            text_done(&tile);
        }
        history_free(h);
        naive_done(&naive);
        unlink(path);
    }
}

static void refuses_what_is_too_much(void **state)
{
    char path[TEST_PATH];
    struct history_options options = {.size = sizeof(options)};
    struct history *h;
    struct text tile = {0};
    uint32_t quarks[TILE_ROWS + 1] = {0};
    close(mkstemp(test_path(path)));
    assert_int_equal(history_create(path, &options, &h, NULL), 0);
    assert_int_equal(history_add(h, HISTORY_ROOT, "\"quoted\\\n", &quarks[0], NULL), 0);
    assert_int_equal(history_modify(h, 5, quarks[0], history_string("a\"\\\x01"), NULL), 0);
    assert_int_equal(history_close(h, 1000, NULL), 0);
    assert_int_equal(tile_write(h, quarks, TILE_ROWS + 1, 1, 0, NULL, &tile, NULL), -EINVAL);
    assert_int_equal(tile_write(h, quarks, 1, TILE_ZOOM_MAX + 1, 0, NULL, &tile, NULL), -EINVAL);
    assert_int_equal(tile_write(h, quarks, 1, 0, UINT64_MAX, NULL, &tile, NULL), -ERANGE);
    assert_int_equal(tile_write(h, quarks, 0, 1, 0, NULL, &tile, NULL), 0);
    text_clear(&tile);
    assert_int_equal(tile_write(h, quarks, 1, 1, 0, NULL, &tile, NULL), 0);
    struct cells c = open_tile(&tile);
    assert_string_equal(tile.at + c.table, "[null,\"a\\\"\\\\\\u0001\"]");
    text_done(&tile);
    history_free(h);
    unlink(path);
}

static bool three_more(void *context)
{
    unsigned *asked = context;
    return ++*asked <= 3;
}

static void ends_when_it_is_not_wanted(void **state)
{
    char path[TEST_PATH];
    struct history_options options = {.size = sizeof(options)};
    struct history *h;
    struct text tile = {0};
    uint32_t quarks[TILE_ROWS];
    unsigned asked = 0;
    const struct tile_wanted wanted = {three_more, &asked};
    close(mkstemp(test_path(path)));
    assert_int_equal(history_create(path, &options, &h, NULL), 0);
    for (size_t i = 0; i < TILE_ROWS; i++) {
        char name[8];
        snprintf(name, sizeof(name), "a%zu", i);
        assert_int_equal(history_add(h, HISTORY_ROOT, name, &quarks[i], NULL), 0);
        assert_int_equal(history_modify(h, 5, quarks[i], history_int(1), NULL), 0);
    }
    assert_int_equal(history_close(h, 1000, NULL), 0);
    assert_int_equal(tile_write(h, quarks, TILE_ROWS, 1, 0, &wanted, &tile, NULL), -ECANCELED);
    assert_int_equal(asked, 4);
    assert_int_equal(tile.length, 0);
    asked = 0;
    assert_int_equal(tile_write(h, quarks, 3, 1, 0, &wanted, &tile, NULL), 0);
    text_done(&tile);
    history_free(h);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_a_naive_reduction),
                                       cmocka_unit_test(ends_when_it_is_not_wanted),
                                       cmocka_unit_test(refuses_what_is_too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
