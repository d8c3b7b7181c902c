/* Looks like Node. As soon as sonde has accepted the memory that they share a thread of it writes there what
 * a probe never would: geometry   a size of rings and a number of slots that lead far out of the memory slots
 * many slots in use, with positions that claim to be full noise      random words everywhere, again and
 * again, also in records while they are read holes      takes the pages away */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "event/ring.h"
#include "looks_like_node.h"

/* Something to hook: a phase of the loop of libuv 1.44. */
unsigned uv_version(void);
__attribute__((used, visibility("default"), noinline)) unsigned uv_version(void)
{
    return 1 << 16 | 44 << 8;
}

void uv__run_check(void *loop);
__attribute__((used, visibility("default"), noinline)) void uv__run_check(void *loop)
{
    char line[64];
    for (int i = 0; i < 10000; i++) /* some milliseconds: short phases are not recorded */
        snprintf(line, sizeof(line), "%p", loop);
    if (line[0] == 'x')
        puts(line);
}

static const char *mode = "";

/* The newest mapping of sonde's memory. */
static struct sonde_shared *find_shared(size_t *ret_size)
{
    char line[600];
    unsigned long start = 0, end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "/memfd:sonde ") && strstr(line, "rw-s") &&
            sscanf(line, "%lx-%lx", &start, &end) == 2)
            break;
    if (maps)
        fclose(maps);
    *ret_size = end - start;
    struct sonde_shared *shared = (struct sonde_shared *)start;
    return shared && shared->magic == SONDE_SHARED_MAGIC ? shared : NULL;
}

static struct sonde_thread *slot(struct sonde_shared *shared, unsigned i)
{
    return (struct sonde_thread *)((char *)shared + SONDE_PAGE +
                                   i * (size_t)(SONDE_PAGE + SONDE_SMALL_BYTES));
}

static void scribble(struct sonde_shared *shared, size_t size)
{
    static unsigned seed = 1;
    if (strcmp(mode, "geometry") == 0) {
        slot(shared, 0)->owner = (uint32_t)getpid();
        shared->small_bytes = shared->large_bytes = 0x80000000;
        shared->large_at = UINT64_MAX;
        shared->large_ready = UINT32_MAX;
        shared->thread_slots = 1 << 20;
        shared->slots_used = 1;
        slot(shared, 0)->head += 0x40000000;
    } else if (strcmp(mode, "slots") == 0) {
        shared->small_bytes = 0x08000000;
        shared->slots_used = shared->large_used = 100;
        for (unsigned i = 0; i < 6; i++) {
            slot(shared, i)->owner = (uint32_t)getpid();
            if (i) { /* of the first, which is this thread's, the probe itself believes this */
                slot(shared, i)->moved_at = slot(shared, i)->head;
                slot(shared, i)->large = i;
            }
            slot(shared, i)->head += SONDE_LARGE_BYTES;
        }
    } else if (strcmp(mode, "noise") == 0) {
        shared->slots_used = 4;
        for (int i = 0; i < 4; i++) {
            struct sonde_thread *t = slot(shared, (unsigned)i);
            uint64_t *ring = (uint64_t *)((char *)t + SONDE_PAGE);
            t->owner = (uint32_t)getpid() + (uint32_t)(rand_r(&seed) % 2);
            t->depth = (uint32_t)rand_r(&seed);
            t->lost_full += (uint64_t)rand_r(&seed);
            for (int k = 0; k < SONDE_OPEN_SPANS; k++)
                t->open[k] =
                    (struct sonde_open_span){(uint64_t)rand_r(&seed), 1, (uint32_t)rand_r(&seed) % 200, 1};
            for (int k = 0; k < 4000; k++) {
                uint64_t number = (uint64_t)rand_r(&seed) % 80, words = (uint64_t)rand_r(&seed) % 256;
                ring[(unsigned)rand_r(&seed) % (SONDE_SMALL_BYTES / 8)] = number | words << 8;
            }
            if (i) {
                t->moved_at = t->head + (uint64_t)rand_r(&seed) % 64;
                t->large = (uint32_t)rand_r(&seed) % 8;
            }
            t->head += (uint64_t)(rand_r(&seed) % 4096) * 8;
        }
    } else {
        madvise(shared, size, MADV_REMOVE);
    }
}

static void *run(void *argument)
{
    size_t size;
    for (struct sonde_shared *shared; !(shared = find_shared(&size));)
        usleep(100);
    struct sonde_shared *shared = find_shared(&size);
    while (!slot(shared, 0)->tail) /* until sonde has drained a record */
        usleep(100);
    puts("scribbling");
    fflush(stdout);
    for (;;)
        scribble(shared, size);
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    mode = argc > 1 ? argv[1] : "";
    pthread_create(&thread, NULL, run, NULL);
    puts("ready");
    fflush(stdout);
    int epoll = epoll_create1(0);
    struct epoll_event event;
    for (;;)
        if (epoll_wait(epoll, &event, 1, 10) <= 0)
            uv__run_check(&epoll);
}
