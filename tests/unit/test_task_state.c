/* Known values of sched_switch's prev_state for each layout. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/task_state.h"

#include "base/macro.h"
#include "test.h"

static void releases(void **state)
{
    (void)state;
    assert_int_equal(task_kernel("4.4.3-1-ARCH"), 0x0404);
    assert_int_equal(task_kernel("6.1.0-28-amd64"), 0x0601);
    assert_int_equal(task_kernel("5.15"), 0x050f);
    assert_int_equal(task_kernel(NULL), 0);
    assert_int_equal(task_kernel("trunk"), 0);
}

static void states_of_each_layout(void **state)
{
    (void)state;
    static const struct {
        const char *release;
        int64_t value;
        const char *expected;
    } CASES[] = {
        {"3.6.11", 0, "preempted"},
        {"3.6.11", 1, "blocked"},
        {"3.6.11", 64, "ended"},
        {"3.6.11", 512, "preempted"},
        {"3.10.0", 512, "parked"},
        {"3.10.0", 1024, "preempted"},
        {"4.4.3", 64, "ended"},
        {"4.4.3", 130, "uninterruptible"}, /* killable */
        {"4.4.3", 2048, "preempted"},
        {"4.4.3", 1026, "idle"},
        {"4.4.3", 512, "parked"},
        {"4.4.3", 4, "stopped"},
        {"4.4.3", 8, "stopped"},
        {"4.9.0", 4096, "preempted"},
        {"4.13.0", 64, "ended"},
        {"4.14.0", 64, "parked"},
        {"4.14.0", 256, "preempted"},
        {"4.19.0", 128, "idle"},
        {"5.10.0", 16, "ended"},
        {"5.10.0", 32, "ended"},
        {"6.1.0-28-amd64", 64, "parked"},
        {"6.1.0", 2, "uninterruptible"},
        {"6.1.0", 258, "uninterruptible"},
        {"6.1.0", 1026, "idle"}, /* task->state as it is */
        {"6.1.0", 144, "ended"},
        {"6.12.0", 8193, "blocked"},
        {NULL, 1, "blocked"},
        {NULL, 256, "preempted"},
        {NULL, 32, "ended"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
        assert_string_equal(task_state(task_kernel(CASES[i].release), CASES[i].value), CASES[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(releases),
        cmocka_unit_test(states_of_each_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
