/* Where goroutines wait, in a program made up here: what is found in it, and that one that lies has no
 * places. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/goroutines.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum {
    TEXT = 0x1000,
    TABLE = 0x2000,
    INFO = 0x3000,
    NAMES = 0x3800,
    MODULE = 0x3400,
    SECTIONS = 0x3900,
    SIZE = 0x4000
};
#define ADDRESS 0x400000ull
enum { WAITS_AT = 0x100, LETS_GO_AT = 0x180, END_AT = 0x200 }; /* of functions, in the text */

/* cmp 0x10(%r14),%rsp; jbe to the last two instructions; push; pop; ret; ret; call; jmp to the beginning. */
static const uint8_t WAITS[] = {0x49, 0x3b, 0x66, 0x10, 0x76, 4, 0x50, 0x58, 0xc3,
                                0xc3, 0xe8, 0,    0,    0,    0, 0xeb, 0xef};
static const uint8_t LETS_GO[] = {0x49, 0x3b, 0x66, 0x10, 0x76, 1, 0xc3, 0xe8, 0, 0, 0, 0, 0xeb, 0xf2};

struct program {
    uint8_t *at;
    uint8_t *waits, *lets_go; /* code */
    uint32_t *functions;      /* {offset in the text, record} of each, and the end */
};

static void put_word(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

static void put_section(uint8_t *file, int i, uint32_t name, uint64_t offset, uint64_t size)
{
    Elf64_Shdr section = {.sh_name = name,
                          .sh_type = name == 1 ? SHT_STRTAB : SHT_PROGBITS,
                          .sh_flags = SHF_ALLOC,
                          .sh_addr = ADDRESS + offset,
                          .sh_offset = offset,
                          .sh_size = size};
    memcpy(file + SECTIONS + (size_t)i * sizeof(section), &section, sizeof(section));
}

/* Its table is that of Go 1.18: header, names at 0x100, functions at 0x200. */
static struct program make(const char *waits, const char *lets_go, const char *version)
{
    struct program p = {.at = calloc(1, SIZE)};
    uint8_t *table = p.at + TABLE;
    Elf64_Ehdr head = {.e_type = ET_EXEC,
                       .e_machine = EM_X86_64,
                       .e_version = 1,
                       .e_phoff = sizeof(head),
                       .e_shoff = SECTIONS,
                       .e_ehsize = sizeof(head),
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 1,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = 5,
                       .e_shstrndx = 1};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = 1;
    Elf64_Phdr load = {
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = ADDRESS, .p_filesz = SIZE, .p_memsz = SIZE};
    memcpy(p.at, &head, sizeof(head));
    memcpy(p.at + sizeof(head), &load, sizeof(load));
    memcpy(p.at + NAMES, "\0.shstrtab\0.gopclntab\0.go.buildinfo\0.go.module", 47);
    put_section(p.at, 1, 1, NAMES, 48);
    put_section(p.at, 2, 11, TABLE, 0x400);
    put_section(p.at, 3, 22, INFO, 64);
    put_section(p.at, 4, 36, MODULE, 0x200);
    memcpy(p.at + INFO, "\xff Go buildinf:\x08\x02", 16);
    p.at[INFO + 32] = (uint8_t)strlen(version);
    memcpy(p.at + INFO + 33, version, strlen(version));
    memcpy(table, "\xf0\xff\xff\xff\0\0\1\10", 8);
    const uint64_t words[] = {2, 0, ADDRESS + TEXT, 0x100, 0, 0, 0x300, 0x200};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        put_word(table + 8 + 8 * i, words[i]);
    strcpy((char *)table + 0x100, waits);
    strcpy((char *)table + 0x180, lets_go);
    const uint32_t functions[] = {WAITS_AT, 0x40, LETS_GO_AT, 0x60, END_AT};
    memcpy(table + 0x200, functions, sizeof(functions));
    *(uint32_t *)(table + 0x200 + 0x40 + 4) = 0; /* where their names lie */
    *(uint32_t *)(table + 0x200 + 0x60 + 4) = 0x80;
    p.functions = (uint32_t *)(table + 0x200);
    p.waits = p.at + TEXT + WAITS_AT;
    p.lets_go = p.at + TEXT + LETS_GO_AT;
    memset(p.at + TEXT, 0xcc, END_AT);
    memcpy(p.waits, WAITS, sizeof(WAITS));
    memcpy(p.lets_go, LETS_GO, sizeof(LETS_GO));
    return p;
}

static struct program usual(void)
{
    return make("sync.(*Mutex).lockSlow", "sync.(*Mutex).unlockSlow", "go1.19.8");
}

/* How many places are found; a negative errno. Frees the program. */
static int places_of(struct program *p, struct sampler_place places[8])
{
    _cleanup_(elf_freep) struct elf *elf = NULL;
    size_t count = 77;
    assert_int_equal(elf_open_taken(p->at, SIZE, "program", &elf, NULL), 0);
    int r = goroutines_places(elf, places, 8, &count);
    assert_true(r >= 0 || count == 77);
    return r < 0 ? r : (int)count;
}

static void a_program_of_go(void **state)
{
    struct sampler_place places[8];
    struct program p = usual();
    assert_int_equal(places_of(&p, places), 4);
    /* behind the check of the stack, after which the function may begin again */
    assert_int_equal(places[0].function, GO_WAITS);
    assert_int_equal(places[0].offset, TEXT + WAITS_AT + 6);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(places[i].function, GO_IS_BACK);
        assert_int_equal(places[i].offset, TEXT + WAITS_AT + 7 + i);
        assert_int_equal(places[i].bytes, places[0].bytes);
    }
    assert_int_equal(places[3].function, GO_LETS_GO);
    assert_int_equal(places[3].offset, TEXT + LETS_GO_AT + 6);
    assert_int_equal(SAMPLER_GO_OFFSET(places[0].bytes), 152);
    p = make("internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).unlockSlow", "go1.24");
    assert_int_equal(places_of(&p, places), 4);
    assert_int_equal(SAMPLER_GO_OFFSET(places[0].bytes), 160);
    p = make("runtime.semacquire1", "runtime.semrelease1", "devel +7a8b9c0d");
    assert_int_equal(places_of(&p, places), 4);
    assert_int_equal(SAMPLER_GO_OFFSET(places[0].bytes), 0);
    p = make("main.main", "main.other", "go1.19");
    assert_int_equal(places_of(&p, places), 0);
}

/* Since 1.26 another table says where the text begins. */
static void where_the_text_begins(void **state)
{
    struct sampler_place places[8];
    struct program p = usual();
    put_word(p.at + TABLE + 24, 0);
    assert_int_equal(places_of(&p, places), 0);
    p = usual();
    put_word(p.at + TABLE + 24, 0);
    put_word(p.at + MODULE + 176, ADDRESS + TEXT);
    assert_int_equal(places_of(&p, places), 4);
    assert_int_equal(places[0].offset, TEXT + WAITS_AT + 6);
    p = usual();
    put_word(p.at + TABLE + 24, 0);
    put_word(p.at + MODULE + 176, UINT64_MAX - 8);
    assert_int_equal(places_of(&p, places), -EBADMSG);
}

static void refused(struct program p)
{
    struct sampler_place places[8];
    assert_int_equal(places_of(&p, places), -EBADMSG);
}

static void one_that_lies_has_none(void **state)
{
    struct program p = usual();
    p.waits[8] = p.waits[9] = 0x90; /* it never returns */
    refused(p);
    p = usual();
    p.waits[0] = 0x90; /* it does not look at a stack's limit: R14 is no goroutine */
    refused(p);
    p = usual();
    p.waits[3] = 0x18;
    refused(p);
    p = usual();
    p.waits[5] = 5; /* it jumps into an instruction */
    refused(p);
    p = usual();
    p.waits[5] = 0x7f; /* out of the function */
    p.functions[2] = WAITS_AT + sizeof(WAITS);
    refused(p);
    p = usual();
    p.functions[2] = WAITS_AT + sizeof(WAITS) - 1; /* it ends within one */
    refused(p);
    p = usual();
    p.waits[9] = 0xcb; /* a far return */
    refused(p);
    p = usual();
    memcpy(p.waits + 8, "\xff\xe0", 2); /* jmp *%rax */
    refused(p);
    p = usual();
    memset(p.waits + 6, 0xc3, 0x70); /* more returns than such a function has */
    refused(p);
    p = usual();
    p.functions[4] = 0x100000; /* it is longer than the file */
    refused(p);
    p = usual();
    p.functions[2] = WAITS_AT - 1; /* it ends before it begins: half of the two is not enough */
    refused(p);
    p = make("sync.(*Mutex).lockSlow", "main.other", "go1.19");
    refused(p);
}

/* Nothing but what was made is read, whichever byte of its tables is another. */
static void any_byte_may_be_another(void **state)
{
    struct sampler_place places[8];
    for (size_t at = 0; at < 0x400; at++)
        for (int value = 0; value < 256; value += 51) {
            struct program p = usual();
            p.at[TABLE + at] = (uint8_t)value;
            (void)places_of(&p, places);
        }
    for (size_t at = 0; at < 64; at++) {
        struct program p = usual();
        p.at[INFO + at] ^= 0xff;
        (void)places_of(&p, places);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_of_go),
        cmocka_unit_test(where_the_text_begins),
        cmocka_unit_test(one_that_lies_has_none),
        cmocka_unit_test(any_byte_may_be_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
