/* Which threads are traced, and the state of each. The scheduler's programs ask that of every thread that any
 * CPU of the host turns to, so the answer comes from a table: a thread's place in it is its
 * number's low bits, and a place says whether it is that thread's. Threads whose place is taken have their
 * state in their task (task storage), which takes ten times as long; a place counts those, so that threads
 * which are not traced are turned away by one comparison. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_THREADS_H
#define BPF_THREADS_H

#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "event/catalogue.h"

/* A traced thread. What every switch and wakeup needs comes first: with what stands before it in its place, a
 * cache line. */
struct thread_state {
    u64 off_ns;         /* since when it is off its CPU; 0: it is on one */
    u64 delay_ns;       /* what the kernel had counted of waiting for a CPU when the thread left its own */
    u64 ready_ns;       /* since when it could go on; 0: not yet, or the kernel counts it */
    u64 back_ns;        /* when it came back last, of the brief times that are summed */
    u32 sched_attached; /* when it left its CPU */
    u32 brief_count;    /* brief times off its CPU that no record tells of yet */
    u32 waker_pid, waker_tid;
    u64 brief_since_ns, brief_off_ns, brief_runnable_ns; /* of those */
    u8 reason, woken_by;
    u8 known;           /* of the thread: bits */
    u8 filters;         /* of system calls that it had when it left its CPU last: the count's low bits */
    u16 call, off_call; /* which it is in, and was in when it left its CPU */
    s32 fd, off_fd;     /* of those calls */
    u32 calls_attached; /* when it entered the call */
    u32 early;          /* when it was woken before it left its CPU, in EARLY_UNIT_NS; 0: it was not */
    u64 enter_ns;       /* of the system call that it is in; 0: in none */
    u32 pid, tid;       /* as sonde's namespace has them */
};

enum {
    THREAD_SEEN_RUNNING = 1, /* sonde knows that it ran */
    THREAD_SERVES = 2,       /* it is its process's first one, or waits for descriptors: others wait for it */
};

enum { THREAD_SLOTS = 1024, SLOT_CLAIMED = 1 };

struct thread_slot {
    u64 task;   /* the address of its struct task_struct; 0: free; SLOT_CLAIMED: being filled */
    u64 others; /* traced threads of this place whose state lies in their task */
    struct thread_state state;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct thread_slot) == 128, "two cache lines");

static struct thread_slot thread_slots[THREAD_SLOTS];

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct thread_state);
} threads SEC(".maps");

static __always_inline struct thread_slot *slot_of(struct task_struct *task)
{
    return &thread_slots[(u32)task->pid & (THREAD_SLOTS - 1)];
}

/* NULL: it is not traced. */
static __always_inline struct thread_state *state_of(struct task_struct *task)
{
    struct thread_slot *slot = slot_of(task);
    if (slot->task == (u64)task)
        return &slot->state;
    return slot->others ? bpf_task_storage_get(&threads, task, 0, 0) : 0;
}

struct seccomp {
    atomic_t filter_count;
} __attribute__((preserve_access_index));

/* Not in kernel.h: the sampler has no use for it, and looks up each member there when it starts. */
struct task_struct___filtered {
    struct seccomp seccomp;
} __attribute__((preserve_access_index));

/* What the kernel has to do at its system calls: bits. Since Linux 5.11, in the task's first cache line. */
struct thread_info {
    unsigned long syscall_work;
} __attribute__((preserve_access_index));

struct task_struct___working {
    struct thread_info thread_info;
} __attribute__((preserve_access_index));

/* Since Linux 5.9 the kernel counts them. A filter is in force from when the bit is set. */
static __always_inline u8 filters_of(struct task_struct *task)
{
    enum { WORK_SECCOMP = 1 };
    const struct task_struct___filtered *filtered = (const void *)task;
    const struct task_struct___working *working = (const void *)task;
    if (bpf_core_field_exists(working->thread_info.syscall_work) &&
        !(working->thread_info.syscall_work & WORK_SECCOMP))
        return 0;
    return bpf_core_field_exists(filtered->seccomp.filter_count) ? (u8)filtered->seccomp.filter_count.counter
                                                                 : 0;
}

static __always_inline void begin_thread(struct thread_state *s, struct task_struct *task, u32 pid, u32 tid)
{
    *s = (struct thread_state){.pid = pid,
                               .tid = tid,
                               .fd = -1,
                               .call = SONDE_SYSCALL_NONE,
                               .filters = filters_of(task),
                               .known = pid == tid ? THREAD_SERVES : 0};
}

/* Traces one more thread. Only where memory may be had; returns 0 when there is none. */
static __always_inline _Bool add_thread(struct task_struct *task, u32 pid, u32 tid)
{
    if (state_of(task))
        return 1;
    struct thread_slot *slot = slot_of(task);
    if (__sync_val_compare_and_swap(&slot->task, 0, SLOT_CLAIMED) == 0) {
        begin_thread(&slot->state, task, pid, tid);
        slot->task = (u64)task;
        return 1;
    }
    struct thread_state *s = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!s)
        return 0;
    begin_thread(s, task, pid, tid);
    __sync_fetch_and_add(&slot->others, 1);
    return 1;
}

/* The kernel is about to forget a thread: its place is free. */
static __always_inline void remove_thread(struct task_struct *task)
{
    struct thread_slot *slot = slot_of(task);
    if (slot->task == (u64)task)
        slot->task = 0;
    else if (slot->others && bpf_task_storage_get(&threads, task, 0, 0))
        __sync_fetch_and_add(&slot->others, -1);
}

#endif
