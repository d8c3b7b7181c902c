/* Where the scheduler's clock may stand for CLOCK_MONOTONIC (bpf/queues.h). Used by collect/kernel.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_KERNEL_CLOCK_H
#define COLLECT_KERNEL_CLOCK_H

#include <stdbool.h>

/* By the kernel's name of the source that CLOCK_MONOTONIC has. */
bool kernel_clock_source_agrees(const char *name);

/* On this machine, as it is now. */
bool kernel_clocks_agree(void);

#endif
