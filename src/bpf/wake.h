/* The rings of records, and how a sonde that sleeps is woken: it does so while all processes that it traces
 * do nothing (collect/news.c). */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_WAKE_H
#define BPF_WAKE_H

#include "bpf/threads.h"
#include "event/kernel.h"

/* A ring for each CPU, so that none waits for another's lock. User space makes them, when it knows how many
 * there are; with more CPUs than rings some share one. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, 1);
    __type(key, u32);
    __array(
        values, struct {
            __uint(type, BPF_MAP_TYPE_RINGBUF);
            __uint(max_entries, 1 << 16);
        });
} rings SEC(".maps");

const volatile unsigned int ring_count = 1;

/* Room for a record in the ring of this CPU, or NULL. */
static __always_inline void *reserve_record(u64 size)
{
    u32 number = bpf_get_smp_processor_id() % ring_count;
    void *ring = bpf_map_lookup_elem(&rings, &number);
    return ring ? bpf_ringbuf_reserve(ring, size, 0) : 0;
}

/* Sonde sleeps until a traced thread runs: the next record wakes it. */
volatile unsigned int asleep = 0;

/* How a record is submitted. */
static __always_inline u64 wake_sonde(void)
{
    if (!asleep)
        return BPF_RB_NO_WAKEUP;
    asleep = 0;
    return BPF_RB_FORCE_WAKEUP;
}

/* The first time that a thread runs which we have not seen leave, as one that slept when its process became a
 * target: there is no event to be recorded, but sonde, which pays no attention to processes that do nothing,
 * must know. */
static __always_inline _Bool tell_state(struct thread_state *s, u64 now, _Bool filtered)
{
    struct sonde_kernel_running *r = reserve_record(sizeof(*r));
    if (!r)
        return 0;
    *r = (struct sonde_kernel_running){
        .head = {.end_ns = now}, .pid = s->pid, .tid = s->tid, .filtered = filtered};
    bpf_ringbuf_submit(r, wake_sonde());
    return 1;
}

static __always_inline void tell_running(struct thread_state *s, u64 now)
{
    if (tell_state(s, now, 0))
        s->known |= THREAD_SEEN_RUNNING;
}

/* A thread leaves its CPU with other system call filters than it had: sonde need not ask each program again
 * and again whether it has. */
static __always_inline void tell_filters(struct task_struct *task, struct thread_state *s, u64 now)
{
    u8 filters = filters_of(task);
    if (filters != s->filters && tell_state(s, now, 1))
        s->filters = filters;
}

#endif
