/* A program that sonde takes for Node and that, once the probe is in it, computes with the direction flag
 * set, as a memmove() that copies backwards does for a moment. Every line on its standard input is answered
 * with how many turns it has made so, and in how many of them a flag or a register was not as it had left it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "looks_like_node.h"

static volatile long turns, wrong;

static void *answer(void *unused)
{
    char line[16];
    while (read(0, line, sizeof(line)) > 0) {
        printf("turns %ld wrong %ld\n", turns, wrong);
        fflush(stdout);
    }
    _exit(0);
    return unused;
}

static int has_probe(void)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        found |= strstr(line, "libsonde-probe") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

int main(void)
{
    pthread_t thread;
    struct epoll_event event;
    int events = epoll_create1(0);
    pthread_create(&thread, NULL, answer, NULL);
    while (!has_probe())
        epoll_wait(events, &event, 1, 5);
    for (;; turns++) {
        unsigned long count = 100000000, flags, x = 4711, y = 0;
        __asm__ volatile("movq %3, %%xmm7\n\t"
                         "std\n"
                         "1: dec %0\n\t"
                         "jnz 1b\n\t"
                         "pushfq\n\t"
                         "cld\n\t"
                         "pop %1\n\t"
                         "movq %%xmm7, %2"
                         : "+r"(count), "=r"(flags), "=r"(y)
                         : "r"(x)
                         : "cc", "memory", "xmm7");
        wrong += !(flags & 0x400) || y != x;
    }
}
