/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/truncated.h"
#include "test.h"

/* Found again by name and by address below. */
int elf_landmark(int x);
__attribute__((noinline, used)) int elf_landmark(int x)
{
    __asm__ volatile("");
    return x + 41;
}
extern int elf_table[7];
__attribute__((used)) int elf_table[7] = {3, 1, 4, 1, 5, 9, 2};

static void finds_own_symbols(void **state)
{
    struct elf *elf = NULL;
    struct elf_symbol symbol, other;
    assert_int_equal(elf_open("/proc/self/exe", &elf, NULL), 0);
    assert_int_equal(elf_find(elf, "elf_landmark", &symbol), 0);
    assert_int_equal(symbol.type, STT_FUNC);
    assert_int_equal(symbol.section_type, SHT_PROGBITS);
    assert_true(symbol.size > 0);
    for (uint64_t at = 0; at < symbol.size; at++) {
        assert_int_equal(elf_symbol_at(elf, symbol.value + at, &other), 0);
        assert_string_equal(other.name, "elf_landmark");
    }
    uint8_t code[8];
    assert_int_equal(elf_read(elf, symbol.value, code, sizeof(code)), 0);
    assert_memory_equal(code, (const void *)elf_landmark, sizeof(code));

    assert_int_equal(elf_find(elf, "elf_table", &symbol), 0);
    assert_int_equal(symbol.size, sizeof(elf_table));
    int table[7];
    assert_int_equal(elf_read(elf, symbol.value, table, sizeof(table)), 0);
    assert_memory_equal(table, elf_table, sizeof(table));
    uint64_t offset, address;
    assert_int_equal(elf_address_to_offset(elf, symbol.value, &offset), 0);
    assert_int_equal(elf_offset_to_address(elf, offset, &address), 0);
    assert_int_equal(address, symbol.value);

    assert_int_equal(elf_find(elf, "elf_landmar", &symbol), -ENOENT);
    assert_int_equal(elf_find(elf, "", &symbol), -ENOENT);
    assert_int_equal(elf_read(elf, UINT64_MAX - 3, code, 8), -EFAULT);
    assert_int_equal(elf_symbol_at(elf, UINT64_MAX, &symbol), -ENOENT);
    assert_true(elf_function_count(elf) > 10);
    elf_free(elf);
}

static int count_them(const struct elf_symbol *symbol, void *context)
{
    assert_memory_equal(symbol->name, "elf_", 4);
    ++*(int *)context;
    return 0;
}

static int stop_at_first(const struct elf_symbol *symbol, void *context)
{
    ++*(int *)context;
    return 7;
}

static void walks_a_prefix(void **state)
{
    struct elf *elf = NULL;
    int count = 0;
    assert_int_equal(elf_open("/proc/self/exe", &elf, NULL), 0);
    assert_int_equal(elf_each_symbol(elf, "elf_", count_them, &count), 0);
    assert_true(count >= 10);
    count = 0;
    assert_int_equal(elf_each_symbol(elf, "", stop_at_first, &count), 7);
    assert_int_equal(count, 1);
    elf_free(elf);
}

/* What readelf prints is the oracle. */
static void build_id_is_readelfs(void **state)
{
    struct elf *elf = NULL;
    char line[512], expected[200] = "";
    assert_int_equal(elf_open("/lib/x86_64-linux-gnu/libc.so.6", &elf, NULL), 0);
    FILE *readelf = popen("readelf -n /lib/x86_64-linux-gnu/libc.so.6 2>/dev/null", "r");
    while (readelf && fgets(line, sizeof(line), readelf))
        sscanf(line, " Build ID: %199s", expected);
    pclose(readelf);
    if (!expected[0])
        skip();
    assert_string_equal(elf_build_id(elf), expected);
    elf_free(elf);
}

/* Without section headers the dynamic table still names the exported functions. */
static void reads_a_file_without_sections(void **state)
{
    char *data = NULL;
    size_t size;
    struct elf *elf = NULL, *whole = NULL;
    struct elf_symbol symbol, expected;
    assert_int_equal(file_read("/lib/x86_64-linux-gnu/libc.so.6", 64u << 20, &data, &size), 0);
    assert_int_equal(elf_open("/lib/x86_64-linux-gnu/libc.so.6", &whole, NULL), 0);
    ((Elf64_Ehdr *)data)->e_shoff = 0;
    ((Elf64_Ehdr *)data)->e_shnum = 0;
    assert_int_equal(elf_open_taken(data, size, "libc without sections", &elf, NULL), 0);
    assert_int_equal(elf_find(elf, "getaddrinfo", &symbol), 0);
    assert_int_equal(elf_find(whole, "getaddrinfo", &expected), 0);
    assert_int_equal(symbol.value, expected.value);
    assert_int_equal(symbol.size, expected.size);
    assert_int_equal(elf_symbol_at(elf, symbol.value + 5, &symbol), 0);
    assert_string_equal(symbol.name, "getaddrinfo");
    elf_free(elf);
    elf_free(whole);
}

/* Every query on files with random damage: nothing may be read outside (the sanitizers watch). */
static void survives_damage(void **state)
{
    char *data = NULL;
    size_t size;
    assert_int_equal(file_read("/proc/self/exe", 64u << 20, &data, &size), 0);
    Elf64_Ehdr *header = (Elf64_Ehdr *)data;
    srand(7);
    for (int round = 0; round < 300; round++) {
        size_t cut = round % 3 ? size : (size_t)rand() % size;
        char *copy = malloc(cut ? cut : 1);
        memcpy(copy, data, cut);
        for (int i = 0; i < 40; i++) {
            size_t where = rand() % 2
                               ? (size_t)rand() % cut
                               : (rand() % 2 ? (size_t)rand() % 1024
                                             : header->e_shoff + (size_t)rand() % (header->e_shnum * 64u));
            if (where < cut && where > 16)
                copy[where] = (char)(rand() % 3 ? rand() : 0xff);
        }
        struct elf *elf = NULL;
        if (elf_open_taken(copy, cut, "damaged", &elf, NULL) < 0)
            continue;
        struct elf_symbol symbol;
        struct elf_section section;
        int count = 0;
        char bytes[64];
        elf_find(elf, "elf_landmark", &symbol);
        for (int k = 0; k < 4; k++) /* with an index, too */
            elf_symbol_at(elf, 0x1234, &symbol);
        elf_each_symbol(elf, "elf_", count_them, &count);
        elf_section_named(elf, ".text", &section);
        for (uint64_t at = 0; at < 1 << 20; at += 4096)
            elf_read(elf, at, bytes, sizeof(bytes));
        elf_free(elf);
    }
    free(data);
}

/* A program or a library that is overwritten, and then truncated, while it is looked at. */
static void survives_being_overwritten(void **state)
{
    char *data = NULL, path[] = "/proc/self/fd/0000000000";
    size_t size;
    assert_int_equal(file_read("/proc/self/exe", 64u << 20, &data, &size), 0);
    truncated_expect();
    srand(8);
    for (int round = 0; round < 20; round++) {
        int fd = memfd_create("overwritten", MFD_CLOEXEC), count = 0;
        assert_int_equal(pwrite(fd, data, size, 0), size);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        struct elf *elf = NULL;
        struct elf_symbol symbol, other;
        struct elf_section section;
        assert_int_equal(elf_open(path, &elf, NULL), 0);
        assert_int_equal(elf_find(elf, "elf_landmark", &symbol), 0);
        for (int i = 0; i < 20; i++) /* more than are found without the table of names */
            elf_find(elf, i % 2 ? "nothing" : "elf_table", &other);
        assert_int_equal(elf_symbol_at(elf, symbol.value, &other), 0);
        uint64_t address = symbol.value, pages = truncated_pages();
        if (round % 2) {
            char *noise = malloc(size);
            for (size_t i = 0; i < size; i++)
                noise[i] = (char)(1 + rand() % 255); /* and no string ends */
            assert_int_equal(pwrite(fd, noise, size, 0), size);
            free(noise);
        } else {
            assert_int_equal(ftruncate(fd, round % 4 ? 0 : 5000), 0);
        }
        for (uint64_t at = address - 2000; at < address + 2000; at += 16)
            if (elf_symbol_at(elf, at, &symbol) == 0)
                assert_non_null(symbol.name);
        if (elf_find(elf, "elf_landmark", &symbol) == 0)
            assert_non_null(symbol.name);
        elf_find_exported(elf, "elf_landmark", &symbol);
        elf_each_symbol(elf, "elf_", count_them, &count);
        elf_section_named(elf, ".text", &section);
        assert_true(round % 2 || truncated_pages() > pages);
        elf_free(elf);
        close(fd);
    }
    free(data);
}

static void refuses_what_is_no_elf(void **state)
{
    struct elf *elf = NULL;
    struct problem problem;
    assert_int_equal(elf_open("/etc/passwd", &elf, &problem), -ENOEXEC);
    assert_non_null(strstr(problem.what, "not an ELF file"));
    assert_int_equal(elf_open("/", &elf, &problem), -ENOEXEC);
    assert_int_equal(elf_open("/nonexistent", &elf, &problem), -ENOENT);
    assert_int_equal(elf_open("/dev/null", &elf, &problem), -ENOEXEC);
    assert_null(elf);
}

static void indexes_can_be_forgotten(void **state)
{
    struct elf *elf = NULL;
    struct elf_symbol symbol, other;
    assert_int_equal(elf_open("/proc/self/exe", &elf, NULL), 0);
    assert_int_equal(elf_index_bytes(elf), 0);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 20; k++) /* the first ones need no index */
            assert_int_equal(elf_find(elf, "elf_landmark", &symbol), 0);
        for (int k = 0; k < 40; k++)
            assert_int_equal(elf_symbol_at(elf, symbol.value, &other), 0);
        assert_string_equal(other.name, "elf_landmark");
        assert_true(elf_index_bytes(elf) >= 16 * elf_function_count(elf));
        elf_forget_indexes(elf);
        assert_int_equal(elf_index_bytes(elf), 0);
    }
    elf_free(elf);
}

/* What is seldom asked is found without an index, what is asked more often by a small one, and is the same.
 */
static void functions_are_found_with_each_index_and_without(void **state)
{
    static const char *const FILES[] = {"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6"};
    for (size_t i = 0; i < ARRAY_SIZE(FILES); i++) {
        struct elf *with = NULL, *without = NULL, *often = NULL;
        struct elf_section text;
        size_t found = 0;
        assert_int_equal(elf_open(FILES[i], &with, NULL), 0);
        assert_int_equal(elf_open(FILES[i], &without, NULL), 0);
        assert_int_equal(elf_open(FILES[i], &often, NULL), 0);
        assert_true(elf_function_count(with) > 10);
        assert_int_equal(elf_section_named(with, ".text", &text), 0);
        for (uint64_t at = 0; at < text.size; at += text.size / 300 + 1) {
            struct elf_symbol a = {0}, b = {0}, c = {0};
            int r = elf_symbol_at(with, text.address + at, &a);
            elf_forget_indexes(without);
            assert_int_equal(elf_symbol_at(without, text.address + at, &b), r);
            assert_int_equal(elf_index_bytes(without), 0);
            assert_int_equal(elf_symbol_at(often, text.address + at, &c), r);
            if (r < 0)
                continue;
            assert_string_equal(a.name, b.name);
            assert_string_equal(a.name, c.name);
            assert_true(a.value == b.value && a.size == b.size && a.section == b.section);
            assert_true(a.value == c.value && a.size == c.size && a.section == c.section);
            found++;
        }
        assert_true(found > 30);
        assert_in_range(elf_index_bytes(often), 1, elf_index_bytes(with) / 2);
        elf_free(with);
        elf_free(without);
        elf_free(often);
    }
}

enum { CROWD = 6000 };

/* A file that says that its code reaches far, with all of its functions at the beginning. */
static struct elf *crowded(void)
{
    static const char names[] = "\0one\0.text";
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr code;
        Elf64_Shdr sections[4];
        Elf64_Sym symbols[CROWD];
        char names[sizeof(names)];
    } *f = calloc(1, sizeof(*f));
    struct elf *elf = NULL;
    assert_non_null(f);
    f->head = (Elf64_Ehdr){.e_type = ET_DYN,
                           .e_machine = EM_X86_64,
                           .e_phoff = (size_t)((char *)&f->code - (char *)f),
                           .e_phentsize = sizeof(Elf64_Phdr),
                           .e_phnum = 1,
                           .e_shoff = (size_t)((char *)f->sections - (char *)f),
                           .e_shentsize = sizeof(Elf64_Shdr),
                           .e_shnum = ARRAY_SIZE(f->sections)};
    memcpy(f->head.e_ident, ELFMAG, SELFMAG);
    f->head.e_ident[EI_CLASS] = ELFCLASS64;
    f->head.e_ident[EI_DATA] = ELFDATA2LSB;
    f->code = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = 1ull << 46};
    f->sections[1] = (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_flags = SHF_EXECINSTR, .sh_size = 1ull << 46};
    f->sections[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                  .sh_offset = (size_t)((char *)f->symbols - (char *)f),
                                  .sh_size = sizeof(f->symbols),
                                  .sh_link = 3};
    f->sections[3] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                  .sh_offset = (size_t)((char *)f->names - (char *)f),
                                  .sh_size = sizeof(f->names)};
    memcpy(f->names, names, sizeof(names));
    for (size_t i = 0; i < CROWD; i++)
        f->symbols[i] = (Elf64_Sym){.st_name = 1,
                                    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                    .st_shndx = 1,
                                    .st_value = 16 * (i * 7919 % CROWD),
                                    .st_size = 16};
    assert_int_equal(elf_open_taken(f, sizeof(*f), "crowded", &elf, NULL), 0);
    return elf;
}

/* Then they are sorted, once it shows. */
static void a_crowd_of_functions_is_sorted(void **state)
{
    struct elf *elf = crowded();
    struct elf_symbol symbol;
    size_t small = 0;
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t at = 16 * (i * 31 % CROWD) + i % 16;
        assert_int_equal(elf_symbol_at(elf, at, &symbol), 0);
        assert_true(symbol.value == at - i % 16);
        small = i == 10 ? elf_index_bytes(elf) : small;
    }
    assert_in_range(small, 4 * CROWD, 8 * CROWD);
    assert_true(elf_index_bytes(elf) >= small + 16ul * CROWD);
    assert_int_equal(elf_symbol_at(elf, 16 * CROWD, &symbol), -ENOENT);
    elf_free(elf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_own_symbols),
                                       cmocka_unit_test(walks_a_prefix),
                                       cmocka_unit_test(build_id_is_readelfs),
                                       cmocka_unit_test(reads_a_file_without_sections),
                                       cmocka_unit_test(survives_damage),
                                       cmocka_unit_test(survives_being_overwritten),
                                       cmocka_unit_test(refuses_what_is_no_elf),
                                       cmocka_unit_test(indexes_can_be_forgotten),
                                       cmocka_unit_test(functions_are_found_with_each_index_and_without),
                                       cmocka_unit_test(a_crowd_of_functions_is_sorted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
