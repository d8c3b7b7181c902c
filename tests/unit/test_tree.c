/* The State History Tree's own rules: its shape, and what it says of files that are none. Its answers are
 * compared with the model's in test_history.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/tree.h"

#include "base/file.h"
#include "naive_history.h"

enum { HEAD = 4096, NODE = 65536 };

static char path[256];

static void build(uint32_t attributes, uint32_t changes)
{
    struct problem problem = {0};
    struct history *h = NULL;
    struct history_options options = {.size = sizeof(options), .store = HISTORY_TREE};
    temporary_path(path, sizeof(path), "test-tree");
    assert_int_equal(history_create(path, &options, &h, &problem), 0);
    add_attributes(h, attributes);
    uint64_t random = 6;
    for (uint64_t i = 0; i < changes; i++)
        assert_int_equal(history_modify(h, 1000 + i * 1000, (uint32_t)random_below(&random, attributes),
                                        history_int((int64_t)i), &problem),
                         0);
    assert_int_equal(history_close(h, 0, &problem), 0);
    history_free(h);
}

/* Walks the nodes of a file as the byte table says: spans nest, children are at most 50, every state lies in
 * its node. */
static void the_shape_is_a_state_history_tree(void **state)
{
    char *data;
    size_t size;
    struct tree_head head;
    build(5, 500000);
    assert_int_equal(file_read(path, 1 << 28, &data, &size), 0);
    memcpy(&head, data, sizeof(head));
    assert_memory_equal(head.magic, TREE_MAGIC, 8);
    assert_true(head.nodes > 60);
    assert_int_equal(head.depth, 3); /* more than 50 leaves */
    unsigned cores = 0, leaves = 0, children_most = 0, linked = 0;
    for (uint32_t i = 0; i < head.nodes; i++) {
        const char *node = data + HEAD + (size_t)i * NODE;
        uint32_t words[4], children;
        uint64_t span[2];
        memcpy(words, node, 16);
        memcpy(span, node + 16, 16);
        assert_int_equal(words[1], i);
        assert_true(span[0] <= span[1]);
        if (words[0] == 2) {
            leaves++;
            continue;
        }
        cores++;
        memcpy(&children, node + 40, 4);
        children_most = children > children_most ? children : children_most;
        for (uint32_t c = 0; c < children; c++) {
            uint32_t child, parent;
            uint64_t child_span[2], known[2];
            memcpy(&child, node + 44 + c * 4, 4);
            memcpy(&known[0], node + 44 + 200 + c * 8, 8);
            memcpy(&known[1], node + 44 + 600 + c * 8, 8);
            memcpy(&parent, data + HEAD + (size_t)child * NODE + 8, 4);
            memcpy(child_span, data + HEAD + (size_t)child * NODE + 16, 16);
            assert_int_equal(parent, i);
            assert_int_equal(child_span[0], known[0]);
            assert_int_equal(child_span[1], known[1]);
            assert_true(child_span[0] >= span[0] && child_span[1] <= span[1]);
            linked++;
        }
    }
    assert_int_equal(cores + leaves, head.nodes);
    assert_int_equal(linked, head.nodes - 1); /* all but the root */
    assert_int_equal(children_most, 50);
    free(data);
    unlink(path);
}

static void an_unfinished_tree_is_refused(void **state)
{
    struct problem problem = {0};
    struct history *h = NULL;
    struct history_options options = {.size = sizeof(options), .store = HISTORY_TREE};
    temporary_path(path, sizeof(path), "test-tree");
    assert_int_equal(history_create(path, &options, &h, &problem), 0);
    history_free(h);
    assert_int_equal(history_open(path, &h, &problem), -EBADMSG);
    assert_non_null(strstr(problem.what, "never closed"));
    unlink(path);
}

static void a_damaged_node_is_named(void **state)
{
    char *data;
    size_t size;
    build(20, 30000);
    assert_int_equal(file_read(path, 1 << 26, &data, &size), 0);
    data[HEAD + NODE + 3000] ^= 1;
    assert_int_equal(file_replace(path, data, size), 0);
    free(data);
    struct problem problem = {0};
    struct history *h = NULL;
    struct history_info info;
    assert_int_equal(history_open(path, &h, &problem), 0);
    history_get_info(h, &info);
    struct history_interval all[20];
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < 100; i++)
        r = history_query_full(h, info.start_ns + (info.end_ns - info.start_ns) / 100 * i, all, &problem);
    assert_int_equal(r, -EBADMSG);
    assert_non_null(strstr(problem.what, "offset 69632: node 1"));
    history_free(h);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shape_is_a_state_history_tree),
        cmocka_unit_test(an_unfinished_tree_is_refused),
        cmocka_unit_test(a_damaged_node_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
