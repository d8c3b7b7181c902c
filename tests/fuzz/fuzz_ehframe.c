/* .eh_frame alone, in an ELF file made around it: every byte of the input is unwind rules. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/ehframe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char NAMES[] = "\0.eh_frame\0.shstrtab";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr load;
        Elf64_Shdr sections[3];
        char names[sizeof(NAMES)];
    } h = {0};
    struct elf *elf = NULL;
    struct unwind_table *table = NULL;
    memcpy(h.header.e_ident, ELFMAG, SELFMAG);
    h.header.e_ident[EI_CLASS] = ELFCLASS64;
    h.header.e_ident[EI_DATA] = ELFDATA2LSB;
    h.header.e_type = ET_DYN;
    h.header.e_machine = EM_X86_64;
    h.header.e_entry = 0x1234;
    h.header.e_phoff = sizeof(h.header);
    h.header.e_phentsize = sizeof(h.load);
    h.header.e_phnum = 1;
    h.header.e_shoff = offsetof(__typeof__(h), sections);
    h.header.e_shentsize = sizeof(Elf64_Shdr);
    h.header.e_shnum = 3;
    h.header.e_shstrndx = 2;
    h.load = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_X | PF_R, .p_filesz = sizeof(h) + size, .p_memsz = sizeof(h) + size};
    h.sections[1] = (Elf64_Shdr){.sh_name = 1,
                                 .sh_type = SHT_PROGBITS,
                                 .sh_flags = SHF_ALLOC,
                                 .sh_addr = sizeof(h),
                                 .sh_offset = sizeof(h),
                                 .sh_size = size};
    h.sections[2] = (Elf64_Shdr){.sh_name = 11,
                                 .sh_type = SHT_STRTAB,
                                 .sh_offset = offsetof(__typeof__(h), names),
                                 .sh_size = sizeof(h.names)};
    memcpy(h.names, NAMES, sizeof(NAMES));
    uint8_t *image = malloc(sizeof(h) + size);
    if (!image)
        return 0;
    memcpy(image, &h, sizeof(h));
    memcpy(image + sizeof(h), data, size);
    if (elf_open_taken(image, sizeof(h) + size, "input", &elf, NULL) < 0)
        abort();
    if (unwind_table_read(elf, &table) == 0) {
        for (size_t i = 1; i < table->count; i++)
            if (table->rows[i - 1].pc >= table->rows[i].pc)
                abort();
        for (uint64_t at = 0; at < 1 << 14; at += 61)
            unwind_table_find(table, at);
    }
    unwind_table_free(table);
    elf_free(elf);
    return 0;
}
