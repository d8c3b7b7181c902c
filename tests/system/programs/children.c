/* Starts children that pass a known number of times through places which somebody watches, for
 * tests/system/profile-followed.test.mjs:
 *
 *   children fork|exec probe|free CHILDREN
 *
 * Prints "ready" and waits for a line. Each child, forked or a program of its own, waits until the probe
 * shop:child or free() is watched in it, then does its work, and prints how often it surely and perhaps
 * passed the probe while that was watched, or the bytes that it has kept. All end after another line. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

enum { CALLS = 5000, PIECES = 200, BYTES = 1000, BREAKPOINT = 0xcc, TRIES = 30000 };

volatile long sink;
static void *kept[PIECES];

/* A probe with two places, of which the second is watched last. */
__attribute__((noinline)) static void first(long i)
{
    PROBE("shop", "child", "0");
    sink += i;
}

extern const volatile uint8_t second_place[];

__attribute__((noinline)) static void second(void)
{
    __asm__ volatile(".globl second_place\nsecond_place:");
    PROBE("shop", "child", "0");
    sink++;
}

__attribute__((noinline)) static void keep(void)
{
    for (int i = 0; i < PIECES; i++)
        memset(kept[i] = malloc(BYTES), i, BYTES);
}

/* A forked child has its parent's breakpoints; the kernel removes those that are not for it when they are
 * passed. False: nobody came. */
static int is_watched(const volatile uint8_t *code, void (*pass)(void))
{
    for (int i = 0; i < TRIES; i++) {
        pass();
        if (*code == BREAKPOINT)
            return 1;
        usleep(1000);
    }
    return 0;
}

static long passes;
static int over; /* a pipe into which nothing is written: it ends with the parent */

static void pass_second(void)
{
    passes++;
    second();
}

static void pass_free(void)
{
    void (*volatile call)(void *) = free; /* which is not left out */
    call(NULL);
}

static int work(const char *what)
{
    if (strcmp(what, "probe") == 0) {
        if (!is_watched(second_place, pass_second))
            return 1;
        for (int i = 0; i < CALLS; i++)
            first(i);
        printf("child %d %ld\n", CALLS, CALLS + passes);
    } else {
        if (!is_watched((const volatile uint8_t *)(uintptr_t)free, pass_free))
            return 1;
        keep();
        printf("child %d %d\n", PIECES * BYTES, PIECES * BYTES);
    }
    fflush(stdout);
    char none;
    return read(over, &none, 1) != 0;
}

int main(int argc, char **argv)
{
    char line[16];
    int ends[2];
    if (argc == 4 && strcmp(argv[1], "child") == 0) {
        over = atoi(argv[3]);
        return work(argv[2]);
    }
    if (argc != 4 || pipe(ends))
        return 2;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    int count = atoi(argv[3]);
    for (int i = 0; i < count; i++) {
        if (fork())
            continue;
        close(ends[1]);
        snprintf(line, sizeof(line), "%d", over = ends[0]);
        if (strcmp(argv[1], "exec") == 0)
            execl(argv[0], argv[0], "child", argv[2], line, NULL);
        _exit(work(argv[2]));
    }
    int ended = fgets(line, sizeof(line), stdin) == NULL;
    close(ends[1]);
    while (wait(NULL) > 0)
        ;
    return ended;
}
