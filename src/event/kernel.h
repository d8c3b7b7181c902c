/* What the BPF program that watches the kernel's side (bpf/activity.bpf.c) and its user-space half
 * (collect/kernel.c) share: the families of events, the records in the ring buffers, the table of calls.
 * Compiles for BPF and for user space. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_KERNEL_H
#define EVENT_KERNEL_H

#include "event/catalogue.h"
#include "event/kernel_clock.h"

/* Events that are switched on and off together. FAMILY(ident, "name", the least level that it belongs to,
 * text) */
#define SONDE_FAMILIES(F)                                                                        \
    F(sys, "sys", everything, "every system call")                                               \
    F(sched, "sched", usual, "when a thread leaves the CPU, why, and who makes it go on")        \
    F(wakeup, "wakeup", everything, "whom a traced thread wakes")                                \
    F(tcp, "tcp", everything, "TCP connections taken, written to and read from, with addresses") \
    F(block, "block", usual, "requests to disks")                                                \
    F(connect, "connect", usual, "TCP connections made, those that fail, and segments sent again")

enum sonde_family {
#define F(ident, name, level, text) SONDE_FAMILY_##ident,
    SONDE_FAMILIES(F)
#undef F
        SONDE_FAMILY_COUNT
};

/* In a ring buffer: this, then the catalogue's struct record_X of the event. Times are CLOCK_MONOTONIC. */
struct sonde_kernel_record {
    uint64_t end_ns, duration_ns;
    uint32_t event; /* enum sonde_event_id */
    uint32_t pad;
};

/* The same with event 0, which is no event of the catalogue: a thread of the process runs, or leaves its CPU
 * with other system call filters than before. */
struct sonde_kernel_running {
    struct sonde_kernel_record head;
    uint32_t pid, tid, filtered, pad;
};

/* Times off a CPU that are shorter than SONDE_BRIEF_NS are summed, up to SONDE_BRIEF_SPAN_NS: what lies
 * between them is no longer than one of them either. Where system calls or wakeups are recorded, none is. */
enum { SONDE_BRIEF_NS = 50000, SONDE_BRIEF_SPAN_NS = 1000000 };

/* What a system call is, by its number: bits. */
enum sonde_call_kind {
    SONDE_CALL_FD = 1,      /* its first argument is a descriptor */
    SONDE_CALL_SEND = 2,    /* its result is a number of bytes written to it */
    SONDE_CALL_RECEIVE = 4, /* ... read from it */
    SONDE_CALL_ACCEPT = 8,  /* its result is a new connection */
    SONDE_CALL_FD_5 = 16,   /* its fifth argument is a descriptor (mmap) */
    SONDE_CALL_WAKES = 32,  /* it wakes other threads (futex, kill, exit) */
    SONDE_CALL_POLLS = 64,  /* it waits for several descriptors */
    SONDE_CALL_SLEEPS = 128 /* a timer ends it, or a signal */
};

/* A wait for a lock is of interest if it is no shorter (bpf/wakers.h). V8's waits for its own threads at the
 * end of a garbage collection are, unless the machine has too few CPUs. */
enum { SONDE_LOCK_NS = 4000000, SONDE_LOCK_PLACES = 64 };

/* Of a CPU, by family: how often its programs ran, and how long those runs took whose number is a multiple of
 * SONDE_TIMED_RUNS. */
enum { SONDE_TIMED_RUNS = 64 };
struct sonde_kernel_runs {
    struct sonde_kernel_clock clock;
    struct {
        uint64_t count, timed_ns;
    } of[SONDE_FAMILY_COUNT];
};

/* Counters of the program: what was lost by family, then these. */
enum {
    SONDE_COUNT_NOT_FOLLOWED = SONDE_FAMILY_COUNT, /* connections and disk requests beyond those kept */
    SONDE_COUNT_THREADS_LOST,                      /* threads that no memory was there for */
    SONDE_COUNT_MISSED_RUNS, /* of programs that the kernel left out: they were running already, or it did not
                                call them */
    SONDE_KERNEL_COUNTS
};
struct sonde_kernel_counts { /* of a CPU */
    uint64_t of[SONDE_KERNEL_COUNTS];
};

#endif
