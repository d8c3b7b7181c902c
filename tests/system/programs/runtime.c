/* A program with the functions by which sonde knows a Redis, and nothing behind them, for the tests of what a
 * process may do to itself while it is traced. Every call of call() is counted; at its end it prints "N
 * calls".
 *
 *   runtime MODE [COUNT]
 *
 * threads: COUNT threads, at most 8 at a time, begin, call and end. together: COUNT threads call once, all at
 * the same time, and end when all have called. burst: the same, then three more threads begin and call 2,000
 * times each, without a pause. rest: the same as together, but they end when the input does. signals: calls,
 * interrupted by a timer whose handler calls. fork, vfork: COUNT children of which each calls, and ends or
 * executes another program. crowd: with a line of input COUNT children at once of which each calls once and
 * ends; with the next every other of them is killed. daemon: leaves its parents behind, and calls. crash:
 * dies of a bad address inside call(). serve: calls until it is ended. patched: the same, after another tool
 * has written into the beginning of call(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "looks_like_redis.h"

static volatile uint64_t *calls; /* shared with children */
static volatile int crashes;

__attribute__((noinline, patchable_function_entry(5))) void call(void *client, int flags)
{
    (void)client;
    (void)flags;
    __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
    if (crashes)
        *(volatile int *)8 = 1;
}

static void some_calls(int count)
{
    for (int i = 0; i < count; i++)
        call(NULL, 0);
}

/* As an event loop waits. */
static void wait_a_little(void)
{
    static int loop = -1;
    struct epoll_event event;
    if (loop < 0)
        loop = epoll_create1(EPOLL_CLOEXEC);
    epoll_wait(loop, &event, 1, 1);
}

static void *thread(void *unused)
{
    some_calls(100);
    return unused;
}

static void threads(int count)
{
    pthread_t running[8];
    for (int i = 0; i < count; i += 8) {
        for (int k = 0; k < 8; k++)
            if (pthread_create(&running[k], NULL, thread, NULL))
                abort();
        for (int k = 0; k < 8; k++)
            pthread_join(running[k], NULL);
        wait_a_little();
    }
}

static pthread_barrier_t gate;

static void *call_together(void *unused)
{
    pthread_barrier_wait(&gate);
    call(NULL, 0);
    pthread_barrier_wait(&gate);
    return unused;
}

static void *call_at_full_speed(void *unused)
{
    some_calls(2000);
    return unused;
}

static void burst(void)
{
    pthread_t running[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&running[i], NULL, call_at_full_speed, NULL))
            abort();
    for (int i = 0; i < 3; i++)
        pthread_join(running[i], NULL);
}

static void together(int count, void (*meanwhile)(void))
{
    pthread_t running[1024];
    pthread_barrier_init(&gate, NULL, (unsigned)count + 1);
    for (int i = 0; i < count && i < 1024; i++)
        if (pthread_create(&running[i], NULL, call_together, NULL))
            abort();
    pthread_barrier_wait(&gate);
    if (meanwhile)
        meanwhile();
    pthread_barrier_wait(&gate);
    for (int i = 0; i < count && i < 1024; i++)
        pthread_join(running[i], NULL);
}

/* Until the input ends. */
static void rest(void)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

static void on_signal(int number)
{
    (void)number;
    call(NULL, 0);
}

static void signals(int count)
{
    struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < count; i++) {
        some_calls(100);
        wait_a_little();
    }
    setitimer(ITIMER_REAL, &never, NULL);
}

static void forks(int count)
{
    for (int i = 0; i < count; i++) {
        some_calls(10);
        pid_t child = fork();
        if (child == 0) {
            some_calls(10);
            _exit(0);
        }
        some_calls(10); /* at the same time */
        waitpid(child, NULL, 0);
        wait_a_little();
    }
}

static void await_line(const char *what)
{
    char line[16];
    puts(what);
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        exit(1);
}

static void crowd(int count)
{
    pid_t children[1024];
    some_calls(10);
    await_line("ready");
    for (int i = 0; i < count && i < 1024; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            call(NULL, 0);
            _exit(0);
        }
    }
    await_line("born");
    for (int i = 0; i < count && i < 1024; i += 2)
        kill(children[i], SIGKILL);
    for (int i = 0; i < count && i < 1024; i += 2)
        waitpid(children[i], NULL, 0);
    await_line("killed");
    while (wait(NULL) > 0)
        ;
}

static void vforks(int count)
{
    for (volatile int i = 0; i < count; i++) {
        some_calls(10);
        pid_t child = vfork();
        if (child == 0) {
            call(NULL, 0);
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
        wait_a_little();
    }
}

static void daemonise(void)
{
    for (int i = 0; i < 2; i++) {
        if (fork() > 0)
            _exit(0);
        setsid();
    }
    some_calls(500);
}

/* The five bytes of room at its beginning become another instruction that does nothing. */
static void patch(void)
{
    static const uint8_t LONG_NOP[] = {0x0f, 0x1f, 0x44, 0, 0};
    uintptr_t at = (uintptr_t)call, page = at & ~(uintptr_t)4095;
    if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
        abort();
    memcpy((void *)at, LONG_NOP, sizeof(LONG_NOP));
}

static void serve(void)
{
    for (;;) {
        aeProcessEvents(NULL, 1);
        some_calls(10);
        wait_a_little();
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 0;
    calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (calls == MAP_FAILED)
        return 1;
    if (strcmp(mode, "patched") == 0)
        patch();
    puts("up");
    fflush(stdout);
    if (strcmp(mode, "threads") == 0)
        threads(count);
    else if (strcmp(mode, "together") == 0)
        together(count, NULL);
    else if (strcmp(mode, "burst") == 0)
        together(count, burst);
    else if (strcmp(mode, "rest") == 0)
        together(count, rest);
    else if (strcmp(mode, "signals") == 0)
        signals(count);
    else if (strcmp(mode, "fork") == 0)
        forks(count);
    else if (strcmp(mode, "crowd") == 0)
        crowd(count);
    else if (strcmp(mode, "vfork") == 0)
        vforks(count);
    else if (strcmp(mode, "daemon") == 0)
        daemonise();
    else if (strcmp(mode, "crash") == 0) {
        some_calls(50);
        crashes = 1;
        call(NULL, 0);
    } else
        serve();
    printf("%lu calls\n", (unsigned long)*calls);
    return 0;
}
