/* Sees what is taken from it: 36 calls deep, reads the CPU's time stamp without pause; a gap that is
 * longer than a reading ever takes was an interrupt and what ran in it. That is exact to nanoseconds, where
 * the time of a fixed piece of work varies by percents from second to second, as on machines that others
 * share. For each "MILLISECONDS\n" on standard input it watches so long and answers in one line with the gaps
 * from 1 us to 1 ms, in nanoseconds (longer ones are another program's turn). The argument is the CPU
 * to run on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

static unsigned long gaps[1 << 20], count;

/* Ticks are those of the time stamp. */
__attribute__((noinline)) static void watch(unsigned long ticks, unsigned long shortest)
{
    unsigned long start = __rdtsc(), last = start;
    while (last - start < ticks) {
        unsigned long now = __rdtsc();
        if (now - last > shortest && count < sizeof(gaps) / sizeof(*gaps))
            gaps[count++] = now - last;
        last = now;
    }
}

__attribute__((noinline)) static void deep(int depth, unsigned long ticks, unsigned long shortest)
{
    if (depth)
        deep(depth - 1, ticks, shortest);
    else
        watch(ticks, shortest);
    __asm__ volatile("");
}

static unsigned long ticks_per_ms(void)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    unsigned long from = __rdtsc();
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000l + now.tv_nsec - start.tv_nsec < 100000000);
    return (__rdtsc() - from) / 100;
}

int main(int argc, char **argv)
{
    unsigned long ms = ticks_per_ms(), length;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(argc > 1 ? atoi(argv[1]) : 0, &cpus);
    sched_setaffinity(0, sizeof(cpus), &cpus);
    while (scanf("%lu", &length) == 1) {
        count = 0;
        deep(33, length * ms, ms / 1000);
        for (unsigned long i = 0; i < count; i++)
            if (gaps[i] < ms)
                printf("%.0f ", 1e6 * (double)gaps[i] / (double)ms);
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
