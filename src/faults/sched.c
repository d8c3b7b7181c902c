/* How long threads ran and how long they had no CPU, by the kernel's events where they were recorded,
 * and otherwise by the counters that the recorder reads now and then (thread:sched). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "faults/faults.h"
#include "base/clock.h"

/* Between two readings of a thread's CPU time there are 10 ms when all goes well. */
static const uint64_t SCHED_SLACK_NS = 20 * NS_PER_MS;

static const struct sched_sample *sched_at(const struct thread *thread, size_t number)
{
    return &thread->sched[number % SCHED_KEPT];
}

void stretch_active(struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    size_t n = thread->sched_count;
    uint64_t last_ns = n ? sched_at(thread, n - 1)->time_ns : 0;
    if (end_ns > last_ns)
        thread->active_ns += end_ns - MAX(start_ns, last_ns);
    for (size_t i = n; i-- > 1 && n - i < SCHED_KEPT;) {
        struct sched_sample *sample = &thread->sched[i % SCHED_KEPT];
        uint64_t from = MAX(start_ns, sched_at(thread, i - 1)->time_ns), to = MIN(end_ns, sample->time_ns);
        if (to > from)
            sample->active_ns += to - from;
        if (sched_at(thread, i - 1)->time_ns <= start_ns)
            break;
    }
}

/* Waits that are in the kernel's own sum, and that no event tells of. A reading may be younger than its time
 * says: the least of the last few. */
static uint64_t untold_wait_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    enum { TRIED = 3 };
    const struct sched_sample *last[TRIED] = {0}, *first = NULL;
    size_t n = thread->sched_count, found = 0, at;
    for (size_t i = n; i-- > 0 && n - i <= SCHED_KEPT && sched_at(thread, i)->time_ns >= start_ns;) {
        first = sched_at(thread, i);
        if (first->time_ns <= end_ns && found < TRIED)
            last[found++] = first;
    }
    if (found < TRIED || first == last[TRIED - 1])
        return 0;
    /* The sum knows of a wait when it is over. */
    uint64_t since_ns = first->time_ns, least_ns = UINT64_MAX;
    if (activity_waits(thread, since_ns, since_ns + 1, &at))
        since_ns = activity_wait_at(thread, at)->start_ns;
    for (size_t i = 0; i < found; i++) {
        struct activity_times told;
        if (!activity_times(thread, since_ns, last[i]->time_ns, &told))
            return 0;
        uint64_t all_ns = last[i]->wait_ns - MIN(first->wait_ns, last[i]->wait_ns);
        least_ns = MIN(least_ns, all_ns - MIN(told.runnable_ns, all_ns));
    }
    return least_ns;
}

/* The wait is known per sampling interval. A thread waits for a CPU only when it has something to do,
 * so an interval's wait is shared out over what the thread did in it. The kernel adds a wait to its sum when
 * it is over: one that is longer than the interval began before it. Where the kernel's own events were
 * recorded, they tell of each wait. */
uint64_t stretch_run_queue_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    size_t n = thread->sched_count;
    struct activity_times times;
    double waited = 0;
    if (activity_times(thread, start_ns, end_ns, &times))
        return MIN(times.runnable_ns + times.held_ns + untold_wait_ns(thread, start_ns, end_ns),
                   end_ns - start_ns);
    for (size_t i = n; i-- > 1 && n - i < SCHED_KEPT;) {
        const struct sched_sample *after = sched_at(thread, i), *before = sched_at(thread, i - 1);
        uint64_t wait_ns = after->wait_ns - MIN(before->wait_ns, after->wait_ns);
        uint64_t since_ns = MIN(before->time_ns, after->time_ns - MIN(wait_ns, after->time_ns));
        uint64_t from = MAX(start_ns, since_ns), to = MIN(end_ns, after->time_ns);
        if (to > from) {
            uint64_t overlap = to - from, active = MAX(after->active_ns, overlap);
            bool all = since_ns < before->time_ns; /* it did nothing but wait */
            double share = all ? (double)overlap : (double)wait_ns * (double)overlap / (double)active;
            waited += MIN(share, (double)overlap);
        }
        if (before->time_ns <= start_ns)
            break;
    }
    return MIN((uint64_t)waited, end_ns - start_ns);
}

/* At most so long did the thread run in [start, end); UINT64_MAX when it is not known. The recorder reads its
 * clock and the counter one after the other and may itself wait in between, hence the slack. */
uint64_t stretch_cpu_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    size_t n = thread->sched_count;
    start_ns -= MIN(start_ns, SCHED_SLACK_NS);
    end_ns += SCHED_SLACK_NS;
    if (n < 2 || sched_at(thread, n - 1)->time_ns < end_ns - 2 * SCHED_SLACK_NS)
        return UINT64_MAX; /* the end is not covered */
    uint64_t ran = 0;
    for (size_t i = n; i-- > 1 && n - i < SCHED_KEPT;) {
        const struct sched_sample *after = sched_at(thread, i), *before = sched_at(thread, i - 1);
        if (before->time_ns < end_ns && after->time_ns > start_ns)
            ran += after->run_ns - MIN(before->run_ns, after->run_ns);
        if (before->time_ns <= start_ns)
            return ran;
    }
    return UINT64_MAX; /* the beginning is not */
}

/* The same of what had not ended at end_ns. The counters are recorded when they have changed: after the last
 * reading it did not run. */
uint64_t stretch_open_cpu_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    size_t n = thread->sched_count;
    uint64_t last_ns = n ? MIN(sched_at(thread, n - 1)->time_ns, end_ns) : 0;
    return n < 2 ? UINT64_MAX : last_ns > start_ns ? stretch_cpu_ns(thread, start_ns, last_ns) : 0;
}

/* At least so long did it run: between the readings within [start, end). */
uint64_t stretch_ran_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    const struct sched_sample *first = NULL, *last = NULL;
    size_t n = thread->sched_count;
    for (size_t i = n; i-- > 0 && n - i <= SCHED_KEPT;) {
        const struct sched_sample *sample = sched_at(thread, i);
        if (sample->time_ns < start_ns)
            break;
        if (sample->time_ns > end_ns)
            continue;
        first = sample;
        last = last ? last : sample;
    }
    return first && last->run_ns > first->run_ns ? last->run_ns - first->run_ns : 0;
}

double process_ran_share(const struct process *process)
{
    uint64_t run_ns = 0, wait_ns = 0;
    map_foreach (&process->threads, slot) {
        const struct thread *thread = (const struct thread *)(uintptr_t)slot->value;
        if (!thread->sched_count)
            continue;
        const struct sched_sample *last = &thread->sched[(thread->sched_count - 1) % SCHED_KEPT];
        run_ns += last->run_ns;
        wait_ns += last->wait_ns;
    }
    return run_ns ? (double)run_ns / (double)(run_ns + wait_ns) : 1;
}
