/* The two sides of a ring (event/ring.h) together: the probe's code that records, and sonde's that drains. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "collect/ring_reader.h"
#include "probe/probe.h"
#include "test.h"

struct sonde_config sonde_config;
struct probe_live probe_live = {.attachment = 1, .original = 1};
struct sonde_shared *probe_shared;
struct probe_large probe_large;
__thread struct probe_self probe_self;

enum { SLOTS = 4, SLOT = 1, SMALL = 4096, LARGE = 64 << 10, LARGE_RINGS = 8 };

static struct ring_memory *rings;
static struct ring *ring;
static struct probe_thread *theirs;
static uint64_t last; /* number that was read */

struct probe_thread *probe_thread_claim(void)
{
    return NULL;
}

static int set_up(void **state)
{
    if (ring_memory_new(&(struct ring_geometry){SLOTS, SMALL, LARGE_RINGS, LARGE}, &rings) < 0)
        return -1;
    char *memory =
        mmap(NULL, ring_memory_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory_fd(rings), 0);
    probe_shared = (struct sonde_shared *)memory;
    theirs = (struct probe_thread *)(memory + SONDE_PAGE + SLOT * (SONDE_PAGE + SMALL));
    ring = ring_memory_slot(rings, SLOT);
    probe_large = (struct probe_large){memory + probe_shared->large_at, LARGE, LARGE_RINGS};
    record_into(&theirs->shared, (char *)theirs + SONDE_PAGE, SMALL);
    probe_self = (struct probe_self){.thread = theirs, .attachment = 1};
    last = 0;
    return memory == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
    size_t size = ring_memory_size(rings);
    ring_memory_free(rings);
    return munmap(probe_shared, size);
}

/* A record with this number, sometimes with a text behind it. */
static void write_one(uint64_t number, unsigned *seed)
{
    static const char TEXT[256];
    uint64_t length = rand_r(seed) % 4 ? 0 : (uint64_t)rand_r(seed) % sizeof(TEXT);
    RECORD_TEXT(theirs, probe_name, ticks(), TEXT, length, .id = (uint32_t)number,
                .text_length = (uint16_t)length);
}

/* Numbers only grow; how many were read. */
static uint64_t read_all(void)
{
    struct ring_drain d;
    struct ring_record record;
    uint64_t count = 0;
    if (ring_drain_begin(ring, &d))
        for (; ring_drain_next(&d, &record); count++) {
            const struct record_probe_name *name = record.payload;
            assert_int_equal(record.id, SONDE_EVENT_probe_name);
            assert_true(name->id > last);
            last = name->id;
        }
    assert_int_equal(d.unreadable, 0);
    ring_drain_end(&d);
    return count;
}

/* A thread that begins at full speed while sonde is not there: nothing is lost before a large ring is full.
 */
static void a_burst_moves_into_a_large_ring(void **state)
{
    unsigned seed = 1;
    uint64_t number = 0;
    assert_int_equal(ring_size(ring), SMALL);
    while (!theirs->shared.lost_full)
        write_one(++number, &seed);
    assert_true(theirs->shared.head > LARGE - SONDE_RECORD_MAX);
    assert_int_equal(read_all(), number - 1);
    assert_int_equal(ring_size(ring), LARGE);
    assert_int_equal(probe_shared->large_used, 1);
}

/* What fits into the small ring between two drains stays there. */
static void few_records_take_no_large_ring(void **state)
{
    unsigned seed = 1;
    uint64_t number = 0;
    for (int step = 0; step < 1000; step++) {
        for (int i = 0; i < 8; i++)
            write_one(++number, &seed);
        assert_int_equal(read_all(), 8);
    }
    assert_int_equal(ring_size(ring), SMALL);
    assert_int_equal(probe_shared->large_used, 0);
}

static void without_a_large_ring_what_is_lost_is_counted(void **state)
{
    unsigned seed = 1;
    uint64_t number = 0;
    uint32_t ready = probe_shared->large_ready;
    probe_shared->large_used = ready;
    while (theirs->shared.lost_full < 10)
        write_one(++number, &seed);
    assert_int_equal(read_all(), number - 10);
    assert_int_equal(ring_memory_extend(rings), 0); /* then it has one */
    for (int i = 0; i < 200; i++)
        write_one(++number, &seed);
    assert_int_equal(theirs->shared.lost_full, 10);
    assert_int_equal(read_all(), 200);
    assert_int_equal(ring_size(ring), LARGE);
    assert_int_equal(probe_shared->large_used, ready + 1);
}

/* Wherever it is when it moves: no record is lost or read twice but those that the probe counted. */
static void a_ring_moves_whatever_is_unread(void **state)
{
    for (unsigned seed = 1; seed < 200; seed++) {
        uint64_t number = 0, read = 0;
        unsigned drains = 2 + seed % 7;
        for (unsigned step = 0; step < 300; step++) {
            for (unsigned n = (unsigned)rand_r(&seed) % 60; n; n--)
                write_one(++number, &seed);
            if ((unsigned)rand_r(&seed) % drains == 0)
                read += read_all();
        }
        read += read_all();
        assert_int_equal(read + theirs->shared.lost_full, number);
        tear_down(state);
        assert_int_equal(set_up(state), 0);
    }
}

enum { RECORDS = 200000 };
static atomic_bool written;

static void *write_many(void *context)
{
    unsigned seed = 5;
    probe_self = (struct probe_self){.thread = theirs, .attachment = 1};
    for (uint64_t i = 1; i <= RECORDS; i++)
        write_one(i, &seed);
    atomic_store(&written, true);
    return context;
}

static void a_ring_moves_while_it_is_written_and_read(void **state)
{
    pthread_t thread;
    uint64_t read = 0;
    atomic_store(&written, false);
    assert_int_equal(pthread_create(&thread, NULL, write_many, NULL), 0);
    for (bool ended = false; !ended;) {
        ended = atomic_load(&written);
        read += read_all();
    }
    pthread_join(thread, NULL);
    assert_int_equal(read + theirs->shared.lost_full, RECORDS);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_burst_moves_into_a_large_ring),
        T(few_records_take_no_large_ring),
        T(without_a_large_ring_what_is_lost_is_counted),
        T(a_ring_moves_whatever_is_unread),
        T(a_ring_moves_while_it_is_written_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
