/* The ring's reader beside a thread that writes the input into the shared memory, anywhere and again and
 * again, while it is drained. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include "base/macro.h"
#include "collect/ring_reader.h"

enum { RING = 8192, SLOTS = 3, LARGE = 2, LARGE_RING = 16384, ROUNDS = 4 };

static struct ring_memory *rings, *still_rings;
static uint64_t *theirs, *still;
static size_t words;
static const uint8_t *input;
static size_t input_words;
static atomic_int phase; /* 1: there is an input to write, 2: stop and say so by 0 */

static void put(size_t at, uint64_t value)
{
    __atomic_store_n(&theirs[at % words], value, __ATOMIC_RELAXED);
}

/* The input's words, from a place on that the input names. */
static void put_input(size_t round)
{
    uint64_t value, at = 0;
    memcpy(&at, input, sizeof(at));
    for (size_t i = 1; i < input_words; i++) {
        memcpy(&value, input + 8 * i, sizeof(value));
        put((size_t)at + i + round * 37, value);
    }
}

static void *scribble(void *context)
{
    for (size_t round = 0;; round++) {
        int now = atomic_load(&phase);
        if (now == 1)
            put_input(round);
        else if (now == 2)
            atomic_store(&phase, 0);
    }
    return context;
}

static uint64_t sum(const void *bytes, size_t size)
{
    uint64_t total = 0;
    for (size_t i = 0; i < size; i++)
        total += ((const uint8_t *)bytes)[i];
    return total;
}

/* Reads all that a record is said to hold. */
static uint64_t use(const struct ring_record *record)
{
    const struct event_description *d = &event_catalogue[record->id];
    uint64_t total = sum(record->payload, d->record_size);
    const char *strings = record->strings;
    for (int f = 1; f < d->field_count; f++) {
        uint16_t length;
        if (d->fields[f].type != FIELD_TYPE_str)
            continue;
        memcpy(&length, (const char *)record->payload + d->fields[f].record_offset, sizeof(length));
        total += sum(strings, length);
        strings += length;
    }
    return total;
}

static uint64_t drain(uint32_t slot)
{
    struct ring *ring = ring_memory_slot(rings, slot);
    struct ring_drain d;
    struct ring_record record;
    struct sonde_open_span span;
    struct ring_counts counts;
    uint64_t total = 0;
    if (ring_drain_begin(ring, &d))
        while (ring_drain_next(&d, &record))
            total += use(&record);
    ring_drain_end(&d);
    for (uint32_t depth = 0; depth < ring_open_count(ring); depth++)
        total += ring_open_span(ring, depth, &span) ? strlen(event_catalogue[span.event].name) : 0;
    ring_counts(ring, &counts);
    ring_release(ring, ring_owner(ring));
    ring_switch_off(ring, (uint32_t)total);
    return total + counts.written;
}

/* The input as what stands in a ring that nobody changes, behind a record that short ones may be behind. */
static uint64_t drain_still(const uint8_t *data, size_t size)
{
    static const enum sonde_event_id BEHIND[] = {SONDE_EVENT_redis_command, SONDE_EVENT_node_async_init,
                                                 SONDE_EVENT_node_callback};
    const enum sonde_event_id id = BEHIND[data[0] % ARRAY_SIZE(BEHIND)];
    struct sonde_thread *t = (struct sonde_thread *)((char *)still + SONDE_PAGE);
    uint64_t *ring = (uint64_t *)((char *)t + SONDE_PAGE);
    uint64_t record = (sizeof(struct sonde_record) + event_catalogue[id].record_size + 7) / 8;
    size_t count = MIN(size / 8, RING / 8 - (size_t)record);
    struct ring_drain d;
    struct ring_record given;
    uint64_t total = 0;
    t->head = (t->head + RING - 1) & ~(RING - 1ull); /* the ring begins anew */
    if (ring_drain_begin(ring_memory_slot(still_rings, 0), &d))
        while (ring_drain_next(&d, &given))
            total += use(&given);
    ring_drain_end(&d);
    memset(ring, 0, RING);
    ring[0] = __rdtsc();
    ring[1] = id | record << 8;
    memcpy(ring + record, data, count * 8);
    t->head += (record + count) * 8;
    if (ring_drain_begin(ring_memory_slot(still_rings, 0), &d))
        while (ring_drain_next(&d, &given))
            total += use(&given);
    ring_drain_end(&d);
    return total;
}

static void begin(void)
{
    pthread_t thread;
    static const struct ring_geometry GEOMETRY = {SLOTS, RING, LARGE, LARGE_RING};
    if (ring_memory_new(&GEOMETRY, &rings) < 0)
        abort();
    words = ring_memory_size(rings) / 8;
    theirs =
        mmap(NULL, ring_memory_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory_fd(rings), 0);
    if (ring_memory_new(&(struct ring_geometry){1, RING, 1, LARGE_RING}, &still_rings) < 0)
        abort();
    still = mmap(NULL, ring_memory_size(still_rings), PROT_READ | PROT_WRITE, MAP_SHARED,
                 ring_memory_fd(still_rings), 0);
    if (theirs == MAP_FAILED || still == MAP_FAILED || pthread_create(&thread, NULL, scribble, NULL) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t total = 0;
    if (!rings)
        begin();
    if (size < 16)
        return 0;
    total += drain_still(data, size);
    input = data;
    input_words = size / 8;
    put_input(0);
    atomic_store(&phase, 1);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            /* A head that gives something to drain, as far as the input left one. */
            struct sonde_thread *t =
                (struct sonde_thread *)((char *)theirs + SONDE_PAGE + slot * (size_t)(SONDE_PAGE + RING));
            uint64_t tail = __atomic_load_n(&t->tail, __ATOMIC_RELAXED);
            if (data[round] & 1)
                __atomic_store_n(&t->moved_at, tail + data[round] * 8ull, __ATOMIC_RELAXED);
            __atomic_store_n(&t->large, (uint32_t)data[round] % (LARGE + 2), __ATOMIC_RELAXED);
            __atomic_store_n(&t->head, tail + (data[round] * 32ull), __ATOMIC_RELEASE);
            total += drain(slot);
        }
        struct sonde_shared header;
        ring_memory_header(rings, &header);
        total += ring_memory_slots_used(rings) + header.threads_without_slot;
        if (ring_memory_extend(rings) < 0)
            abort();
    }
    atomic_store(&phase, 2);
    while (atomic_load(&phase))
        _mm_pause();
    __asm__ volatile("" : : "r"(total)); /* all of it was read */
    return 0;
}
