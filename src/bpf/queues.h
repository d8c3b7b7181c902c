/* What Linux's scheduler knows of the queues in which threads wait for a processor. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_QUEUES_H
#define BPF_QUEUES_H

#include "bpf/threads.h"

/* The scheduler's own counts can be read (CONFIG_SCHED_INFO, CONFIG_FAIR_GROUP_SCHED): how long a thread
 * waited for a processor comes from them. Otherwise on_wakeup finds out. */
const volatile _Bool counts_queues = 0;

/* What the scheduler keeps of a thread: how long it could go on and had no processor, since when it is in a
 * queue for one (0: in none), and when it last got one, by the clock of that queue. */
struct sched_info {
    unsigned long long run_delay, last_queued, last_arrival;
} __attribute__((preserve_access_index));
struct rq {
    u64 clock;
} __attribute__((preserve_access_index));
struct cfs_rq {
    struct rq *rq;
} __attribute__((preserve_access_index));
struct sched_entity {
    struct cfs_rq *cfs_rq;
} __attribute__((preserve_access_index));
struct task_struct___queued {
    int on_rq;
    struct sched_entity se;
    struct sched_info sched_info;
} __attribute__((preserve_access_index));

/* Of the time since a thread left its processor, how long it could have gone on. */
static __always_inline u64 runnable_ns(struct task_struct *task, const struct thread_state *s, u64 now)
{
    if (s->ready_ns)
        return now - s->ready_ns;
    if (!counts_queues)
        return 0;
    struct task_struct___queued *t = (struct task_struct___queued *)task;
    u64 waited = t->sched_info.run_delay - s->delay_ns, queued = t->sched_info.last_queued;
    u64 clock = queued ? t->se.cfs_rq->rq->clock : 0;
    if (clock > queued)
        waited += clock - queued;
    return waited < now - s->off_ns ? waited : now - s->off_ns;
}

/* For how long a thread that is about to leave its processor has had it; 0: the scheduler does not keep that.
 */
static __always_inline u64 ran_ns(struct task_struct *task)
{
    struct task_struct___queued *t = (struct task_struct___queued *)task;
    return counts_queues ? t->se.cfs_rq->rq->clock - t->sched_info.last_arrival : 0;
}

#endif
