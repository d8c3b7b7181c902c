/* ELF files: headers, symbols, build-id, .eh_frame, USDT probes, and V8's layout symbols. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/elf.h"
#include "symbol/usdt.h"
#include "unwind/ehframe.h"
#include "targets/node/unwind_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit(const struct elf_symbol *symbol, void *context)
{
    *(size_t *)context += strlen(symbol->name) + (size_t)symbol->size;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf *elf = NULL;
    struct unwind_table *table = NULL;
    struct elf_symbol symbol;
    struct elf_section section;
    struct v8_layout layout;
    struct usdt_place places[4];
    uint64_t address;
    size_t sum = 0;
    char bytes[64];
    if (elf_open_bytes(data, size, "input", &elf, NULL) < 0)
        return 0;
    elf_find(elf, "main", &symbol);
    elf_each_symbol(elf, "", visit, &sum);
    elf_section_named(elf, ".text", &section);
    for (uint64_t at = 0; at < 1 << 16; at += 997) {
        elf_symbol_at(elf, at, &symbol);
        elf_read(elf, at, bytes, sizeof(bytes));
        elf_offset_to_address(elf, at, &address);
    }
    if (unwind_table_read(elf, &table) == 0) {
        for (size_t i = 1; i < table->count; i++)
            if (table->rows[i - 1].pc >= table->rows[i].pc)
                abort();
        unwind_table_find(table, table->base + 5);
    }
    usdt_find(elf, "unit", "once", places, 4);
    v8_layout_read(elf, &layout, NULL);
    unwind_table_free(table);
    elf_free(elf);
    return 0;
}
