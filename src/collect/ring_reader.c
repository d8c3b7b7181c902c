/* See ring_reader.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/file.h"
#include "base/macro.h"
#include "event/short_read.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif

/* Large rings that are ready beyond those that are taken: at first, then half as many again, so that threads
 * that begin to record much find theirs, but an idle process has no great deal of memory. Of slots the same,
 * where not all of them have memory from the start. */
enum { LARGE_AT_FIRST = 3, SPARE_MIN = 2 };

/* Of a ring, at a time: much of the first-level cache. */
enum { COPY_BYTES = 16 << 10 };

/* Records end before they are copied: one that ends later than this after the copy was made by no clock. */
static const uint64_t CLOCK_SLACK_TICKS = 1 << 24;

struct ring {
    struct ring_memory *memory;
    struct sonde_thread *shared;
    uint64_t tail;             /* ours; what stands in the shared memory is for the probe */
    uint64_t moved_at;         /* the position from which on it is in its large ring */
    uint32_t large;            /* the number of that + 1; 0: it has its small one */
    struct short_event newest; /* what was read last */
};

struct ring_memory {
    int fd;
    struct sonde_shared *shared;
    struct ring_geometry geometry;
    size_t size, slot_bytes, large_at, resident;
    uint32_t slots_ready, large_ready;
    uint64_t inode;
    bool taken[SONDE_THREADS]; /* a large ring, by one of the rings */
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

static int get_pages(struct ring_memory *memory, size_t from, size_t bytes)
{
    enum { ATTEMPTS = 10 };
    int r = -EINTR;
    for (int i = 0; i < ATTEMPTS && r == -EINTR; i++)
        r = fallocate(memory->fd, 0, (off_t)from, (off_t)bytes) < 0 ? -errno : 0;
    memory->resident += r < 0 ? 0 : bytes;
    return r;
}

/* Gives pages to as many pieces, up to want, as there is memory for: all at once, or half as many, and so on.
 * *ready grows by those. */
static int make_ready(struct ring_memory *memory, size_t at, size_t piece_bytes, uint32_t want,
                      uint32_t *ready)
{
    int r = -EINVAL;
    for (uint32_t more = want - *ready; r < 0 && more; more /= 2) {
        r = get_pages(memory, at + *ready * piece_bytes, more * piece_bytes);
        *ready += r < 0 ? 0 : more;
    }
    return r;
}

static int make_slots_ready(struct ring_memory *memory, uint32_t want)
{
    int r = make_ready(memory, SONDE_PAGE, memory->slot_bytes, want, &memory->slots_ready);
    if (r < 0)
        return r;
    __atomic_store_n(&memory->shared->slots_ready, memory->slots_ready, __ATOMIC_RELEASE);
    __atomic_fetch_add(&memory->shared->slots_offered, 1, __ATOMIC_RELEASE);
    return 0;
}

static int make_large_ready(struct ring_memory *memory, uint32_t want)
{
    int r = make_ready(memory, memory->large_at, memory->geometry.large_bytes, want, &memory->large_ready);
    __atomic_store_n(&memory->shared->large_ready, memory->large_ready, __ATOMIC_RELEASE);
    return r;
}

/* Of the hashes of messages: all processes that this one traces have the same. 0 would do, too: then the
 * hashes of a text are the same in all recordings. */
static uint64_t message_key(void)
{
    static uint64_t key;
    if (!key)
        (void)!getrandom(&key, sizeof(key), GRND_NONBLOCK);
    return key;
}

int ring_memory_new(const struct ring_geometry *geometry, struct ring_memory **ret_memory)
{
    struct ring_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return -ENOMEM;
    find_strings();
    struct ring_geometry *g = &memory->geometry;
    *g = *geometry;
    memory->slot_bytes = SONDE_PAGE + (size_t)g->small_bytes;
    memory->large_at = SONDE_PAGE + g->slots * memory->slot_bytes;
    memory->size = memory->large_at + (size_t)g->large_rings * g->large_bytes;
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
    if (r == 0) {
        (void)madvise(memory->shared, memory->size, MADV_DONTDUMP);
        /* No child of ours reads rings, and with hundreds of programs forking would take as long as they. */
        (void)madvise(memory->shared, memory->size, MADV_DONTFORK);
    }
    if (r == 0)
        r = get_pages(memory, 0, SONDE_PAGE);
    if (r == 0)
        r = make_slots_ready(memory, g->slots_at_first ? MIN(g->slots_at_first, g->slots) : g->slots);
    if (r < 0) {
        ring_memory_free(memory);
        return r;
    }
    struct sonde_shared *s = memory->shared;
    for (uint32_t i = 0; i < g->slots; i++) {
        char *at = (char *)s + SONDE_PAGE + i * memory->slot_bytes;
        memory->rings[i] = (struct ring){.memory = memory, .shared = (struct sonde_thread *)at};
    }
    s->magic = SONDE_SHARED_MAGIC;
    s->version = SONDE_SHARED_VERSION;
    s->thread_slots = g->slots;
    s->small_bytes = g->small_bytes;
    s->large_bytes = g->large_bytes;
    s->large_at = memory->large_at;
    s->large_rings = g->large_rings;
    s->message_key = message_key();
    (void)ring_memory_extend(memory); /* no memory for large rings: it is tried again */
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
    return memory->resident;
}

static uint32_t want_ready(uint32_t used, uint32_t all)
{
    return MIN(used + MAX(used / 2, (uint32_t)SPARE_MIN), all);
}

static uint32_t large_used(const struct ring_memory *memory)
{
    return MIN(READ_ONCE(memory->shared->large_used), memory->large_ready);
}

int ring_memory_extend(struct ring_memory *memory)
{
    const struct ring_geometry *g = &memory->geometry;
    uint32_t used = large_used(memory), at_first = g->large_at_first ? g->large_at_first : LARGE_AT_FIRST;
    uint32_t slots = want_ready(ring_memory_slots_used(memory), g->slots),
             large = MAX(used ? want_ready(used, g->large_rings) : 0, MIN(g->large_rings, at_first));
    int r = slots > memory->slots_ready ? make_slots_ready(memory, slots) : 0;
    int s = large > memory->large_ready ? make_large_ready(memory, large) : 0;
    return r < 0 ? r : s;
}

uint32_t ring_memory_slots_used(const struct ring_memory *memory)
{
    uint32_t used = __atomic_load_n(&memory->shared->slots_used, __ATOMIC_ACQUIRE);
    return MIN(used, memory->slots_ready);
}

struct ring *ring_memory_slot(struct ring_memory *memory, uint32_t slot)
{
    return slot < memory->slots_ready ? &memory->rings[slot] : NULL;
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

uint64_t ring_size(const struct ring *ring)
{
    const struct ring_geometry *g = &ring->memory->geometry;
    return ring->large ? g->large_bytes : g->small_bytes;
}

/* Has it moved since? Read after head: it is as new as the newest record then. What no probe of ours says is
 * not believed: a ring that another one has, or one without pages. */
static void read_move(struct ring *ring, uint64_t head)
{
    struct ring_memory *memory = ring->memory;
    uint32_t large = __atomic_load_n(&ring->shared->large, __ATOMIC_ACQUIRE);
    uint64_t at = READ_ONCE(ring->shared->moved_at);
    if (ring->large || !large || large > memory->large_ready || memory->taken[large - 1] || at < ring->tail ||
        at > head || at % 8)
        return;
    memory->taken[large - 1] = true;
    ring->large = large;
    ring->moved_at = at;
}

/* The ring that the next record is in, and how far that goes. */
static void enter_ring(struct ring_drain *drain)
{
    const struct ring *ring = drain->ring;
    const struct ring_memory *memory = ring->memory;
    bool moves = ring->large && drain->tail < ring->moved_at;
    if (ring->large && !moves) {
        drain->bytes = (const uint8_t *)memory->shared + memory->large_at +
                       (size_t)(ring->large - 1) * memory->geometry.large_bytes;
        drain->size = memory->geometry.large_bytes;
        drain->begin = ring->moved_at;
    } else {
        drain->bytes = (const uint8_t *)ring->shared + SONDE_PAGE;
        drain->size = memory->geometry.small_bytes;
        drain->begin = 0;
    }
    drain->stop = moves ? MIN(ring->moved_at, drain->head) : drain->head;
    drain->at = drain->end = NULL;
}

unsigned ring_drain_begin(struct ring *ring, struct ring_drain *ret_drain)
{
    const struct ring_memory *memory = ring->memory;
    const struct ring_geometry *g = &memory->geometry;
    uint64_t head = __atomic_load_n(&ring->shared->head, __ATOMIC_ACQUIRE), tail = ring->tail;
    read_move(ring, head);
    *ret_drain = (struct ring_drain){.ring = ring, .tail = tail, .head = head};
    if (head == tail)
        return 0;
    uint64_t moved_at = ring->large ? MAX(ring->moved_at, tail) : head; /* of what is unread */
    if (head < moved_at || moved_at < tail || moved_at - tail > g->small_bytes ||
        head - tail > ring_size(ring) || head % 8) { /* not what our probe does */
        ret_drain->unreadable = 1;
        ret_drain->tail = head;
        return 0;
    }
    enter_ring(ret_drain);
    bool may_move = !ring->large && large_used(memory) < memory->large_ready;
    uint64_t room = may_move ? g->large_bytes : ring_size(ring);
    return (unsigned)MAX((head - tail) * 256 / room, 1u);
}

/* Copies what there is from tail on, as far as it goes without a gap. */
static void refill(struct ring_drain *drain)
{
    static _Thread_local _Alignas(64) uint8_t copy[COPY_BYTES];
    uint64_t place = (drain->tail - drain->begin) & (drain->size - 1);
    size_t have = (size_t)MIN(MIN(drain->stop - drain->tail, drain->size - place), (uint64_t)COPY_BYTES);
    copy_shared(copy, drain->bytes + place, have);
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
    if (id >= SONDE_SHORT_FIRST)
        return size == short_words((unsigned)id) * 8 ? size : 0;
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
    drain->tail = MIN(drain->tail + room, drain->stop);
    drain->at = drain->end = NULL;
}

/* The record that begins at a place of the copy; false: it has strings that are longer than it. */
static bool record_at(const struct sonde_record *header, const uint8_t *payload, uint64_t size,
                      struct ring_record *ret_record)
{
    const uint8_t id = header->meta & 0xff;
    const struct event_description *d = &event_catalogue[id];
    if (has_strings[id] && sizeof(*header) + d->record_size + strings_of(d, payload) > size)
        return false;
    *ret_record = (struct ring_record){.id = (enum sonde_event_id)id,
                                       .end_tsc = header->end_tsc,
                                       .duration = header->meta >> 16,
                                       .payload = payload,
                                       .strings = (const char *)payload + d->record_size};
    return true;
}

/* What the short record at this place of the copy stands for; false: nothing. */
static bool short_record_at(const struct ring_drain *drain, uint64_t size, struct ring_record *ret_record)
{
    struct short_event *newest = &drain->ring->newest;
    uint64_t words[3] = {0};
    memcpy(words, drain->at, MIN(size, sizeof(words)));
    if (!short_expand(newest, words))
        return false;
    *ret_record = (struct ring_record){.id = newest->id,
                                       .end_tsc = newest->end_tsc,
                                       .duration = newest->duration,
                                       .payload = newest->fields,
                                       .strings = newest->fields};
    return true;
}

bool ring_drain_next(struct ring_drain *drain, struct ring_record *ret_record)
{
    struct sonde_record header;
    while (drain->tail < drain->head) {
        if (drain->tail >= drain->stop)
            enter_ring(drain);
        uint64_t place = (drain->tail - drain->begin) & (drain->size - 1), room = drain->size - place;
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
        struct ring_record record;
        bool known = true;
        if ((header.meta & 0xff) >= SONDE_SHORT_FIRST)
            known = short_record_at(drain, size, &record);
        else if (record_at(&header, drain->at + sizeof(header), size, &record))
            short_remember(&drain->ring->newest, record.id, record.end_tsc, record.duration, record.payload);
        else
            return give_up(drain);
        drain->at += size;
        drain->tail += size;
        if (!known || record.end_tsc > drain->copied_tsc + CLOCK_SLACK_TICKS) {
            drain->unreadable++;
            continue;
        }
        *ret_record = record;
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
