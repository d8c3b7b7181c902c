/* The probes of this program itself, of files that end early, and of notes that lie. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/usdt.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../system/programs/probe.h"
#include "test.h"

extern volatile unsigned short usdt_watched;
volatile unsigned short usdt_watched __attribute__((section(".probes")));

__attribute__((noinline, used)) static void usdt_once(void)
{
    PROBE("unit", "once", "0");
}

__attribute__((noinline, used)) static void usdt_twice(void)
{
    PROBE("unit", "twice", "usdt_watched");
    PROBE("unit", "twice", "usdt_watched");
    PROBE("other", "once", "0");
}

static struct elf *own(void)
{
    struct elf *elf;
    assert_int_equal(elf_open("/proc/self/exe", &elf, NULL), 0);
    return elf;
}

static void assert_within(struct elf *elf, const char *function, uint64_t offset)
{
    struct elf_symbol symbol;
    uint64_t from;
    assert_int_equal(elf_find(elf, function, &symbol), 0);
    assert_int_equal(elf_address_to_offset(elf, symbol.value, &from), 0);
    assert_in_range(offset, from, from + symbol.size - 1);
    assert_int_equal(elf_data(elf)[offset], 0x90); /* nop */
}

static void finds_all_places(void **state)
{
    (void)state;
    struct elf *elf = own();
    struct elf_symbol semaphore;
    struct usdt_place places[4];
    uint64_t offset;
    assert_int_equal(usdt_find(elf, "unit", "once", places, 4), 1);
    assert_within(elf, "usdt_once", places[0].offset);
    assert_int_equal(places[0].semaphore, 0);
    assert_int_equal(usdt_find(elf, "unit", "twice", places, 4), 2);
    assert_int_equal(elf_find(elf, "usdt_watched", &semaphore), 0);
    assert_int_equal(elf_address_to_offset(elf, semaphore.value, &offset), 0);
    for (int i = 0; i < 2; i++) {
        assert_within(elf, "usdt_twice", places[i].offset);
        assert_int_equal(places[i].semaphore, offset);
    }
    assert_true(places[0].offset != places[1].offset);
    assert_int_equal(usdt_find(elf, "unit", "twice", places, 1), 1);
    assert_int_equal(usdt_find(elf, "unit", "never", places, 4), 0);
    assert_int_equal(usdt_find(elf, "units", "once", places, 4), 0);
    elf_free(elf);
}

/* Whatever its notes say, nothing outside of the file is read. */
static void notes_that_lie(void **state)
{
    (void)state;
    struct elf *elf = own(), *copy;
    struct elf_section notes;
    struct usdt_place places[4];
    assert_int_equal(elf_section_named(elf, ".note.stapsdt", &notes), 0);
    size_t size = elf_size(elf), at = (size_t)(notes.data - elf_data(elf));
    for (size_t word = 0; word < 3; word++)
        for (uint32_t value = 0; value < 3; value++) {
            static const uint32_t LIES[] = {0xffffffff, 0x7fffffff, 25};
            uint8_t *bytes = malloc(size);
            assert_non_null(bytes);
            memcpy(bytes, elf_data(elf), size);
            memcpy(bytes + at + 4 * word, &LIES[value], 4);
            assert_int_equal(elf_open_taken(bytes, size, "lies", &copy, NULL), 0);
            assert_in_range(usdt_find(copy, "unit", "once", places, 4), 0, 1);
            elf_free(copy);
        }
    elf_free(elf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_all_places),
        cmocka_unit_test(notes_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
