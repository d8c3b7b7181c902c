/* What threads did in the kernel, of the last while: their system calls, the times they were off a CPU
 * and why, their disk requests. For passes that ask "what was this thread doing in [start, end)?" once that
 * time is over. Bounded: the newest few thousand of each are kept per thread; an answer that would need older
 * ones is "unknown", never a guess. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_ACTIVITY_H
#define MODEL_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/protocol.h"
#include "trace/event.h"

struct analysis;
struct thread;
struct activity;

/* Where system calls are not recorded one by one, the time that a thread was off the CPU in one represents
 * it: its result is not known then, and calls that never left the CPU are not seen. */
#define ACTIVITY_RESULT_UNKNOWN INT64_MIN
struct activity_call {
    uint64_t start_ns, end_ns;
    int64_t result; /* a negative errno when it failed; ACTIVITY_RESULT_UNKNOWN */
    int32_t fd;     /* -1 for none */
    uint16_t call;  /* its number; activity_call_name() */
    uint8_t outcome;
};

/* [start_ns, end_ns) off the CPU; the last runnable_ns of it the thread could have gone on. held_ns of
 * the rest is the machine's doing, or of whoever stopped it to take a sample; the kernel's lock on the
 * process' memory map; a thread of its process that it waited for (a lock, the collector's threads) and that
 * had no CPU itself. Or several short times of which only the sums are known (sched:brief): then the
 * thread ran running_ns of [start_ns, end_ns), and there is no waker, call or reason. */
struct activity_wait {
    uint64_t start_ns, end_ns, runnable_ns, held_ns, running_ns;
    int64_t waker_pid, waker_tid; /* 0: none */
    int32_t fd;
    uint16_t call; /* that it was in; SONDE_SYSCALL_NONE */
    uint8_t reason, woken_by;
    bool brief;           /* several short times */
    uint8_t holder_known; /* another thread of its process ended it: held_ns is that one's account */
};

struct activity_disk {
    uint64_t start_ns, end_ns, queued_ns;
    uint64_t bytes;
    uint32_t device;
    uint8_t operation;
};

/* The first three add up to the interval; held_ns of blocked_ns was the machine's doing. */
struct activity_times {
    uint64_t running_ns, runnable_ns, blocked_ns, held_ns;
};

/* A sys:call, sched:switch, sched:brief or block:io. */
extern const struct event_reading ACTIVITY_EVENTS[]; /* what the kernel tells */
void activity_free(struct activity *activity);

/* From time_ns on other events are recorded than before: until there is another wait they may be left out,
 * and what overlaps the time before is not known. */
void activity_begin_anew(struct analysis *a, uint64_t time_ns);

/* Running, runnable, blocked in [start_ns, end_ns); false when it is not known: no such events in the trace,
 * or the time is too long ago. */
bool activity_times(const struct thread *thread, uint64_t start_ns, uint64_t end_ns,
                    struct activity_times *ret_times);

/* Of [start_ns, end_ns), what the thread did not lose to the machine (runnable, held); all of it where that
 * is not known. */
uint64_t activity_net_ns(const struct thread *thread, uint64_t start_ns, uint64_t end_ns);

/* The calls that lie in [start_ns, end_ns]: how many, and the index of the first; the others follow it. */
size_t activity_calls(const struct thread *thread, uint64_t start_ns, uint64_t end_ns, size_t *ret_first);
const struct activity_call *activity_call_at(const struct thread *thread, size_t index);
const char *activity_call_name(uint16_t call);

/* The same for the times off the CPU that overlap [start_ns, end_ns), and for disk requests. */
size_t activity_waits(const struct thread *thread, uint64_t start_ns, uint64_t end_ns, size_t *ret_first);
const struct activity_wait *activity_wait_at(const struct thread *thread, size_t index);
/* It slept until a lock was free, or a condition came true (futex). */
bool activity_is_lock(const struct activity_wait *wait);
/* It slept until one of its descriptors was ready, or a timer due (epoll_wait). */
bool activity_is_poll(const struct activity_wait *wait);
size_t activity_disks(const struct thread *thread, uint64_t start_ns, uint64_t end_ns, size_t *ret_first);
const struct activity_disk *activity_disk_at(const struct thread *thread, size_t index);

#endif
