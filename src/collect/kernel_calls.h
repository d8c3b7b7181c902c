/* What each system call is, by its number (enum sonde_call_kind). Used by collect/kernel.c for its BPF
 * programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_KERNEL_CALLS_H
#define COLLECT_KERNEL_CALLS_H

#include <stdint.h>

#include "event/kernel.h"

/* Adds to what is in kinds. */
void kernel_call_kinds(uint8_t kinds[static SONDE_SYSCALLS]);

#endif
