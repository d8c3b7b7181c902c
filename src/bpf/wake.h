/* The ring of records, and how a sonde that sleeps is woken: it does so while all processes that it traces do
 * nothing (collect/news.c). */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_WAKE_H
#define BPF_WAKE_H

#include "bpf/threads.h"
#include "event/kernel.h"

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 22);
} events SEC(".maps");

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
static __always_inline void tell_running(struct thread_state *s, u64 now)
{
    struct sonde_kernel_running *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
    if (!r)
        return;
    *r = (struct sonde_kernel_running){.head = {.end_ns = now}, .pid = s->pid, .tid = s->tid};
    bpf_ringbuf_submit(r, wake_sonde());
    s->seen_running = 1;
}

#endif
