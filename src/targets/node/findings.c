/* Verdicts on what is seen as a whole and not stall by stall: garbage collection and leaks (gc.c), encoding
 * (encode.c). A stall that is part of such a whole is told with it, so that each second is charged once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "targets/node/state.h"
#include "base/clock.h"

/* Encoding is a fault of its own when it takes this share of the loop's work, so much of it, in so many
 * calls, and not only in a few that are stalls by themselves. */
static const double ENCODE_SHARE = 0.25, ENCODE_SHARE_MIN = 0.08;
static const uint64_t ENCODE_MIN_NS = 200 * NS_PER_MS, ENCODE_COST_NS = 100 * NS_PER_MS;
enum { ENCODE_CALLS = 5 };
/* The paper: TIGC and TBGC balance each other when a leak is suspected. */
static const double BALANCED = 1.0 / 3;

/* Collections are a fault when requests lose as much to them, and a twentieth of their time. */
static const double PRESSURE_COST_NS = 50e6;

static const char *say_bytes(struct finding *f, uint64_t bytes)
{
    return bytes >= 10000000  ? finding_say(f, "%.0f MB", (double)bytes / 1e6)
           : bytes >= 1000000 ? finding_say(f, "%.1f MB", (double)bytes / 1e6)
                              : finding_say(f, "%.0f KB", (double)bytes / 1e3);
}

/* ---- garbage collection ---- */

enum whole { OF_COLLECTING, OF_ENCODING, AROUND_ENCODING, CALLED_AROUND_ENCODING, OF_GROWING };

/* A Map, a Set or an object that has become so large that moving it into a larger table takes long; or room
 * that is looked for in a heap that is full. */
static bool is_growing(const struct fault *fault)
{
    const char *called = fault->place.detail;
    return fault->place.cause == SONDE_stall_cause_native && called && strstr(called, "v8::internal::") &&
           (((strstr(called, "HashTable") || strstr(called, "Dictionary")) &&
             (strstr(called, "Rehash") || strstr(called, "Grow") || strstr(called, "Allocate"))) ||
            strstr(called, "::PagedSpace") || strstr(called, "::Sweeper") ||
            strstr(called, "::MemoryAllocator"));
}

/* The fault is this process's, or that of another in its service which spends most on the same call. */
static bool encodes_as(const struct fault *fault, const struct process *process)
{
    struct encode_sum sum;
    uint8_t what = 0;
    encode_total(process, &sum, &what);
    const char *called = event_label(SONDE_MEANING_encoding, what), *detail = fault->place.detail;
    return fault->encodes &&
           (fault->pid == process->pid || (called && detail && strcmp(called, detail) == 0));
}

static bool is_part(const struct fault *fault, const struct process *process, enum whole whole)
{
    bool fits = whole == OF_ENCODING       ? encodes_as(fault, process)
                : whole == AROUND_ENCODING ? encode_around(process, &fault->place)
                : whole == CALLED_AROUND_ENCODING
                    ? fault->place.cause == SONDE_stall_cause_builtin && encode_around(process, &fault->place)
                : whole == OF_COLLECTING ? fault->place.cause == SONDE_stall_cause_gc
                                         : is_growing(fault);
    return fault->kind == FINDING_event_loop_blocked && fault->service == process->service &&
           !fault->warming && !fault->absorbed && fits;
}

static void absorb_stalls(struct analysis *a, struct fault *to, const struct process *process,
                          enum whole whole)
{
    array_foreach (&a->fault_list, fault)
        if (is_part(*fault, process, whole))
            fault_absorb(a, to, *fault);
}

static uint64_t stalls_cost_ns(const struct analysis *a, const struct process *process)
{
    uint64_t sum = 0;
    array_foreach (&a->fault_list, fault)
        sum += is_part(*fault, process, OF_COLLECTING) ? (*fault)->cost_ns : 0;
    return sum;
}

static void add_balance(struct finding *f, const struct gc_watch *g, bool ratio)
{
    uint64_t in_ns, between_ns;
    gc_balance(g, &in_ns, &between_ns);
    finding_add_count(f, "tigc_ns", in_ns);
    finding_add_count(f, "tbgc_ns", between_ns);
    if (ratio)
        finding_add_real(f, "tigc_tbgc_ratio", between_ns ? (double)in_ns / (double)between_ns : 0);
}

/* Promises, where they are counted: " Of 12,000 promises made about 11,904 are still in memory." */
static const char *add_promises(struct finding *f, const struct gc_watch *g)
{
    uint64_t alive;
    if (!g->promises)
        return "";
    finding_add_count(f, "promises_created_count", g->promises);
    if (!gc_promises_alive(g, &alive))
        return "";
    finding_add_count(f, "promises_alive_count", alive);
    return finding_say(f, " Of %llu promises made, about %llu were still in memory at the end.",
                       (unsigned long long)g->promises, (unsigned long long)alive);
}

static void say_leak(struct finding *f, const struct thread *thread, const struct fault *fault,
                     enum gc_verdict verdict)
{
    static const struct {
        const char *what, *which;
        size_t at;
    } OF[] = {
        [GC_LEAK] = {"heap", "still in use after", offsetof(struct gc_major, heap_bytes)},
        [GC_LEAK_EXTERNAL] = {"memory outside of the heap (Buffers)",
                              "that objects hold outside of the heap after",
                              offsetof(struct gc_major, external_bytes)},
        [GC_LEAK_OUTSIDE] = {"memory outside of the heap (Buffers, native code)",
                             "that the process keeps after", offsetof(struct gc_major, memory_bytes)},
    };
    size_t at = OF[verdict].at;
    struct duration in, between, all;
    const struct gc_watch *g = node_thread(thread)->gc;
    size_t count;
    const struct gc_major *first = gc_majors_serving(thread, &count), *last = first + count - 1;
    uint64_t from = *(const uint64_t *)((const char *)first + at);
    uint64_t to = *(const uint64_t *)((const char *)last + at);
    if (to == UINT64_MAX) /* nothing was told after it */
        to = *(const uint64_t *)((const char *)--last + at);
    uint64_t grown = to - from, took_ns = last->end_ns - first->end_ns;
    double per_s = took_ns ? (double)grown * NS_PER_S / (double)took_ns : 0;
    uint64_t in_ns, between_ns;
    gc_balance(g, &in_ns, &between_ns);
    bool balanced = between_ns && (double)in_ns / (double)between_ns >= BALANCED;
    f->title = finding_say(f,
                           "A memory leak in %s is suspected: its %s grew from %s to %s over %llu major "
                           "collections",
                           thread->process->service, OF[verdict].what, say_bytes(f, from), say_bytes(f, to),
                           (unsigned long long)count);
    f->detail = finding_say(
        f,
        "Memory %s a major collection grew by %s a second and was still growing at the end. A "
        "collection takes %s (TIGC) and there are %s between two of them (TBGC)%s; collecting "
        "took %s in total.%s",
        OF[verdict].which, say_bytes(f, (uint64_t)per_s), say_ns(&in, in_ns), say_ns(&between, between_ns),
        balanced ? ": they balance each other" : "", say_ns(&all, g->time_ns), add_promises(f, g));
    verdict_place(f, fault, "v8");
    f->where.thread = thread->tid;
    finding_add_count(f, "collections_count", g->count[0] + g->count[1]);
    finding_add_count(f, "major_count", g->count[1]);
    finding_add_count(f, "heap_first_bytes", first->heap_bytes);
    finding_add_count(f, "heap_last_bytes", last->heap_bytes);
    if (verdict != GC_LEAK) {
        finding_add_count(f, "memory_first_bytes", from);
        finding_add_count(f, "memory_last_bytes", to);
    }
    finding_add_real(f, "growth_bytes_per_s", per_s);
    finding_add_count(f, "gc_ns", g->time_ns);
    add_balance(f, g, true);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

static void say_pressure(struct finding *f, const struct thread *thread, const struct fault *fault)
{
    uint64_t gc_ns, active_ns;
    gc_serving(thread, &gc_ns, &active_ns);
    struct duration gc, active, longest;
    const struct gc_watch *g = node_thread(thread)->gc;
    double share = active_ns ? (double)gc_ns / (double)active_ns : 0;
    f->title = finding_say(f, "Garbage collection took %.0f %% of the work of %s", share * 100,
                           thread->process->service);
    f->detail = finding_say(f,
                            "Of %s that the event loop was busy, %s went into %llu collections, %llu of "
                            "them major; the longest "
                            "took %s. The heap does not grow: what is allocated soon becomes garbage.%s",
                            say_ns(&active, active_ns), say_ns(&gc, gc_ns),
                            (unsigned long long)(g->count[0] + g->count[1]), (unsigned long long)g->count[1],
                            say_ns(&longest, g->longest_ns), add_promises(f, g));
    verdict_place(f, fault, "v8");
    f->where.thread = thread->tid;
    finding_add_count(f, "collections_count", g->count[0] + g->count[1]);
    finding_add_count(f, "major_count", g->count[1]);
    finding_add_count(f, "gc_ns", gc_ns);
    finding_add_count(f, "active_ns", active_ns);
    finding_add_real(f, "gc_share", share);
    finding_add_count(f, "longest_ns", g->longest_ns);
    add_balance(f, g, false);
    finding_add_count(f, "heap_bytes", g->heap_bytes);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

static int judge_gc(struct analysis *a, struct process *process, const struct thread *thread,
                    struct report *report)
{
    double ran = 1;
    enum gc_verdict verdict = gc_judge(thread, a->counts.last_ns, &ran);
    if (verdict == GC_HEALTHY)
        return 0;
    struct fault *fault = fault_get(a, FINDING_gc_pressure, process, "gc");
    if (!fault)
        return -ENOMEM;
    if (fault->absorbed) /* another thread of the process has told of it */
        return 0;
    /* Where the kernel tells of waits, none are in it. */
    double cost_ns = (double)(fault->cost_ns + stalls_cost_ns(a, process)) * (process->has_waits ? 1 : ran);
    if (verdict == GC_PRESSURE && (cost_ns < PRESSURE_COST_NS || cost_ns * 20 < (double)process->latency_ns))
        return 0;
    absorb_stalls(a, fault, process, OF_COLLECTING);
    if (verdict == GC_LEAK)
        absorb_stalls(a, fault, process, OF_GROWING);
    fault->absorbed = true;
    if (!fault->to_ns) {
        fault->from_ns = node_thread(thread)->loop->from_ns;
        fault->to_ns = node_thread(thread)->gc->last_end_ns;
    }
    bool leak = verdict != GC_PRESSURE;
    struct finding *f = report_add_finding(report, leak ? FINDING_memory_leak_suspected : FINDING_gc_pressure,
                                           SEVERITY_WARNING);
    if (!f)
        return -ENOMEM;
    if (leak)
        say_leak(f, thread, fault, verdict);
    else
        say_pressure(f, thread, fault);
    return verdict_requests(a, f, fault);
}

/* ---- encoding ---- */

static void say_encode(struct finding *f, const struct process *process, const struct fault *fault,
                       const struct encode_sum *sum, uint64_t calls_ns, const char *called,
                       uint64_t active_ns)
{
    struct duration all, worst, active;
    double share = active_ns ? (double)sum->felt_ns / (double)active_ns : 0;
    double per_byte = sum->bytes ? (double)sum->total_ns / (double)sum->bytes : 0;
    f->title = finding_say(f, "%s took %s in %s, %.0f %% of its work", called, say_ns(&all, sum->felt_ns),
                           process->service, share * 100);
    const char *read = node_process(process)->file_reads
                           ? finding_say(f, " Its file reads took %s in total.",
                                         say_ns(&active, node_process(process)->file_read_ns))
                           : "";
    const char *size =
        sum->felt_bytes
            ? finding_say(f, " It becomes noticeable (1 ms) at %s of text; the longest call took %s for %s.",
                          say_bytes(f, sum->felt_bytes), say_ns(&worst, sum->worst_ns),
                          say_bytes(f, sum->worst_bytes))
            : "";
    struct duration calls;
    const char *around =
        sum->felt_ns > calls_ns
            ? finding_say(f, " They took %s; the functions around them were seen to take the rest.",
                          say_ns(&calls, calls_ns))
            : "";
    f->detail = finding_say(f, "%llu calls took a millisecond or more.%s%s%s",
                            (unsigned long long)sum->felt_count, around, size, read);
    verdict_place(f, fault, "js");
    f->where.process = process->pid;
    f->where.thread = 0;
    finding_add_text(f, "called", called);
    finding_add_count(f, "calls_count", sum->felt_count);
    finding_add_count(f, "encoding_ns", sum->felt_ns);
    finding_add_count(f, "active_ns", active_ns);
    finding_add_real(f, "encode_share", share);
    finding_add_count(f, "encoded_bytes", sum->bytes);
    finding_add_count(f, "worst_ns", sum->worst_ns);
    finding_add_count(f, "worst_bytes", sum->worst_bytes);
    finding_add_count(f, "hurts_from_bytes", sum->felt_bytes);
    finding_add_real(f, "ns_per_byte", per_byte);
    finding_add_count(f, "read_ns", node_process(process)->file_read_ns);
    finding_add_count(f, "delay_ns", fault->cost_ns);
}

/* What encoding took with what belongs to it: the calls that are felt, which are measured, or, when they are
 * not nearly all of it, the functions in which they are, by the looks into them. */
static uint64_t took_ns(const struct process *process, const struct encode_sum *sum)
{
    uint64_t seen_ns = encode_seen_ns(process);
    return seen_ns > sum->felt_ns + sum->felt_ns / 4 ? seen_ns : sum->felt_ns;
}

static uint64_t stalls_of_encoding(const struct analysis *a, const struct process *process)
{
    uint64_t count = 0;
    array_foreach (&a->fault_list, fault)
        if (is_part(*fault, process, OF_ENCODING))
            count += (*fault)->count;
    return count;
}

/* Another process of its service, which encodes too, and most in the same call. */
static bool is_alike(const struct process *process, uint8_t what, const struct process *other,
                     struct encode_sum *ret_theirs)
{
    uint8_t their_what = 0;
    if (other == process || other->service != process->service || !node_process(other)->encode)
        return false;
    encode_total(other, ret_theirs, &their_what);
    return their_what == what;
}

/* Of several processes of one service that do the same, the one that does most of it speaks for all. */
static bool is_most(const struct analysis *a, const struct process *process, uint8_t what, uint64_t felt_ns)
{
    array_foreach (&a->all_processes, other) {
        struct encode_sum theirs;
        if (is_alike(process, what, *other, &theirs) && took_ns(*other, &theirs) > felt_ns)
            return false;
    }
    return true;
}

/* What it cost the requests of the others is reported with it. */
static void absorb_alike(struct analysis *a, struct fault *to, const struct process *process, uint8_t what)
{
    array_foreach (&a->all_processes, other) {
        struct encode_sum theirs;
        struct fault *fault = is_alike(process, what, *other, &theirs) ? encode_fault(a, *other) : NULL;
        if (fault && fault != to && !fault->absorbed)
            fault_absorb(a, to, fault);
    }
}

/* Whether requests that encode lose a large part of their time by it, or, where there are none, the loop. */
static bool weighs(const struct analysis *a, const struct process *process, const struct fault *fault,
                   const struct encode_sum *sum, uint64_t calls_ns, uint64_t active_ns)
{
    uint64_t net_ns = fault->net_ns, all_ns = fault->total_ns;
    array_foreach (&a->fault_list, stall)
        if (is_part(*stall, process, OF_ENCODING)) {
            net_ns += (*stall)->net_ns;
            all_ns += (*stall)->net_ns;
        }
    net_ns = (uint64_t)((double)net_ns * (double)sum->felt_ns / (double)MAX(calls_ns, 1u));
    if (process->request_count)
        return net_ns >= ENCODE_COST_NS && (double)net_ns >= ENCODE_SHARE * (double)all_ns &&
               (double)sum->felt_ns >= ENCODE_SHARE_MIN * (double)active_ns;
    return sum->felt_ns >= ENCODE_MIN_NS && (double)sum->felt_ns >= ENCODE_SHARE * (double)active_ns;
}

static int judge_encoding(struct analysis *a, struct process *process, struct report *report)
{
    uint64_t active_ns = 0; /* as the calls: without waits for a CPU */
    struct encode_sum sum;
    uint8_t what = 0;
    encode_total(process, &sum, &what);
    map_foreach (&process->threads, slot) {
        const struct thread *thread = (const struct thread *)(uintptr_t)slot->value;
        active_ns += node_thread(thread)->loop ? node_thread(thread)->loop->net_ns : 0;
    }
    active_ns -= MIN(active_ns, node_process(process)->net_before_ns);
    uint64_t calls_ns = sum.felt_ns;
    sum.felt_ns = took_ns(process, &sum);
    struct fault *fault = encode_fault(a, process);
    if (!fault)
        return -ENOMEM;
    if (fault->absorbed || sum.felt_count < ENCODE_CALLS || !is_most(a, process, what, sum.felt_ns) ||
        stalls_of_encoding(a, process) * 2 > sum.felt_count)
        return 0;
    absorb_alike(a, fault, process, what);
    if (!weighs(a, process, fault, &sum, calls_ns, active_ns))
        return 0;
    absorb_stalls(a, fault, process, OF_ENCODING);
    /* What a function that encodes calls besides, such as to copy bytes into an array, is part of it. */
    absorb_stalls(a, fault, process, sum.felt_ns > calls_ns ? AROUND_ENCODING : CALLED_AROUND_ENCODING);
    const struct look *place = encode_place(process);
    if (!fault->place.function && place)
        fault->place = *place;
    fault->absorbed = true;
    fault->from_ns = MIN(fault->from_ns, sum.from_ns);
    fault->to_ns = MAX(fault->to_ns, sum.to_ns);
    struct finding *f = report_add_finding(report, FINDING_serialisation, SEVERITY_WARNING);
    if (!f)
        return -ENOMEM;
    const char *called = event_label(SONDE_MEANING_encoding, what);
    say_encode(f, process, fault, &sum, calls_ns, called ? called : "encoding", active_ns);
    return verdict_requests(a, f, fault);
}

int node_findings(struct analysis *a, struct report *report)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < a->all_processes.count; i++) {
        struct process *process = a->all_processes.at[i];
        map_foreach (&process->threads, slot) {
            if (r == 0)
                r = judge_gc(a, process, (const struct thread *)(uintptr_t)slot->value, report);
        }
        if (r == 0 && node_process(process)->encode)
            r = judge_encoding(a, process, report);
    }
    return r;
}
