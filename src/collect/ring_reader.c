/* See ring_reader.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/file.h"
#include "base/macro.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif

/* Slots with pages beyond those that are claimed: half as many again, so that a burst of new threads finds
 * its slots, but not a process with few threads a great deal of memory. */
enum { SPARE_MIN = 2 };

/* Of a ring, at a time: much of the first-level cache. */
enum { COPY_BYTES = 16 << 10 };

/* Records end before they are copied: one that ends later than this after the copy was made by no clock. */
static const uint64_t CLOCK_SLACK_TICKS = 1 << 24;

struct ring {
    struct ring_memory *memory;
    struct sonde_thread *shared;
    const uint8_t *bytes; /* of the ring, in shared memory */
    uint64_t tail;        /* ours; what stands in the shared memory is for the probe */
};

struct ring_memory {
    int fd;
    struct sonde_shared *shared;
    size_t size, slot_bytes;
    uint32_t slots, ring_bytes, ready;
    uint64_t inode;
    struct ring rings[SONDE_THREADS];
};

#define READ_ONCE(place)         __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define WRITE_ONCE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)

/* All that is not read as a whole atomic word is copied by this: one string instruction, which no race
 * detector looks into. What was copied is checked before it is used; records of the probe are complete, since
 * head was read with acquire. */
static void copy_shared(void *to, const void *from, size_t size)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

/* ---- the memory ---- */

/* Whether an event has strings at all: most have none, and are drained by the million. */
static bool has_strings[SONDE_EVENT_COUNT];

static void find_strings(void)
{
    for (int id = 1; id < SONDE_EVENT_COUNT; id++)
        for (int f = 1; f < event_catalogue[id].field_count; f++)
            has_strings[id] |= event_catalogue[id].fields[f].type == FIELD_TYPE_str;
}

/* A limit on the size of our files (ulimit -f) holds for a memfd too: beyond it the kernel sends SIGXFSZ. */
static int set_size(int fd, size_t size)
{
    const struct timespec at_once = {0};
    sigset_t too_big, before;
    sigemptyset(&too_big);
    sigaddset(&too_big, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_big, &before);
    int r = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
    if (r == -EFBIG)
        sigtimedwait(&too_big, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

static int make_ready(struct ring_memory *memory, uint32_t slots)
{
    enum { ATTEMPTS = 10 };
    size_t from = memory->ready ? SONDE_PAGE + memory->ready * memory->slot_bytes : 0,
           to = SONDE_PAGE + slots * memory->slot_bytes;
    int r = -EINTR;
    for (int i = 0; i < ATTEMPTS && r == -EINTR; i++)
        r = fallocate(memory->fd, 0, (off_t)from, (off_t)(to - from)) < 0 ? -errno : 0;
    if (r < 0)
        return r;
    memory->ready = slots;
    __atomic_store_n(&memory->shared->slots_ready, slots, __ATOMIC_RELEASE);
    __atomic_fetch_add(&memory->shared->slots_offered, 1, __ATOMIC_RELEASE);
    return 0;
}

int ring_memory_new(uint32_t slots, uint32_t ring_bytes, uint32_t ready_slots,
                    struct ring_memory **ret_memory)
{
    struct ring_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return -ENOMEM;
    find_strings();
    memory->slots = MIN(slots, (uint32_t)SONDE_THREADS);
    memory->ring_bytes = ring_bytes;
    memory->slot_bytes = SONDE_PAGE + (size_t)ring_bytes;
    memory->size = SONDE_PAGE + memory->slots * memory->slot_bytes;
    memory->shared = MAP_FAILED;
    memory->fd = memfd_create("sonde", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (memory->fd < 0 && errno == EINVAL)
        memory->fd = memfd_create("sonde", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = memory->fd < 0 ? -errno : set_size(memory->fd, memory->size);
    struct stat st;
    if (r == 0 &&
        (fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0 || fstat(memory->fd, &st) < 0))
        r = -errno;
    if (r == 0) {
        memory->inode = st.st_ino;
        memory->shared = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
        r = memory->shared == MAP_FAILED ? -errno : 0;
    }
    if (r == 0)
        (void)madvise(memory->shared, memory->size, MADV_DONTDUMP);
    if (r == 0)
        r = make_ready(memory, MIN(MAX(ready_slots, 1u), memory->slots));
    if (r < 0) {
        ring_memory_free(memory);
        return r;
    }
    struct sonde_shared *s = memory->shared;
    s->magic = SONDE_SHARED_MAGIC;
    s->version = SONDE_SHARED_VERSION;
    s->ring_bytes = ring_bytes;
    s->thread_slots = memory->slots;
    for (uint32_t i = 0; i < memory->slots; i++) {
        char *at = (char *)s + SONDE_PAGE + i * memory->slot_bytes;
        memory->rings[i] = (struct ring){memory, (struct sonde_thread *)at, (uint8_t *)at + SONDE_PAGE, 0};
    }
    *ret_memory = memory;
    return 0;
}

void ring_memory_free(struct ring_memory *memory)
{
    if (!memory)
        return;
    if (memory->shared != MAP_FAILED)
        munmap(memory->shared, memory->size);
    if (memory->fd >= 0)
        close(memory->fd);
    free(memory);
}

int ring_memory_fd(const struct ring_memory *memory)
{
    return memory->fd;
}

size_t ring_memory_size(const struct ring_memory *memory)
{
    return memory->size;
}

uint64_t ring_memory_inode(const struct ring_memory *memory)
{
    return memory->inode;
}

/* Since Linux 5.1; without it a process may have its own rings read as zeros. */
void ring_memory_handed(struct ring_memory *memory)
{
    (void)fcntl(memory->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

void ring_memory_bar_calls(struct ring_memory *memory, bool barred)
{
    WRITE_ONCE(memory->shared->calls_barred, barred);
}

uint64_t ring_memory_resident(const struct ring_memory *memory)
{
    return SONDE_PAGE + (uint64_t)memory->ready * memory->slot_bytes;
}

int ring_memory_extend(struct ring_memory *memory)
{
    uint32_t used = ring_memory_slots_used(memory), want = used + MAX(used / 2, (uint32_t)SPARE_MIN);
    want = MIN(want, memory->slots);
    return want > memory->ready ? make_ready(memory, want) : 0;
}

uint32_t ring_memory_slots_used(const struct ring_memory *memory)
{
    uint32_t used = __atomic_load_n(&memory->shared->slots_used, __ATOMIC_ACQUIRE);
    return MIN(used, memory->ready);
}

struct ring *ring_memory_slot(struct ring_memory *memory, uint32_t slot)
{
    return slot < memory->ready ? &memory->rings[slot] : NULL;
}

void ring_memory_header(const struct ring_memory *memory, struct sonde_shared *ret_header)
{
    copy_shared(ret_header, memory->shared, sizeof(*ret_header));
}

/* ---- one slot ---- */

uint32_t ring_owner(const struct ring *ring)
{
    return __atomic_load_n(&ring->shared->owner, __ATOMIC_ACQUIRE);
}

bool ring_release(struct ring *ring, uint32_t owner)
{
    if (__atomic_load_n(&ring->shared->head, __ATOMIC_ACQUIRE) != ring->tail ||
        !__atomic_compare_exchange_n(&ring->shared->owner, &owner, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    __atomic_fetch_add(&ring->memory->shared->slots_offered, 1, __ATOMIC_RELEASE);
    return true;
}

void ring_counts(const struct ring *ring, struct ring_counts *ret_counts)
{
    const struct sonde_thread *t = ring->shared;
    *ret_counts = (struct ring_counts){READ_ONCE(t->written), READ_ONCE(t->lost_full),
                                       READ_ONCE(t->lost_signal), READ_ONCE(t->lost_depth)};
}

void ring_switch_off(struct ring *ring, uint32_t families)
{
    if (READ_ONCE(ring->shared->families_off) != families) /* the line is the probe's most of the time */
        WRITE_ONCE(ring->shared->families_off, families);
}

uint32_t ring_open_count(const struct ring *ring)
{
    uint32_t depth = READ_ONCE(ring->shared->depth);
    return MIN(depth, (uint32_t)SONDE_OPEN_SPANS);
}

bool ring_open_span(const struct ring *ring, uint32_t depth, struct sonde_open_span *ret_span)
{
    if (depth >= SONDE_OPEN_SPANS)
        return false;
    const struct sonde_open_span *open = &ring->shared->open[depth];
    uint64_t start = __atomic_load_n(&open->start_tsc, __ATOMIC_ACQUIRE);
    struct sonde_open_span span = {start, __atomic_load_n(&open->argument, __ATOMIC_ACQUIRE),
                                   __atomic_load_n(&open->event, __ATOMIC_ACQUIRE),
                                   __atomic_load_n(&open->name, __ATOMIC_ACQUIRE)};
    if (!start || start != READ_ONCE(open->start_tsc) || start > __rdtsc() + CLOCK_SLACK_TICKS ||
        !span.event || span.event >= SONDE_EVENT_COUNT)
        return false;
    *ret_span = span;
    return true;
}

/* ---- draining ---- */

unsigned ring_drain_begin(struct ring *ring, struct ring_drain *ret_drain)
{
    uint64_t head = __atomic_load_n(&ring->shared->head, __ATOMIC_ACQUIRE), size = ring->memory->ring_bytes;
    *ret_drain = (struct ring_drain){.ring = ring, .tail = ring->tail, .head = head};
    if (head == ring->tail)
        return 0;
    if (head < ring->tail || head - ring->tail > size || head % 8) { /* not what our probe does */
        ret_drain->unreadable = 1;
        ret_drain->tail = head;
        return 0;
    }
    return (unsigned)MAX((head - ring->tail) * 256 / size, 1u);
}

/* Copies what there is from tail on, as far as it goes without a gap. */
static void refill(struct ring_drain *drain)
{
    static _Thread_local _Alignas(64) uint8_t copy[COPY_BYTES];
    uint64_t size = drain->ring->memory->ring_bytes, place = drain->tail & (size - 1);
    size_t have = (size_t)MIN(MIN(drain->head - drain->tail, size - place), (uint64_t)COPY_BYTES);
    copy_shared(copy, drain->ring->bytes + place, have);
    drain->copied_tsc = __rdtsc();
    drain->at = copy;
    drain->end = copy + have;
}

/* The lengths of a record's strings, summed. */
static uint32_t strings_of(const struct event_description *d, const uint8_t *payload)
{
    uint32_t bytes = 0;
    for (int f = 1; f < d->field_count; f++)
        if (d->fields[f].type == FIELD_TYPE_str) {
            uint16_t length;
            memcpy(&length, payload + d->fields[f].record_offset, sizeof(length));
            bytes += length;
        }
    return bytes;
}

/* Size of the record that a copied header is of; 0 when none of ours has such a one. */
static uint64_t record_size(uint64_t meta)
{
    uint64_t id = meta & 0xff, size = (meta >> 8 & 0xff) * 8;
    if (id >= SONDE_EVENT_COUNT || !event_catalogue[id].probe ||
        size < sizeof(struct sonde_record) + event_catalogue[id].record_size)
        return 0;
    return size;
}

/* The rest of the ring cannot be read: where the next record would begin is not known. */
static bool give_up(struct ring_drain *drain)
{
    drain->unreadable++;
    drain->tail = drain->head;
    return false;
}

/* Over what fills the ring to its end. */
static void skip_to_start(struct ring_drain *drain, uint64_t room)
{
    drain->tail = MIN(drain->tail + room, drain->head);
    drain->at = drain->end = NULL;
}

bool ring_drain_next(struct ring_drain *drain, struct ring_record *ret_record)
{
    const uint64_t ring_bytes = drain->ring->memory->ring_bytes;
    struct sonde_record header;
    while (drain->tail < drain->head) {
        uint64_t place = drain->tail & (ring_bytes - 1), room = ring_bytes - place;
        if (room < sizeof(header)) {
            skip_to_start(drain, room);
            continue;
        }
        if ((size_t)(drain->end - drain->at) < sizeof(header))
            refill(drain);
        if ((size_t)(drain->end - drain->at) < sizeof(header))
            return give_up(drain);
        memcpy(&header, drain->at, sizeof(header));
        if (header.meta == 0) {
            skip_to_start(drain, room);
            continue;
        }
        uint64_t size = record_size(header.meta);
        if (size > (size_t)(drain->end - drain->at)) {
            refill(drain);
            memcpy(&header, drain->at, sizeof(header));
            size = record_size(header.meta);
        }
        if (!size || size > (size_t)(drain->end - drain->at))
            return give_up(drain);
        const uint8_t id = header.meta & 0xff, *payload = drain->at + sizeof(header);
        const struct event_description *d = &event_catalogue[id];
        if (has_strings[id] && sizeof(header) + d->record_size + strings_of(d, payload) > size)
            return give_up(drain);
        drain->at += size;
        drain->tail += size;
        if (header.end_tsc > drain->copied_tsc + CLOCK_SLACK_TICKS) {
            drain->unreadable++;
            continue;
        }
        *ret_record = (struct ring_record){.id = (enum sonde_event_id)id,
                                           .end_tsc = header.end_tsc,
                                           .duration = header.meta >> 16,
                                           .payload = payload,
                                           .strings = (const char *)payload + d->record_size};
        return true;
    }
    return false;
}

void ring_drain_end(struct ring_drain *drain)
{
    struct ring *ring = drain->ring;
    if (drain->tail == ring->tail)
        return;
    ring->tail = drain->tail;
    __atomic_store_n(&ring->shared->tail, drain->tail, __ATOMIC_RELEASE);
}
