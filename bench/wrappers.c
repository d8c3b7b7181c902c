/* How many instructions the probe's wrappers take: exactly, by executing them one at a time. The wrappers are
 * those that are shipped, called as a patched program calls them, over stand-ins for the functions they wrap;
 * instructions of the stand-ins do not count. `make test` compares each scene with the table wrappers.txt.
 *
 *     wrappers TABLE                compares, in TAP; another compiler than the table's: skipped
 *     wrappers --write TABLE        writes the table anew (tools/wrapper-costs)
 *     wrappers --functions [SCENE]  instructions by function of the probe
 *
 * The trap flag makes the CPU raise a trap behind every instruction. One that would read the CPU's time-stamp
 * counter is not executed but answered here, by a clock that only the scenes move: what depends on time is
 * the same in every run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "base/macro.h"
#include "targets/redis/probe.h"
#include "symbol/elf.h"
#include "wrappers.h"

enum { RING_BYTES = 512 << 10, WARM_UP = 20, STEPS_MAX = 1 << 20 };

static uint64_t virtual_ticks = 1000000000;
static uintptr_t *steps;
static volatile size_t step_count, clock_reads;
static volatile bool counting;

static void step(uintptr_t at)
{
    if (counting && step_count < STEPS_MAX &&
        (at < (uintptr_t)__start_program || at >= (uintptr_t)__stop_program))
        steps[step_count++] = at;
}

/* What the counter is read by: rdtsc, of two bytes. */
static bool reads_counter(const greg_t *registers)
{
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    return code[0] == 0x0f && code[1] == 0x31;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    step((uintptr_t)registers[REG_RIP]);
    while (reads_counter(registers)) {
        virtual_ticks += 40;
        clock_reads += counting;
        registers[REG_RAX] = (greg_t)(virtual_ticks & UINT32_MAX);
        registers[REG_RDX] = (greg_t)(virtual_ticks >> 32);
        registers[REG_RIP] += 2;
        step((uintptr_t)registers[REG_RIP]);
    }
}

/* Below the red zone of whom this is inlined into. */
#define TRAP_FLAG(operation, operand)                                            \
    __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n " operation " $" operand \
                     ", (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::              \
                         : "memory", "cc")

static struct probe_thread *self;

/* As it is when a thread has claimed it. */
static void begin_thread(void)
{
    memset(self, 0, SONDE_PAGE);
    record_into(&self->shared, (char *)self + SONDE_PAGE, RING_BYTES);
    self->shared.owner = 1;
    self->stream_fd = -1;
}

static void set_up(void)
{
    static struct sonde_shared shared;
    self = aligned_alloc(SONDE_PAGE, SONDE_PAGE + RING_BYTES);
    steps = calloc(STEPS_MAX, sizeof(*steps));
    if (!self || !steps)
        exit(1);
    memset(self, 0, SONDE_PAGE + RING_BYTES);
    probe_self = (struct probe_self){.thread = self, .attachment = 1};
    probe_live.attachment = probe_live.original = 1;
    probe_shared = &shared;
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &trap, NULL) < 0)
        exit(1);
}

static void empty_ring(void)
{
    self->shared.head = self->shared.tail = 0;
    self->shared.writable = RING_BYTES;
    self->shared.lap = self->shared.ring;
    self->shared.busy = 0; /* nothing is held back */
}

/* Also what is not counted is stepped through, or it would read the CPU's own clock. */
PROGRAM static void run_stepped(void (*run)(void))
{
    TRAP_FLAG("orq", "0x100");
    run();
    TRAP_FLAG("andq", "~0x100");
}

/* What a scene costs, once everything that happens only at first has happened. */
struct cost {
    size_t instructions;
    size_t clock_reads; /* each as dear as a hundred instructions, in a virtual machine */
    size_t bytes;       /* into the ring */
};

static struct cost measure(const struct scene *scene)
{
    if (scene->prepare) {
        begin_thread();
        run_stepped(scene->prepare);
    }
    for (int i = 0; i < WARM_UP; i++) {
        empty_ring();
        run_stepped(scene->run);
    }
    empty_ring();
    step_count = clock_reads = 0;
    counting = true;
    run_stepped(scene->run);
    counting = false;
    if (step_count == STEPS_MAX || self->shared.lost_full || self->shared.lost_signal || self->shared.depth) {
        fprintf(stderr, "wrappers: %s lost records or spans\n", scene->name);
        exit(1);
    }
    return (struct cost){step_count, clock_reads, self->shared.head};
}

/* ---- by function ---- */

static int by_address(const void *a, const void *b)
{
    uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;
    return left < right ? -1 : left > right;
}

static uint64_t load_bias(struct elf *elf)
{
    struct elf_symbol main_symbol;
    extern int main(int, char **);
    return elf_find(elf, "main", &main_symbol) < 0 ? 0 : (uintptr_t)main - main_symbol.value;
}

struct share {
    char name[64];
    size_t count;
};

static int by_count(const void *a, const void *b)
{
    size_t left = ((const struct share *)a)->count, right = ((const struct share *)b)->count;
    return left > right ? -1 : left < right;
}

static void print_functions(struct elf *elf, const struct scene *scene)
{
    uint64_t bias = load_bias(elf);
    struct cost cost = measure(scene);
    size_t total = cost.instructions, count = 0;
    struct share shares[64];
    qsort(steps, total, sizeof(*steps), by_address);
    for (size_t i = 0; i < total; i++) {
        struct elf_symbol symbol;
        const char *name = elf_symbol_at(elf, steps[i] - bias, &symbol) < 0 ? "?" : symbol.name;
        if (!count || strcmp(shares[count - 1].name, name) != 0) {
            if (count == ARRAY_SIZE(shares))
                break;
            snprintf(shares[count].name, sizeof(shares[count].name), "%s", name);
            shares[count++].count = 0;
        }
        shares[count - 1].count++;
    }
    qsort(shares, count, sizeof(*shares), by_count);
    printf("%s: %zu instructions, %zu readings of the clock, %zu bytes recorded\n", scene->name, total,
           cost.clock_reads, cost.bytes);
    for (size_t i = 0; i < count; i++)
        printf("%8zu  %s\n", shares[i].count, shares[i].name);
}

static int functions(const char *only)
{
    _cleanup_(elf_freep) struct elf *elf = NULL;
    struct problem problem = {0};
    if (elf_open("/proc/self/exe", &elf, &problem) < 0)
        return 1;
    for (size_t i = 0; i < scene_count; i++) {
        if (!only || strcmp(only, scenes[i].name) == 0)
            print_functions(elf, &scenes[i]);
        else
            (void)measure(&scenes[i]);
    }
    return 0;
}

/* ---- the table ---- */

#define COMPILER "gcc " __VERSION__

static int write_table(const char *path)
{
    FILE *table = fopen(path, "w");
    if (!table) {
        fprintf(stderr, "wrappers: %s: %s\n", path, strerror(errno));
        return 1;
    }
    fprintf(table, "# The probe's wrappers by scene (bench/wrappers.c): instructions, readings of the clock, "
                   "bytes recorded.\n"
                   "# tools/wrapper-costs writes it anew. Compiler: " COMPILER "\n");
    for (size_t i = 0; i < scene_count; i++) {
        struct cost cost = measure(&scenes[i]);
        fprintf(table, "%-24s %5zu %3zu %5zu\n", scenes[i].name, cost.instructions, cost.clock_reads,
                cost.bytes);
    }
    return fclose(table) == 0 ? 0 : 1;
}

/* The line of a scene in the table. */
static bool expected(const char *table, const char *name, struct cost *ret_cost)
{
    for (const char *line = table; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char word[64];
        if (sscanf(line, "%63s %zu %zu %zu", word, &ret_cost->instructions, &ret_cost->clock_reads,
                   &ret_cost->bytes) == 4 &&
            strcmp(word, name) == 0)
            return true;
    }
    return false;
}

static bool costs_more(const struct cost *a, const struct cost *b)
{
    return a->instructions > b->instructions || a->clock_reads > b->clock_reads || a->bytes > b->bytes;
}

static int compare(const char *path)
{
    char table[8192] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fread(table, 1, sizeof(table) - 1, file)) {
        fprintf(stderr, "wrappers: %s cannot be read\n", path);
        return 1;
    }
    fclose(file);
    if (!strstr(table, "Compiler: " COMPILER "\n")) {
        printf("the table is of another compiler than " COMPILER "\n");
        return 77;
    }
    int failed = 0;
    printf("1..%zu\n", scene_count);
    for (size_t i = 0; i < scene_count; i++) {
        struct cost cost = measure(&scenes[i]), old = {0};
        bool known = expected(table, scenes[i].name, &old);
        bool same = known && memcmp(&cost, &old, sizeof(cost)) == 0;
        printf("%sok %zu - %s\n", same ? "" : "not ", i + 1, scenes[i].name);
        if (same)
            continue;
        failed = 1;
        printf("# %zu instructions, %zu readings of the clock, %zu bytes; the table has %zu, %zu, %zu\n",
               cost.instructions, cost.clock_reads, cost.bytes, old.instructions, old.clock_reads, old.bytes);
        printf("# %s\n",
               costs_more(&cost, &old)
                   ? "more: see tools/wrapper-costs --functions; where it is worth it, tools/wrapper-costs"
                   : "fewer: tools/wrapper-costs writes the table anew");
    }
    return failed;
}

int main(int argc, char **argv)
{
    set_up();
    if (argc > 1 && strcmp(argv[1], "--functions") == 0)
        return functions(argc > 2 ? argv[2] : NULL);
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_table(argv[2]);
    if (argc == 2)
        return compare(argv[1]);
    fprintf(stderr, "usage: wrappers TABLE | --write TABLE | --functions [SCENE]\n");
    return 2;
}
