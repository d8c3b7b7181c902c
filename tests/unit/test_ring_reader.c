/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/truncated.h"
#include "test.h"

enum { RING = 8192, SLOTS = 4, LARGE = 6, LARGE_RING = 16384 };

static struct ring_memory *rings;
static char *theirs; /* the traced process's view */

static struct sonde_shared *header(void)
{
    return (struct sonde_shared *)theirs;
}

static struct sonde_thread *slot(int i)
{
    return (struct sonde_thread *)(theirs + SONDE_PAGE + i * (SONDE_PAGE + RING));
}

static int set_up_rings(uint32_t large, uint32_t slots_at_first, uint32_t large_at_first)
{
    if (ring_memory_new(
            &(struct ring_geometry){SLOTS, RING, large, LARGE_RING, slots_at_first, large_at_first}, &rings) <
        0)
        return -1;
    theirs =
        mmap(NULL, ring_memory_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory_fd(rings), 0);
    return theirs == MAP_FAILED ? -1 : 0;
}

static int set_up(void **state)
{
    return set_up_rings(0, 0, 0);
}

static int set_up_large(void **state)
{
    return set_up_rings(LARGE, 0, 0);
}

static int set_up_few(void **state)
{
    return set_up_rings(LARGE, 2, 1);
}

static int tear_down(void **state)
{
    size_t size = ring_memory_size(rings);
    ring_memory_free(rings);
    return munmap(theirs, size);
}

static uint64_t put_record(int i, enum sonde_event_id id, uint64_t end_tsc, uint64_t extra)
{
    struct sonde_thread *t = slot(i);
    uint64_t size = (sizeof(struct sonde_record) + event_catalogue[id].record_size + extra + 7) & ~7ull;
    char *at = (char *)t + SONDE_PAGE + (t->head & (RING - 1));
    *(struct sonde_record *)at = (struct sonde_record){end_tsc, id | size / 8 << 8 | 77 << 16};
    memset(at + sizeof(struct sonde_record), 0, size - sizeof(struct sonde_record));
    t->head += size;
    return size;
}

/* Drains slot 0; how many records there were. */
static int drain(uint64_t *ret_unreadable)
{
    struct ring_drain d;
    struct ring_record record;
    int count = 0;
    unsigned fullness = ring_drain_begin(ring_memory_slot(rings, 0), &d);
    while (fullness && ring_drain_next(&d, &record))
        count++;
    ring_drain_end(&d);
    *ret_unreadable = d.unreadable;
    return count;
}

static void records_are_given_out_checked(void **state)
{
    struct ring_drain d;
    struct ring_record record;
    uint64_t now = __rdtsc();
    put_record(0, SONDE_EVENT_redis_bus_read, now, 0);
    assert_int_equal(ring_drain_begin(ring_memory_slot(rings, 0), &d), 1);
    assert_true(ring_drain_next(&d, &record));
    assert_int_equal(record.id, SONDE_EVENT_redis_bus_read);
    assert_int_equal(record.end_tsc, now);
    assert_int_equal(record.duration, 77);
    assert_false(ring_drain_next(&d, &record));
    assert_int_equal(slot(0)->tail, 0);
    ring_drain_end(&d);
    assert_int_equal(slot(0)->tail, slot(0)->head);
    assert_int_equal(d.unreadable, 0);
}

/* A record is copied before it is looked at: what happens to it afterwards changes nothing. */
static void a_record_that_changes_while_it_is_read(void **state)
{
    struct ring_drain d;
    struct ring_record record;
    enum { LENGTH = 20 };
    struct sonde_thread *t = slot(0);
    put_record(0, SONDE_EVENT_probe_name, __rdtsc(), LENGTH);
    char *payload = (char *)t + SONDE_PAGE + sizeof(struct sonde_record);
    const struct event_description *e = &event_catalogue[SONDE_EVENT_probe_name];
    uint16_t offset = 0, length = LENGTH;
    for (int f = 1; f < e->field_count; f++)
        if (e->fields[f].type == FIELD_TYPE_str)
            offset = e->fields[f].record_offset;
    memcpy(payload + offset, &length, sizeof(length));
    assert_int_not_equal(ring_drain_begin(ring_memory_slot(rings, 0), &d), 0);
    assert_true(ring_drain_next(&d, &record));
    memset((char *)t + SONDE_PAGE, 0xff, RING);
    memcpy(&length, (const char *)record.payload + offset, sizeof(length));
    assert_int_equal(length, LENGTH);
    assert_int_equal(record.id, SONDE_EVENT_probe_name);
    assert_false(ring_drain_next(&d, &record));
}

/* Whatever the geometry in the shared memory says, it is not read. */
static void geometry_is_not_read_back(void **state)
{
    uint64_t unreadable;
    put_record(0, SONDE_EVENT_redis_bus_read, __rdtsc(), 0);
    header()->small_bytes = header()->large_bytes = 0x80000000;
    header()->large_used = header()->large_ready = UINT32_MAX;
    header()->thread_slots = 1 << 30;
    header()->slots_ready = UINT32_MAX;
    header()->slots_used = 64;
    assert_int_equal(ring_memory_slots_used(rings), SLOTS);
    assert_null(ring_memory_slot(rings, SLOTS));
    assert_int_equal(ring_memory_extend(rings), 0);
    assert_int_equal(drain(&unreadable), 1);
    slot(0)->head += 0x40000000; /* published far ahead */
    assert_int_equal(drain(&unreadable), 0);
    assert_int_equal(unreadable, 1);
    assert_int_equal(slot(0)->tail, slot(0)->head);
    slot(0)->head = 8; /* and back */
    assert_int_equal(drain(&unreadable), 0);
    assert_int_equal(unreadable, 1);
}

static void strings_that_do_not_fit_are_refused(void **state)
{
    uint64_t unreadable;
    put_record(0, SONDE_EVENT_probe_name, __rdtsc(), 8);
    memset((char *)slot(0) + SONDE_PAGE + sizeof(struct sonde_record), 0xff,
           event_catalogue[SONDE_EVENT_probe_name].record_size);
    assert_int_equal(drain(&unreadable), 0);
    assert_int_equal(unreadable, 1);
}

static void a_time_to_come_is_refused(void **state)
{
    uint64_t unreadable;
    put_record(0, SONDE_EVENT_redis_bus_read, UINT64_MAX, 0);
    put_record(0, SONDE_EVENT_redis_bus_read, __rdtsc(), 0);
    assert_int_equal(drain(&unreadable), 1);
    assert_int_equal(unreadable, 1);
}

static void open_spans_are_checked(void **state)
{
    struct sonde_open_span span;
    struct ring *ring = ring_memory_slot(rings, 0);
    struct sonde_thread *t = slot(0);
    t->depth = UINT32_MAX;
    assert_int_equal(ring_open_count(ring), SONDE_OPEN_SPANS);
    assert_false(ring_open_span(ring, UINT32_MAX, &span));
    t->open[1] = (struct sonde_open_span){__rdtsc(), 5, SONDE_EVENT_node_callback, 6};
    assert_true(ring_open_span(ring, 1, &span));
    assert_int_equal(span.argument, 5);
    t->open[1].event = SONDE_EVENT_COUNT;
    assert_false(ring_open_span(ring, 1, &span));
    t->open[1].event = SONDE_EVENT_node_callback;
    t->open[1].start_tsc = UINT64_MAX;
    assert_false(ring_open_span(ring, 1, &span));
    t->open[1].start_tsc = 0;
    assert_false(ring_open_span(ring, 1, &span));
}

static void large_rings_are_made_ready_ahead_of_need(void **state)
{
    uint64_t resident = ring_memory_resident(rings);
    assert_int_equal(header()->slots_ready, SLOTS);
    assert_int_equal(header()->large_ready, 3);
    header()->large_used = 1;
    assert_int_equal(ring_memory_extend(rings), 0);
    assert_int_equal(header()->large_ready, 3);
    header()->large_used = 2;
    assert_int_equal(ring_memory_extend(rings), 0);
    assert_int_equal(header()->large_ready, 4);
    assert_int_equal(ring_memory_resident(rings), resident + LARGE_RING);
    header()->large_used = UINT32_MAX; /* never more than were given out */
    assert_int_equal(ring_memory_extend(rings), 0);
    assert_int_equal(header()->large_ready, LARGE);
    assert_int_equal(ring_memory_extend(rings), 0);
    assert_int_equal(ring_memory_resident(rings), resident + 3 * LARGE_RING);
}

static void a_process_that_begins_with_little_gets_more(void **state)
{
    uint64_t resident = ring_memory_resident(rings);
    uint32_t offered = header()->slots_offered;
    assert_int_equal(header()->slots_ready, 2);
    assert_int_equal(header()->large_ready, 1);
    assert_null(ring_memory_slot(rings, 2));
    assert_int_equal(ring_memory_extend(rings), 0);
    assert_int_equal(ring_memory_resident(rings), resident);
    header()->slots_used = 1;
    header()->large_used = 1;
    assert_int_equal(ring_memory_extend(rings), 0);
    assert_int_equal(header()->slots_ready, 3);
    assert_int_equal(header()->slots_offered, offered + 1); /* who was refused tries again */
    assert_non_null(ring_memory_slot(rings, 2));
    assert_int_equal(header()->large_ready, 3);
}

/* Says that slot i moved into the large ring number large - 1; its size then. */
static uint64_t size_after_move(int i, uint32_t large, uint64_t at)
{
    struct ring *ring = ring_memory_slot(rings, (uint32_t)i);
    struct ring_drain d;
    slot(i)->moved_at = at;
    slot(i)->large = large;
    (void)ring_drain_begin(ring, &d);
    return ring_size(ring);
}

static void a_move_is_believed_only_where_it_can_be(void **state)
{
    uint64_t unreadable;
    put_record(0, SONDE_EVENT_redis_bus_read, __rdtsc(), 0);
    assert_int_equal(drain(&unreadable), 1);
    uint64_t end = slot(0)->head;
    put_record(0, SONDE_EVENT_redis_bus_read, __rdtsc(), 0);
    assert_int_equal(size_after_move(0, 4, end), RING);          /* without pages */
    assert_int_equal(size_after_move(0, UINT32_MAX, end), RING); /* none of ours */
    assert_int_equal(size_after_move(0, 1, end - 8), RING);      /* in what was read */
    assert_int_equal(size_after_move(0, 1, end + 4), RING);      /* amid a word */
    assert_int_equal(size_after_move(0, 1, end + 4096), RING);   /* not yet */
    assert_int_equal(size_after_move(0, 1, slot(0)->head), LARGE_RING);
    assert_int_equal(size_after_move(0, 2, end), LARGE_RING); /* it has one */
    assert_int_equal(drain(&unreadable), 1);                  /* from the small one */
    assert_int_equal(size_after_move(1, 1, 0), RING);         /* another's */
    assert_int_equal(size_after_move(1, 2, 0), LARGE_RING);
    slot(0)->head += LARGE_RING + 8; /* more than there can be */
    assert_int_equal(drain(&unreadable), 0);
    assert_int_equal(unreadable, 1);
}

static void a_slot_is_released_when_it_is_drained(void **state)
{
    struct ring *ring = ring_memory_slot(rings, 0);
    uint64_t unreadable;
    slot(0)->owner = 7;
    put_record(0, SONDE_EVENT_redis_bus_read, __rdtsc(), 0);
    assert_false(ring_release(ring, 7));
    assert_int_equal(drain(&unreadable), 1);
    assert_false(ring_release(ring, 8));
    assert_int_equal(slot(0)->owner, 7);
    uint32_t offered = header()->slots_offered;
    assert_true(ring_release(ring, 7));
    assert_int_equal(slot(0)->owner, 0);
    assert_int_not_equal(header()->slots_offered, offered);
}

static void the_process_can_neither_shrink_nor_punch_it(void **state)
{
    int fd = ring_memory_fd(rings);
    assert_int_equal(ftruncate(fd, SONDE_PAGE), -1);
    assert_int_equal(ftruncate(fd, 1 << 30), -1);
    ring_memory_handed(rings);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SONDE_PAGE), -1);
    assert_int_equal(madvise(theirs, SONDE_PAGE, MADV_REMOVE), -1);
    assert_ptr_equal(mmap(NULL, SONDE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    header()->fields_found = 1; /* what it has mapped it may write */
}

/* Before it is handed over for good, it may be. */
static void holes_read_as_zeros(void **state)
{
    uint64_t unreadable;
    put_record(0, SONDE_EVENT_redis_bus_read, __rdtsc(), 0);
    uint64_t head = slot(0)->head;
    assert_int_equal(madvise(theirs, SONDE_PAGE + SONDE_PAGE + RING, MADV_REMOVE), 0);
    assert_int_equal(ring_memory_slots_used(rings), 0);
    slot(0)->head = head;
    assert_int_equal(drain(&unreadable), 0);
}

/* A thread that writes anywhere while the memory is drained, most often headers of records. Whatever is given
 * out is whole. */
static atomic_bool enough;

enum { LINE = 64 }; /* of a record here */

static void scribble_once(uint64_t *ring, unsigned *seed)
{
    size_t line = (size_t)rand_r(seed) % (RING / LINE);
    uint64_t id = (uint64_t)rand_r(seed) % (SONDE_EVENT_COUNT + 1), words = LINE / 8;
    bool noise = rand_r(seed) % 16 == 0;
    __atomic_store_n(&ring[line * words + 1], id | (noise ? (uint64_t)rand_r(seed) : words << 8),
                     __ATOMIC_RELAXED);
    if (noise)
        __atomic_store_n(&slot(0)->depth, (uint32_t)rand_r(seed), __ATOMIC_RELAXED);
}

static void *scribble(void *context)
{
    unsigned seed = 5;
    while (!atomic_load(&enough))
        scribble_once(context, &seed);
    return NULL;
}

static void memory_that_changes_while_it_is_drained(void **state)
{
    enum { ROUNDS = 20000 };
    pthread_t thread;
    unsigned seed = 3, records = 0;
    struct ring *ring = ring_memory_slot(rings, 0);
    void *bytes = (char *)slot(0) + SONDE_PAGE;
    uint64_t sum = 0;
    for (int i = 0; i < RING; i++)
        scribble_once(bytes, &seed);
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, scribble, bytes), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ring_drain d;
        struct ring_record record;
        struct sonde_open_span span;
        __atomic_store_n(&slot(0)->head,
                         __atomic_load_n(&slot(0)->tail, __ATOMIC_RELAXED) + i % (RING / LINE) * LINE,
                         __ATOMIC_RELEASE);
        for (bool more = ring_drain_begin(ring, &d); more && ring_drain_next(&d, &record); records++) {
            const struct event_description *e = &event_catalogue[record.id];
            assert_true(record.id < SONDE_EVENT_COUNT && e->probe);
            for (size_t k = 0; k < e->record_size; k++)
                sum += ((const uint8_t *)record.payload)[k];
        }
        ring_drain_end(&d);
        for (uint32_t depth = 0; depth < ring_open_count(ring); depth++)
            if (ring_open_span(ring, depth, &span))
                assert_true(span.event < SONDE_EVENT_COUNT);
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_int_not_equal(records, 0);
    assert_true(sum < UINT64_MAX);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(records_are_given_out_checked),
        T(a_record_that_changes_while_it_is_read),
        T(geometry_is_not_read_back),
        T(strings_that_do_not_fit_are_refused),
        T(a_time_to_come_is_refused),
        T(open_spans_are_checked),
        cmocka_unit_test_setup_teardown(large_rings_are_made_ready_ahead_of_need, set_up_large, tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_begins_with_little_gets_more, set_up_few, tear_down),
        cmocka_unit_test_setup_teardown(a_move_is_believed_only_where_it_can_be, set_up_large, tear_down),
        T(a_slot_is_released_when_it_is_drained),
        T(the_process_can_neither_shrink_nor_punch_it),
        T(holes_read_as_zeros),
        T(memory_that_changes_while_it_is_drained),
    };
    truncated_expect();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
