/* A hook that must have fired and did not is told, with figures; one that was not installed is not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/silent.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static struct program *make_program(const char *first, const char *second)
{
    struct program *program = calloc(1, sizeof(*program));
    assert_non_null(program);
    program->target = calloc(1, sizeof(*program->target));
    assert_non_null(program->target);
    for (const struct target_kind *const *kind = TARGET_KINDS; *kind; kind++)
        for (const struct hook *hook = (*kind)->hooks; hook < (*kind)->hooks + (*kind)->hook_count; hook++)
            if (strcmp(hook->wrapper, first) == 0 || strcmp(hook->wrapper, second) == 0) {
                program->target->kind = *kind;
                assert_int_equal(array_add(&program->patches.patches, (struct patch){.hook = hook}), 0);
            }
    return program;
}

static void free_program(struct program *program)
{
    patch_set_done(&program->patches);
    free(program->target);
    free(program);
}

static void test_a_hook_that_never_fired(void **state)
{
    struct program *program = make_program("redis_read_query", "redis_write_reply");
    const char *what = NULL;
    char why[SILENT_WORDS];
    program->seen[SONDE_EVENT_redis_command] = 5000;
    program->seen[SONDE_EVENT_redis_write_reply] = 4999;
    assert_true(silent_hook(program, 0, &what, why));
    assert_string_equal(what, "when a client's query is read");
    assert_non_null(strstr(why, "readQueryFromClient"));
    assert_non_null(strstr(why, "more than 199 events redis:command"));
    assert_false(silent_hook(program, 1, &what, why));
    free_program(program);
}

static void test_too_few_to_tell(void **state)
{
    struct program *program = make_program("redis_read_query", "redis_write_reply");
    const char *what;
    char why[SILENT_WORDS];
    program->seen[SONDE_EVENT_redis_command] = 10;
    assert_false(silent_hook(program, 0, &what, why));
    program->seen[SONDE_EVENT_redis_command] = 1000;
    assert_true(silent_hook(program, 0, &what, why));
    assert_true(silent_hook(program, 1, &what, why));
    assert_non_null(strstr(why, "writeToClient"));
    assert_false(silent_hook(program, 2, &what, why));
    free_program(program);
}

static void test_synchronous_files_are_run_and_never_done(void **state)
{
    struct program *program = make_program("uv_fs_done", "llhttp_complete");
    const char *what;
    char why[SILENT_WORDS];
    program->seen[SONDE_EVENT_uv_run] = 5000;
    program->seen[SONDE_EVENT_http_request] = 5000;
    assert_false(silent_hook(program, 0, &what, why));
    program->seen[SONDE_EVENT_uv_submit] = 5000;
    assert_true(silent_hook(program, 0, &what, why));
    free_program(program);
}

static void test_what_is_not_hooked_is_told_elsewhere(void **state)
{
    struct program *program = make_program("redis_command", "redis_command");
    const char *what;
    char why[SILENT_WORDS];
    program->seen[SONDE_EVENT_redis_command] = 1000;
    assert_false(silent_hook(program, 0, &what, why));
    free_program(program);
}

/* Examples are not named to people. */
static void kinds_are_listed_in_words(void **state)
{
    char words[200], few[8];
    target_kinds_say(words, sizeof(words));
    assert_string_equal(words, "Node, Redis or Memcached");
    target_kinds_say(few, sizeof(few));
    assert_string_equal(few, "Node, R");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_hook_that_never_fired),
                                       cmocka_unit_test(test_too_few_to_tell),
                                       cmocka_unit_test(test_synchronous_files_are_run_and_never_done),
                                       cmocka_unit_test(test_what_is_not_hooked_is_told_elsewhere),
                                       cmocka_unit_test(kinds_are_listed_in_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
