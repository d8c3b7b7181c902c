/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/debugfile.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "test.h"

static const char NAMES[] = "\0.gnu_debuglink\0.shstrtab";

struct image {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    char names[sizeof(NAMES)];
    char link[16]; /* "x.debug", NUL, checksum, filler */
};

static void make(struct image *h, uint32_t sum, uint8_t filler)
{
    memset(h, 0, sizeof(*h));
    memcpy(h->header.e_ident, ELFMAG, SELFMAG);
    h->header.e_ident[EI_CLASS] = ELFCLASS64;
    h->header.e_ident[EI_DATA] = ELFDATA2LSB;
    h->header.e_shoff = offsetof(struct image, sections);
    h->header.e_shentsize = sizeof(Elf64_Shdr);
    h->header.e_shnum = 3;
    h->header.e_shstrndx = 2;
    h->sections[1] = (Elf64_Shdr){
        .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = offsetof(struct image, link), .sh_size = 12};
    h->sections[2] = (Elf64_Shdr){.sh_name = 16,
                                  .sh_type = SHT_STRTAB,
                                  .sh_offset = offsetof(struct image, names),
                                  .sh_size = sizeof(NAMES)};
    memcpy(h->names, NAMES, sizeof(NAMES));
    memcpy(h->link, "x.debug", 8);
    memcpy(h->link + 8, &sum, 4);
    h->link[15] = (char)filler;
}

static void follows_the_link_when_the_checksum_fits(void **state)
{
    char folder[TEST_PATH], path[TEST_PATH + 32], module[TEST_PATH + 32];
    struct image debug, program;
    struct elf *elf = NULL, *found = NULL;
    assert_non_null(mkdtemp(test_path(folder)));
    unsetenv("DEBUGINFOD_URLS");
    make(&debug, 0, 7);
    make(&program, (uint32_t)crc32(0, (const Bytef *)&debug, sizeof(debug)), 0);
    snprintf(module, sizeof(module), "%s/program", folder);
    assert_int_equal(elf_open_bytes(&program, sizeof(program), "program", &elf, NULL), 0);
    assert_int_equal(debugfile_open(getpid(), module, elf, &found), -ENOENT);
    for (int hidden = 0; hidden < 2; hidden++) { /* beside it, and in .debug */
        snprintf(path, sizeof(path), "%s/.debug", folder);
        assert_int_equal(mkdir(path, 0700) < 0 && errno != EEXIST, 0);
        snprintf(path, sizeof(path), "%s/%sx.debug", folder, hidden ? ".debug/" : "");
        assert_int_equal(file_replace(path, (const char *)&debug, sizeof(debug)), 0);
        assert_int_equal(debugfile_open(getpid(), module, elf, &found), 0);
        assert_memory_equal(elf_data(found), &debug, sizeof(debug));
        elf_free(found);
        debug.link[15]++; /* another build's */
        assert_int_equal(file_replace(path, (const char *)&debug, sizeof(debug)), 0);
        assert_int_equal(debugfile_open(getpid(), module, elf, &found), -ENOENT);
        debug.link[15]--;
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/.debug", folder);
    rmdir(path);
    rmdir(folder);
    elf_free(elf);
}

static void a_lying_link_leads_nowhere(void **state)
{
    struct image program;
    struct elf *elf = NULL, *found = NULL;
    make(&program, 0, 0);
    memcpy(program.link, "../../x", 8); /* out of the places to look at */
    assert_int_equal(elf_open_bytes(&program, sizeof(program), "program", &elf, NULL), 0);
    assert_int_equal(debugfile_open(getpid(), "/tmp/program", elf, &found), -ENOENT);
    elf_free(elf);
    make(&program, 0, 0);
    program.sections[1].sh_size = 5; /* no end, no checksum */
    assert_int_equal(elf_open_bytes(&program, sizeof(program), "program", &elf, NULL), 0);
    assert_int_equal(debugfile_open(getpid(), "/tmp/program", elf, &found), -ENOENT);
    elf_free(elf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(follows_the_link_when_the_checksum_fits),
                                       cmocka_unit_test(a_lying_link_leads_nowhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
