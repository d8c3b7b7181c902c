/* How much is recorded at which level. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/level.h"

#include <errno.h>
#include <string.h>

#include "event/kernel.h"
#include "test.h"

static void levels_are_named(void **state)
{
    (void)state;
    for (int i = 0; i < SONDE_LEVELS; i++) {
        enum sonde_level level;
        assert_int_equal(level_parse(level_name((enum sonde_level)i), &level, NULL), 0);
        assert_int_equal(level, i);
    }
    static const char *const WRONG[] = {"", "all", "Usual", "usual "};
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        enum sonde_level level = SONDE_level_everything;
        struct problem problem = {0};
        assert_int_equal(level_parse(WRONG[i], &level, &problem), -EINVAL);
        assert_int_equal(level, SONDE_level_everything);
        assert_non_null(strstr(problem.what, "requests, usual and everything"));
    }
}

static void each_level_adds_to_the_one_below(void **state)
{
    (void)state;
    assert_int_equal(level_kernel_families(SONDE_level_requests), 0);
    assert_int_equal(level_kernel_families(SONDE_level_usual),
                     1u << SONDE_FAMILY_sched | 1u << SONDE_FAMILY_block | 1u << SONDE_FAMILY_connect);
    assert_int_equal(level_kernel_families(SONDE_level_everything), (1u << SONDE_FAMILY_COUNT) - 1);
    uint32_t off = level_families_off(SONDE_level_requests);
    assert_true(off & 1u << SONDE_PROBE_FAMILY_uv_loop);
    assert_false(off & sonde_family_bit(SONDE_EVENT_http_request));
    assert_false(off & sonde_family_bit(SONDE_EVENT_redis_command));
    assert_int_equal(level_families_off(SONDE_level_usual), 0);
    assert_int_equal(level_families_off(SONDE_level_everything), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_named),
        cmocka_unit_test(each_level_adds_to_the_one_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
