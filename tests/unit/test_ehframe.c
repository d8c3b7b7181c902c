/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/ehframe.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"

static void reads_the_c_librarys_table(void **state)
{
    struct elf *elf = NULL;
    struct unwind_table *table = NULL;
    struct elf_symbol symbol;
    assert_int_equal(elf_open("/lib/x86_64-linux-gnu/libc.so.6", &elf, NULL), 0);
    assert_int_equal(unwind_table_read(elf, &table), 0);
    assert_true(table->functions > 1000 && table->count > table->functions);
    assert_int_equal(table->damaged, 0);
    assert_true(table->unsupported * 1000 < table->count * 10);
    for (size_t i = 1; i < table->count; i++)
        assert_true(table->rows[i - 1].pc < table->rows[i].pc);
    /* At the first instruction of any function the return address is on top of the stack. */
    static const char *const functions[] = {"getaddrinfo", "qsort", "printf", "mkstemp", "regcomp"};
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
        assert_int_equal(elf_find(elf, functions[i], &symbol), 0);
        const struct unwind_row *row = unwind_table_find(table, symbol.value);
        assert_non_null(row);
        assert_int_equal(row->rule & 15, CFA_RSP);
        assert_int_equal(row->cfa_offset, 8);
    }
    assert_null(unwind_table_find(table, 0));
    unwind_table_free(table);
    elf_free(elf);
}

static void knows_signal_frames(void **state)
{
    struct elf *elf = NULL;
    struct unwind_table *table = NULL;
    size_t signals = 0;
    assert_int_equal(elf_open("/lib/x86_64-linux-gnu/libc.so.6", &elf, NULL), 0);
    assert_int_equal(unwind_table_read(elf, &table), 0);
    for (size_t i = 0; i < table->count; i++)
        signals += (table->rows[i].rule & 15) == CFA_SIGNAL;
    assert_true(signals > 0);
    unwind_table_free(table);
    elf_free(elf);
}

static void knows_the_dynamic_linkers_assembly(void **state)
{
    struct elf *elf = NULL;
    struct unwind_table *table = NULL;
    size_t resolvers = 0;
    assert_int_equal(elf_open("/lib64/ld-linux-x86-64.so.2", &elf, NULL), 0);
    assert_int_equal(unwind_table_read(elf, &table), 0);
    for (size_t i = 0; i < table->count; i++)
        resolvers += (table->rows[i].rule & 15) == CFA_RESOLVE;
    assert_true(resolvers > 0);
    /* Nothing calls its first instruction. */
    assert_int_equal(unwind_table_find(table, elf_entry(elf))->rule & 15, CFA_END);
    for (size_t i = 1; i < table->count; i++)
        assert_true(table->rows[i - 1].pc < table->rows[i].pc);
    unwind_table_free(table);
    elf_free(elf);
}

/* The 8 bytes before a return address, as a little-endian word. */
static void tells_calls(void **state)
{
    assert_true(unwind_follows_call(0x00001234e8909090ull));  /* call rel32 */
    assert_true(unwind_follows_call(0xd0ff909090909090ull));  /* call rax */
    assert_true(unwind_follows_call(0x0855ff9090909090ull));  /* call [rbp + 8] */
    assert_true(unwind_follows_call(0x0000123415ff9090ull));  /* call [rip + n] */
    assert_false(unwind_follows_call(0xc3ff909090909090ull)); /* inc ebx */
    assert_false(unwind_follows_call(0x9090909090909090ull));
}

static void survives_lies(void **state)
{
    char *data;
    size_t size;
    struct elf *elf = NULL;
    struct elf_section section;
    assert_int_equal(file_read("/proc/self/exe", 64u << 20, &data, &size), 0);
    assert_int_equal(elf_open_bytes(data, size, "self", &elf, NULL), 0);
    assert_int_equal(elf_section_named(elf, ".eh_frame", &section), 0);
    elf_free(elf);
    srand(5);
    for (int round = 0; round < 2000; round++) {
        char *copy = malloc(size);
        struct unwind_table *table = NULL;
        memcpy(copy, data, size);
        for (int i = 0; i < 20; i++)
            copy[section.offset + (size_t)rand() % section.size] = (char)(rand() % 4 ? rand() : 0xff);
        assert_int_equal(elf_open_taken(copy, size, "lies", &elf, NULL), 0);
        int r = unwind_table_read(elf, &table);
        if (r == 0) {
            for (size_t i = 1; i < table->count; i++)
                assert_true(table->rows[i - 1].pc < table->rows[i].pc);
            unwind_table_free(table);
        }
        elf_free(elf);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_the_c_librarys_table),
                                       cmocka_unit_test(knows_signal_frames),
                                       cmocka_unit_test(knows_the_dynamic_linkers_assembly),
                                       cmocka_unit_test(tells_calls), cmocka_unit_test(survives_lies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
