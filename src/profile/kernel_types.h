/* Where the members of a few of the kernel's structures lie, for a BPF program that is about to be loaded.
 * libbpf would read all of the kernel's types for that, which takes it longer than anything else at the
 * start. Called by the sampler. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_KERNEL_TYPES_H
#define PROFILE_KERNEL_TYPES_H

#include <stddef.h>

#define KERNEL_TYPES_PATH "/sys/kernel/btf/vmlinux"

/* The structures that sampler.bpf.c reads, ending in NULL. One that is missing here is not found when it is
 * loaded.
 */
extern const char *const kernel_types_sampled[];

/* Corrects types, in BTF, in place: all members of the structures of these names (ending in NULL) get the
 * places that they have in the kernel's BTF. -ENOENT when one is not there or of another kind, -ENOTUNIQ when
 * the kernel has two structures of a name, -EBADMSG when the BTF is damaged, -ENOTSUP when it is of another
 * kind: types are of no use then. All other structures lose their names, so that libbpf does not take
 * their places for the kernel's. */
int kernel_types_correct(void *types, size_t size, const void *kernel, size_t kernel_size,
                         const char *const names[]);

/* The same by the running kernel's own. */
int kernel_types_correct_running(void *types, size_t size, const char *const names[]);

#endif
