/* When the kernel's side finds out who ends the waits of traced threads (bpf/wakers.h): as long as that costs
 * little, and else from the time on at which one of them has been waiting for a lock for a while, or has done
 * so, for as long as such waits may take a part of the time that matters. Used by collect/kernel.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_KERNEL_WAKERS_H
#define COLLECT_KERNEL_WAKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "event/kernel.h"

struct kernel_wakers {
    uint64_t locks_until_ns; /* waits for locks are of interest until then */
    bool costly;
};

/* How often the scheduler's programs have run within passed_ns on the CPU where they ran most; followed:
 * those at wakeups too. */
void kernel_wakers_cost(struct kernel_wakers *wakers, uint64_t runs, uint64_t passed_ns, bool followed);

/* since_ns: since when threads wait for locks, 0 for none, as BPF programs write it. waited_ns: the longest
 * wait for one that has ended since the last look, 0 for none that was long. True: wakers are to be
 * followed. */
bool kernel_wakers_look(struct kernel_wakers *wakers, const volatile uint64_t since_ns[SONDE_LOCK_PLACES],
                        uint64_t waited_ns, uint64_t now_ns);

#endif
