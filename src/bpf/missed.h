/* What the kernel left out. Used by what counts the losses of BPF programs (collect/kernel.c,
 * profile/sampler.c). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPF_MISSED_H
#define BPF_MISSED_H

#include <stdint.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* How often the programs of an object that was loaded were due and did not run, because they were running on
 * that CPU already (recursion_misses; Linux 5.12 and later count them). For whom they were due is not
 * known: it is an upper bound of the events that are missing. */
static inline uint64_t bpf_missed_runs(struct bpf_object *object)
{
    uint64_t missed = 0;
    struct bpf_program *program;
    bpf_object__for_each_program(program, object)
    {
        struct bpf_prog_info info = {0};
        uint32_t size = sizeof(info);
        int fd = bpf_program__fd(program);
        if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
            missed += info.recursion_misses;
    }
    return missed;
}

#endif
