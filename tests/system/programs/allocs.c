/* Places that allocate, and free all, half or nothing of it, with an account of their own: for
 * `sonde profile --event alloc`.
 *
 *   allocs
 *
 * It prints "ready", waits for a line of input, does its work and prints for each place "PLACE ALLOCATED
 * ALIVE COUNT" (bytes, and how many allocations), then "done", and ends with its input. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE __attribute__((noinline, noclone))

enum { PLACES = 7, KEPT = 4000, ROUNDS = 20000 };

static struct account {
    const char *place;
    uint64_t made, alive, count;
} accounts[PLACES] = {{.place = "leak_small"},    {.place = "churn"},     {.place = "grow"},
                      {.place = "leak_aligned"},  {.place = "keep_half"}, {.place = "leak_zeroed"},
                      {.place = "leak_of_thread"}};

static void *volatile last; /* so that no allocation is left out */

static void made(int place, uint64_t bytes)
{
    __atomic_fetch_add(&accounts[place].made, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&accounts[place].alive, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&accounts[place].count, 1, __ATOMIC_RELAXED);
}

static void gone(int place, uint64_t bytes)
{
    __atomic_fetch_sub(&accounts[place].alive, bytes, __ATOMIC_RELAXED);
}

ALONE static void leak_small(int i)
{
    size_t size = 24 + (size_t)i % 200;
    last = malloc(size);
    made(0, size);
}

ALONE static void churn(int i)
{
    size_t size = 100 + (size_t)i % 3000;
    void *piece = last = malloc(size);
    made(1, size);
    free(piece);
    gone(1, size);
}

/* Moves again and again: what it had before is free. */
ALONE static void grow(void)
{
    char *piece = NULL;
    size_t before = 0;
    for (size_t size = 1000; size < 400000; size += size / 2) {
        last = piece = realloc(piece, size);
        made(2, size);
        gone(2, before);
        before = size;
    }
    free(piece);
    gone(2, before);
}

ALONE static void leak_aligned(int i)
{
    void *piece = NULL;
    size_t size = 256 * (1 + (size_t)i % 64);
    if (i % 2) {
        if (posix_memalign(&piece, 256, size))
            abort();
    } else {
        piece = aligned_alloc(256, size);
    }
    last = piece;
    made(3, size);
}

ALONE static void keep_half(void)
{
    static void *kept[KEPT];
    for (int i = 0; i < KEPT; i++) {
        kept[i] = malloc(5000);
        made(4, 5000);
    }
    for (int i = 0; i < KEPT; i += 2) {
        free(kept[i]);
        gone(4, 5000);
    }
}

ALONE static void leak_zeroed(int i)
{
    size_t each = 40, count = 1 + (size_t)i % 50;
    last = calloc(count, each);
    made(5, each * count);
}

ALONE static void leak_of_thread(int i)
{
    size_t size = 3000 + (size_t)i % 100;
    last = malloc(size);
    made(6, size);
}

static void *other(void *unused)
{
    for (int i = 0; i < ROUNDS / 4; i++)
        leak_of_thread(i);
    return unused;
}

int main(void)
{
    static char buffer[4096]; /* so that printing allocates nothing */
    char line[16];
    pthread_t threads[2];
    setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
    printf("ready\n");
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, other, NULL))
            return 1;
    for (int i = 0; i < ROUNDS; i++) {
        leak_small(i);
        churn(i);
        if (i % 200 == 0)
            grow();
        if (i % 10 == 0)
            leak_aligned(i / 10);
        leak_zeroed(i);
    }
    keep_half();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PLACES; i++)
        printf("%s %llu %llu %llu\n", accounts[i].place, (unsigned long long)accounts[i].made,
               (unsigned long long)accounts[i].alive, (unsigned long long)accounts[i].count);
    printf("done\n");
    return fgets(line, sizeof(line), stdin) != NULL;
}
