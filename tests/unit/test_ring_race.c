/* The ring's reader beside a thread that changes the same memory all the while. In a build with
 * ThreadSanitizer (tools/run-tsan) each access of the reader that is neither atomic nor made by its one copy
 * function is reported: both threads use the reader's own mapping, or the sanitizer would not see that it is
 * the same memory. `test_ring_race plain` reads it as it must not be read, which has to be reported. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <x86intrin.h>

#include "base/file.h"
#include "base/macro.h"
#include "collect/ring_reader.h"
#include "test.h"

enum { RING = 8192, SLOTS = 4, LARGE = 2, LARGE_RING = 16384, ROUNDS = 2000, RECORDS = 100 };

static struct ring_memory *rings;
static uint64_t *words;
static size_t word_count;
static atomic_bool over;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void put(size_t at, uint64_t value)
{
    __atomic_store_n(&words[at % word_count], value, __ATOMIC_RELAXED);
}

/* Records as the probe writes them, with noise among them, and positions that lead to them or nowhere. */
static void scribble_slot(struct sonde_thread *t, uint64_t *state)
{
    size_t first = (size_t)((uint64_t *)t - words) + SONDE_PAGE / 8;
    uint64_t tail = __atomic_load_n(&t->tail, __ATOMIC_RELAXED);
    for (size_t i = 0; i < RING / 8; i += 4) {
        uint64_t id = next_random(state) % SONDE_EVENT_COUNT;
        put(first + i, __rdtsc());
        put(first + i + 1, id | 4 << 8 | 5 << 16);
        put(first + i + 2, i % 64 ? 0 : next_random(state));
    }
    if (next_random(state) % 4 == 0) {
        __atomic_store_n(&t->moved_at, tail + next_random(state) % 64 * 8, __ATOMIC_RELAXED);
        __atomic_store_n(&t->large, (uint32_t)(next_random(state) % (LARGE + 2)), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&t->owner, (uint32_t)next_random(state) % 3, __ATOMIC_RELAXED);
    __atomic_store_n(&t->depth, (uint32_t)next_random(state) % 100, __ATOMIC_RELAXED);
    __atomic_store_n(&t->head, tail + next_random(state) % 128 * 32, __ATOMIC_RELEASE);
}

static void *scribble(void *unused)
{
    uint64_t state = 88172645463325252ull;
    while (!atomic_load(&over)) {
        for (uint32_t i = 0; i < SLOTS; i++)
            scribble_slot(
                (struct sonde_thread *)((char *)words + SONDE_PAGE + i * (size_t)(SONDE_PAGE + RING)),
                &state);
        put(next_random(&state), next_random(&state));
        sched_yield(); /* where both have one CPU */
    }
    return unused;
}

/* Where the reader has mapped it. */
static uint64_t *find_mapping(void)
{
    _cleanup_(freep) char *maps = NULL;
    uint64_t start = 0;
    assert_int_equal(file_read("/proc/self/maps", 64 << 20, &maps, NULL), 0);
    char *at = strstr(maps, "/memfd:sonde");
    assert_non_null(at);
    while (at > maps && at[-1] != '\n')
        at--;
    assert_int_equal(sscanf(at, "%lx", &start), 1);
    return (uint64_t *)(uintptr_t)start;
}

static uint64_t drained, records;

static uint64_t use(const struct ring_record *record)
{
    uint64_t sum = record->end_tsc;
    records++;
    for (size_t i = 0; i < event_catalogue[record->id].record_size; i++)
        sum += ((const uint8_t *)record->payload)[i];
    return sum;
}

static uint64_t drain(struct ring *ring)
{
    struct ring_drain d;
    struct ring_record record;
    struct sonde_open_span span;
    struct ring_counts counts;
    uint64_t sum = 0;
    if (ring_drain_begin(ring, &d))
        while (ring_drain_next(&d, &record))
            sum += use(&record);
    ring_drain_end(&d);
    for (uint32_t depth = 0; depth < ring_open_count(ring); depth++)
        sum += ring_open_span(ring, depth, &span) ? span.event : 0;
    ring_counts(ring, &counts);
    ring_switch_off(ring, (uint32_t)sum);
    (void)ring_release(ring, ring_owner(ring));
    return sum + counts.written;
}

static void what_changes_is_read_by_copies_alone(void **state)
{
    pthread_t thread;
    const struct ring_geometry geometry = {SLOTS, RING, LARGE, LARGE_RING, 0, 0};
    assert_int_equal(ring_memory_new(&geometry, &rings), 0);
    words = find_mapping();
    word_count = ring_memory_size(rings) / 8;
    assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
    uint64_t before = 0;
    for (unsigned round = 0; round < ROUNDS || records < RECORDS; round++) { /* it may begin late */
        struct sonde_shared header;
        for (uint32_t i = 0; i < SLOTS; i++)
            drained += drain(ring_memory_slot(rings, i));
        ring_memory_header(rings, &header);
        drained += header.threads_without_slot + ring_memory_slots_used(rings);
        ring_memory_bar_calls(rings, round % 2);
        (void)ring_memory_extend(rings);
        if (records == before)
            sched_yield();
        before = records;
        if (*state) /* as it must not be done */
            drained += words[SONDE_PAGE / 8 + round % 64];
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    ring_memory_free(rings);
    __asm__ volatile("" : : "r"(drained)); /* all of it was read */
}

int main(int argc, char **argv)
{
    static bool plain;
    plain = argc > 1 && strcmp(argv[1], "plain") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(what_changes_is_read_by_copies_alone, plain ? &plain : NULL),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
