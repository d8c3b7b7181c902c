/* A program whose functions' CPU time is known: eight functions of 100 us or more, each between two readings
 * of its thread's clock, in two mixes that alternate or in one. On its end it writes "NAME SECONDS" lines to
 * stderr. With a third argument it begins when a line comes on stdin, so that profilers are there before.
 * steer_target SECONDS PHASE-SECONDS (0: steady) [wait] */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sink;
static double took[8];

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* clang-format off */
#define FUNCTION(number)                                        \
    static __attribute__((noinline)) void work_##number(long n) \
    {                                                           \
        for (long i = 0; i < n; i++)                            \
            sink += (unsigned long)i * (number + 3);            \
        __asm__ volatile("");                                   \
    }
FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7)
    /* clang-format on */

    int main(int argc, char **argv)
{
    static void (*const functions[8])(long) = {work_0, work_1, work_2, work_3,
                                               work_4, work_5, work_6, work_7};
    static const double mixes[2][8] = {{40, 20, 15, 10, 6, 4, 3, 2}, {3, 5, 2, 20, 10, 30, 12, 18}};
    if (argc > 3)
        getchar();
    double seconds = argc > 1 ? atof(argv[1]) : 10, phase = argc > 2 ? atof(argv[2]) : 0,
           start = now(CLOCK_MONOTONIC), at;
    while ((at = now(CLOCK_MONOTONIC) - start) < seconds) {
        const double *mix = mixes[phase > 0 && (long)(at / phase) % 2];
        double pick = (double)rand() / (double)RAND_MAX * 100;
        int f = 0;
        while (f < 7 && pick >= mix[f])
            pick -= mix[f++];
        double before = now(CLOCK_THREAD_CPUTIME_ID);
        functions[f](100000);
        took[f] += now(CLOCK_THREAD_CPUTIME_ID) - before;
    }
    for (int f = 0; f < 8; f++)
        fprintf(stderr, "work_%d %.6f\n", f, took[f]);
    return 0;
}
