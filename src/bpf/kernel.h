/* The few kernel structures that the BPF programs read. Field offsets are corrected when the program is
 * loaded (CO-RE), so only names and types matter here, and no kernel headers or BTF are needed to build. */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

/* x86-64, as the user-space ABI has it. */
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags,
        sp, ss;
};

struct bpf_perf_event_data {
    struct pt_regs regs;
    u64 sample_period;
    u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
    unsigned long fsbase;
};

struct mm_struct;

struct task_struct {
    int pid;
    int tgid;
    struct mm_struct *mm;
    unsigned int flags;
    struct thread_struct thread;
    char comm[16];
};

#pragma clang attribute pop

#endif
