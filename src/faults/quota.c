/* Times in which a process's control groups had used up their CPU quota: its threads were ready to run, and
 * the machine may have been idle. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { SAMPLES_KEPT = 1024 };

/* The kernel counts a time when it is over, and sonde reads the counts every few milliseconds. */
static const uint64_t LATE_NS = 60 * NS_PER_MS;
/* Less is not reported. */
static const uint64_t THROTTLED_MIN_NS = 10 * NS_PER_MS;

struct quota_sample {
    uint64_t since_ns, time_ns, throttled_ns; /* throttled_ns: counted since the sample before it; the time
                                                 that it is of ended between since_ns and time_ns */
    const struct thread *charged;             /* the thread a stretch of which was charged with it last ... */
    uint64_t charged_ns;                      /* ... and how much of it */
};

/* The newest at count - 1, modulo. */
struct quota_watch {
    struct quota_sample samples[SAMPLES_KEPT];
    size_t count;
    uint64_t last_throttled_ns, first_periods, periods, first_throttled, throttled, quota_us, period_us;
    bool begun;
};

void quota_forget(struct process *process)
{
    free(process->quota);
}

struct quota_watch *quota_copy(const struct process *process)
{
    struct quota_watch *copy = malloc(sizeof(*copy));
    if (copy)
        *copy = *process->quota;
    return copy;
}

/* The recorder reads a thread's times together with the quota's; where it was late itself, that was long ago.
 */
static uint64_t read_before_ns(const struct process *process, uint64_t time_ns)
{
    const uint64_t *slot = map_get(&process->threads, (uint64_t)process->pid);
    const struct thread *thread = slot ? (const struct thread *)(uintptr_t)*slot : NULL;
    uint64_t before_ns = time_ns - MIN(LATE_NS, time_ns);
    return thread && thread->sched_count
               ? MIN(before_ns, thread->sched[(thread->sched_count - 1) % SCHED_KEPT].time_ns)
               : before_ns;
}

static void cpu_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct process *process = process_get(a, (int64_t)U(e, cgroup_cpu_pid));
    if (!process)
        return;
    if (!process->quota && !(process->quota = calloc(1, sizeof(*process->quota)))) {
        a->failed = true;
        return;
    }
    struct quota_watch *q = process->quota;
    uint64_t throttled_ns = U(e, cgroup_cpu_throttled_ns);
    q->periods = U(e, cgroup_cpu_periods);
    q->throttled = U(e, cgroup_cpu_throttled_periods);
    q->quota_us = U(e, cgroup_cpu_quota_us);
    q->period_us = U(e, cgroup_cpu_period_us);
    if (!q->begun) {
        q->begun = true;
        q->first_periods = q->periods;
        q->first_throttled = q->throttled;
    } else if (throttled_ns > q->last_throttled_ns) {
        q->samples[q->count++ % SAMPLES_KEPT] =
            (struct quota_sample){.since_ns = read_before_ns(process, e->time_ns),
                                  .time_ns = e->time_ns,
                                  .throttled_ns = throttled_ns - q->last_throttled_ns};
    }
    q->last_throttled_ns = throttled_ns;
}

const struct event_reading QUOTA_EVENTS[] = {{SONDE_EVENT_cgroup_cpu, cpu_event}, {0}};

/* Of [start_ns, end_ns) of the thread; at most most_ns, which is what it stood without a CPU: the counts are
 * of all CPUs. What was counted late may be of two stretches of the thread, and is charged to them once. */
static uint64_t throttled_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns,
                             uint64_t most_ns)
{
    struct quota_watch *q = thread->process->quota;
    size_t first = q ? q->count : 0;
    uint64_t sum_ns = 0;
    while (first > 0 && q->count - first < SAMPLES_KEPT &&
           q->samples[(first - 1) % SAMPLES_KEPT].time_ns > start_ns)
        first--;
    for (size_t i = first; q && i < q->count; i++) {
        struct quota_sample *s = &q->samples[i % SAMPLES_KEPT];
        if (s->since_ns > end_ns)
            continue;
        if (s->charged != thread) {
            s->charged = thread;
            s->charged_ns = 0;
        }
        uint64_t part_ns = MIN(s->throttled_ns - s->charged_ns, most_ns - sum_ns);
        s->charged_ns += part_ns;
        sum_ns += part_ns;
    }
    return sum_ns;
}

uint64_t quota_kept_ns(const struct thread *thread, const struct stretch *s, uint64_t run_queue_ns)
{
    uint64_t kept_ns = throttled_ns(thread, s->start_ns, s->end_ns, run_queue_ns);
    return kept_ns < THROTTLED_MIN_NS ? 0 : kept_ns;
}

void verdict_throttled(struct analysis *a, struct finding *f, const struct fault *fault)
{
    char all[32], worst[32];
    const struct quota_watch *q = fault->process->quota;
    double cpus = q->period_us ? (double)q->quota_us / (double)q->period_us : 0;
    uint64_t periods = q->periods - MIN(q->first_periods, q->periods);
    uint64_t throttled = q->throttled - MIN(q->first_throttled, q->throttled);
    f->title = finding_say(f,
                           "%s was throttled by its CPU quota of %.3g CPU%s: callbacks made no progress %llu "
                           "time%s, up to %s each, %s in total",
                           fault->service, cpus, cpus == 1 ? "" : "s", (unsigned long long)fault->count,
                           fault->count == 1 ? "" : "s",
                           clock_format_duration(fault->worst_ns, worst, sizeof(worst)),
                           clock_format_duration(fault->total_ns, all, sizeof(all)));
    f->detail = finding_say(f,
                            "Its control group may run for %.4g ms in every %.4g ms, all threads together; "
                            "it had used that up in "
                            "%llu of %llu periods and was then kept from running to their end, whether other "
                            "CPUs were idle or not.",
                            (double)q->quota_us / 1e3, (double)q->period_us / 1e3,
                            (unsigned long long)throttled, (unsigned long long)periods);
    f->where = (struct finding_place){
        .service = finding_say(f, "%s", fault->service), .process = fault->pid, .layer = "kernel"};
    f->from_ns = fault->from_ns;
    f->to_ns = fault->to_ns;
    finding_add_real(f, "quota_cpus", cpus);
    finding_add_count(f, "stalls_count", fault->count);
    finding_add_count(f, "throttled_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "cpu_ns", fault->net_ns);
    finding_add_count(f, "periods_count", periods);
    finding_add_count(f, "throttled_periods_count", throttled);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}
