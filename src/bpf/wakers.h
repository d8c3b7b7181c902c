/* Who ends the waits of traced threads. That takes a program at every wakeup of the host's, which costs as
 * much as all the others together. So where threads are woken very often, it is attached only while a thread
 * for which others wait does so for a lock for long: there who ends the wait is needed to judge it. User
 * space looks every few milliseconds (collect/kernel_wakers.c). */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_WAKERS_H
#define BPF_WAKERS_H

#include "bpf/context.h"
#include "bpf/queues.h"
#include "bpf/threads.h"

/* Since when threads that serve are in a call of futex(), by the last digits of their numbers; 0: in none. */
volatile unsigned long long lock_since_ns[SONDE_LOCK_PLACES];

/* The longest wait for a lock that has ended and was long, 0 for none; user space takes it back. */
volatile unsigned long long lock_waited_ns = 0;

/* Since when the program is attached; 0: it is not. */
volatile unsigned long long wakers_since_ns = 0;

static __always_inline volatile unsigned long long *lock_place(struct task_struct *task)
{
    return &lock_since_ns[(u32)task->pid & (SONDE_LOCK_PLACES - 1)];
}

extern int LINUX_KERNEL_VERSION __kconfig;

/* Of a sleep that begins, at little cost: since Linux 6.1 those in futex() have a mark that those for
 * descriptors have not. */
static __always_inline _Bool may_be_lock(const struct thread_state *s, u32 task_state)
{
    enum { MAY_BE_FROZEN = 0x2000, LINUX_6_1 = 6 << 16 | 1 << 8 };
    return s->known & THREAD_SERVES && s->reason == SONDE_off_reason_blocked &&
           (task_state & MAY_BE_FROZEN || LINUX_KERNEL_VERSION < LINUX_6_1);
}

static __always_inline void lock_begins(struct task_struct *task, struct thread_state *s, u64 now)
{
    s->off_call = (u16)call_of(task, &s->off_fd);
    if (s->off_call == SONDE_syscall_futex)
        *lock_place(task) = now;
}

static __always_inline void lock_ends(struct task_struct *task, const struct thread_state *s)
{
    if (s->off_call == SONDE_syscall_futex && s->known & THREAD_SERVES)
        *lock_place(task) = 0;
}

/* What a call is, 0 for none. The compiler would leave out the bits that are cleared, by which the kernel
 * knows that it is a place of the table. */
static __always_inline u8 kind_of_call(u32 call)
{
    if (call >= SONDE_SYSCALLS)
        return 0;
    asm volatile("" : "+r"(call));
    return call_kinds[call & (SONDE_SYSCALLS - 1)];
}

/* The call that a longer wait was in is known. */
static __always_inline void look_for_locks(struct thread_state *s, u64 blocked)
{
    if (kind_of_call(s->off_call) & SONDE_CALL_POLLS)
        s->known |= THREAD_SERVES;
    else if (s->off_call == SONDE_syscall_futex && s->known & THREAD_SERVES &&
             s->reason == SONDE_off_reason_blocked && blocked >= SONDE_LOCK_NS && blocked > lock_waited_ns)
        lock_waited_ns = blocked;
}

/* Who ended a wait that has ended, as far as anybody looked. */
static __always_inline u8 woken_by(const struct thread_state *s, u64 ready)
{
    if (s->woken_by != SONDE_woken_by_nobody || s->reason == SONDE_off_reason_preempted)
        return s->woken_by;
    u64 since = wakers_since_ns;
    return since && since <= ready ? SONDE_woken_by_nobody : SONDE_woken_by_unknown;
}

#endif
