/* Places that a known number of times are come to, for tests/system/profile-hits.test.mjs: ROUNDS times
 * place() 30 times from few() and 70 times from many(), the probe shop:order 20 times, the probe shop:dear 5
 * times as often as anybody watches it, and the system call getppid() 40 times. Prints "ready", waits for a
 * line, and prints how often shop:dear's code ran. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

volatile unsigned short dear_watched __attribute__((section(".probes")));
volatile long sink;
static long dear;

__attribute__((noinline)) void place(int i)
{
    sink += i;
}

__attribute__((noinline)) static void few(void)
{
    for (int i = 0; i < 30; i++)
        place(i);
    sink++;
}

__attribute__((noinline)) static void many(void)
{
    for (int i = 0; i < 70; i++)
        place(i);
    sink++;
}

__attribute__((noinline)) static void order(void)
{
    for (int i = 0; i < 20; i++)
        PROBE("shop", "order", "0");
    for (int i = 0; i < 5 && dear_watched; i++, dear++)
        PROBE("shop", "dear", "dear_watched");
    sink++;
}

__attribute__((noinline)) static void ask(void)
{
    for (int i = 0; i < 40; i++)
        sink += syscall(SYS_getppid);
}

int main(int argc, char **argv)
{
    char line[16];
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    for (int i = 0; i < rounds; i++) {
        few();
        many();
        order();
        ask();
    }
    printf("dear %ld\n", dear);
    fflush(stdout);
    return fgets(line, sizeof(line), stdin) == NULL;
}
