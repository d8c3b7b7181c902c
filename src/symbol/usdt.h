/* Probes that a program's author put into it (SystemTap's user space probes, sys/sdt.h): where they are.
 *
 * They are notes of the section .note.stapsdt, of the name "stapsdt" and type 3; a note's content, padded to
 * 4 bytes like its name:
 *
 *   0   8 address of the instruction (a nop)
 *   8   8 address of the section .stapsdt.base when the file was linked: addresses differ from those here by
 * as much as that differs 16  8 address of the semaphore, 0: none; 2 bytes in .probes, which say how many
 * watch the probe. A program may do what leads to the probe only then 24  ... provider, name and arguments, a
 * string each */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_USDT_H
#define SYMBOL_USDT_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/elf.h"

/* Offsets in the file. */
struct usdt_place {
    uint64_t offset;
    uint64_t semaphore; /* 0: none */
};

/* All places of a probe, at most `most`: how many were found, 0 when there is none. */
size_t usdt_find(const struct elf *elf, const char *provider, const char *name, struct usdt_place *ret_places,
                 size_t most);

#endif
