/* Operations that `sonde profile` watches with one event each, for bench/event-price.mjs: prints "ready",
 * waits for a line, and prints the nanoseconds of CPU time that one operation took.
 *
 *   event-price SCENE COUNT
 *
 * call: a function that does nothing. enter: a system call that does nothing. alloc: malloc() and free() of
 * 64 bytes. lock: two threads that take a mutex by turns, and wait for it. wait: two threads that wait for
 * each other over pipes. connect: a connection of the loopback interface, opened, accepted and reset. block:
 * a page read past the page cache from a file in the current directory, which must be on a disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int there[2], back[2];
static void *volatile last;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *alloc(void *unused)
{
    for (long i = 0; i < count; i++) {
        last = malloc(64);
        free(last);
    }
    return unused;
}

__attribute__((noinline)) void called(void);
void called(void)
{
    __asm__ volatile("");
}

static void *call(void *unused)
{
    for (long i = 0; i < count; i++)
        called();
    return unused;
}

static void *enter(void *unused)
{
    for (long i = 0; i < count; i++)
        syscall(SYS_getppid);
    return unused;
}

static void *take(void *unused)
{
    for (long i = 0; i < count; i++) {
        pthread_mutex_lock(&lock);
        usleep(1); /* so that the other one waits, each time */
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *answer(void *unused)
{
    char byte;
    for (long i = 0; i < count; i++)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
            abort();
    return unused;
}

static void *ask(void *unused)
{
    char byte = 0;
    for (long i = 0; i < count; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            abort();
    return unused;
}

static void check(int is_right)
{
    if (is_right)
        return;
    perror("event-price");
    exit(1);
}

static void *connects(void *unused)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger reset = {.l_onoff = 1}; /* so that no port stays taken */
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 16) == 0 &&
          getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    for (long i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        check(connect(fd, (struct sockaddr *)&at, size) == 0);
        int peer = accept(listener, NULL, NULL);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
        close(peer);
    }
    return unused;
}

enum { PAGE = 4096, PAGES = 256 };

static void *block(void *unused)
{
    char *buffer;
    int fd = open("event-price.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && posix_memalign((void **)&buffer, PAGE, PAGE) == 0);
    memset(buffer, 1, PAGE);
    for (int i = 0; i < PAGES; i++)
        check(pwrite(fd, buffer, PAGE, i * PAGE) == PAGE);
    check(fsync(fd) == 0 && fcntl(fd, F_SETFL, O_DIRECT) == 0);
    for (long i = 0; i < count; i++)
        check(pread(fd, buffer, PAGE, i % PAGES * PAGE) == PAGE);
    unlink("event-price.data");
    free(buffer);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t other;
    char line[16];
    if (argc != 3 || pipe(there) || pipe(back))
        return 2;
    count = atol(argv[2]);
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    void *(*second)(void *) = strcmp(argv[1], "lock") == 0   ? take
                              : strcmp(argv[1], "wait") == 0 ? answer
                                                             : NULL;
    void *(*first)(void *) = strcmp(argv[1], "lock") == 0      ? take
                             : strcmp(argv[1], "wait") == 0    ? ask
                             : strcmp(argv[1], "call") == 0    ? call
                             : strcmp(argv[1], "enter") == 0   ? enter
                             : strcmp(argv[1], "connect") == 0 ? connects
                             : strcmp(argv[1], "block") == 0   ? block
                                                               : alloc;
    uint64_t start = now_ns();
    if (second && pthread_create(&other, NULL, second, NULL))
        return 1;
    first(NULL);
    if (second)
        pthread_join(other, NULL);
    printf("%.1f\n", (double)(now_ns() - start) / (double)count);
    return 0;
}
