/* How fast a history is built and queried, and how large it is: the columnar store, and beside it the State
 * History Tree on the same input in the same run.
 *
 *     bench_history CHANGES ATTRIBUTES [RUNS [columns]]
 *     bench_history CHANGES ATTRIBUTES keep FILE       only makes a history, for other benchmarks
 *
 * `make bench` runs it with 10 million changes over 1,000 and over 100,000 attributes. Above 200 million
 * changes (which takes minutes and gigabytes of disk) only the columnar store is built, and the changes are
 * made while it is.
 *
 * The changes resemble what analyses of services produce. Each attribute is a state machine of one of five
 * kinds:
 *
 *     thread     0 .. 5: running, preempted, waiting for I/O, sleeping, in a system call, interrupted
 *     operation  the name of one of 40 functions while busy, null in between
 *     connection 0 .. 3: idle, reading, executing, writing
 *     queue      a length that goes up and down by one, 0 most often
 *     cpu        the number of the thread that runs, one of 200, or 0
 *
 * Every state of a kind has its own mean duration (a thread sleeps fifty times longer than it runs, a system
 * call is short), times a factor between 1/8 and 8 drawn once for each attribute (some threads are busier
 * than others), times one for all that makes the host as a whole change about a million times a second.
 * Durations are exponential, in nanoseconds. Attributes run independently of each other: a calendar yields
 * the changes in time order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "history/history.h"

/* ---- The generator ---- */

static uint64_t random_state = 42;

static uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static double random_unit(void)
{
    return (double)((random_next() >> 11) + 1) * 0x1p-53;
}

enum kind { THREAD, OPERATION, CONNECTION, QUEUE, CPU, KINDS };

struct machine {
    float factor;
    uint32_t value; /* of its kind; operations: 0 is null */
    enum kind kind;
};

struct due {
    uint64_t time_ns;
    uint32_t quark;
};

static struct machine *machines;
static struct due *heap; /* the next change of every attribute, earliest first */
static uint32_t machine_count;
static char operation_names[41][24];
static const char *const KIND_NAMES[KINDS] = {"State", "Operation", "Phase", "Length", "Thread"};

/* Moves to the next state; returns how long it lasts on average, in us. */
static double next_state(struct machine *m)
{
    static const double THREAD_US[] = {80, 120, 900, 4000, 6, 3};
    static const double CONNECTION_US[] = {2500, 15, 25, 12};
    uint64_t n = random_next();
    switch (m->kind) {
    case THREAD: {
        uint32_t next = m->value == 0 ? 1 + (uint32_t)(n % 5) : m->value == 1 ? 0 : n % 8 ? 0 : 1;
        m->value = next;
        return THREAD_US[next];
    }
    case OPERATION:
        m->value = m->value && n % 3 ? 0 : 1 + (uint32_t)(n % 97 * (n >> 32 & 0xff) / 97 * 40 / 256);
        return m->value ? 150 : 1200;
    case CONNECTION:
        m->value = (m->value + 1) % 4;
        return CONNECTION_US[m->value];
    case QUEUE:
        m->value = !m->value || n % 5 < 2 ? m->value + 1 : m->value - 1;
        return m->value ? 60 : 700;
    default: {
        uint32_t next = n % 4 == 0 ? 0 : 1 + (uint32_t)((n >> 8) % 14 * ((n >> 16) % 15));
        m->value = next == m->value ? next + 1 : next;
        return m->value ? 250 : 600;
    }
    }
}

static uint64_t duration_ns(struct machine *m)
{
    return 1 + (uint64_t)(next_state(m) * 1000 * (double)m->factor * -log(random_unit()));
}

static void sift_down(void)
{
    struct due moving = heap[0];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= machine_count)
            break;
        if (child + 1 < machine_count && heap[child + 1].time_ns < heap[child].time_ns)
            child++;
        if (heap[child].time_ns >= moving.time_ns)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const struct due *)a)->time_ns, y = ((const struct due *)b)->time_ns;
    return x < y ? -1 : x > y;
}

#define START_NS 86400000000000ull

static void generator_start(uint32_t attributes)
{
    random_state = 42;
    free(machines);
    free(heap);
    machine_count = attributes;
    machines = calloc(attributes, sizeof(*machines));
    heap = calloc(attributes, sizeof(*heap));
    if (!machines || !heap)
        exit(1);
    for (int i = 1; i <= 40; i++)
        snprintf(operation_names[i], sizeof(operation_names[i]), "function_%d", i * 37);
    for (uint32_t q = 0; q < attributes; q++) {
        machines[q].kind = q % KINDS;
        machines[q].factor = (float)(exp2(random_unit() * 6 - 3) * attributes / 180);
        heap[q] = (struct due){START_NS + duration_ns(&machines[q]), q};
    }
    qsort(heap, attributes, sizeof(*heap), by_time);
}

struct change {
    uint64_t time_ns;
    uint32_t quark;
    uint16_t value;
    uint8_t kind;
};

static struct change generate(void)
{
    struct due *due = &heap[0];
    struct machine *m = &machines[due->quark];
    struct change c = {due->time_ns, due->quark, (uint16_t)m->value, (uint8_t)m->kind};
    due->time_ns += duration_ns(m);
    sift_down();
    return c;
}

static struct history_value value_of(const struct change *c)
{
    if (c->kind == OPERATION)
        return c->value ? history_string(operation_names[c->value]) : history_null();
    return history_int(c->value);
}

/* ---- Measuring ---- */

static void check(int r, const struct problem *problem)
{
    if (r < 0) {
        fprintf(stderr, "history: %s\n", problem->what);
        exit(1);
    }
}

static const char *const STORES[] = {"columns", "tree"};

static struct history *start(const char *path, enum history_store store, uint32_t attributes)
{
    struct problem problem = {0};
    struct history_options options = {.size = sizeof(options), .store = store, .start_ns = START_NS};
    struct history *h;
    check(history_create(path, &options, &h, &problem), &problem);
    for (uint32_t q = 0; q < attributes; q++) {
        char name[64];
        uint32_t quark;
        snprintf(name, sizeof(name), "Host/%u/%s", q / KINDS, KIND_NAMES[q % KINDS]);
        check(history_add_path(h, name, &quark, &problem), &problem);
    }
    return h;
}

static uint32_t *leaves; /* quark of each generated attribute */

static void find_leaves(struct history *h, uint32_t attributes)
{
    free(leaves);
    leaves = calloc(attributes, sizeof(*leaves));
    for (uint32_t q = 0; leaves && q < attributes; q++) {
        char name[64];
        snprintf(name, sizeof(name), "Host/%u/%s", q / KINDS, KIND_NAMES[q % KINDS]);
        if (history_find_path(h, name, &leaves[q]) < 0)
            exit(1);
    }
}

typedef ARRAY(double) doubles;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(doubles *d)
{
    qsort(d->at, d->count, sizeof(*d->at), by_value);
    return d->count ? d->at[d->count / 2] : 0;
}

static void add(doubles *d, double value)
{
    if (array_add(d, value) < 0)
        exit(1);
}

/* What one store achieved, over all runs. */
struct figures {
    doubles build_per_s, bytes_per_change, single_us, full_ms, grid_ms, summary_ms, memory_mb;
};

static uint64_t seen; /* so that answers are used */

static int count_state(void *context, const struct history_interval *s)
{
    seen += s->start_ns;
    return 0;
}

static int count_summary(void *context, uint32_t column, const struct history_summary *s)
{
    seen += s->changes;
    return 0;
}

/* The clock of all figures: the wall's, or with SONDE_BENCH_CLOCK=cpu this thread's own, for machines that
 * others use. */
static uint64_t now_ns(void)
{
    static int own = -1;
    if (own < 0)
        own = getenv("SONDE_BENCH_CLOCK") && !strcmp(getenv("SONDE_BENCH_CLOCK"), "cpu");
    struct timespec t;
    clock_gettime(own ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static double elapsed_us(uint64_t since_ns)
{
    return (double)(now_ns() - since_ns) / 1e3;
}

static void measure_queries(struct history *h, uint32_t attributes, bool summaries_too, struct figures *f)
{
    struct problem problem = {0};
    struct history_info info;
    history_get_info(h, &info);
    uint64_t span = info.end_ns - info.start_ns;
    struct history_interval *states = calloc(info.attributes, sizeof(*states)), one;
    doubles times = {0};
    random_state = 7;
    for (int i = 0; i < 2000; i++) {
        uint32_t quark = leaves[random_next() % attributes];
        uint64_t t = info.start_ns + random_next() % span, from = now_ns();
        check(history_query(h, quark, t, &one, &problem), &problem);
        if (i >= 200)
            add(&times, elapsed_us(from));
        seen += one.start_ns;
    }
    add(&f->single_us, median(&times));
    array_clear(&times);
    for (int i = 0; i < 24; i++) {
        uint64_t t = info.start_ns + random_next() % span, from = now_ns();
        check(history_query_full(h, t, states, &problem), &problem);
        if (i >= 4)
            add(&times, elapsed_us(from) / 1e3);
        seen += states[0].start_ns;
    }
    add(&f->full_ms, median(&times));
    array_clear(&times);
    doubles summaries = {0};
    for (int i = 0; i < 6; i++) {
        uint32_t quarks[100];
        for (int k = 0; k < 100; k++)
            quarks[k] = leaves[random_next() % attributes];
        uint64_t from = now_ns();
        check(history_query_2d(h, quarks, 100, info.start_ns, info.end_ns, 1000, count_state, NULL, &problem),
              &problem);
        if (i)
            add(&times, elapsed_us(from) / 1e3);
        if (!summaries_too) /* the tree has none: it would read every state of each attribute */
            continue;
        from = now_ns();
        check(history_summarize(h, quarks, 100, info.start_ns, info.end_ns, 1000, count_summary, NULL,
                                &problem),
              &problem);
        if (i)
            add(&summaries, elapsed_us(from) / 1e3);
    }
    add(&f->grid_ms, median(&times));
    if (summaries_too)
        add(&f->summary_ms, median(&summaries));
    array_done(&times);
    array_done(&summaries);
    free(states);
}

static void run(const char *path, enum history_store store, const struct change *changes, uint64_t count,
                uint32_t attributes, struct figures *f)
{
    struct problem problem = {0};
    struct history *h = start(path, store, attributes);
    find_leaves(h, attributes);
    struct history_info info;
    uint64_t memory = 0, from = now_ns(), end_ns = changes[count - 1].time_ns + 1;
    for (uint64_t i = 0; i < count; i++)
        check(
            history_modify(h, changes[i].time_ns, leaves[changes[i].quark], value_of(&changes[i]), &problem),
            &problem);
    history_get_info(h, &info);
    memory = info.memory_bytes;
    check(history_close(h, end_ns, &problem), &problem);
    double us = elapsed_us(from);
    history_free(h);
    add(&f->build_per_s, (double)count / us);
    add(&f->memory_mb, (double)memory / 1e6);
    check(history_open(path, &h, &problem), &problem);
    history_get_info(h, &info);
    add(&f->bytes_per_change, (double)info.file_bytes / (double)count);
    measure_queries(h, attributes, store == HISTORY_COLUMNS, f);
    history_free(h);
    unlink(path);
}

static void print_row(const char *what, const char *goal, doubles *columns, doubles *tree,
                      bool more_is_better)
{
    double a = median(columns);
    printf("  %-34s %9.3g [%.3g .. %.3g]", what, a, columns->at[0], columns->at[columns->count - 1]);
    if (tree->count) {
        double b = median(tree);
        printf("  %9.3g [%.3g .. %.3g]  %7.1fx", b, tree->at[0], tree->at[tree->count - 1],
               more_is_better ? a / b : b / a);
    }
    printf("   %s\n", goal);
}

static long peak_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* So many changes that they are made while building; only the store's own time is counted as well. */
static int run_long(const char *path, uint64_t count, uint32_t attributes, bool keep)
{
    enum { CHUNK = 1 << 20 };
    struct problem problem = {0};
    struct history *h = start(path, HISTORY_COLUMNS, attributes);
    find_leaves(h, attributes);
    generator_start(attributes);
    struct change *chunk = malloc(CHUNK * sizeof(*chunk));
    uint64_t end_ns = 0, most = 0;
    double store_us = 0, all_us;
    uint64_t begin = now_ns();
    struct history_info info = {.changes = 0};
    for (uint64_t done = 0; chunk && info.changes < count; done += CHUNK) { /* some are none to the history */
        for (uint64_t i = 0; i < CHUNK; i++)
            chunk[i] = generate();
        uint64_t from = now_ns();
        for (uint64_t i = 0; i < CHUNK; i++)
            check(history_modify(h, chunk[i].time_ns, leaves[chunk[i].quark], value_of(&chunk[i]), &problem),
                  &problem);
        store_us += elapsed_us(from);
        end_ns = chunk[CHUNK - 1].time_ns + 1;
        history_get_info(h, &info);
        most = info.memory_bytes > most ? info.memory_bytes : most;
        if (done / CHUNK % 100 == 0)
            fprintf(stderr, "  %llu million changes, peak %ld MB resident\n",
                    (unsigned long long)done / 1000000, peak_kb() / 1024);
    }
    free(chunk);
    uint64_t from = now_ns();
    check(history_close(h, end_ns, &problem), &problem);
    if (keep) {
        history_free(h);
        return 0;
    }
    store_us += elapsed_us(from);
    all_us = elapsed_us(begin);
    history_get_info(h, &info);
    printf("%llu changes over %u attributes, columns only\n", (unsigned long long)info.changes, attributes);
    printf("  build, million changes/s           %9.3g (with making the changes: %.3g)\n",
           (double)info.changes / store_us, (double)info.changes / all_us);
    printf("  bytes a change                     %9.3g (%.2f GB)\n",
           (double)info.file_bytes / (double)info.changes, (double)info.file_bytes / 1e9);
    printf("  peak resident memory, MB           %9ld (history's own: %.0f)\n", peak_kb() / 1024,
           (double)most / 1e6);
    history_free(h);
    from = now_ns();
    check(history_open(path, &h, &problem), &problem);
    printf("  open, ms                           %9.3g\n", elapsed_us(from) / 1e3);
    struct figures f = {0};
    measure_queries(h, attributes, true, &f);
    printf("  single query, us                   %9.3g\n  full state, ms                     %9.3g\n",
           median(&f.single_us), median(&f.full_ms));
    printf("  2D 100 x 1000, ms                  %9.3g\n  summary 100 x 1000, ms             %9.3g\n",
           median(&f.grid_ms), median(&f.summary_ms));
    history_free(h);
    unlink(path);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    uint32_t attributes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000;
    int runs = argc > 3 ? atoi(argv[3]) : 3;
    bool tree = argc <= 4;
    const char *folder = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof(path), "%s/sonde-bench-%d.history", folder ? folder : "/tmp", (int)getpid());
    if (argc == 5 && strcmp(argv[3], "keep") == 0)
        return run_long(argv[4], count, attributes, true);
    if (count > 200000000)
        return run_long(path, count, attributes, false);

    generator_start(attributes);
    struct change *changes = malloc(count * sizeof(*changes));
    if (!changes)
        return 1;
    for (uint64_t i = 0; i < count; i++)
        changes[i] = generate();
    double seconds = (double)(changes[count - 1].time_ns - START_NS) / 1e9;
    struct figures f[2] = {0};
    for (int i = 0; i < runs; i++)
        for (int store = 0; store <= tree; store++)
            run(path, (enum history_store)store, changes, count, attributes, &f[store]);
    double load = 0;
    getloadavg(&load, 1);
    printf("%llu changes over %u attributes in %.3g s of trace; median [least .. most] of %d runs: %s%s "
           "(load average %.1f on %ld processors)\n",
           (unsigned long long)count, attributes, seconds, runs, STORES[0],
           tree ? ", then the tree, and the ratio" : "", load, sysconf(_SC_NPROCESSORS_ONLN));
    bool many = attributes > 10000;
    print_row("build, million changes/s", "goal 5 or more", &f[0].build_per_s, &f[1].build_per_s, true);
    print_row("bytes a change", "goal 6 or less", &f[0].bytes_per_change, &f[1].bytes_per_change, false);
    print_row("single query, us", "goal 5", &f[0].single_us, &f[1].single_us, false);
    print_row("full state, ms", many ? "goal 8" : "goal 1", &f[0].full_ms, &f[1].full_ms, false);
    print_row("2D 100 x 1000 whole trace, ms", "goal 20", &f[0].grid_ms, &f[1].grid_ms, false);
    print_row("summary 100 x 1000 whole trace, ms", "", &f[0].summary_ms, &f[1].summary_ms, false);
    print_row("memory of the builder, MB", "", &f[0].memory_mb, &f[1].memory_mb, false);
    return seen == 1; /* never: keeps the answers alive */
}
