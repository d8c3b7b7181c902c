/* A BPF program that causes what it hangs on: the kernel leaves the inner run out (test_missed.c). */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading: whose faults, and an address where nothing is mapped. */
const volatile unsigned int process = 0;
const volatile unsigned long long nowhere = 0;

SEC("tp_btf/page_fault_kernel")
int on_fault(void *context)
{
    u64 word;
    if (bpf_get_current_pid_tgid() >> 32 == process)
        bpf_probe_read_user(&word, sizeof(word), (void *)nowhere);
    return 0;
}
