/* See stripped.h. Formats: System V ABI, AMD64 supplement; LSB core, "Exception frames" (.eh_frame_hdr). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/stripped.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

enum {
    POINTER_PCREL_S4 = 0x1b, /* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
    COUNT_U4 = 0x03,         /* DW_EH_PE_udata4 */
    TABLE_DATAREL_S4 = 0x3b, /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */
    HEADER_BYTES = 12        /* version and three encodings, pointer, count */
};

/* The last function that begins at or before an address: where, and its length. */
static int function_before(const struct elf *elf, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
    struct elf_section header;
    if (elf_section_named(elf, ".eh_frame_hdr", &header) < 0 || !header.data || header.size < HEADER_BYTES ||
        header.data[0] != 1 || header.data[2] != COUNT_U4 || header.data[3] != TABLE_DATAREL_S4)
        return -ENOENT;
    uint32_t count, low = 0;
    memcpy(&count, header.data + 8, sizeof(count));
    if (count > (header.size - HEADER_BYTES) / 8)
        return -ENOENT;
    /* Rows of { function, its description }, both relative to the header, in order of the function. */
    int32_t row[2];
    for (uint32_t high = count; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        memcpy(row, header.data + HEADER_BYTES + 8 * (size_t)middle, sizeof(row));
        if (header.address + (uint64_t)(int64_t)row[0] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return -ENOENT;
    memcpy(row, header.data + HEADER_BYTES + 8 * (size_t)(low - 1), sizeof(row));
    uint64_t start = header.address + (uint64_t)(int64_t)row[0],
             at = header.address + (uint64_t)(int64_t)row[1];
    /* length, CIE, begin (relative to itself), bytes; what the CIE says of encodings is checked by begin
       being right */
    uint32_t words[4];
    if (elf_read(elf, at, words, sizeof(words)) < 0 ||
        at + 8 + (uint64_t)(int64_t)(int32_t)words[2] != start || !words[3])
        return -ENOENT;
    *ret_start = start;
    *ret_size = words[3];
    return 0;
}

int stripped_function(const struct elf *elf, uint64_t address, uint64_t *ret_size)
{
    uint64_t start, size;
    if (function_before(elf, address, &start, &size) < 0 || start != address)
        return -ENOENT;
    *ret_size = size;
    return 0;
}

int stripped_function_of(const struct elf *elf, uint64_t address, uint64_t *ret_start)
{
    uint64_t start, size;
    if (function_before(elf, address, &start, &size) < 0 || address - start >= size)
        return -ENOENT;
    *ret_start = start;
    return 0;
}

/* Where the entry reads its target from: [endbr64] [bnd] jmp *disp(%rip). 0 when it is none. */
static uint64_t linkage_slot(const struct elf *elf, uint64_t address)
{
    static const uint8_t ENDBR64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    const uint8_t *code = elf_bytes(elf, address, 16, NULL);
    if (!code)
        return 0;
    size_t at = memcmp(code, ENDBR64, sizeof(ENDBR64)) == 0 ? sizeof(ENDBR64) : 0;
    at += code[at] == 0xf2;
    if (code[at] != 0xff || code[at + 1] != 0x25)
        return 0;
    int32_t distance;
    memcpy(&distance, code + at + 2, sizeof(distance));
    return address + at + 6 + (uint64_t)(int64_t)distance;
}

void stripped_pointers(const struct elf *elf, uint64_t address, uint64_t stride, uint64_t *values,
                       size_t count)
{
    struct elf_section relocations;
    memset(values, 0, count * sizeof(*values));
    if (elf_section_named(elf, ".rela.dyn", &relocations) < 0 || !relocations.data)
        return;
    for (size_t i = 0; i < relocations.size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela rela;
        memcpy(&rela, relocations.data + i * sizeof(rela), sizeof(rela));
        uint64_t distance = rela.r_offset - address;
        if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE && distance / stride < count &&
            distance % stride == 0)
            values[distance / stride] = (uint64_t)rela.r_addend;
    }
}

int stripped_pointer(const struct elf *elf, uint64_t address, uint64_t *ret_value)
{
    stripped_pointers(elf, address, 8, ret_value, 1);
    return *ret_value ? 0 : -ENOENT;
}

const char *stripped_linkage(const struct elf *elf, uint64_t address)
{
    static const char *const RELOCATIONS[] = {".rela.plt", ".rela.dyn"};
    uint64_t slot = linkage_slot(elf, address);
    struct elf_section symbols, strings, relocations;
    if (!slot || elf_section_named(elf, ".dynsym", &symbols) < 0 || !symbols.data ||
        elf_section_named(elf, ".dynstr", &strings) < 0 || !strings.data || !strings.size ||
        strings.data[strings.size - 1])
        return NULL;
    for (size_t k = 0; k < sizeof(RELOCATIONS) / sizeof(RELOCATIONS[0]); k++) {
        if (elf_section_named(elf, RELOCATIONS[k], &relocations) < 0 || !relocations.data)
            continue;
        for (size_t i = 0; i < relocations.size / sizeof(Elf64_Rela); i++) {
            Elf64_Rela rela;
            memcpy(&rela, relocations.data + i * sizeof(rela), sizeof(rela));
            if (rela.r_offset != slot)
                continue;
            Elf64_Sym symbol;
            uint64_t number = ELF64_R_SYM(rela.r_info);
            if (number >= symbols.size / sizeof(symbol))
                return NULL;
            memcpy(&symbol, symbols.data + number * sizeof(symbol), sizeof(symbol));
            return symbol.st_name < strings.size ? (const char *)strings.data + symbol.st_name : NULL;
        }
    }
    return NULL;
}
