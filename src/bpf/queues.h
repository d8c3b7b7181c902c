/* What Linux's scheduler knows of the queues in which threads wait for a CPU. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_QUEUES_H
#define BPF_QUEUES_H

#include "bpf/threads.h"
#include "event/kernel.h"

/* The scheduler's own counts can be read (CONFIG_SCHED_INFO, CONFIG_FAIR_GROUP_SCHED): how long a thread
 * waited for a CPU comes from them. Otherwise on_wakeup finds out. */
const volatile _Bool counts_queues = 0;

/* Besides, the clock of a CPU's queue goes like CLOCK_MONOTONIC: both come from the same counter. */
const volatile _Bool clocks_agree = 0;

/* Times off a CPU that are shorter are summed: SONDE_BRIEF_NS, or 0 for none. */
volatile unsigned int brief_ns = 0;

/* From one time to a later one. Those of two CPUs' switches may be the wrong way round, by some hundred
 * nanoseconds (switch_ns()): 0 then. */
static __always_inline u64 between(u64 from, u64 to)
{
    s64 passed = (s64)(to - from);
    return passed > 0 ? (u64)passed : 0;
}

/* CLOCK_MONOTONIC at a switch of this CPU, of which task is one side; exact to some hundred nanoseconds where
 * brief times are summed. */
static __always_inline u64 switch_ns(struct sonde_kernel_runs *this_cpu, struct task_struct *task)
{
    if (!clocks_agree || !brief_ns || !this_cpu)
        return bpf_ktime_get_ns();
    u64 clock = task->se.cfs_rq->rq->clock;
    if (sonde_clock_is_due(&this_cpu->clock, clock))
        sonde_clock_compare(&this_cpu->clock, clock, bpf_ktime_get_ns());
    return clock + this_cpu->clock.offset;
}

/* When a record ends: not in the future. */
static __always_inline u64 not_ahead(u64 ns)
{
    u64 now = bpf_ktime_get_ns();
    return ns < now ? ns : now;
}

/* Of the time since a thread left its CPU, how long it could have gone on. */
static __always_inline u64 runnable_ns(struct task_struct *task, const struct thread_state *s, u64 now)
{
    if (s->ready_ns)
        return between(s->ready_ns, now);
    if (!counts_queues)
        return 0;
    u64 waited = task->sched_info.run_delay - s->delay_ns, queued = task->sched_info.last_queued;
    u64 clock = queued ? task->se.cfs_rq->rq->clock : 0;
    if (clock > queued)
        waited += clock - queued;
    u64 off = between(s->off_ns, now);
    return waited < off ? waited : off;
}

/* For how long a thread that is about to leave its CPU has had it; 0: the scheduler does not keep that.
 */
static __always_inline u64 ran_ns(struct task_struct *task)
{
    return counts_queues ? task->se.cfs_rq->rq->clock - task->sched_info.last_arrival : 0;
}

#endif
