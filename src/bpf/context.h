/* What a CPU was doing when a thread was woken there, and in which system call a thread is. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_CONTEXT_H
#define BPF_CONTEXT_H

#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "event/kernel.h"

/* Set before loading: what each call is (enum sonde_call_kind). */
const volatile unsigned char call_kinds[SONDE_SYSCALLS];

/* The system call that a thread is in, from what it brought into the kernel; SONDE_SYSCALL_NONE when it is
 * there for another reason or not at all. */
static __always_inline u32 call_of(struct task_struct *task, s32 *fd)
{
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
    s64 number = (s64)regs->orig_ax; /* -1 at interrupts and faults */
    *fd = -1;
    if (number < 0 || number >= SONDE_SYSCALLS)
        return SONDE_SYSCALL_NONE;
    if (call_kinds[number & (SONDE_SYSCALLS - 1)] & SONDE_CALL_FD)
        *fd = (s32)regs->di;
    return (u32)number;
}

enum { TASK_EXITING = 4 }; /* of its flags */

/* Where the kernel counts its interrupts; the place has moved from version to version, and kernels without
 * names for their variables (CONFIG_KALLSYMS_ALL) do not show it. */
extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;
struct pcpu_hot {
    int preempt_count;
} __attribute__((preserve_access_index));

enum context { CONTEXT_THREAD, CONTEXT_SOFT_INTERRUPT, CONTEXT_INTERRUPT, CONTEXT_UNKNOWN };

static __always_inline enum context counted_context(void)
{
    u32 n;
    if (bpf_core_type_exists(struct pcpu_hot) && &pcpu_hot)
        n = ((struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
    else if (&__preempt_count)
        n = *(int *)bpf_this_cpu_ptr(&__preempt_count);
    else
        return CONTEXT_UNKNOWN;
    if (n & 0xff0000)
        return CONTEXT_INTERRUPT;
    return n & 0x100 ? CONTEXT_SOFT_INTERRUPT : CONTEXT_THREAD;
}

/* Not in kernel.h, for the sampler's sake (threads.h). */
struct task_struct___related {
    struct task_struct *real_parent;
} __attribute__((preserve_access_index));

/* A process that has ended wakes its parent, which may wait for that. By then it has no memory, and may be in
 * any call, or none: a signal ended it. */
static __always_inline int wakes_parent(struct task_struct *current, struct task_struct *woken)
{
    return current->flags & TASK_EXITING && !current->mm &&
           BPF_CORE_READ((struct task_struct___related *)current, real_parent, tgid) == woken->tgid;
}

struct task_struct___waiting {
    unsigned int in_iowait : 1;
} __attribute__((preserve_access_index));

/* It waits for a disk or for a timer. What wakes it is most likely their interrupt, in whichever thread's
 * call that comes. */
static __always_inline int waits_for_interrupt(struct task_struct *task)
{
    s32 fd;
    u32 call = call_of(task, &fd);
    return BPF_CORE_READ_BITFIELD_PROBED((struct task_struct___waiting *)task, in_iowait) ||
           (call != SONDE_SYSCALL_NONE && call_kinds[call & (SONDE_SYSCALLS - 1)] & SONDE_CALL_SLEEPS);
}

/* Packets to a socket of the same machine are delivered in an interrupt at the end of the call that sent
 * them; where interrupts are not counted, what the two threads are doing must tell. */
static __always_inline enum context context_of(struct task_struct *current, struct task_struct *woken,
                                               enum context counted)
{
    if (counted == CONTEXT_THREAD || counted == CONTEXT_INTERRUPT)
        return counted;
    if (counted == CONTEXT_UNKNOWN && wakes_parent(current, woken))
        return CONTEXT_THREAD;
    s32 fd;
    u32 call = current->pid && current->mm ? call_of(current, &fd) : SONDE_SYSCALL_NONE;
    if (call == SONDE_SYSCALL_NONE)
        return CONTEXT_INTERRUPT;
    if (call_kinds[call & (SONDE_SYSCALLS - 1)] & (SONDE_CALL_SEND | SONDE_CALL_WAKES) &&
        !waits_for_interrupt(woken))
        return CONTEXT_THREAD;
    return counted == CONTEXT_UNKNOWN ? CONTEXT_UNKNOWN : CONTEXT_INTERRUPT;
}

#endif
