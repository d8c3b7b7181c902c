/* The one place where memory that a traced process shares with sonde is touched (event/ring.h). The process
 * may write anything there at any time, also while it is read: whatever is given out from here has been
 * copied once and was checked in the copy; geometry is what sonde made the memory with and is never read
 * back.
 *
 * The memory is sonde's: it makes the memfd, gives it its size and its pages and seals it. The process can
 * neither shrink it nor, once ring_memory_handed() was called, punch holes into it; a hole that it punched
 * before reads as zeros. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_RING_READER_H
#define COLLECT_RING_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"
#include "event/ring.h"

struct ring_memory; /* of one process */
struct ring;        /* of one thread slot in it */

/* Each of slots threads (at most SONDE_THREADS) has a small ring from the start; there is room for
 * large_rings (at most SONDE_THREADS) that threads can move into. Sizes are powers of two, at least a page.
 */
struct ring_geometry {
    uint32_t slots, small_bytes, large_rings, large_bytes;
    /* That have their memory from the start; 0: all slots, and a few large rings. */
    uint32_t slots_at_first, large_at_first;
};

/* Makes the memory. -ENOMEM, -ENOSPC when there is none for a single slot, or what memfd_create(2) says. */
int ring_memory_new(const struct ring_geometry *geometry, struct ring_memory **ret_memory);
void ring_memory_free(struct ring_memory *memory);

/* The memfd, to be handed to the process; the memory keeps it. Its size in bytes, and its inode. */
int ring_memory_fd(const struct ring_memory *memory);
size_t ring_memory_size(const struct ring_memory *memory);
uint64_t ring_memory_inode(const struct ring_memory *memory);

/* The process has mapped it: from now on it cannot be mapped for writing again, nor be given holes. */
void ring_memory_handed(struct ring_memory *memory);

/* The process has a system call filter of late: may the probe still make calls of its own? */
void ring_memory_bar_calls(struct ring_memory *memory, bool barred);

/* Bytes of pages that sonde holds for it. */
uint64_t ring_memory_resident(const struct ring_memory *memory);

/* Makes large rings ready, and slots for which there was no memory at first, ahead of those that are taken.
 * Cheap when there is nothing to do. A failure (-ENOSPC, -ENOMEM) leaves threads without, who count what they
 * lose; it is tried again. */
int ring_memory_extend(struct ring_memory *memory);

/* How many slots were ever claimed, bounded by the geometry; and one of them. */
uint32_t ring_memory_slots_used(const struct ring_memory *memory);
struct ring *ring_memory_slot(struct ring_memory *memory, uint32_t slot);

/* What the probe counts and finds per process: a copy; all values are possible. */
void ring_memory_header(const struct ring_memory *memory, struct sonde_shared *ret_header);

/* ---- one slot ---- */

/* The thread that has it, by its number in its own PID namespace; 0 nobody. */
uint32_t ring_owner(const struct ring *ring);

/* The size in bytes of the ring that the thread uses, as far as it is known. */
uint64_t ring_size(const struct ring *ring);

/* Gives the slot of owner, which has ended, to whoever comes next. False while records wait to be drained, or
 * when it is another's already. */
bool ring_release(struct ring *ring, uint32_t owner);

/* What the probe counts per slot, over all threads that had it; all values are possible. */
struct ring_counts {
    uint64_t written, lost_full, lost_signal, lost_depth;
};
void ring_counts(const struct ring *ring, struct ring_counts *ret_counts);

/* Families of events (bits by enum sonde_probe_family) that the thread records no more. */
void ring_switch_off(struct ring *ring, uint32_t families);

/* Spans open now, at most SONDE_OPEN_SPANS; and one of them (depth below that), which the thread may be
 * changing: false when there is none, or it was caught amid a change. Its event is one of the catalogue. */
uint32_t ring_open_count(const struct ring *ring);
bool ring_open_span(const struct ring *ring, uint32_t depth, struct sonde_open_span *ret_span);

/* ---- draining ---- */

/* A record, valid until the next call: payload holds the fields of record_X, strings the bytes of its
 * strings, whose lengths in the payload fit. */
struct ring_record {
    enum sonde_event_id id;
    uint64_t end_tsc, duration;
    const void *payload;
    const char *strings;
};

struct ring_drain {
    struct ring *ring;
    uint64_t tail, head;
    const uint8_t *bytes;       /* the ring that tail is in, its size and the position at which it began */
    uint64_t size, begin, stop; /* and to which it is read */
    const uint8_t *at, *end;    /* of the copy, from tail on */
    uint64_t copied_tsc;        /* when it was made */
    uint64_t unreadable;        /* records, or the rest of a ring, that no probe of ours writes */
};

/* Finds what there is to drain; returns how full the ring was, in parts of 256 (at least 1), 0: empty or
 * unreadable. A small ring counts with the large one that is ready for it. Then ring_drain_next() until it
 * says false, then ring_drain_end(), which gives the room back.
 */
unsigned ring_drain_begin(struct ring *ring, struct ring_drain *ret_drain);
bool ring_drain_next(struct ring_drain *drain, struct ring_record *ret_record);
void ring_drain_end(struct ring_drain *drain);

#endif
