/* What the machine's CPUs did while a program waited for one: some may have been idle, and in a virtual
 * machine the hypervisor may have given them to others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

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

/* So long before a call it counts how long the program waited for a CPU; so many such waits may make up one
 * late answer; from so many calls on it is known that all of them are late. */
static const uint64_t LACK_WINDOW_NS = 10 * NS_PER_S;
enum { LACK_TURNS = 8, LACK_ENOUGH = 4 };

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

/* The waits of the process' threads in [start, end): the longest that one of them waited for a CPU then, and
 * which share of them did so for so long. */
static uint64_t longest_queue_ns(const struct process *process, uint64_t start_ns, uint64_t end_ns,
                                 uint64_t least_ns, double *ret_share)
{
    uint64_t longest_ns = 0, all = 0, long_ones = 0;
    map_foreach (&process->threads, slot) {
        const struct thread *thread = (const struct thread *)(uintptr_t)slot->value;
        size_t first, count = activity_waits(thread, start_ns, end_ns, &first);
        for (size_t i = first; i < first + count; i++) {
            uint64_t queue_ns = activity_wait_at(thread, i)->runnable_ns;
            longest_ns = MAX(longest_ns, queue_ns);
            long_ones += queue_ns >= least_ns;
        }
        all += count;
    }
    *ret_share = all ? (double)long_ones / (double)all : 0;
    return longest_ns;
}

bool machine_is_local(const char *address)
{
    return address &&
           (strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0 || *address == '/');
}

uint64_t *machine_answers(struct analysis *a, const struct process *process, const char *peer,
                          const char *asked, const char *route)
{
    enum { KEPT = 4096 };
    const uint64_t words[] = {(uintptr_t)process->service, (uintptr_t)peer, (uintptr_t)asked,
                              (uintptr_t)route};
    uint64_t key = map_hash(words, sizeof(words));
    return a->peer_answers.count >= KEPT ? map_get(&a->peer_answers, key)
                                         : map_put(&a->peer_answers, key, NULL);
}

/* Who answers on this machine and is not traced may have lacked a CPU. Its own waits are not known, but the
 * program's are waits of a runnable thread on the same machine at the same time: samples of them. An answer
 * takes some turns of the scheduler (the peer's threads are woken, and woken again after a lock or a disk),
 * assumed to be at most LACK_TURNS, so it is not excused
 *
 * - beyond what is quick and LACK_TURNS waits as long as the program's longest;
 * - where more answers are late than the program's waits allow: for an answer to lose L in k turns, one of
 *   them must lose L / k, so that the share of such answers is at most k times that of such waits;
 * - where nearly all are late: a lack of CPUs does not spare a program's quick answers either. An answer is
 *   late by the peer's time, without that in which the program itself had no CPU to take it.
 *
 * The number of turns is an assumption, and one program may have less of the CPUs than another (its nice
 * value, its cgroup). Both bounds are lenient for it: an answer that is excused is not said to be explained,
 * and stays counted in the finding, which is then no warning. */
bool machine_lacked_cpu(const struct analysis *a, const struct process *process, const char *peer,
                        const uint64_t *answers, double most, uint64_t start_ns, uint64_t end_ns,
                        uint64_t late_ns)
{
    uint64_t from_ns = start_ns - MIN(start_ns, LACK_WINDOW_NS);
    double share;
    if (!machine_is_local(peer) || !machine_was_full(a, start_ns, end_ns) ||
        late_ns >
            LACK_TURNS * longest_queue_ns(process, from_ns, end_ns, MAX(late_ns / LACK_TURNS, 1u), &share))
        return false;
    uint32_t count = answers ? (uint32_t)*answers : 0, late = answers ? (uint32_t)(*answers >> 32) : 0;
    return count < LACK_ENOUGH || late <= MIN(LACK_TURNS * share, most) * count;
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
