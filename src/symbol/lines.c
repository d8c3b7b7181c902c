/* Lines through elfutils' libdw, which reads units as they are asked for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

/* What libdw would read of a larger one costs more memory than lines are worth. */
#define DEBUG_INFO_LIMIT (512ull << 20)

struct lines {
    Elf *elf;
    Dwarf *dwarf;
};

size_t lines_cost(struct elf *elf)
{
    struct elf_section section;
    size_t cost = 0;
    for (size_t i = 0; elf_section_at(elf, i, &section) == 0; i++) {
        Elf64_Chdr header;
        if (strncmp(section.name, ".debug_", 7) != 0 || !section.data)
            continue;
        if (section.flags & SHF_COMPRESSED && section.size >= sizeof(header)) {
            memcpy(&header, section.data, sizeof(header));
            cost += header.ch_size;
        } else {
            cost += section.size / 4;
        }
    }
    return cost;
}

int lines_open(struct elf *elf, struct lines **ret_lines)
{
    struct elf_section section;
    bool there = elf_section_named(elf, ".debug_info", &section) == 0 && section.type == SHT_PROGBITS;
    if (!there || section.size > DEBUG_INFO_LIMIT)
        return -ENOENT;
    struct lines *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    elf_version(EV_CURRENT);
    char *image = elf_scratch(elf); /* libdw marks in the headers what it has decompressed */
    l->elf = image ? elf_memory(image, elf_size(elf)) : NULL;
    l->dwarf = l->elf ? dwarf_begin_elf(l->elf, DWARF_C_READ, NULL) : NULL;
    if (!l->dwarf) {
        lines_free(l);
        return -ENOENT;
    }
    *ret_lines = l;
    return 0;
}

void lines_free(struct lines *l)
{
    if (!l)
        return;
    dwarf_end(l->dwarf);
    elf_end(l->elf);
    free(l);
}

/* The function, not inlined, that holds the address. */
static bool function_at(Dwarf_Die *unit, uint64_t address, struct line_position *ret)
{
    Dwarf_Die *scopes = NULL;
    int count = dwarf_getscopes(unit, address, &scopes), line = 0;
    bool found = false;
    for (int i = 0; i < count && !found; i++) {
        if (dwarf_tag(&scopes[i]) != DW_TAG_subprogram || dwarf_decl_line(&scopes[i], &line) != 0)
            continue;
        ret->file = dwarf_decl_file(&scopes[i]);
        ret->line = (uint32_t)line;
        ret->column = 0;
        found = ret->file != NULL;
    }
    free(scopes);
    return found;
}

int lines_find(struct lines *l, uint64_t address, bool function, struct line_position *ret_position)
{
    Dwarf_Die unit;
    int number = 0, column = 0;
    if (!dwarf_addrdie(l->dwarf, address, &unit))
        return -ENOENT;
    if (function && function_at(&unit, address, ret_position))
        return 0;
    Dwarf_Line *line = dwarf_getsrc_die(&unit, address);
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!file || dwarf_lineno(line, &number) != 0 || number <= 0)
        return -ENOENT;
    dwarf_linecol(line, &column);
    *ret_position = (struct line_position){file, (uint32_t)number, (uint32_t)column};
    return 0;
}
