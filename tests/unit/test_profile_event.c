/* What is said where nothing was sampled: no advice to do what was done. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_event.h"

#include <string.h>

#include "base/macro.h"
#include "test.h"

static bool says(const char *event, bool whole_machine, const char *words)
{
    struct sampler_options options = {.whole_machine = whole_machine};
    const char *unit = NULL;
    struct text out = {0};
    assert_true(profile_event_set(event, &options, &unit));
    assert_non_null(unit);
    profile_event_say_nothing(event, &options, &out);
    const char *text = text_get(&out);
    assert_true(text[0] && text[strlen(text) - 1] == '.');
    bool found = strstr(text, words) != NULL;
    text_done(&out);
    return found;
}

static void the_whole_machine_is_no_advice_twice(void **state)
{
    static const char *const events[] = {"block", "block-time", "uprobe:/bin/true:main",
                                         "usdt:/bin/true:a:b"};
    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        assert_true(says(events[i], false, "--all"));
        assert_false(says(events[i], true, "--all"));
    }
    assert_true(says("block", true, "by threads of the kernel."));
    assert_true(says("uprobe:/bin/true:main", true, "did not get there in this time."));
}

static void each_has_its_reason(void **state)
{
    assert_true(says("cpu", false, "did not run on a CPU"));
    assert_true(says("connect", true, "opened no TCP connection"));
    assert_true(says("sched:sched_switch", false, "did not get there in this time."));
    assert_true(says("r1a2", false, "--event cpu"));
    struct sampler_options options = {0};
    const char *unit;
    assert_false(profile_event_set("nothing", &options, &unit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_whole_machine_is_no_advice_twice),
                                       cmocka_unit_test(each_has_its_reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
