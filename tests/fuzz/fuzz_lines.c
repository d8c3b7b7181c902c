/* DWARF: units, functions, lines and inlined functions of a file that anybody may have written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/elf.h"
#include "symbol/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf *elf = NULL;
    struct lines *lines = NULL;
    struct line_inlined inlined[8];
    struct line_position position;
    struct elf_segment segment;
    size_t sum = 0;                /* of all text: it must be readable */
    void *copy = malloc(size + 1); /* of a file that is not its own, no lines are read (elf_scratch()) */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (elf_open_taken(copy, size, "input", &elf, NULL) < 0)
        return 0;
    if (lines_open(elf, &lines) == 0)
        for (size_t i = 0; i < 16 && elf_segment_at(elf, i, &segment) == 0; i++)
            for (uint64_t at = 0; at < 4096; at += 61) {
                if (lines_find(lines, segment.address + at, at & 1, &position) == 0)
                    sum += strlen(position.file);
                size_t count = lines_inlined(lines, segment.address + at, inlined, 8);
                for (size_t k = 0; k < count; k++)
                    sum += strlen(inlined[k].name) +
                           (inlined[k].call.file ? strlen(inlined[k].call.file) : 0) +
                           (inlined[k].declared.file ? strlen(inlined[k].declared.file) : 0);
            }
    lines_free(lines);
    elf_free(elf);
    __asm__ volatile("" : : "r"(sum));
    return 0;
}
