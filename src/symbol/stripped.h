/* What a stripped file still tells: where its functions begin and end (its unwind tables), which function of
 * another file a call goes to (its procedure linkage table), what its pointers will hold (its relocations).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_STRIPPED_H
#define SYMBOL_STRIPPED_H

#include <stdint.h>

#include "symbol/elf.h"

/* The function that begins at exactly this address of the file's image, and its length in bytes. -ENOENT when
 * none does, or the file has no search table (.eh_frame_hdr). */
int stripped_function(const struct elf *elf, uint64_t address, uint64_t *ret_size);

/* Where the function begins that this address lies in; -ENOENT as above. */
int stripped_function_of(const struct elf *elf, uint64_t address, uint64_t *ret_start);

/* The name of the function that the linkage entry at this address jumps to, in the file's string table; NULL
 * when the address is none of an entry. */
const char *stripped_linkage(const struct elf *elf, uint64_t address);

/* The address that a position-independent file's pointer at this address will hold, before the load bias is
 * added; -ENOENT when nothing will be put there. */
int stripped_pointer(const struct elf *elf, uint64_t address, uint64_t *ret_value);

/* The same of a table: values[i] for the pointer at address + i * stride, for i < count; 0 where nothing will
 * be put. */
void stripped_pointers(const struct elf *elf, uint64_t address, uint64_t stride, uint64_t *values,
                       size_t count);

#endif
