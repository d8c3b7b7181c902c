/* Names of kernel functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_KERNEL_H
#define PROFILE_KERNEL_H

#include <stdint.h>

struct kernel_symbols;

/* Reads /proc/kallsyms. Without the permission its addresses are all zero: -EPERM. */
int kernel_symbols_read(struct kernel_symbols **ret_symbols);
void kernel_symbols_free(struct kernel_symbols *symbols);

/* The name of the function at an address, borrowed, or NULL. */
const char *kernel_symbols_find(const struct kernel_symbols *symbols, uint64_t address);

#endif
