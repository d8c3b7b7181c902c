/* What every unit test includes: cmocka with the headers it wants in front. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define TEST_PATH 256

/* A name for mkstemp() or mkdtemp(), where temporary files belong. */
static inline char *test_path(char path[TEST_PATH])
{
    const char *folder = getenv("TMPDIR");
    int n = snprintf(path, TEST_PATH, "%s/sonde-test-XXXXXX", folder && folder[0] ? folder : "/tmp");
    assert_true(n < TEST_PATH - 40); /* names of files come behind */
    return path;
}

#endif
