/* See budget.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/macro.h"

/* ",MB" at *text, which is moved behind it; where there is none *bytes stays as it is. false: it makes no
 * sense.
 */
static bool take_megabytes(const char **text, uint64_t *bytes)
{
    char *end;
    if (**text != ',')
        return true;
    double megabytes = strtod(*text + 1, &end);
    if (end == *text + 1 || !(megabytes > 0 && megabytes < 1e9))
        return false;
    *bytes = (uint64_t)(megabytes * (1 << 20));
    *text = end;
    return true;
}

int budget_parse(const char *text, struct budget_limits *ret_limits, struct problem *problem)
{
    struct budget_limits limits = BUDGET_DEFAULTS;
    char *end;
    double percent = strtod(text, &end);
    const char *rest = end;
    bool ok = end != text && percent > 0 && percent <= 100 && take_megabytes(&rest, &limits.memory_bytes) &&
              take_megabytes(&rest, &limits.disk_bytes);
    if (!ok || *rest)
        return problem_set(problem, -EINVAL,
                           "'%s' is no budget: percent of all CPUs, MB of memory, MB on disk: 5,128,1000",
                           text);
    limits.cpu_share = percent / 100;
    *ret_limits = limits;
    return 0;
}

static double share_between(const struct budget *b, const struct budget_sample *from,
                            const struct budget_sample *to)
{
    double cost_ns = (double)(to->probe_ns - from->probe_ns) +
                     (double)(to->collector_ns - from->collector_ns) +
                     (double)(to->kernel_ns - from->kernel_ns);
    double time_ns = (double)(to->time_ns - from->time_ns);
    return time_ns > 0 ? cost_ns / time_ns / b->processors : 0;
}

static double own_share_between(const struct budget_sample *from, const struct budget_sample *to)
{
    double time_ns = (double)(to->time_ns - from->time_ns);
    return time_ns > 0 ? (double)(to->collector_ns - from->collector_ns) / time_ns : 0;
}

bool budget_disk_is_full(const struct budget *b, const struct budget_sample *sample)
{
    return b->limits.disk_bytes && sample->disk_bytes > b->limits.disk_bytes;
}

bool budget_add(struct budget *b, const struct budget_sample *sample)
{
    enum { SHORT = 2 };
    if (b->count == BUDGET_WINDOW) {
        memmove(b->samples, b->samples + 1, (BUDGET_WINDOW - 1) * sizeof(b->samples[0]));
        b->count--;
    }
    b->samples[b->count++] = *sample;
    const struct budget_sample *newest = &b->samples[b->count - 1];
    b->share = share_between(b, &b->samples[0], newest);
    b->own_share = own_share_between(&b->samples[0], newest);
    bool over = newest->memory_bytes > b->limits.memory_bytes || budget_disk_is_full(b, newest);
    if (b->count == BUDGET_WINDOW)
        over |= b->share > b->limits.cpu_share || b->own_share > BUDGET_OWN_SHARE;
    if (b->count > SHORT)
        over |= share_between(b, newest - SHORT, newest) > 4 * b->limits.cpu_share;
    if (over) { /* what comes next is judged by itself */
        b->samples[0] = *newest;
        b->count = 1;
    }
    return over;
}

int budget_dearest(const double *costs, int count, uint64_t on)
{
    int dearest = -1;
    for (int i = 0; i < count; i++)
        if ((on >> i & 1) && costs[i] > 0 && (dearest < 0 || costs[i] > costs[dearest]))
            dearest = i;
    return dearest;
}

/* A span: the clock twice, a slot of open spans filled and cleared, a record of a line written, a position
 * published. */
static uint64_t write_records(int count)
{
    enum { LINES = 256, WORDS = 8 };
    static uint64_t ring[LINES][WORDS];
    static volatile struct {
        uint64_t start, argument, head;
    } slot;
    uint64_t start_ns = clock_monotonic_ns();
    for (int i = 0; i < count; i++) {
        uint64_t *line = ring[i % LINES];
        slot.argument = (uint64_t)i;
        slot.start = __rdtsc();
        line[0] = __rdtsc();
        for (int k = 1; k < WORDS; k++)
            line[k] = (uint64_t)(i + k);
        slot.start = 0;
        __atomic_store_n(&slot.head, (uint64_t)i, __ATOMIC_RELEASE);
    }
    return clock_monotonic_ns() - start_ns;
}

/* The best of several: what else the machine does only adds. */
double budget_record_ns(void)
{
    enum { RECORDS = 1000, ROUNDS = 20 };
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t took_ns = write_records(RECORDS);
        best_ns = MIN(best_ns, took_ns);
    }
    return (double)best_ns / RECORDS;
}
