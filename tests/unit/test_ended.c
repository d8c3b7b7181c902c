/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/ended.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static struct ended ended;

static int tear_down(void **state)
{
    ended_done(&ended);
    ended = (struct ended){0};
    return 0;
}

static const char *command = "/bin/x";

/* A program that began at a time and has lost some events; its rings' inode is *ret_rings. */
static void end_one(uint64_t started_ns, int pid, uint64_t *ret_rings)
{
    struct ring_memory *rings;
    struct patch patch = {.address = 100 + (uint64_t)pid};
    assert_int_equal(ring_memory_new(&(struct ring_geometry){1, 4096, 0, 0}, &rings), 0);
    struct program program = {.pid = pid,
                              .name = (char *)"x",
                              .command = (char *)(uintptr_t)command,
                              .exe = (char *)"/bin/x",
                              .started_ns = started_ns,
                              .ended_ns = started_ns + 5,
                              .rings = rings};
    assert_int_equal(array_add(&program.patches.patches, patch), 0);
    program.losses[1] = (uint64_t)pid;
    program.events[3] = 2;
    *ret_rings = ring_memory_inode(rings);
    json_t *object = ended_lists(&ended, &program)
                         ? json_pack("{s:i, s:[s,s], s:[]}", "pid", pid, "hooks", "a", "b", "missing")
                         : NULL;
    assert_int_equal(ended_add(&ended, &program, object), 0);
    array_done(&program.patches.patches);
    ring_memory_free(rings);
}

static void all_are_told_of_in_the_order_in_which_they_began(void **state)
{
    uint64_t rings;
    for (int i = 0; i < 1000; i++)
        end_one((uint64_t)(i ^ 1), i, &rings);
    assert_int_equal(ended.count, 1000);
    assert_int_equal(ended.events[3], 2000);
    assert_int_equal(ended.lost, 999 * 1000 / 2);
    assert_int_equal(ended.losses.count, 999); /* the first lost nothing */
    assert_int_equal(ended.texts.count, 2);    /* what they have in common is kept once */
    for (size_t i = 0; i < 1000; i++) {
        struct text text = {0};
        ended_write(&ended.programs.at[i], &text);
        json_t *object = json_loads(text_get(&text), 0, NULL);
        assert_int_equal(json_integer_value(json_object_get(object, "pid")), i ^ 1);
        assert_int_equal(json_array_size(json_object_get(object, "hooks")), 2);
        assert_true(json_is_array(json_object_get(object, "missing")));
        json_decref(object);
        text_done(&text);
    }
}

static void of_very_many_alike_the_first_are_listed_and_all_are_counted(void **state)
{
    enum { MANY = 3 * ENDED_LISTED };
    uint64_t rings;
    command = "/bin/x worker";
    for (int i = 0; i < MANY; i++)
        end_one((uint64_t)(MANY + i), 1 + i, &rings);
    command = "/bin/x";
    end_one(7, 7, &rings);
    assert_int_equal(ended.count, MANY + 1);
    assert_int_equal(ended.programs.count, ENDED_LISTED + 1);
    assert_int_equal(ended.losses.count, ENDED_LISTED + 2); /* one of all that are not listed */
    assert_int_equal(ended.lost, (uint64_t)MANY * (MANY + 1) / 2 + 7);
    assert_int_equal(ended.events[3], 2 * (MANY + 1));
    uint64_t lost = 0;
    array_foreach (&ended.losses, loss)
        lost += loss->count;
    assert_int_equal(lost, ended.lost);
    json_t *alike = ended_alike_array(&ended), *first = json_array_get(alike, 0);
    assert_int_equal(json_array_size(alike), 1);
    assert_string_equal(json_string_value(json_object_get(first, "command")), "/bin/x worker");
    assert_int_equal(json_integer_value(json_object_get(first, "count")), MANY - ENDED_LISTED);
    assert_int_equal(json_integer_value(json_object_get(first, "start_ns")), MANY + ENDED_LISTED);
    assert_int_equal(json_integer_value(json_object_get(first, "end_ns")), 2 * MANY - 1 + 5);
    json_decref(alike);
}

static void of_very_many_commands_the_last_are_taken_together(void **state)
{
    char text[32];
    uint64_t rings;
    command = text;
    for (int i = 0; i < 2 * ENDED_COMMANDS; i++) {
        snprintf(text, sizeof(text), "/bin/x %d", i);
        end_one((uint64_t)i, i, &rings);
    }
    command = "/bin/x";
    assert_int_equal(ended.alike.count, ENDED_COMMANDS);
    assert_int_equal(ended.programs.count, 2 * ENDED_COMMANDS);
}

static void the_latest_can_have_forked_who_comes(void **state)
{
    uint64_t rings[2] = {1, 2};
    assert_null(ended_parent_of(&ended, rings, 2));
    end_one(1, 5, &rings[1]);
    const struct ended_parent *parent = ended_parent_of(&ended, rings, 2);
    assert_non_null(parent);
    assert_string_equal(parent->exe, "/bin/x");
    assert_int_equal(parent->patches.at[0].address, 105);
    uint64_t other;
    for (int i = 0; i < ENDED_PARENTS - 1; i++)
        end_one(2, 6, &other);
    assert_non_null(ended_parent_of(&ended, &rings[1], 1));
    end_one(3, 7, &other);
    assert_null(ended_parent_of(&ended, &rings[1], 1));
    assert_non_null(ended_parent_of(&ended, &other, 1));
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, tear_down)
    const struct CMUnitTest tests[] = {T(all_are_told_of_in_the_order_in_which_they_began),
                                       T(of_very_many_alike_the_first_are_listed_and_all_are_counted),
                                       T(of_very_many_commands_the_last_are_taken_together),
                                       T(the_latest_can_have_forked_who_comes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
