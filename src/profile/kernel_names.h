/* Names of kernel functions. The kernel is asked for each address once: reading all of them out of
 * /proc/kallsyms takes as long as everything else at the start together, and 10 MB. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_KERNEL_NAMES_H
#define PROFILE_KERNEL_NAMES_H

#include <stdint.h>

struct kernel_names;
struct sampler_bpf;

/* bpf: loaded, and outlives the names. 0, or -ENOMEM. */
int kernel_names_new(struct sampler_bpf *bpf, struct kernel_names **ret_names);
void kernel_names_free(struct kernel_names *names);

/* The function that an address lies in, borrowed; NULL where the kernel has no name for it. */
const char *kernel_names_at(struct kernel_names *names, uint64_t address);

#endif
