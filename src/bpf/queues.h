/* What Linux's scheduler knows of the queues in which threads wait for a CPU. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_QUEUES_H
#define BPF_QUEUES_H

#include "bpf/threads.h"

/* The scheduler's own counts can be read (CONFIG_SCHED_INFO, CONFIG_FAIR_GROUP_SCHED): how long a thread
 * waited for a CPU comes from them. Otherwise on_wakeup finds out. */
const volatile _Bool counts_queues = 0;

/* Of the time since a thread left its CPU, how long it could have gone on. */
static __always_inline u64 runnable_ns(struct task_struct *task, const struct thread_state *s, u64 now)
{
    if (s->ready_ns)
        return now - s->ready_ns;
    if (!counts_queues)
        return 0;
    u64 waited = task->sched_info.run_delay - s->delay_ns, queued = task->sched_info.last_queued;
    u64 clock = queued ? task->se.cfs_rq->rq->clock : 0;
    if (clock > queued)
        waited += clock - queued;
    return waited < now - s->off_ns ? waited : now - s->off_ns;
}

/* For how long a thread that is about to leave its CPU has had it; 0: the scheduler does not keep that.
 */
static __always_inline u64 ran_ns(struct task_struct *task)
{
    return counts_queues ? task->se.cfs_rq->rq->clock - task->sched_info.last_arrival : 0;
}

#endif
