/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/path_words.h"

#include <string.h>

#include "test.h"
#include "base/clock.h"

static void add(struct request *request, enum path_class class, uint64_t from_ms, uint64_t to_ms,
                const char *name, uint32_t span)
{
    struct path_step step = {.start_ns = from_ms * NS_PER_MS,
                             .end_ns = to_ms * NS_PER_MS,
                             .name = name,
                             .span = span,
                             .class = (uint8_t) class};
    assert_return_code(array_add(&request->path_steps, step), 0);
}

static void expect(struct request *request, uint64_t took_ms, const char *expected)
{
    struct text words = {0};
    request->end_ns = took_ms * NS_PER_MS;
    path_words(&words, request);
    assert_string_equal(text_get(&words), expected);
    text_done(&words);
    array_done(&request->path_steps);
    array_done(&request->spans);
}

/* In order of time, whatever took longest; with whom it waited for, where that is not traced. */
static void tells_in_order(void **state)
{
    struct request request = {0};
    struct vspan root = {0}, call = {.kind = VSPAN_command, .peer = "127.0.0.1:5432"};
    assert_return_code(array_add(&request.spans, root), 0);
    assert_return_code(array_add(&request.spans, call), 0);
    add(&request, PATH_RUN, 0, 10, "request handler", VSPAN_NONE);
    add(&request, PATH_FREE, 10, 60, "127.0.0.1:5432", VSPAN_NONE);
    add(&request, PATH_PEER, 60, 360, "SELECT", 1);
    add(&request, PATH_LOOP, 360, 361, "SELECT", 1); /* too short to be said */
    expect(
        &request, 361,
        "critical path: it runs for 10.0 ms (request handler), then waits 50.0 ms for a free connection or "
        "worker (127.0.0.1:5432), then waits 300 ms for an answer (SELECT of 127.0.0.1:5432); 310 ms at "
        "work (T), 51.0 ms of waiting");
}

/* What had no CPU did not run; a wait for nothing that is seen, in which the loop was busy, was for the loop.
 */
static void a_step_tells_what_it_lacked(void **state)
{
    struct path_step step = {.end_ns = 100, .class = PATH_RUN, .timed = true};
    uint64_t loop_ns;
    step.spent.running_ns = 60;
    step.spent.runnable_ns = 30;
    assert_int_equal(path_step_no_cpu(&step, &loop_ns), 30);
    assert_int_equal(loop_ns, 0);
    step.class = PATH_OTHER;
    assert_int_equal(path_step_no_cpu(&step, &loop_ns), 30);
    assert_int_equal(loop_ns, 60);
    step.class = PATH_PEER; /* whose thread it is not */
    assert_int_equal(path_step_no_cpu(&step, &loop_ns), 0);
    assert_int_equal(loop_ns, 0);
    step.class = PATH_RUN;
    step.timed = false;
    assert_int_equal(path_step_no_cpu(&step, &loop_ns), 0);
}

/* What happens again and again is said once, and how often. */
static void tells_of_repetitions_once(void **state)
{
    struct request request = {0};
    for (uint64_t i = 0; i < 10; i++) {
        add(&request, PATH_RUN, 10 * i, 10 * i + 2, "reply", VSPAN_NONE);
        add(&request, PATH_PEER, 10 * i + 2, 10 * i + 10, "SELECT", VSPAN_NONE);
    }
    expect(&request, 100,
           "critical path: it runs for 20.0 ms (reply; 10 times), in between waits 80.0 ms for an answer "
           "(SELECT; 10 "
           "times); 100 ms at work (T), 0 ns of waiting");
}

/* The time in which a step had no CPU is no part of it, and comes last. */
static void a_wait_for_a_cpu_is_told_apart(void **state)
{
    struct request request = {0};
    add(&request, PATH_RUN, 0, 100, "request handler", VSPAN_NONE);
    request.path_steps.at[0].timed = true;
    request.path_steps.at[0].spent =
        (struct activity_times){.running_ns = 30 * NS_PER_MS, .runnable_ns = 70 * NS_PER_MS};
    expect(&request, 100,
           "critical path: it runs for 30.0 ms (request handler), in between waits 70.0 ms for a CPU; 30.0 "
           "ms at work "
           "(T), 70.0 ms of waiting");
}

/* However many kinds of steps came before: the largest are said. */
static void tells_the_largest_of_many_kinds(void **state)
{
    struct request request = {0};
    char names[40][8];
    for (uint64_t i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "call%u", (unsigned)i);
        add(&request, PATH_PEER, i, i + 1, names[i], VSPAN_NONE);
    }
    add(&request, PATH_PEER, 40, 440, "SELECT", VSPAN_NONE);
    expect(&request, 440,
           "critical path: it waits 400 ms for an answer (SELECT); 440 ms at work (T), 0 ns of waiting");
}

static void short_requests_have_no_words(void **state)
{
    struct request request = {0};
    struct text words = {0};
    add(&request, PATH_RUN, 0, 1, "request handler", VSPAN_NONE);
    request.end_ns = NS_PER_MS - 1;
    path_words(&words, &request);
    assert_int_equal(words.length, 0);
    text_done(&words);
    array_done(&request.path_steps);
}

/* A pattern of thousands of characters is not read aloud; characters stay whole. */
static void long_names_are_cut_in_the_middle(void **state)
{
    char name[4000] = "regular expression /";
    while (strlen(name) + 60 < sizeof(name))
        strcat(name, "\xc3\xa4\xc3\xb6\xc3\xbc");
    strcat(name, "/ in check (app/x.js:1:2)");
    struct text words = {0};
    path_add_name(&words, name);
    const char *said = text_get(&words);
    assert_true(strlen(said) <= 123);
    assert_non_null(strstr(said, "regular expression /\xc3\xa4"));
    assert_non_null(strstr(said, "..."));
    assert_non_null(strstr(said, "/ in check (app/x.js:1:2)"));
    struct text again = {0};
    text_add_utf8(&again, said, strlen(said));
    assert_string_equal(text_get(&again), said); /* no half of a character */
    text_done(&again);
    text_clear(&words);
    path_add_name(&words, "in check (app/x.js:1:2)");
    assert_string_equal(text_get(&words), "in check (app/x.js:1:2)");
    text_done(&words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_in_order),
        cmocka_unit_test(a_step_tells_what_it_lacked),
        cmocka_unit_test(tells_of_repetitions_once),
        cmocka_unit_test(a_wait_for_a_cpu_is_told_apart),
        cmocka_unit_test(tells_the_largest_of_many_kinds),
        cmocka_unit_test(short_requests_have_no_words),
        cmocka_unit_test(long_names_are_cut_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
