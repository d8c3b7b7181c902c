/* Whether a CPU of the machine was idle, and how long the hypervisor of a virtual machine ran others on its
 * CPUs ("steal"): from the kernel's sums in /proc/stat. Who calls: session_tend(). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_MACHINE_H
#define COLLECT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { MACHINE_CPUS_MAX = 512 }; /* of others it is not known whether they are idle */

/* Zeroed before the first use. */
struct machine {
    int fd; /* /proc/stat; 0: not open yet, -1: it cannot be */
    uint64_t next_ns;
    uint64_t idle_ns[MACHINE_CPUS_MAX]; /* of each CPU, at the last reading */
};

/* The kernel counts in ticks, as a rule of 10 ms. */
struct machine_counts {
    uint64_t stolen_ns; /* of all CPUs since the machine started */
    uint64_t idlest_ns; /* since the reading before: of the CPU that was idle longest; 0 for the first one */
    uint32_t cpus;
};

/* The beginning of /proc/stat, of ticks_per_second, with idle times since what the machine was last read to
 * have; false: it is something else. */
bool machine_parse(struct machine *machine, const char *text, long ticks_per_second,
                   struct machine_counts *ret_counts);

/* The counts, when they are due at now_ns (CLOCK_MONOTONIC): ten times a second, and more seldom where the
 * kernel takes long to write this file, as with very many CPUs. */
bool machine_read(struct machine *machine, uint64_t now_ns, struct machine_counts *ret_counts);
void machine_done(struct machine *machine);

#endif
