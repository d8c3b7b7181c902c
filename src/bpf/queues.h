/* What Linux's scheduler knows of the queues in which threads wait for a CPU. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_QUEUES_H
#define BPF_QUEUES_H

#include "bpf/threads.h"

/* The scheduler's own counts can be read (CONFIG_SCHED_INFO, CONFIG_FAIR_GROUP_SCHED): how long a thread
 * waited for a CPU comes from them. Otherwise on_wakeup finds out. */
const volatile _Bool counts_queues = 0;

/* The queues' clock goes like CLOCK_MONOTONIC, and is one on all CPUs: both are the time-stamp counter. */
const volatile _Bool clocks_agree = 0;

/* Times off a CPU that are shorter are summed: SONDE_BRIEF_NS, or 0 for none. */
volatile unsigned int brief_ns = 0;

/* From one time to a later one. Those of two CPUs' switches may be the wrong way round, by some hundred
 * nanoseconds (switch_ns()): 0 then. */
static __always_inline u64 between(u64 from, u64 to)
{
    return to > from ? to - from : 0;
}

/* CLOCK_MONOTONIC less the clock of the scheduler's queues, and when the two were compared, by the latter. */
static u64 clock_offset, clock_compared;

enum { COMPARE_NS = 1000000, FORGET_NS = 100000000, DRIFT_ONE_OF = 2048 };

/* CLOCK_MONOTONIC at a switch of this CPU, of which task is one side; exact to some hundred nanoseconds where
 * brief times are summed. The scheduler has just read the clock for its queue, and a third of what a run
 * takes would be to read it again. The two drift apart by less than one part in DRIFT_ONE_OF, and are
 * compared every COMPARE_NS. The queue's is then older by what the scheduler has done since, which is
 * sometimes much: the least that was seen counts. */
static __always_inline u64 switch_ns(struct task_struct *task)
{
    if (!counts_queues || !clocks_agree || !brief_ns)
        return bpf_ktime_get_ns();
    u64 clock = task->se.cfs_rq->rq->clock, offset = clock_offset;
    s64 passed = (s64)(clock - clock_compared); /* on another CPU it may be a little less than nothing */
    if (passed < COMPARE_NS && passed > -COMPARE_NS)
        return clock + offset;
    u64 now = bpf_ktime_get_ns(), most = offset + (u64)passed / DRIFT_ONE_OF;
    if (passed > 0 && passed < FORGET_NS && now - clock > most)
        now = clock + most;
    clock_offset = now - clock;
    clock_compared = clock;
    return now;
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
