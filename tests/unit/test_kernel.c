/* The kernel's side of a recording: what families are called, and what is said where it may not be had. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static void families_are_named(void **state)
{
    (void)state;
    uint32_t families = 0;
    struct problem problem = {0};
    assert_int_equal(kernel_parse_families("sys,block", &families, &problem), 0);
    assert_int_equal(families, 1u << SONDE_FAMILY_sys | 1u << SONDE_FAMILY_block);
    assert_int_equal(kernel_parse_families("all", &families, &problem), 0);
    assert_int_equal(families, (1u << SONDE_FAMILY_COUNT) - 1);
    for (int i = 0; i < SONDE_FAMILY_COUNT; i++) {
        assert_int_equal(kernel_parse_families(kernel_family_name((enum sonde_family)i), &families, NULL), 0);
        assert_int_equal(families, 1u << i);
    }
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"", ",", "sy", "syss", "sys,", "sys;tcp", "sys,disk", "SYS"};
    for (size_t i = 0; i < ARRAY_SIZE(WRONG); i++) {
        uint32_t families = 77;
        struct problem problem = {0};
        int r = kernel_parse_families(WRONG[i], &families, &problem);
        if (strcmp(WRONG[i], "sys,") == 0) { /* a list may end with its separator */
            assert_int_equal(r, 0);
            continue;
        }
        assert_int_equal(r, -EINVAL);
        assert_int_equal(families, 77);
        assert_true(problem.what[0]);
    }
}

/* In a child that is nobody: exits with 0 when all is as it should be. */
static int refused_without_privilege(void)
{
    if (geteuid() == 0 && setuid(65534) < 0)
        return 2;
    struct kernel_side *kernel = NULL;
    struct problem problem = {0};
    int r = kernel_new((1u << SONDE_FAMILY_COUNT) - 1, &kernel, &problem);
    if (r >= 0 || kernel)
        return 3;
    return problem.what[0] && problem.remedy[0] ? 0 : 4;
}

static void without_privilege_the_remedy_is_named(void **state)
{
    (void)state;
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(refused_without_privilege());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_named),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(without_privilege_the_remedy_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
