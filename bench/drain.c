/* What draining a ring costs per record: a thread on another CPU fills the ring as the probe does, then
 * program_drain() moves it into a trace. The peer, in the same run and taking turns with it: copying the same
 * bytes out of the shared memory, which any way of draining has to do.
 *
 *     bench_drain FOLDER      a folder that is not there yet, for the trace
 *
 * prints the median over the rounds, the spread (quartiles), and the ratio. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/program.h"

enum { ROUNDS = 600, RING_BYTES = 512 << 10, FILL = 448 << 10 };

static char *memory;     /* as the traced process has it */
static _Atomic int turn; /* odd: the producer's */
static uint64_t records;

static struct sonde_thread *slot(void)
{
    return (struct sonde_thread *)(memory + SONDE_PAGE);
}

static void fill_ring(void)
{
    const uint64_t size = (sizeof(struct sonde_record) + sizeof(struct record_redis_command) + 7) & ~7ull;
    struct sonde_thread *t = slot();
    records = 0;
    for (uint64_t end = t->head + FILL; t->head + size <= end;) {
        uint64_t place = t->head & (RING_BYTES - 1), room = RING_BYTES - place;
        char *at = memory + 2 * SONDE_PAGE + place;
        if (room < size) {
            if (room >= sizeof(struct sonde_record))
                ((struct sonde_record *)at)->meta = 0;
            __atomic_store_n(&t->head, t->head + room, __ATOMIC_RELEASE);
            continue;
        }
        ((struct sonde_record *)at)->end_tsc = __builtin_ia32_rdtsc();
        ((struct sonde_record *)at)->meta = SONDE_EVENT_redis_command | size / 8 << 8 | 500ull << 16;
        memset(at + sizeof(struct sonde_record), 1, sizeof(struct record_redis_command));
        __atomic_store_n(&t->head, t->head + size, __ATOMIC_RELEASE);
        records++;
    }
}

static void *produce(void *context)
{
    for (int i = 0; i < 2 * ROUNDS; i++) {
        while (!(turn & 1))
            ;
        fill_ring();
        turn++;
    }
    return context;
}

static void await_full_ring(void)
{
    turn++;
    while (turn & 1)
        ;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double show(const char *what, double *ns)
{
    qsort(ns, ROUNDS, sizeof(*ns), by_value);
    printf("%-8s %6.2f ns a record (quartiles %.2f to %.2f), %.1f million a second\n", what, ns[ROUNDS / 2],
           ns[ROUNDS / 4], ns[ROUNDS * 3 / 4], 1e3 / ns[ROUNDS / 2]);
    return ns[ROUNDS / 2];
}

/* Empties the ring, and copies it without looking. */
static double copy_out(void)
{
    static char copy[RING_BYTES];
    uint64_t begin = clock_monotonic_ns();
    memcpy(copy, memory + 2 * SONDE_PAGE, FILL);
    __asm__ volatile("" : : "r"(copy) : "memory");
    return (double)(clock_monotonic_ns() - begin) / (double)records;
}

int main(int argc, char **argv)
{
    static const struct ring_geometry GEOMETRY = {1, RING_BYTES, 0, 0};
    static double drained[ROUNDS], copied[ROUNDS];
    struct ctf_writer *writer;
    struct clock_fit fit;
    struct ring_memory *rings;
    struct program *program;
    struct patch_set none = {0};
    struct target *target = calloc(1, sizeof(*target));
    pthread_t producer;
    if (argc < 2 || !target || ctf_writer_create(argv[1], &writer, NULL) < 0 ||
        ring_memory_new(&GEOMETRY, &rings) < 0)
        return 1;
    memory =
        mmap(NULL, ring_memory_size(rings), PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory_fd(rings), 0);
    clock_fit_init(&fit);
    target->pid = getpid();
    target->memory = -1;
    if (memory == MAP_FAILED || proc_open(getpid(), &target->proc) < 0 ||
        program_new(target, &none, rings, 0, NULL, &program) < 0)
        return 1;
    ((struct sonde_shared *)memory)->slots_used = 1;
    slot()->owner = (uint32_t)getpid();
    pthread_create(&producer, NULL, produce, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        await_full_ring();
        uint64_t begin = clock_monotonic_ns(), before = program->drained_events;
        program_drain(program, writer, &fit);
        drained[i] = (double)(clock_monotonic_ns() - begin) / (double)(program->drained_events - before);
        await_full_ring();
        copied[i] = copy_out();
        program_drain(program, writer, &fit);
    }
    pthread_join(producer, NULL);
    double ratio = show("drain", drained);
    ratio /= show("memcpy", copied);
    printf("ratio    %6.2f\n", ratio);
    program_free(program);
    ctf_writer_free(writer);
    return 0;
}
