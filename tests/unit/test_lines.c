/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "symbol/modules.h"
#include "test.h"

int lines_landmark(int x);
enum { LANDMARK_LINE = __LINE__ + 1 };
__attribute__((noinline, used)) int lines_landmark(int x)
{
    __asm__ volatile("");
    return x - 3;
}

static void finds_functions_and_lines(void **state)
{
    struct modules modules;
    struct elf *elf = NULL;
    struct lines *lines = NULL;
    struct elf_section section;
    struct line_position at;
    assert_int_equal(modules_read(getpid(), &modules, NULL), 0);
    const struct module *self = modules_main(&modules);
    assert_int_equal(modules_open(&modules, self, &elf, NULL), 0);
    uint64_t address = (uintptr_t)lines_landmark - self->load_bias;
    int r = lines_open(elf, &lines);
    if (elf_section_named(elf, ".debug_info", &section) < 0) { /* a release build */
        assert_int_equal(r, -ENOENT);
        assert_int_equal(lines_cost(elf), 0);
    } else {
        assert_true(lines_cost(elf) >= section.size / 4);
        assert_int_equal(r, 0);
        assert_int_equal(lines_find(lines, address + 1, true, &at), 0);
        assert_int_equal(at.line, LANDMARK_LINE);
        assert_non_null(strstr(at.file, "test_lines.c"));
        assert_int_equal(lines_find(lines, address, false, &at), 0);
        assert_true(at.line >= LANDMARK_LINE && at.line <= LANDMARK_LINE + 4);
        assert_int_equal(lines_find(lines, 1, false, &at), -ENOENT);
    }
    lines_free(lines);
    elf_free(elf);
    modules_done(&modules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_functions_and_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
