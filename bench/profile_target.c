/* A fixed amount of work 36 calls deep, and the CPU time that it took, in nanoseconds on standard output. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void work(long n)
{
    for (long i = 0; i < n; i++)
        sink += (unsigned long)(i * i);
}

__attribute__((noinline)) static void deep(int depth, long n)
{
    if (depth)
        deep(depth - 1, n);
    else
        work(n);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    struct timespec t;
    for (long i = 0; i < rounds; i++)
        deep(33, 1000000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    printf("%lld\n", t.tv_sec * 1000000000ll + t.tv_nsec);
    return 0;
}
