/* Waits for locks: a lock is to blame only as far as who held it is known to have had a CPU. A holder
 * that is known has an account of its own (struct activity_wait, held_ns); of one that is not, all threads of
 * the process may be it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "faults/faults.h"

/* Of a wait whose holder is not known, the part that the process's other threads lacked a CPU for, from
 * which on it may all be that; and the same for the whole time that the process was recorded. */
static const double LACKED_SHARE = 0.1, RAN_SHARE = 0.75;

/* A function of libc without a name is one of its own, under a lock's. */
bool is_lock(const char *function)
{
    static const char *const LOCKS[] = {"pthread_mutex", "pthread_cond", "pthread_rwlock", "lll_lock",
                                        "futex",         "sem_",         "libc.so.6+",     "libpthread"};
    for (size_t i = 0; function && i < ARRAY_SIZE(LOCKS); i++)
        if (strstr(function, LOCKS[i]))
            return true;
    return false;
}

/* The same, surely. */
bool is_named_lock(const char *function)
{
    return is_lock(function) && !strstr(function, "libc.so.6+") && !strstr(function, "libpthread");
}

/* Of a stretch, the time in a lock that no thread of the process is known to have ended. */
static uint64_t holder_unknown_ns(const struct thread *thread, const struct stretch *s)
{
    struct activity_times times;
    if (!activity_times(thread, s->start_ns, s->end_ns, &times))
        return s->end_ns - s->start_ns;
    size_t first, count = activity_waits(thread, s->start_ns, s->end_ns, &first);
    uint64_t unknown_ns = 0;
    for (size_t i = first; i < first + count; i++) {
        const struct activity_wait *w = activity_wait_at(thread, i);
        uint64_t from_ns = MAX(w->start_ns, s->start_ns), to_ns = MIN(w->end_ns - w->runnable_ns, s->end_ns);
        bool lock = activity_is_lock(w) ||
                    (w->reason == SONDE_off_reason_blocked && !w->brief && w->call == SONDE_SYSCALL_NONE);
        if (lock && !w->holder_known && to_ns > from_ns)
            unknown_ns += to_ns - from_ns;
    }
    return unknown_ns;
}

/* How long the other threads of the process had no CPU in a stretch: together, and the one that lacked
 * it longest. */
static uint64_t others_lacked_ns(const struct thread *thread, const struct stretch *s, uint64_t *ret_longest)
{
    uint64_t all_ns = 0;
    *ret_longest = 0;
    map_foreach (&thread->process->threads, slot) {
        const struct thread *other = (const struct thread *)(uintptr_t)slot->value;
        uint64_t ns = other == thread ? 0 : stretch_run_queue_ns(other, s->start_ns, s->end_ns);
        all_ns += ns;
        *ret_longest = MAX(*ret_longest, ns);
    }
    return all_ns;
}

uint64_t lock_machine_ns(const struct thread *thread, const struct stretch *s, uint64_t run_queue_ns,
                         bool collects)
{
    struct activity_times times;
    uint64_t longest_ns, all_ns = others_lacked_ns(thread, s, &longest_ns);
    uint64_t unknown_ns = MIN(holder_unknown_ns(thread, s), all_ns);
    bool exact = activity_times(thread, s->start_ns, s->end_ns, &times);
    uint64_t machine_ns = exact ? run_queue_ns + unknown_ns : MAX(run_queue_ns, unknown_ns);
    return MIN(collects ? MAX(machine_ns, longest_ns) : machine_ns, s->end_ns - s->start_ns);
}

bool lock_proven(const struct thread *thread, const struct stretch *s, const struct look *place)
{
    uint64_t took_ns = s->end_ns - s->start_ns, longest_ns;
    struct activity_times times;
    if (place->called && strcmp(place->called, "Atomics.wait") == 0) /* it asked for it */
        return true;
    if (activity_times(thread, s->start_ns, s->end_ns, &times) && times.blocked_ns * 2 < took_ns)
        return false; /* samples saw a lock; by the kernel's account it was not what took the time */
    if (holder_unknown_ns(thread, s) * 2 < took_ns)
        return true;
    return (double)others_lacked_ns(thread, s, &longest_ns) < LACKED_SHARE * (double)took_ns &&
           process_ran_share(thread->process) >= RAN_SHARE;
}
