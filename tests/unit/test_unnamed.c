/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unnamed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbol/stripped.h"
#include "test.h"

static const char *const NAMES[] = {
    "uv__fs_work",          "uv__fs_done",          "uv__queue_work",       "uv__queue_done",
    "uv__getaddrinfo_work", "uv__getaddrinfo_done", "uv__getnameinfo_work", "uv__getnameinfo_done",
    "uv__stream_io",        "uv__run_timers",       "uv__run_idle",         "uv__run_prepare",
    "uv__run_check",        "uv__io_poll",          "uv__work_submit",
};

static const char *named; /* the program of uv_named.c */
static char stripped[TEST_PATH];

static int strip(void **state)
{
    (void)state;
    int fd = mkstemp(test_path(stripped));
    assert_true(fd >= 0);
    close(fd);
    char command[4096];
    snprintf(command, sizeof(command), "strip -o '%s' '%s'", stripped, named);
    return system(command);
}

static int clean(void **state)
{
    (void)state;
    return unlink(stripped);
}

static void finds_what_the_symbols_said(void **state)
{
    (void)state;
    _cleanup_(elf_freep) struct elf *with = NULL, *without = NULL;
    assert_int_equal(elf_open(named, &with, NULL), 0);
    assert_int_equal(elf_open(stripped, &without, NULL), 0);
    struct named_functions unnamed = {0};
    assert_int_equal(unnamed_find(without, &unnamed), 0);
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct elf_symbol truth, absent;
        assert_int_equal(elf_find(with, NAMES[i], &truth), 0);
        assert_int_not_equal(elf_find(without, NAMES[i], &absent), 0);
        const struct elf_symbol *found = NULL;
        array_foreach (&unnamed.list, s)
            if (strcmp(s->name, NAMES[i]) == 0)
                found = s;
        if (!found)
            fail_msg("%s was not found", NAMES[i]);
        assert_int_equal(found->value, truth.value);
        assert_true(found->size > 0 && found->size <= truth.size + 16);
    }
    assert_int_equal(unnamed.list.count, sizeof(NAMES) / sizeof(NAMES[0]));
    array_done(&unnamed.list);
}

static void asks_nothing_of_a_file_that_names_them(void **state)
{
    (void)state;
    _cleanup_(elf_freep) struct elf *elf = NULL;
    struct named_functions unnamed = {0};
    assert_int_equal(elf_open(named, &elf, NULL), 0);
    assert_int_equal(unnamed_find(elf, &unnamed), 0);
    assert_int_equal(unnamed.list.count, 0);
}

/* Every byte of the code that is read may lie; nothing may be read outside the file (the sanitizers watch).
 */
static void survives_damaged_code(void **state)
{
    (void)state;
    _cleanup_(elf_freep) struct elf *without = NULL;
    assert_int_equal(elf_open(stripped, &without, NULL), 0);
    size_t size = elf_size(without);
    uint64_t random = 88172645463325252ull;
    for (int round = 0; round < 40; round++) {
        uint8_t *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, elf_data(without), size);
        for (int i = 0; i < 2000; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            copy[4096 + random % (size - 4096)] ^= (uint8_t)(random >> 32);
        }
        struct elf *damaged;
        if (elf_open_bytes(copy, size, "damaged", &damaged, NULL) == 0) {
            struct named_functions unnamed = {0};
            assert_int_equal(unnamed_find(damaged, &unnamed), 0);
            assert_true(unnamed.list.count <= sizeof(NAMES) / sizeof(NAMES[0]));
            array_done(&unnamed.list);
            elf_free(damaged);
        }
        free(copy);
    }
}

/* A library that other files' functions are linked into. */
static void linkage_entries_have_names(void **state)
{
    (void)state;
    _cleanup_(elf_freep) struct elf *elf = NULL;
    assert_int_equal(elf_open(stripped, &elf, NULL), 0);
    struct elf_section plt;
    assert_int_equal(elf_section_named(elf, ".plt", &plt), 0);
    bool epoll = false;
    for (uint64_t at = plt.address; at < plt.address + plt.size; at += 16) {
        const char *name = stripped_linkage(elf, at);
        epoll |= name && strcmp(name, "epoll_pwait") == 0;
    }
    assert_true(epoll);
    assert_null(stripped_linkage(elf, 0));
    uint64_t bytes;
    assert_int_not_equal(stripped_function(elf, plt.address + 3, &bytes), 0);
}

/* All of a function's code leads to where it begins, and what is behind its end to no function. */
static void code_belongs_to_its_function(void **state)
{
    (void)state;
    _cleanup_(elf_freep) struct elf *elf = NULL, *names = NULL;
    assert_int_equal(elf_open(stripped, &elf, NULL), 0);
    assert_int_equal(elf_open(named, &names, NULL), 0);
    struct elf_symbol symbol;
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        uint64_t start = 0, bytes;
        assert_int_equal(elf_find(names, NAMES[i], &symbol), 0);
        assert_int_equal(stripped_function(elf, symbol.value, &bytes), 0);
        assert_int_equal(stripped_function_of(elf, symbol.value + bytes - 1, &start), 0);
        assert_int_equal(start, symbol.value);
        if (stripped_function_of(elf, symbol.value + bytes, &start) == 0)
            assert_int_not_equal(start, symbol.value);
    }
    assert_int_not_equal(stripped_function_of(elf, 0, &symbol.value), 0);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 77;
    named = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_the_symbols_said),
        cmocka_unit_test(asks_nothing_of_a_file_that_names_them),
        cmocka_unit_test(survives_damaged_code),
        cmocka_unit_test(linkage_entries_have_names),
        cmocka_unit_test(code_belongs_to_its_function),
    };
    return cmocka_run_group_tests(tests, strip, clean);
}
