/* See activity.h. Of each kind a ring that grows to its limit. Waits carry running sums, so that a question
 * about a long time costs two searches; of waits that are kept no more, the sums at every so many of them
 * are. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "model/activity.h"

#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "base/clock.h"
#include "base/macro.h"

enum { CALLS_KEPT = 4096, WAITS_KEPT = 4096, MARKS_KEPT = 4096, DISKS_KEPT = 512, FIRST_CAPACITY = 32 };
/* The number of waits that one mark sums up. */
enum { MARK_WAITS = 32 };
/* As event/syscalls.h has them. */
enum {
    CALL_MMAP = 9,
    CALL_MPROTECT = 10,
    CALL_MUNMAP = 11,
    CALL_BRK = 12,
    CALL_MREMAP = 25,
    CALL_MADVISE = 28
};
enum { CALL_FUTEX = 202, CALL_EPOLL_WAIT = 232, CALL_EPOLL_PWAIT = 281, CALL_EPOLL_PWAIT2 = 441 };

static const uint64_t LINK_NS = NS_PER_MS;
/* Between the pieces of a wait that taking a sample interrupts. */
static const uint64_t AT_ONCE_NS = 100 * NS_PER_US;

/* Sums of all waits until then. */
struct wait_sums {
    uint64_t off_ns, runnable_ns, held_ns;
};
struct wait_kept {
    struct activity_wait wait;
    struct wait_sums before;
};
struct wait_mark {
    uint64_t end_ns;
    struct wait_sums sums;
};

/* elements[i % capacity] is number i, of those in [count - kept, count). */
struct ring {
    void *elements;
    size_t count, capacity;
};

struct activity {
    struct ring calls, waits, marks, disks;
};

/* Ends are in order: the index of the first element that ends after ns. */
typedef uint64_t ring_end(const void *element);

static void *ring_at(const struct ring *ring, size_t size, size_t index)
{
    return (char *)ring->elements + index % ring->capacity * size;
}

static size_t ring_oldest(const struct ring *ring)
{
    return ring->count - MIN(ring->count, ring->capacity);
}

/* A place for one more; NULL when memory is exhausted. */
static void *ring_add(struct ring *ring, size_t size, size_t limit)
{
    if (ring->count == ring->capacity && ring->capacity < limit) { /* it has not begun to turn */
        size_t capacity = ring->capacity ? 2 * ring->capacity : FIRST_CAPACITY;
        void *elements = realloc(ring->elements, capacity * size);
        if (!elements)
            return NULL;
        ring->elements = elements;
        ring->capacity = capacity;
    }
    return ring_at(ring, size, ring->count++);
}

static size_t ring_first_after(const struct ring *ring, size_t size, ring_end *end, uint64_t ns)
{
    size_t low = ring_oldest(ring), high = ring->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (end(ring_at(ring, size, middle)) <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t call_end(const void *element)
{
    return ((const struct activity_call *)element)->end_ns;
}

static uint64_t wait_end(const void *element)
{
    return ((const struct wait_kept *)element)->wait.end_ns;
}

static uint64_t mark_end(const void *element)
{
    return ((const struct wait_mark *)element)->end_ns;
}

static uint64_t disk_end(const void *element)
{
    return ((const struct activity_disk *)element)->end_ns;
}

static struct wait_sums sums_after(const struct wait_kept *k)
{
    return (struct wait_sums){k->before.off_ns + (k->wait.end_ns - k->wait.start_ns - k->wait.running_ns),
                              k->before.runnable_ns + k->wait.runnable_ns,
                              k->before.held_ns + k->wait.held_ns};
}

/* ---- events ---- */

static bool maps_memory(uint16_t call)
{
    static const uint16_t CALLS[] = {CALL_MMAP, CALL_MPROTECT, CALL_MUNMAP,
                                     CALL_BRK,  CALL_MREMAP,   CALL_MADVISE};
    for (size_t i = 0; i < ARRAY_SIZE(CALLS); i++)
        if (CALLS[i] == call)
            return true;
    return false;
}

static struct thread *thread_of(struct analysis *a, uint64_t pid, uint64_t tid)
{
    const uint64_t *known = map_get(&a->processes, pid); /* only what is traced has such events */
    struct process *process = known ? (struct process *)(uintptr_t)*known : NULL;
    struct thread *thread = process ? thread_get(a, process, (int64_t)tid) : NULL;
    if (thread && !thread->activity) {
        thread->activity = calloc(1, sizeof(*thread->activity));
        a->failed |= !thread->activity;
    }
    return thread && thread->activity ? thread : NULL;
}

/* Calls are recorded: what represented them so far was part of a call that is recorded as a whole. */
static void forget_parts(struct process *process)
{
    process->has_calls = 1;
    map_foreach (&process->threads, slot) {
        struct thread *thread = (struct thread *)(uintptr_t)slot->value;
        if (thread->activity)
            thread->activity->calls.count = 0;
    }
}

static void call_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct thread *thread = thread_of(a, U(e, sys_call_pid), U(e, sys_call_tid));
    if (thread && !thread->process->has_calls)
        forget_parts(thread->process);
    struct activity_call *call =
        thread ? ring_add(&thread->activity->calls, sizeof(*call), CALLS_KEPT) : NULL;
    if (!call) {
        a->failed |= thread != NULL;
        return;
    }
    *call = (struct activity_call){.start_ns = e->time_ns - MIN(event_duration(e), e->time_ns),
                                   .end_ns = e->time_ns,
                                   .result = e->values[FIELD_sys_call_result].i,
                                   .fd = (int32_t)e->values[FIELD_sys_call_fd].i,
                                   .call = (uint16_t)U(e, sys_call_call),
                                   .outcome = (uint8_t)U(e, sys_call_outcome)};
}

static uint64_t blocked_ns(const struct activity_wait *w)
{
    return w->end_ns - w->runnable_ns - w->running_ns - w->start_ns;
}

/* The other thread of its process that ended a wait for a futex; NULL: none, or a thread of another process.
 */
static const struct thread *waker_of(const struct thread *thread, const struct activity_wait *w)
{
    bool own = w->call == CALL_FUTEX && w->waker_pid == thread->process->pid && w->waker_tid != thread->tid &&
               w->reason != SONDE_off_reason_stopped && w->reason != SONDE_off_reason_uninterruptible;
    const uint64_t *slot = own ? map_get(&thread->process->threads, (uint64_t)w->waker_tid) : NULL;
    return slot ? (const struct thread *)(uintptr_t)*slot : NULL;
}

/* Of the wait without what it was runnable, the part in which that thread had no CPU. What is shorter
 * than LINK_NS is not worth it. */
static uint64_t held_by_ns(const struct thread *waker, const struct activity_wait *w)
{
    struct activity_times its = {0};
    if (waker && blocked_ns(w) >= LINK_NS)
        activity_times(waker, w->start_ns, w->end_ns - w->runnable_ns, &its);
    return its.runnable_ns + its.held_ns;
}

/* The wait without what it was runnable, if all of that is the machine's doing; or the part of it in which
 * who woke the thread had no CPU. */
static uint64_t held_ns(struct thread *thread, const struct activity_wait *w)
{
    if (w->reason == SONDE_off_reason_stopped) /* while a sample was taken, or by a debugger */
        return blocked_ns(w);
    if (w->reason == SONDE_off_reason_uninterruptible)
        return maps_memory(w->call) ? blocked_ns(w) : 0;
    return held_by_ns(waker_of(thread, w), w);
}

/* Taking a sample wakes the thread for a moment, and it goes on waiting: the thread that ends the last piece
 * of such a wait is the one that the pieces before it waited for as well. */
static void hold_pieces(struct thread *thread)
{
    enum { PIECES_MAX = 256 };
    struct ring *waits = &thread->activity->waits, *marks = &thread->activity->marks;
    size_t last = waits->count - 1, first = last;
    const struct wait_kept *next = ring_at(waits, sizeof(*next), last);
    const struct thread *waker = waker_of(thread, &next->wait);
    while (waker && first > ring_oldest(waits) && last - first < PIECES_MAX) {
        const struct wait_kept *piece = ring_at(waits, sizeof(*piece), first - 1);
        const struct activity_wait *w = &piece->wait;
        bool stopped = w->reason == SONDE_off_reason_stopped;
        bool same =
            w->call == CALL_FUTEX &&
            (stopped || (w->reason == SONDE_off_reason_blocked && w->waker_pid != thread->process->pid));
        if (next->wait.start_ns > w->end_ns + AT_ONCE_NS || (!same && !w->brief))
            break;
        next = piece;
        first--;
    }
    for (size_t i = first; i < last; i++) {
        struct wait_kept *piece = ring_at(waits, sizeof(*piece), i);
        piece->wait.held_ns = MAX(piece->wait.held_ns, held_by_ns(waker, &piece->wait));
        piece->wait.holder_known = 1;
        struct wait_kept *after = ring_at(waits, sizeof(*after), i + 1);
        after->before = sums_after(piece);
        for (size_t mark = marks->count; mark > ring_oldest(marks); mark--) {
            struct wait_mark *told = ring_at(marks, sizeof(*told), mark - 1);
            if (told->end_ns == piece->wait.end_ns)
                told->sums = after->before;
            if (told->end_ns <= piece->wait.end_ns)
                break;
        }
    }
}

static void add_call_of_wait(struct analysis *a, struct thread *thread, const struct activity_wait *wait)
{
    struct activity_call *call = ring_add(&thread->activity->calls, sizeof(*call), CALLS_KEPT);
    if (!call) {
        a->failed = true;
        return;
    }
    *call = (struct activity_call){.start_ns = wait->start_ns,
                                   .end_ns = wait->end_ns,
                                   .result = ACTIVITY_RESULT_UNKNOWN,
                                   .fd = wait->fd,
                                   .call = wait->call};
}

/* One more wait of a thread, whose start is put behind the one before. NULL when memory is exhausted. */
static struct wait_kept *add_wait(struct analysis *a, struct thread *thread, uint64_t start_ns,
                                  uint64_t end_ns)
{
    struct ring *waits = &thread->activity->waits;
    struct wait_kept last = {0};
    if (waits->count)
        last = *(struct wait_kept *)ring_at(waits, sizeof(last), waits->count - 1);
    struct wait_kept *kept = ring_add(waits, sizeof(*kept), WAITS_KEPT);
    if (!kept) {
        a->failed = true;
        return NULL;
    }
    thread->process->has_waits = 1;
    end_ns = MAX(end_ns, last.wait.end_ns);
    *kept = (struct wait_kept){
        .wait = {.start_ns = MIN(MAX(start_ns, last.wait.end_ns), end_ns), .end_ns = end_ns},
        .before = sums_after(&last)};
    return kept;
}

static void mark_wait(struct analysis *a, struct thread *thread, const struct wait_kept *kept)
{
    if (thread->activity->waits.count % MARK_WAITS)
        return;
    struct wait_mark *mark = ring_add(&thread->activity->marks, sizeof(*mark), MARKS_KEPT);
    if (mark)
        *mark = (struct wait_mark){kept->wait.end_ns, sums_after(kept)};
    else
        a->failed = true;
}

static void wait_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct thread *thread = thread_of(a, U(e, sched_switch_pid), U(e, sched_switch_tid));
    uint64_t start_ns = e->time_ns - MIN(event_duration(e), e->time_ns);
    struct wait_kept *kept = thread ? add_wait(a, thread, start_ns, e->time_ns) : NULL;
    if (!kept)
        return;
    struct activity_wait *w = &kept->wait;
    w->runnable_ns = MIN(U(e, sched_switch_runnable_ns), w->end_ns - w->start_ns);
    w->waker_pid = (int64_t)U(e, sched_switch_waker_pid);
    w->waker_tid = (int64_t)U(e, sched_switch_waker_tid);
    w->fd = (int32_t)e->values[FIELD_sched_switch_fd].i;
    w->call = (uint16_t)U(e, sched_switch_call);
    w->reason = (uint8_t)U(e, sched_switch_reason);
    w->woken_by = (uint8_t)U(e, sched_switch_woken_by);
    w->held_ns = held_ns(thread, w);
    w->holder_known = waker_of(thread, w) != NULL;
    hold_pieces(thread);
    if (!thread->process->has_calls && w->call != SONDE_SYSCALL_NONE)
        add_call_of_wait(a, thread, w);
    mark_wait(a, thread, kept);
}

static void brief_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct thread *thread = thread_of(a, U(e, sched_brief_pid), U(e, sched_brief_tid));
    uint64_t duration_ns = MIN(event_duration(e), e->time_ns);
    uint64_t since_ns = MIN(U(e, sched_brief_since_ns), duration_ns);
    struct wait_kept *kept =
        thread ? add_wait(a, thread, e->time_ns - duration_ns, e->time_ns - since_ns) : NULL;
    if (!kept)
        return;
    struct activity_wait *w = &kept->wait;
    uint64_t off_ns = MIN(U(e, sched_brief_off_ns), w->end_ns - w->start_ns);
    w->brief = true;
    w->running_ns = w->end_ns - w->start_ns - off_ns;
    w->runnable_ns = MIN(U(e, sched_brief_runnable_ns), off_ns);
    w->fd = -1;
    w->call = SONDE_SYSCALL_NONE;
    mark_wait(a, thread, kept);
}

static void disk_event(struct analysis *a, struct thread *none, const struct event *e)
{
    struct thread *thread = thread_of(a, U(e, block_io_pid), U(e, block_io_tid));
    struct activity_disk *disk =
        thread ? ring_add(&thread->activity->disks, sizeof(*disk), DISKS_KEPT) : NULL;
    if (!disk) {
        a->failed |= thread != NULL;
        return;
    }
    *disk = (struct activity_disk){.start_ns = e->time_ns - MIN(event_duration(e), e->time_ns),
                                   .end_ns = e->time_ns,
                                   .queued_ns = U(e, block_io_queued_ns),
                                   .bytes = U(e, block_io_bytes),
                                   .device = (uint32_t)U(e, block_io_device),
                                   .operation = (uint8_t)U(e, block_io_operation)};
}

const struct event_reading ACTIVITY_EVENTS[] = {{SONDE_EVENT_sys_call, call_event},
                                                {SONDE_EVENT_sched_switch, wait_event},
                                                {SONDE_EVENT_sched_brief, brief_event},
                                                {SONDE_EVENT_block_io, disk_event},
                                                {0}};

void activity_begin_anew(struct analysis *a, uint64_t time_ns)
{
    array_foreach (&a->all_processes, process) {
        (*process)->has_waits = (*process)->has_calls = 0;
        (*process)->waits_since_ns = time_ns;
    }
}

void activity_free(struct activity *activity)
{
    if (!activity)
        return;
    free(activity->calls.elements);
    free(activity->waits.elements);
    free(activity->marks.elements);
    free(activity->disks.elements);
    free(activity);
}

/* ---- questions ---- */

static uint64_t share_of(uint64_t whole, uint64_t part, uint64_t all)
{
    return all ? (uint64_t)((double)whole * (double)part / (double)all) : 0;
}

/* Before ns; at is the first wait that ends after it. When in a wait it was held, and when in a row of brief
 * ones it was off its CPU, is not known: a share. */
static struct wait_sums sums_before(const struct ring *waits, size_t at, uint64_t ns)
{
    const struct wait_kept *k = ring_at(waits, sizeof(*k), at == waits->count ? at - 1 : at);
    const struct activity_wait *w = &k->wait;
    uint64_t ready_ns = w->end_ns - w->runnable_ns;
    if (at == waits->count)
        return sums_after(k);
    struct wait_sums sums = k->before;
    if (w->brief) {
        uint64_t all_ns = w->end_ns - w->start_ns, part_ns = ns > w->start_ns ? ns - w->start_ns : 0;
        sums.off_ns += share_of(all_ns - w->running_ns, part_ns, all_ns);
        sums.runnable_ns += share_of(w->runnable_ns, part_ns, all_ns);
        return sums;
    }
    sums.off_ns += ns > w->start_ns ? ns - w->start_ns : 0;
    sums.runnable_ns += ns > ready_ns ? ns - ready_ns : 0;
    sums.held_ns +=
        ns > w->start_ns ? share_of(w->held_ns, MIN(ns, ready_ns) - w->start_ns, ready_ns - w->start_ns) : 0;
    return sums;
}

/* Before the oldest wait that is kept: between two marks, a share. Returns false when it is too long ago. */
static bool sums_long_ago(const struct ring *marks, uint64_t ns, struct wait_sums *ret_sums)
{
    size_t at = ring_first_after(marks, sizeof(struct wait_mark), mark_end, ns);
    if (at == marks->count || (at == ring_oldest(marks) && at > 0))
        return false;
    const struct wait_mark *after = ring_at(marks, sizeof(*after), at);
    struct wait_mark before = {.end_ns = ns}; /* as far as waits are known, there was none */
    if (at)
        before = *(const struct wait_mark *)ring_at(marks, sizeof(before), at - 1);
    uint64_t part_ns = ns - before.end_ns, all_ns = after->end_ns - before.end_ns;
    *ret_sums = (struct wait_sums){
        before.sums.off_ns + share_of(after->sums.off_ns - before.sums.off_ns, part_ns, all_ns),
        before.sums.runnable_ns +
            share_of(after->sums.runnable_ns - before.sums.runnable_ns, part_ns, all_ns),
        before.sums.held_ns + share_of(after->sums.held_ns - before.sums.held_ns, part_ns, all_ns)};
    return true;
}

bool activity_times(const struct thread *thread, uint64_t start_ns, uint64_t end_ns,
                    struct activity_times *ret_times)
{
    if (!thread->process->has_waits || end_ns < start_ns || start_ns < thread->process->waits_since_ns)
        return false;
    const struct ring *waits = thread->activity ? &thread->activity->waits : NULL;
    struct wait_sums start = {0}, end = {0};
    if (waits && waits->count) {
        size_t first = ring_first_after(waits, sizeof(struct wait_kept), wait_end, start_ns);
        size_t last = ring_first_after(waits, sizeof(struct wait_kept), wait_end, end_ns);
        size_t oldest = ring_oldest(waits);
        if (first > oldest || first == 0)
            start = sums_before(waits, first, start_ns);
        else if (last == oldest || !sums_long_ago(&thread->activity->marks, start_ns, &start))
            return false;
        end = sums_before(waits, last, end_ns);
    }
    uint64_t off_ns = MIN(end.off_ns - start.off_ns, end_ns - start_ns);
    uint64_t runnable_ns = MIN(end.runnable_ns - start.runnable_ns, off_ns),
             blocked_ns = off_ns - runnable_ns;
    *ret_times = (struct activity_times){.running_ns = end_ns - start_ns - off_ns,
                                         .runnable_ns = runnable_ns,
                                         .blocked_ns = blocked_ns,
                                         .held_ns = MIN(end.held_ns - start.held_ns, blocked_ns)};
    return true;
}

uint64_t activity_net_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns)
{
    struct activity_times times = {0};
    activity_times(thread, start_ns, end_ns, &times);
    return end_ns - start_ns - times.runnable_ns - times.held_ns;
}

size_t activity_calls(const struct thread *thread, uint64_t start_ns, uint64_t end_ns, size_t *ret_first)
{
    const struct ring *calls = thread->activity ? &thread->activity->calls : NULL;
    *ret_first = 0;
    if (!calls || !calls->count)
        return 0;
    size_t first = ring_first_after(calls, sizeof(struct activity_call), call_end, start_ns);
    size_t last = ring_first_after(calls, sizeof(struct activity_call), call_end, end_ns);
    while (first < last && activity_call_at(thread, first)->start_ns < start_ns)
        first++;
    *ret_first = first;
    return last - first;
}

const struct activity_call *activity_call_at(const struct thread *thread, size_t index)
{
    return ring_at(&thread->activity->calls, sizeof(struct activity_call), index);
}

const char *activity_call_name(uint16_t call)
{
    const char *name = event_label(SONDE_MEANING_syscall, call);
    return name ? name : "system call";
}

size_t activity_waits(const struct thread *thread, uint64_t start_ns, uint64_t end_ns, size_t *ret_first)
{
    const struct ring *waits = thread->activity ? &thread->activity->waits : NULL;
    *ret_first = 0;
    if (!waits || !waits->count)
        return 0;
    size_t first = ring_first_after(waits, sizeof(struct wait_kept), wait_end, start_ns), last = first;
    while (last < waits->count && activity_wait_at(thread, last)->start_ns < end_ns)
        last++;
    *ret_first = first;
    return last - first;
}

const struct activity_wait *activity_wait_at(const struct thread *thread, size_t index)
{
    return &((struct wait_kept *)ring_at(&thread->activity->waits, sizeof(struct wait_kept), index))->wait;
}

bool activity_is_lock(const struct activity_wait *wait)
{
    return wait->reason == SONDE_off_reason_blocked && wait->call == CALL_FUTEX;
}

bool activity_is_poll(const struct activity_wait *wait)
{
    return wait->reason == SONDE_off_reason_blocked &&
           (wait->call == CALL_EPOLL_WAIT || wait->call == CALL_EPOLL_PWAIT ||
            wait->call == CALL_EPOLL_PWAIT2);
}

size_t activity_disks(const struct thread *thread, uint64_t start_ns, uint64_t end_ns, size_t *ret_first)
{
    const struct ring *disks = thread->activity ? &thread->activity->disks : NULL;
    *ret_first = 0;
    if (!disks || !disks->count)
        return 0;
    size_t first = ring_first_after(disks, sizeof(struct activity_disk), disk_end, start_ns), last = first;
    while (last < disks->count && activity_disk_at(thread, last)->start_ns < end_ns)
        last++;
    *ret_first = first;
    return last - first;
}

const struct activity_disk *activity_disk_at(const struct thread *thread, size_t index)
{
    return ring_at(&thread->activity->disks, sizeof(struct activity_disk), index);
}
