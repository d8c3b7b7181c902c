/* Programs for bench/bighost.mjs: with the functions by which sonde knows a Redis, and nothing behind them.
 *
 *   bighost_load idle PROCESSES THREADS    as many processes with as many threads; each thread calls call()
 *                                          once, and sleeps; each process listens on a TCP port; prints "up",
 *                                          ends with its input
 *   bighost_load serve THREADS             the main thread reads the clock without a pause, the others sleep
 *                                          in poll(2) and wake 20 times a second, at times that have nothing
 *                                          to do with each other; each line of input prints
 *                                          "MAIN OTHERS": the longest gap that the main thread saw since the
 *                                          line before, ns, and the longest of any other thread beyond its
 *                                          pause
 *   bighost_load prefork RATE SECONDS      forks as many children a second; each calls 10 times and ends
 *                                          after half a second; prints how many there were
 *   bighost_load liars SECONDS             forks a child every 2 ms that executes sleep(1) for 20 ms, under
 *                                          the name of a Redis or a Node; prints how many there were
 *   bighost_load bursts PROCESSES RATE N   as many processes that call call() N times and sleep, in turns:
 *                                          RATE bursts a second of all together, spread evenly; prints "up",
 *                                          ends with its input
 *   bighost_load calls THREADS SECONDS     as many threads that make a short system call again and again
 *   bighost_load hold PID                  a bare stop of all threads: seizes them, interrupts them, waits
 *                                          for all and lets go; prints how long they were held, ns
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <pthread.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../tests/system/programs/looks_like_redis.h"

enum { THREADS_MAX = 16384, PAUSE_MS = 50, STACK = 64 << 10 };

__attribute__((noipa, patchable_function_entry(5))) void call(void *client, int flags)
{
    (void)client;
    (void)flags;
    __asm__ volatile("nop; nop; nop; nop; nop; nop");
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void begin(int count, void *(*run)(void *))
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, run, NULL)) {
            perror("pthread_create");
            exit(1);
        }
    }
}

/* ---- idle ---- */

static int called;

static void *call_and_sleep(void *unused)
{
    call(NULL, 0);
    __atomic_fetch_add(&called, 1, __ATOMIC_RELEASE);
    for (;;)
        pause();
    return unused;
}

/* Writes a byte to 1 once all threads have called, and ends with its input. */
static int idle_process(int threads)
{
    char byte;
    const struct timespec moment = {.tv_nsec = 1000000};
    if (listen(socket(AF_INET, SOCK_STREAM, 0), 1) < 0) /* on some port, as a service does */
        perror("listen");
    call(NULL, 0);
    begin(threads - 1, call_and_sleep);
    while (__atomic_load_n(&called, __ATOMIC_ACQUIRE) < threads - 1)
        nanosleep(&moment, NULL);
    if (write(1, "u", 1) != 1)
        return 1;
    struct pollfd input = {.fd = 0, .events = POLLIN}; /* as a service waits: it can be attached to there */
    while (poll(&input, 1, -1) < 0 || read(0, &byte, 1) > 0)
        ;
    return 0;
}

static int idle(char *self, char *processes, char *threads)
{
    int count = atoi(processes), ready[2], end[2];
    char byte;
    if (count == 0)
        return idle_process(atoi(threads));
    if (pipe(ready) < 0 || pipe(end) < 0)
        return 1;
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            dup2(end[0], 0);
            dup2(ready[1], 1);
            for (int fd = 3; fd < 16; fd++)
                close(fd);
            execl(self, self, "idle", "0", threads, (char *)NULL);
            _exit(127);
        }
    }
    for (int i = 0; i < count; i++)
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    printf("up\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    close(end[1]);
    close(end[0]);
    while (wait(NULL) > 0)
        ;
    return 0;
}

/* ---- serve ---- */

static uint64_t others_ns; /* the longest, taken by the main thread */

static void *wake_up(void *unused)
{
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (;;) {
        int pause_ms = rand_r(&seed) % (2 * PAUSE_MS);
        uint64_t before = now_ns(), pause_ns = (uint64_t)pause_ms * 1000000;
        poll(NULL, 0, pause_ms);
        uint64_t gap = now_ns() - before, most = __atomic_load_n(&others_ns, __ATOMIC_RELAXED);
        gap -= gap < pause_ns ? gap : pause_ns;
        while (gap > most &&
               !__atomic_compare_exchange_n(&others_ns, &most, gap, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    }
    return unused;
}

static int serve(int threads)
{
    uint64_t longest = 0, last;
    begin(threads - 1, wake_up);
    printf("up\n");
    fflush(stdout);
    last = now_ns();
    for (unsigned turn = 0;; turn++) {
        uint64_t now = now_ns();
        if (now - last > longest)
            longest = now - last;
        last = now;
        struct pollfd input = {.fd = 0, .events = POLLIN};
        if (turn % 1024 || poll(&input, 1, 0) <= 0)
            continue;
        char line[64];
        if (read(0, line, sizeof(line)) <= 0)
            return 0;
        printf("%llu %llu\n", (unsigned long long)longest,
               (unsigned long long)__atomic_exchange_n(&others_ns, 0, __ATOMIC_RELAXED));
        fflush(stdout);
        longest = 0;
        last = now_ns();
    }
}

/* ---- birth and death ---- */

static void call_and_end(unsigned number)
{
    const struct timespec life = {.tv_nsec = 500000000};
    (void)number;
    for (int i = 0; i < 10; i++)
        call(NULL, 0);
    nanosleep(&life, NULL);
    _exit(0);
}

static void lie(unsigned number)
{
    execlp("sleep", number % 2 ? "redis-server *:6379" : "node", "0.02", (char *)NULL);
    _exit(127);
}

static int give_birth(uint64_t every_ns, double seconds, void (*live)(unsigned))
{
    unsigned births = 0;
    call(NULL, 0);
    for (uint64_t begun = now_ns(), next = begun; now_ns() < begun + (uint64_t)(seconds * 1e9);) {
        uint64_t now = now_ns();
        next += every_ns;
        if (now < next) {
            const struct timespec pause = {.tv_nsec = (long)(next - now)};
            nanosleep(&pause, NULL);
        }
        pid_t child = fork();
        if (child == 0)
            live(births);
        births += child > 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    while (wait(NULL) > 0)
        ;
    printf("%u\n", births);
    return 0;
}

/* ---- much work ---- */

static void sleep_until(uint64_t ns)
{
    const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Until the write end that others hold is closed. */
static void burst_again(int end, uint64_t first_ns, uint64_t every_ns, int calls)
{
    struct pollfd over = {.fd = end, .events = POLLIN};
    for (uint64_t next = first_ns; poll(&over, 1, 0) == 0; next += every_ns) {
        sleep_until(next);
        for (int i = 0; i < calls; i++)
            call(NULL, 0);
    }
}

static int bursts(unsigned processes, unsigned rate, int calls)
{
    int end[2], ready[2];
    char byte;
    uint64_t every_ns = 1000000000ull * processes / rate;
    call(NULL, 0);
    if (pipe(end) < 0 || pipe(ready) < 0)
        return 1;
    for (unsigned i = 0; i < processes; i++) {
        if (fork() == 0) {
            close(end[1]);
            call(NULL, 0); /* returns once it is traced */
            if (write(ready[1], "", 1) == 1)
                burst_again(end[0], now_ns() / every_ns * every_ns + every_ns * i / processes, every_ns,
                            calls);
            _exit(0);
        }
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    }
    printf("up\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    close(end[1]);
    while (wait(NULL) > 0)
        ;
    return 0;
}

static uint64_t calls_end_ns;

static void *make_calls(void *unused)
{
    while (now_ns() < calls_end_ns)
        for (int i = 0; i < 100; i++)
            (void)getppid();
    return unused;
}

static int calls(int threads, double seconds)
{
    call(NULL, 0);
    calls_end_ns = now_ns() + (uint64_t)(seconds * 1e9);
    begin(threads - 1, make_calls);
    make_calls(NULL);
    return 0;
}

/* ---- hold ---- */

static int hold(const char *pid)
{
    static pid_t threads[THREADS_MAX];
    int count = 0, status;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%s/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && count < THREADS_MAX && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.' && ptrace(PTRACE_SEIZE, atoi(entry->d_name), NULL, NULL) == 0)
            threads[count++] = atoi(entry->d_name);
    if (!count) {
        perror("hold");
        return 1;
    }
    uint64_t begun = now_ns();
    for (int i = 0; i < count; i++)
        ptrace(PTRACE_INTERRUPT, threads[i], NULL, NULL);
    for (int i = 0; i < count; i++)
        waitpid(threads[i], &status, __WALL);
    for (int i = 0; i < count; i++)
        ptrace(PTRACE_DETACH, threads[i], NULL, NULL);
    printf("%llu\n", (unsigned long long)(now_ns() - begun));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "idle") == 0)
        return idle(argv[0], argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "hold") == 0)
        return hold(argv[2]);
    if (argc == 4 && strcmp(argv[1], "prefork") == 0)
        return give_birth(1000000000u / (unsigned)atoi(argv[2]), atof(argv[3]), call_and_end);
    if (argc == 3 && strcmp(argv[1], "liars") == 0)
        return give_birth(2000000, atof(argv[2]), lie);
    if (argc == 5 && strcmp(argv[1], "bursts") == 0)
        return bursts((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), atoi(argv[4]));
    if (argc == 4 && strcmp(argv[1], "calls") == 0)
        return calls(atoi(argv[2]), atof(argv[3]));
    fprintf(stderr,
            "usage: bighost_load idle PROCESSES THREADS | serve THREADS | prefork RATE SECONDS | liars "
            "SECONDS | bursts PROCESSES RATE N | calls THREADS SECONDS | hold PID\n");
    return 2;
}
