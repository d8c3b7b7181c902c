/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

enum { RING = 4096, SLOTS = 4 };

static char folder[TEST_PATH];
static struct ctf_writer *writer;
static struct clock_fit fit;
static char *memory; /* as the traced process has it */
static struct program *program;

static struct sonde_thread *slot(int i)
{
    return (struct sonde_thread *)(memory + SONDE_PAGE + i * (SONDE_PAGE + RING));
}

static int set_up(void **state)
{
    struct ring_memory *rings;
    struct target *target = calloc(1, sizeof(*target));
    struct patch_set none = {0};
    if (!target || !mkdtemp(test_path(folder)) || ctf_writer_create(folder, &writer, NULL) < 0 ||
        ring_memory_new(&(struct ring_geometry){SLOTS, RING, 0, 0}, &rings) < 0)
        return -1;
    clock_fit_init(&fit);
    memory =
        mmap(NULL, ring_memory_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory_fd(rings), 0);
    target->pid = getpid();
    target->memory = -1;
    if (proc_open(getpid(), &target->proc) < 0)
        return -1;
    return memory == MAP_FAILED ? -1 : program_new(target, &none, rings, 0, NULL, &program);
}

static int tear_down(void **state)
{
    program_free(program);
    program = NULL;
    ctf_writer_free(writer);
    munmap(memory, SONDE_PAGE + SLOTS * (SONDE_PAGE + RING));
    char command[TEST_PATH + 16];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void put_record(struct sonde_thread *t, uint64_t id, uint64_t size)
{
    char *at = (char *)t + SONDE_PAGE + (t->head & (RING - 1));
    *(struct sonde_record *)at = (struct sonde_record){fit.first_ticks + t->head, id | size / 8 << 8};
    memset(at + 16, 0, size - 16);
    t->head += size;
    t->written++;
}

static uint64_t record_size(enum sonde_event_id id)
{
    return (sizeof(struct sonde_record) + event_catalogue[id].record_size + 7) & ~7ull;
}

static void records_arrive(void **state)
{
    uint64_t size = record_size(SONDE_EVENT_redis_command);
    ((struct sonde_shared *)memory)->slots_used = 2;
    slot(0)->owner = (uint32_t)getpid();
    slot(1)->owner = 999999;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 2; i++) {
            struct sonde_thread *t = slot(i);
            uint64_t room = RING - (t->head & (RING - 1));
            if (room < size) { /* as the probe does: a filler to the end */
                if (room >= 16)
                    memset((char *)t + SONDE_PAGE + (t->head & (RING - 1)), 0, 16);
                t->head += room;
            }
            put_record(t, SONDE_EVENT_redis_command, size);
        }
        program_drain(program, writer, &fit);
        assert_int_equal(slot(0)->tail, slot(0)->head);
        assert_int_equal(slot(1)->tail, slot(1)->head);
    }
    assert_int_equal(program->drained_events, 200);
    assert_int_equal(program_events_written(program), 200);
}

/* Whatever stands in the ring, draining ends, stays inside it, and counts what it cannot read. */
static void damaged_rings_are_counted(void **state)
{
    srand(3);
    ((struct sonde_shared *)memory)->slots_used = 1;
    slot(0)->owner = (uint32_t)getpid();
    for (int round = 0; round < 3000; round++) {
        char *ring = (char *)slot(0) + SONDE_PAGE;
        for (int i = 0; i < RING; i++)
            ring[i] = (char)rand();
        if (round % 2) /* sizes and numbers that look right */
            for (int i = 0; i < RING; i += 16)
                ring[i + 8] = (char)(rand() % (SONDE_EVENT_COUNT + 2)), ring[i + 9] = (char)(rand() % 12);
        slot(0)->head += (uint64_t)(rand() % (RING / 8 + 40)) * 8;
        program_drain(program, writer, &fit);
        assert_int_equal(slot(0)->tail, slot(0)->head);
    }
    assert_true(program->threads[0].unreadable > 0);
}

static void a_slot_passes_to_another_thread(void **state)
{
    ((struct sonde_shared *)memory)->slots_used = 1;
    slot(0)->owner = 100;
    put_record(slot(0), SONDE_EVENT_redis_bus_read, record_size(SONDE_EVENT_redis_bus_read));
    program_drain(program, writer, &fit);
    assert_int_equal(program->threads[0].tid, 100);
    slot(0)->owner = 200;
    put_record(slot(0), SONDE_EVENT_redis_bus_read, record_size(SONDE_EVENT_redis_bus_read));
    program_drain(program, writer, &fit);
    assert_int_equal(program->threads[0].tid, 200);
    assert_int_equal(program->drained_events, 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {T(records_arrive), T(damaged_rings_are_counted),
                                       T(a_slot_passes_to_another_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
