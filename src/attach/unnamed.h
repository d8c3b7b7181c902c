/* The functions of libuv that a stripped library (Debian's libuv.so) has no symbol for, found in the machine
 * code of the exported functions that use them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_UNNAMED_H
#define ATTACH_UNNAMED_H

#include "base/array.h"
#include "symbol/elf.h"

/* Zero-initialise to use; array_done(&x.list). Names are constants, addresses are those of the file. */
struct named_functions {
    ARRAY(struct elf_symbol) list;
};

/* Adds the functions that the file has no symbol for and that were found without doubt; where two places of
 * the code contradict each other the function is left out. 0 (also when the file holds no libuv), or -ENOMEM.
 */
int unnamed_find(struct elf *elf, struct named_functions *unnamed);

#endif
