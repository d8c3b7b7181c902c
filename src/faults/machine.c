/* What the machine's CPUs did while a program waited for one: some may have been idle, and in a virtual
 * machine the hypervisor may have given them to others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "faults/faults.h"
#include "base/clock.h"

/* Less is not reported: the kernel counts in ticks of 10 ms. */
static const uint64_t STOLEN_MIN_NS = 20 * NS_PER_MS;
/* A longer interval says too little of what was in it. In a shorter one a CPU that was idle throughout may
 * seem to have been for two ticks less. */
static const uint64_t IDLE_INTERVAL_NS = 300 * NS_PER_MS, IDLE_SLACK_NS = 20 * NS_PER_MS;

/* A CPU that is idle for a smaller part of a time has none to spare. */
enum { FULL_PART = 4 };
/* What a request waited for is judged before the reading that follows it. */
static const uint64_t READ_LATE_NS = 200 * NS_PER_MS;

static void cpu_event(struct analysis *a, struct thread *none, const struct event *e)
{
    uint64_t stolen_ns = U(e, machine_cpu_stolen_ns);
    if (a->machine_read_ns)
        a->machine[a->machine_count++ % MACHINE_TIMES] =
            (struct machine_times){.start_ns = a->machine_read_ns,
                                   .end_ns = e->time_ns,
                                   .stolen_ns = stolen_ns - MIN(a->machine_stolen_ns, stolen_ns),
                                   .idlest_ns = U(e, machine_cpu_idlest_ns)};
    a->machine_read_ns = e->time_ns;
    a->machine_stolen_ns = stolen_ns;
}

const struct event_reading MACHINE_EVENTS[] = {{SONDE_EVENT_machine_cpu, cpu_event}, {0}};

uint64_t machine_stolen_ns(const struct analysis *a, uint64_t start_ns, uint64_t end_ns, uint64_t most_ns)
{
    uint64_t sum_ns = 0;
    for (size_t i = a->machine_count, kept = 0; i > 0 && kept < MACHINE_TIMES; i--, kept++) {
        const struct machine_times *m = &a->machine[(i - 1) % MACHINE_TIMES];
        if (m->end_ns <= start_ns)
            break;
        if (m->start_ns < end_ns)
            sum_ns += m->stolen_ns;
    }
    sum_ns = MIN(sum_ns, most_ns);
    return sum_ns < STOLEN_MIN_NS ? 0 : sum_ns;
}

bool machine_had_idle_cpu(const struct analysis *a, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t covered_ns = end_ns;
    for (size_t i = a->machine_count, kept = 0; i > 0 && kept < MACHINE_TIMES && covered_ns > start_ns;
         i--, kept++) {
        const struct machine_times *m = &a->machine[(i - 1) % MACHINE_TIMES];
        uint64_t took_ns = m->end_ns - m->start_ns;
        if (m->start_ns >= covered_ns)
            continue;
        if (m->end_ns < covered_ns || took_ns > IDLE_INTERVAL_NS || m->idlest_ns + IDLE_SLACK_NS < took_ns)
            return false;
        covered_ns = m->start_ns;
    }
    return covered_ns <= start_ns;
}

bool machine_was_full(const struct analysis *a, uint64_t start_ns, uint64_t end_ns)
{
    bool known = false;
    for (size_t i = a->machine_count, kept = 0; i > 0 && kept < MACHINE_TIMES; i--, kept++) {
        const struct machine_times *m = &a->machine[(i - 1) % MACHINE_TIMES];
        if (m->end_ns + READ_LATE_NS <= start_ns)
            break;
        if (m->start_ns >= end_ns)
            continue;
        if (m->idlest_ns * FULL_PART >= m->end_ns - m->start_ns)
            return false;
        known = true;
    }
    return known;
}

void verdict_stolen(struct analysis *a, struct finding *f, const struct fault *fault)
{
    char all[32], worst[32];
    f->title = finding_say(
        f,
        "The hypervisor kept CPUs from %s: callbacks made no progress %llu time%s, up to %s each, "
        "%s in total",
        fault->service, (unsigned long long)fault->count, fault->count == 1 ? "" : "s",
        clock_format_duration(fault->worst_ns, worst, sizeof(worst)),
        clock_format_duration(fault->total_ns, all, sizeof(all)));
    f->detail =
        "For that long its threads had a CPU of this virtual machine by Linux's account and did not run, "
        "while the machine's steal time grew: its host ran other virtual machines.";
    verdict_place(f, fault, "kernel");
    finding_add_count(f, "stalls_count", fault->count);
    finding_add_count(f, "stolen_ns", fault->total_ns);
    finding_add_count(f, "worst_ns", fault->worst_ns);
    finding_add_count(f, "cpu_ns", fault->net_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}
