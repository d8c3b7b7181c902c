/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
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
    assert_int_equal(modules_read_pid(getpid(), &modules, NULL), 0);
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

/* Each inlined function has its name, where it stands, and where it was called. */
static const char SOURCE[] = "volatile long sink;\n"
                             "static inline __attribute__((always_inline)) void innermost(long x)\n"
                             "{\n"
                             "    for (long i = 0; i < x; i++)\n"
                             "        sink += i * x;\n" /* 5 */
                             "}\n"
                             "static inline __attribute__((always_inline)) void middle(long x)\n"
                             "{\n"
                             "    innermost(x + 1);\n" /* 9 */
                             "}\n"
                             "__attribute__((noinline)) void outer(long x)\n"
                             "{\n"
                             "    if (x) {\n"
                             "        middle(x);\n" /* 14 */
                             "    }\n"
                             "}\n"
                             "__attribute__((noinline)) void plain(long x)\n"
                             "{\n"
                             "    sink = x;\n"
                             "}\n"
                             "int main(void) { outer(sink); plain(sink); return 0; }\n";

/* The program of the first unit's line table cannot be run any more. */
static void damage_lines(const char *path)
{
    const unsigned char endless[] = {0, 0xff, 0xff, 0xff, 0x7f};
    _cleanup_(freep) char *bytes = NULL;
    struct elf *elf = NULL;
    struct elf_section section;
    uint16_t version;
    uint32_t head;
    size_t size;
    assert_int_equal(file_read(path, 1 << 20, &bytes, &size), 0);
    assert_int_equal(elf_open_bytes(bytes, size, "program", &elf, NULL), 0);
    assert_int_equal(elf_section_named(elf, ".debug_line", &section), 0);
    size_t at = (size_t)((const char *)section.data - bytes);
    elf_free(elf);
    memcpy(&version, bytes + at + 4, sizeof(version));
    at += version >= 5 ? 8 : 6;
    memcpy(&head, bytes + at, sizeof(head));
    memcpy(bytes + at + sizeof(head) + head, endless, sizeof(endless));
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, size, 1, file), 1);
    fclose(file);
}

static void check_program(const char *compiler, bool damaged)
{
    char folder[] = "/tmp/sonde-lines-XXXXXX", path[64], command[400];
    struct problem problem = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/program.c", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(SOURCE, file);
    fclose(file);
    snprintf(command, sizeof(command), "%s -g -O2 -o %s/program %s", compiler, folder, path);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/program", folder);
    struct elf *elf = NULL;
    struct lines *lines = NULL;
    struct elf_symbol outer, plain;
    struct line_inlined found[4];
    struct line_position at;
    if (damaged)
        damage_lines(path);
    assert_int_equal(elf_open(path, &elf, &problem), 0);
    assert_int_equal(lines_open(elf, &lines), 0);
    assert_int_equal(elf_find(elf, "outer", &outer), 0);
    assert_int_equal(elf_find(elf, "plain", &plain), 0);
    size_t deepest = 0, inside = 0;
    for (uint64_t address = outer.value; address < outer.value + outer.size; address++) {
        size_t count = lines_inlined(lines, address, found, ARRAY_SIZE(found));
        deepest = MAX(deepest, count);
        if (count != 2)
            continue;
        inside++;
        assert_string_equal(found[0].name, "innermost");
        assert_string_equal(found[1].name, "middle");
        assert_int_equal(found[0].declared.line, 2);
        assert_int_equal(found[0].call.line, 9);
        assert_int_equal(found[1].declared.line, 7);
        assert_int_equal(found[1].call.line, 14);
        assert_non_null(strstr(found[0].call.file, "program.c"));
        assert_non_null(strstr(found[0].declared.file, "program.c"));
        assert_int_equal(lines_inlined(lines, address, found, 1), 1);
    }
    assert_int_equal(deepest, 2);
    assert_true(inside > 0);
    assert_int_equal(lines_inlined(lines, plain.value, found, ARRAY_SIZE(found)), 0);
    assert_int_equal(lines_inlined(lines, 1, found, ARRAY_SIZE(found)), 0);
    assert_int_equal(lines_find(lines, outer.value, true, &at), 0);
    assert_int_equal(at.line, 11);
    lines_free(lines);
    elf_free(elf);
    unlink(path);
    snprintf(path, sizeof(path), "%s/program.c", folder);
    unlink(path);
    rmdir(folder);
}

static void names_inlined_functions(void **state)
{
    check_program("gcc -gdwarf-4", false);
    check_program("gcc -gdwarf-5", false);
}

/* What files are called stands before the program, which may be long. */
static void names_files_without_running_the_program(void **state)
{
    check_program("gcc -gdwarf-4", true);
    check_program("gcc -gdwarf-5", true);
}

/* No .debug_aranges: the units say which code is theirs. */
static void finds_units_without_an_index(void **state)
{
    check_program("clang-14", false);
}

/* The same beside a unit that it has, and code that is of none. */
static void finds_units_beside_an_index(void **state)
{
    char folder[] = "/tmp/sonde-lines-XXXXXX", command[200];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof(command),
             "echo 'int other(void) { return 1; }' | gcc -g -O2 -x c -c -o %s/other.o -", folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof(command), "clang-14 %s/other.o", folder);
    check_program(command, false);
    snprintf(command, sizeof(command), "%s/other.o", folder);
    unlink(command);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_functions_and_lines), cmocka_unit_test(names_inlined_functions),
        cmocka_unit_test(names_files_without_running_the_program),
        cmocka_unit_test(finds_units_without_an_index), cmocka_unit_test(finds_units_beside_an_index)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
