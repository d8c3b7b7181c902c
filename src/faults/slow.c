/* Who let requests wait: a file or name look-up that took long at the system (slow-io), another service or
 * data store that answered late (slow-peer). Read from the critical path, so that only what a request really
 * waited for is charged, and nothing that its own event loop, the pool or a traced service's known fault
 * explains. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "faults/faults.h"
#include "base/clock.h"

enum { KIND_FIRST_FS = 1, KIND_LAST_FS = 63, CHAIN_MAX = 16 };

/* Far above what a page cache (microseconds), a disk (10 ms) or a store on the same network takes. */
static const uint64_t SLOW_NS = 50 * NS_PER_MS;

/* Whose time it is, in the fault's words. command: to a store, where its kind is known; kinds are
 * distinguished.
 */
static struct fault *charge(struct analysis *a, const struct process *process, enum finding_kind kind,
                            const char *name, const char *service, const char *command,
                            const struct request *request, uint64_t start_ns, uint64_t end_ns)
{
    char key[1536];
    snprintf(key, sizeof(key), "%s|%s|%s", service ? service : "", name ? name : "", command ? command : "");
    struct fault *fault = fault_get(a, kind, process, key);
    if (!fault)
        return NULL;
    uint64_t took_ns = end_ns - start_ns;
    fault->process = process;
    fault->pid = process->pid;
    fault->command = name;
    fault->caller = service;
    fault->count++;
    fault->total_ns += took_ns;
    fault->worst_ns = MAX(fault->worst_ns, took_ns);
    fault->from_ns = MIN(fault->from_ns, start_ns);
    fault->to_ns = MAX(fault->to_ns, end_ns);
    fault_add_request(a, fault, request, took_ns, VICTIM_WAITED);
    const struct request *up = request->caller;
    for (int i = 0; up && i < CHAIN_MAX; i++, up = up->caller)
        fault_add_request(a, fault, up, took_ns, VICTIM_UPSTREAM);
    return fault;
}

static bool is_file(const struct vspan *span)
{
    for (unsigned kind = KIND_FIRST_FS; kind <= KIND_LAST_FS; kind++) {
        const char *name = event_label(SONDE_MEANING_uv_kind, kind);
        if (name && span->name && strcmp(name, span->name) == 0)
            return true;
    }
    return false;
}

static bool is_name_lookup(const struct vspan *span)
{
    return span->name && (strcmp(span->name, "getaddrinfo") == 0 || strcmp(span->name, "getnameinfo") == 0 ||
                          strncmp(span->name, "DNS", 3) == 0);
}

static const struct thread *thread_of(const struct process *process, int64_t tid)
{
    const uint64_t *slot = map_get(&process->threads, (uint64_t)tid);
    return slot ? (const struct thread *)(uintptr_t)*slot : NULL;
}

/* An operation that kept a CPU busy for that long is work, not waiting. */
static bool waited(const struct process *process, int64_t tid, uint64_t start_ns, uint64_t end_ns)
{
    const struct thread *thread = thread_of(process, tid);
    uint64_t took_ns = end_ns - start_ns, slack_ns = 40 * NS_PER_MS;
    uint64_t cpu_ns = thread ? stretch_cpu_ns(thread, start_ns, end_ns) : UINT64_MAX;
    uint64_t queue_ns = thread ? stretch_run_queue_ns(thread, start_ns, end_ns) : 0;
    if (took_ns - MIN(queue_ns, took_ns) < SLOW_NS)
        return false;
    return cpu_ns == UINT64_MAX || cpu_ns < took_ns / 2 + slack_ns;
}

/* Of [start, end), for how long the thread was blocked, but for the event loop's own sleep. */
static uint64_t blocked_at_work_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    struct activity_times times;
    size_t first, count = activity_waits(thread, start_ns, end_ns, &first);
    if (!activity_times(thread, start_ns, end_ns, &times))
        return 0;
    for (size_t i = first; i < first + count; i++) {
        const struct activity_wait *w = activity_wait_at(thread, i);
        uint64_t from_ns = MAX(w->start_ns, start_ns), to_ns = MIN(w->end_ns - w->runnable_ns, end_ns);
        if (activity_is_poll(w) && to_ns > from_ns)
            times.blocked_ns -= MIN(to_ns - from_ns, times.blocked_ns);
    }
    return times.blocked_ns;
}

/* Of [start, end), for how long the loop was blocked inside of a callback, as by a synchronous call; where
 * the kernel's events do not tell, for how long it was in one. Of the time before the turns that are kept,
 * the kernel's events alone tell. */
static uint64_t in_turns_ns(const struct thread *thread, bool exact, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t sum_ns = 0, kept_ns = end_ns;
    for (size_t i = thread->long_turn_count, seen = 0; i > 0 && seen < LONG_TURNS; i--, seen++) {
        const struct long_turn *turn = &thread->long_turns[(i - 1) % LONG_TURNS];
        uint64_t from_ns = MAX(turn->start_ns, start_ns), to_ns = MIN(turn->end_ns, end_ns);
        struct activity_times times;
        kept_ns = MIN(kept_ns, turn->start_ns);
        if (from_ns < to_ns)
            sum_ns += !exact                                           ? to_ns - from_ns
                      : activity_times(thread, from_ns, to_ns, &times) ? times.blocked_ns
                                                                       : 0;
    }
    bool forgotten = thread->long_turn_count > LONG_TURNS && kept_ns > start_ns;
    return sum_ns + (exact && forgotten ? blocked_at_work_ns(thread, start_ns, kept_ns) : 0);
}

uint64_t loop_busy_ns(const struct process *process, int64_t tid, uint64_t start_ns, uint64_t end_ns)
{
    const struct thread *thread = thread_of(process, tid);
    struct activity_times times;
    if (!thread)
        return 0;
    bool exact = activity_times(thread, start_ns, end_ns, &times);
    uint64_t turns_ns = in_turns_ns(thread, exact, start_ns, end_ns);
    uint64_t busy_ns = exact ? times.running_ns + times.runnable_ns + turns_ns
                             : MAX(turns_ns, stretch_ran_ns(thread, start_ns, end_ns) +
                                                 stretch_run_queue_ns(thread, start_ns, end_ns));
    return MIN(busy_ns, end_ns - start_ns);
}

/* When the loop last slept in [start, end): that takes what has come. 0: it did not. */
static uint64_t slept_until_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    size_t first, count = activity_waits(thread, start_ns, end_ns, &first);
    for (size_t i = first + count; i-- > first;) {
        const struct activity_wait *w = activity_wait_at(thread, i);
        uint64_t ready_ns = w->end_ns - w->runnable_ns;
        if (activity_is_poll(w) && ready_ns > start_ns)
            return ready_ns;
    }
    return 0;
}

/* Of a wait for an answer, the end in which it may have lain in the socket: it surely had not come when the
 * loop last polled or slept. After that the loop was busy itself, or had no CPU. Where that is not
 * known, what it had none for, if that was most of it. */
static uint64_t unread_ns(const struct process *process, int64_t tid, const struct vspan *span,
                          uint64_t start_ns, uint64_t end_ns)
{
    const struct thread *thread = thread_of(process, tid);
    struct activity_times times;
    if (!thread)
        return 0;
    uint64_t waits_ns = MAX(slept_until_ns(thread, start_ns, end_ns), span->polled_ns);
    if (waits_ns > start_ns && activity_times(thread, start_ns, end_ns, &times))
        return end_ns - MIN(waits_ns, end_ns);
    uint64_t ready_ns = stretch_run_queue_ns(thread, start_ns, end_ns), took_ns = end_ns - start_ns;
    return ready_ns * 2 >= took_ns ? MIN(ready_ns, took_ns) : 0;
}

/* The process that answered the call. */
static const struct process *process_of_pid(const struct analysis *a, int64_t pid)
{
    const uint64_t *known = map_get(&a->processes, (uint64_t)pid);
    return known ? (const struct process *)(uintptr_t)*known : NULL;
}

/* Of a wait for the answer of another process, what lacked a CPU: there, or here once it had come. */
static uint64_t without_cpu_ns(const struct analysis *a, const struct process *process,
                               const struct request *request, const struct vspan *span,
                               const struct path_step *step)
{
    const struct process *other = span->peer_pid ? process_of_pid(a, span->peer_pid) : NULL;
    const struct thread *thread = other ? thread_of(other, other->pid) : NULL;
    return unread_ns(process, request->tid, span, step->start_ns, step->end_ns) +
           (thread ? stretch_run_queue_ns(thread, step->start_ns, step->end_ns) : 0);
}

/* The part of a step until TCP last sent something again on its connection: before that no answer could be
 * expected. Returns where the rest begins. */
static uint64_t judge_resent(struct analysis *a, const struct process *process, struct request *request,
                             const struct path_step *step)
{
    const struct vspan *span = &request->spans.at[step->span];
    uint64_t until_ns = MIN(span->resent_ns, step->end_ns);
    bool over = !span->end_ns && (request->state == REQUEST_UNFINISHED || request->failure || span->lost);
    if (step->of_child || over || until_ns < step->start_ns + SLOW_NS)
        return step->start_ns;
    const char *peer = span->peer ? span->peer : span->name;
    struct fault *fault = charge(a, process, FINDING_tcp_retransmissions, peer, step->service, span->name,
                                 request, step->start_ns, until_ns);
    if (fault) {
        fault->asked = span->name ? span->name : peer;
        fault->attempts += span->resends;
    }
    return until_ns;
}

/* Counts the answer that a step waits for, of a peer on this machine that is not traced. What the program
 * itself had no CPU for is not the peer's: on a busy machine all its calls take long. */
static void count_answer(struct analysis *a, const struct process *process, const struct request *request,
                         const struct path_step *step)
{
    const struct vspan *span = &request->spans.at[step->span];
    if (step->class != PATH_PEER || step->service || step->of_child || span->kind == VSPAN_ipc ||
        !machine_is_local(span->peer))
        return;
    const double late_ns = 0.8 * (double)SLOW_NS;
    uint64_t took_ns = step->end_ns - step->start_ns;
    bool late =
        (double)took_ns >= late_ns &&
        (double)(took_ns - unread_ns(process, request->tid, span, step->start_ns, step->end_ns)) >= late_ns;
    uint64_t *answers = machine_answers(a, process, span->peer, span->name, request->route);
    if (answers && (uint32_t)*answers < UINT32_MAX)
        *answers += 1 + ((uint64_t)late << 32);
}

static bool may_lack_cpu(struct analysis *a, const struct process *process, const struct request *request,
                         const struct vspan *span, uint64_t start_ns, uint64_t end_ns)
{
    return machine_lacked_cpu(a, process, span->peer,
                              machine_answers(a, process, span->peer, span->name, request->route), 0.9,
                              start_ns, end_ns, end_ns - start_ns - SLOW_NS);
}

static void judge_step(struct analysis *a, const struct process *process, struct request *request,
                       const struct path_step *whole)
{
    struct path_step rest = *whole, *step = &rest;
    const struct vspan *span = &request->spans.at[step->span];
    step->start_ns = judge_resent(a, process, request, whole);
    uint64_t took_ns = step->end_ns - step->start_ns;
    /* On a machine that has no CPUs for us it has none for the others: then who is quick as a rule gets
     * more time. Of the pool's threads it is known how long they waited for a CPU. */
    const struct attl *attl = attl_of(a, process->service, span->name ? span->name : "");
    bool usual = attl && sketch_quantile(&attl->latency, 0.5) >= 0.8 * (double)SLOW_NS;
    double busy = usual || step->class == PATH_POOL ? 0 : 1 - process_ran_share(process);
    if ((double)took_ns < (double)SLOW_NS * (1 + 2 * busy))
        return;
    if (step->class == PATH_PEER && span->kind == VSPAN_ipc) {
        if (is_thread_message(span) && span->end_ns)
            return; /* a thread that works for it */
        uint64_t apart_ns = without_cpu_ns(a, process, request, span, step);
        if (took_ns < SLOW_NS + span->stalled_ns + span->starting_ns + apart_ns)
            return;
        struct fault *fault = charge(a, process, FINDING_ipc_blocked, span->peer, NULL, NULL, request,
                                     step->start_ns + span->starting_ns, step->end_ns - apart_ns);
        if (!fault)
            return;
        fault->asked = span->name;
        fault->queued_commands += span->sequence != 0;
        fault->unfinished |= request->state == REQUEST_UNFINISHED && !span->end_ns;
        return;
    }
    if (request->state == REQUEST_UNFINISHED || (request->failure && !span->end_ns) || span->lost)
        return;
    if (step->class == PATH_POOL && !step->service && (is_file(span) || is_name_lookup(span))) {
        if (waited(process, span->peer_tid, step->start_ns, step->end_ns))
            charge(a, process, FINDING_slow_io, span->name, NULL, NULL, request, step->start_ns,
                   step->end_ns);
    } else if (step->class == PATH_PEER && is_name_lookup(span)) {
        charge(a, process, FINDING_slow_io, span->name, NULL, NULL, request, step->start_ns, step->end_ns);
    } else if (step->class == PATH_PEER && !step->of_child) {
        const char *peer = !step->service && span->peer ? span->peer : span->name;
        const char *service = step->service;
        uint64_t own_ns = unread_ns(process, request->tid, span, step->start_ns, step->end_ns);
        own_ns = MIN(own_ns + span->stalled_ns, took_ns);
        if (!service &&
            peer_is_itself(process, span->peer)) /* other steps say what its loop did in that time */
            own_ns = MAX(own_ns, loop_busy_ns(process, request->tid, step->start_ns, step->end_ns));
        if (took_ns - own_ns < SLOW_NS)
            return;
        bool command = span->kind == VSPAN_command && span->wire != SONDE_wire_resp; /* which has a name */
        const char *asked = span->statement ? span->statement : span->name;
        struct fault *fault = charge(a, process, FINDING_slow_peer, peer, service, command ? asked : NULL,
                                     request, step->start_ns, step->end_ns - own_ns);
        if (!fault)
            return;
        if (span->kind == VSPAN_http || command)
            fault->asked = span->name, fault->statement = span->statement;
        if (!service && may_lack_cpu(a, process, request, span, step->start_ns, step->end_ns - own_ns)) {
            fault->excused_count++;
            fault->excused_ns += took_ns - own_ns;
        } else {
            fault->blamed_worst_ns = MAX(fault->blamed_worst_ns, took_ns - own_ns);
        }
    } else if (step->class == PATH_OTHER && span->child && span->child->service == step->service &&
               !span->child->ambiguous) {
        /* That it waited is what its thread's own account must say. */
        const struct process *child = process_of_pid(a, span->child->pid);
        uint64_t own_ns = child ? loop_busy_ns(child, span->child->tid, step->start_ns, step->end_ns) : 0;
        if (own_ns * 2 >= took_ns || took_ns - own_ns < SLOW_NS)
            return;
        struct fault *fault = charge(a, process, FINDING_slow_peer, span->name, step->service, NULL, request,
                                     step->start_ns, step->end_ns - own_ns);
        if (fault) {
            fault->asked = span->name;
            fault->others_unknown = true; /* it waited itself, for nothing that was seen */
        }
    }
}

void slow_request_done(struct analysis *a, const struct process *process, struct request *request)
{
    failure_request_done(a, process, request);
    lanes_request_done(a, process, request);
    consumers_request_done(a, request);
    many_request_done(a, process, request);
    unexplained_request_done(a, process, request);
    short_request_waited(a, process, request);
    array_foreach (&request->path_steps, step)
        if (step->span != VSPAN_NONE)
            count_answer(a, process, request, step);
    if (request->end_ns - request->start_ns < SLOW_NS)
        return;
    for (size_t i = 0; i < request->path_steps.count; i++) {
        const struct path_step *step = &request->path_steps.at[i];
        if (step->span != VSPAN_NONE && step->end_ns - step->start_ns >= SLOW_NS)
            judge_step(a, process, request, step);
    }
}
