/* SPDX-License-Identifier: Apache-2.0 */
#include "history/block.h"

#include "naive_history.h"

struct fixture {
    struct change *changes;
    uint32_t count;
    uint8_t *data;
    struct block_place place;
};

static void make(struct fixture *f, uint64_t *random, uint32_t count, unsigned values)
{
    f->count = count;
    f->changes = calloc(count, sizeof(*f->changes));
    uint64_t t = 1000;
    for (uint32_t i = 0; i < count; i++) {
        t += 1 + (random_next(random) >> (random_below(random, 2) ? 54 : 40));
        f->changes[i] = (struct change){t, {random_below(random, values), HISTORY_INT}};
    }
    f->data = malloc(block_bound(count) + BITS_SLACK);
    void *scratch = malloc(block_bound(count));
    uint8_t *end = block_write(f->data, scratch, f->changes, count);
    free(scratch);
    assert_true((size_t)(end - f->data) <= block_bound(count));
    memset(end, 0, BITS_SLACK);
    f->place = (struct block_place){f->data, end, count, f->changes[0].time_ns};
}

static void done(struct fixture *f)
{
    free(f->changes);
    free(f->data);
}

static void changes_come_back(void **state)
{
    uint64_t random = 1;
    const uint32_t counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 5000};
    for (unsigned c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
        struct fixture f;
        struct block block;
        make(&f, &random, counts[c], 5);
        assert_int_equal(block_open(&block, &f.place), 0);
        assert_int_equal(block.runs, (counts[c] + 63) / 64);
        uint32_t at = 0;
        for (uint32_t i = 0; i < block.runs; i++) {
            struct run run;
            uint64_t times[RUN_CHANGES];
            assert_int_equal(block_run(&block, i, &run), 0);
            run_times(&run, times);
            assert_int_equal(block_run_first(&block, i), times[0]);
            for (unsigned k = 0; k < run.count; k++, at++) {
                assert_int_equal(times[k], f.changes[at].time_ns);
                assert_true(cell_equal(cells_get(&run.cells, k), f.changes[at].cell));
                assert_int_equal(block_find_run(&block, times[k]), i);
                if (at)
                    assert_int_equal(block_find_run(&block, times[k] - 1), (at - 1) / RUN_CHANGES);
            }
        }
        assert_int_equal(at, counts[c]);
        done(&f);
    }
}

/* A node says what the changes between its first and its last held, exactly for few values. */
static void check_node(const struct node *node, const struct change *changes, uint32_t count, bool exact)
{
    assert_int_equal(node->first_ns, changes[0].time_ns);
    assert_int_equal(node->last_ns, changes[count - 1].time_ns);
    assert_int_equal(node->changes, count);
    assert_true(cell_equal(node->last, changes[count - 1].cell));
    uint64_t sum = node->summary.other_ns;
    for (unsigned i = 0; i < node->summary.count; i++) {
        uint64_t held = 0;
        for (uint32_t k = 0; k + 1 < count; k++)
            if (cell_equal(changes[k].cell, node->summary.share[i].cell))
                held += changes[k + 1].time_ns - changes[k].time_ns;
        assert_true(node->summary.share[i].ns <= held);
        assert_true(held <= node->summary.share[i].ns + node->summary.other_ns);
        sum += node->summary.share[i].ns;
    }
    assert_int_equal(sum, node->last_ns - node->first_ns);
    assert_true(!exact || node->summary.other_ns == 0);
}

static void nodes_say_what_was_held(void **state)
{
    uint64_t random = 2;
    for (int round = 0; round < 200; round++) {
        struct fixture f;
        struct block block;
        struct node node;
        unsigned values = round % 2 ? 4 : 40;
        make(&f, &random, 1 + (uint32_t)random_below(&random, 700), values);
        assert_int_equal(block_open(&block, &f.place), 0);
        assert_int_equal(block_node(&block, &node), 0);
        check_node(&node, f.changes, f.count, values <= HISTORY_SHARES);
        for (uint32_t i = 0; i < block.runs; i++) {
            uint32_t from = i * RUN_CHANGES, n = f.count - from < RUN_CHANGES ? f.count - from : RUN_CHANGES;
            assert_int_equal(block_run_node(&block, i, &node), 0);
            check_node(&node, f.changes + from, n, values <= HISTORY_SHARES);
        }
        done(&f);
    }
}

/* More values than are tracked: the longest survive, the rest is counted. */
static void summaries_stay_small(void **state)
{
    struct summary s = {0};
    uint64_t total = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t ns = i % 7 == 0 ? 1000 : 1 + i % 3;
        summary_add(&s, (struct cell){i % 7 == 0 ? 7 : i, HISTORY_INT}, ns);
        total += ns;
    }
    assert_int_equal(s.count, SUMMARY_WORKING);
    summary_trim(&s, 2);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.share[0].cell.bits, 7);
    assert_int_equal(s.share[0].ns, 143000);
    assert_int_equal(s.share[0].ns + s.share[1].ns + s.other_ns, total);
}

static void damaged_blocks_are_survived(void **state)
{
    uint64_t random = 4;
    for (int round = 0; round < 3000; round++) {
        struct fixture f;
        make(&f, &random, 1 + (uint32_t)random_below(&random, 300), 9);
        size_t size = (size_t)(f.place.end - f.place.at);
        for (int k = 0; k < 3; k++)
            f.data[random_below(&random, size)] = (uint8_t)random_next(&random);
        struct block block;
        struct node node;
        if (block_open(&block, &f.place) == 0) {
            block_node(&block, &node);
            for (uint32_t i = 0; i < block.runs; i++) {
                struct run run;
                uint64_t times[RUN_CHANGES];
                if (block_run(&block, i, &run) == 0)
                    run_times(&run, times);
                block_run_node(&block, i, &node);
            }
        }
        done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_come_back),
        cmocka_unit_test(nodes_say_what_was_held),
        cmocka_unit_test(summaries_stay_small),
        cmocka_unit_test(damaged_blocks_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
