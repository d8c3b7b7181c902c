/* The memory that a traced process and sonde share: a memfd made, sized, filled with pages and sealed by
 * sonde (src/collect/ring_reader.c), one per process, and handed to the probe.
 *
 *     offset                   what
 *     0                        struct sonde_shared (one page)
 *     4096 + i * slot          struct sonde_thread of thread slot i (one page), then its small ring
 *     large_at + k * large     the large ring k
 *
 * The probe writes, sonde reads; sonde writes only what is marked as its own, `tail`, `families_off` and a
 * slot's `owner` (to give the slot of a thread that is gone to a new one). The ring is single producer,
 * single consumer: the probe publishes `head` with release, sonde publishes `tail` with release. Positions
 * only grow; the place in the ring is position modulo its size. A record never wraps: a record with id 0
 * fills the rest of the ring.
 *
 * A slot may be claimed below the mark `slots_ready` only, a large ring below `large_ready`: their pages are
 * there, charged to sonde, so that the probe needs no system call and a full memory control group no killer.
 *
 * Most threads record little, and there may be ten thousand of them: every thread begins with a small ring.
 * Who finds that one full moves into a large one, at once and by itself, since sonde may be late just when
 * much is recorded; sonde keeps some of them ready ahead of need. From position `moved_at` on all records are
 * in the large ring, at their position behind `moved_at` modulo its size. A slot keeps the large ring that it
 * has, also for the next thread: the memory is sealed against holes.
 *
 * Everything in here is under the control of the traced process: sonde reads it through ring_reader.h alone.
 *
 * Times are TSC ticks; sonde fits them to CLOCK_MONOTONIC. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_RING_H
#define EVENT_RING_H

#include <stdint.h>

enum {
    SONDE_SHARED_VERSION = 9,
    SONDE_PAGE = 4096,
    SONDE_THREADS = 128,         /* thread slots per process */
    SONDE_SMALL_BYTES = 8 << 10, /* of a thread's first ring, a power of two */
    SONDE_LARGE_BYTES = 512 << 10,
    SONDE_OPEN_SPANS = 24,     /* nested spans kept per thread */
    SONDE_DESCRIPTORS = 16384, /* those with higher numbers are not followed */
};

#define SONDE_SHARED_MAGIC 0x31646e6f73ull /* "sond1" */

struct sonde_shared {
    /* Sonde's: the first line before the memory is handed over, the second at any time. */
    uint64_t magic;
    uint32_t version;
    uint32_t thread_slots;  /* how many fit into the memory */
    uint32_t small_bytes;   /* of the ring in each slot, a power of two */
    uint32_t large_bytes;   /* the same of a large ring */
    uint64_t large_at;      /* where the first large ring begins */
    uint32_t large_rings;   /* how many fit */
    uint32_t large_ready;   /* large rings below it have their pages */
    uint32_t slots_ready;   /* slots below it have their pages */
    uint32_t slots_offered; /* another value: a thread that found no slot may look again */
    uint32_t calls_barred;  /* the process has a filter that it had not when sonde came: the probe makes no
                             * system call of its own any more, since one might be the end of it */
    uint64_t message_key; /* of the hashes of messages (delivery.c): the same for all processes of a sonde */
    /* The probe's from here on. */
    /* Threads that found no slot; events of theirs that were not recorded (relaxed atomics, rare). */
    uint32_t threads_without_slot;
    uint64_t events_without_slot;
    uint32_t descriptors_beyond; /* uses of descriptors with numbers that are too high to be followed */
    uint32_t slots_used;         /* highest slot ever claimed + 1 */
    uint32_t large_used;         /* large rings that threads have moved into */
    /* Offsets that failed the check on live objects and are read no more, and those that were found there:
     * one bit for each, by its number in config.h. */
    uint32_t fields_dropped, fields_found;
    /* Threads whose context script runs, by what carries the contexts, and those where it was given up. */
    uint32_t context_native, context_carried, context_script;
    uint32_t context_failures[4]; /* by enum sonde_context_failure */
    uint64_t
        io_uring_operations; /* that libuv gave to an io_uring, not to its thread pool (relaxed atomic) */
};

/* Why a thread's context script was given up. */
enum sonde_context_failure {
    SONDE_CONTEXT_THREW,      /* it did not compile or threw an exception */
    SONDE_CONTEXT_NO_MODULES, /* no way to Node's modules: an ECMAScript module's process before Node 20.16 */
    SONDE_CONTEXT_NOT_NATIVE, /* only native contexts were wanted, and this Node has none */
    SONDE_CONTEXT_FAILURES
};

/* A span that has begun and not ended. */
struct sonde_open_span {
    uint64_t start_tsc; /* written last; 0 while the slot is being filled */
    uint64_t argument;  /* the span's key: async id, request, client id */
    uint32_t event;     /* the catalogue number it will be recorded under */
    uint32_t name;      /* a probe:name number, or 0 */
};

struct sonde_thread {
    uint32_t owner; /* 0 free, else the thread's id in its own PID namespace (compare-and-swap to claim) */
    uint32_t probes_own[15]; /* what the probe keeps of the thread where every hook looks (probe.h) */
    /* What the producer needs, and tail, on cache lines of their own. */
    uint64_t head __attribute__((aligned(64))); /* bytes ever written */
    uint64_t writable;                          /* the producer's: records may reach up to here */
    uint64_t lap;          /* the producer's: an address; the position on this lap is added to it */
    uint64_t lost_full;    /* records that found the ring full */
    uint64_t lost_signal;  /* records refused because busy was set */
    uint64_t written;      /* records written */
    uint32_t busy;         /* 1: a record is being written, a signal handler writes none; 2: held back */
    uint32_t families_off; /* written by sonde: bits by enum sonde_probe_family, not recorded */
    uint32_t depth;        /* spans open now; may exceed SONDE_OPEN_SPANS */
    uint32_t lost_depth;   /* spans nested too deep to be kept in open[] */
    uint64_t tail __attribute__((aligned(64))); /* bytes ever consumed; written by sonde */
    /* The producer's, of its ring: the address and size - 1; the position from which on records are in it;
     * and its number among the large ones + 1, or 0 when it is the small one. */
    uint64_t ring, ring_mask, moved_at;
    uint32_t large;
    struct sonde_open_span open[SONDE_OPEN_SPANS] __attribute__((aligned(64)));
};

/* A record: this header, then struct record_X, then the bytes of its strings, padded to 8. Or a short one
 * (short.h). */
struct sonde_record {
    uint64_t end_tsc;
    /* bits 0-7 catalogue number (0: filler), 8-15 size in 8-byte words with this header,
     * 16-63 duration in ticks (saturating: a day at 3 GHz). */
    uint64_t meta;
};

enum { SONDE_RECORD_MAX = 255 * 8 };

#endif
