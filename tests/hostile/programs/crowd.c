/* A program that sonde takes for Node: a main thread that waits for events, threads that come and go, that
 * compute, sleep and take memory, and children that do the same. It answers each line on its standard input
 * with how many turns its main thread has made; "exec" lets it execute itself anew, "fork" makes a storm of
 * children. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "looks_like_node.h"

enum { THREADS = 4, LIVES = 50, STORM = 40 };

static void *live(void *number)
{
    volatile double x = 1;
    for (int i = 0; i < LIVES; i++) {
        for (int k = 0; k < 20000; k++)
            x = x * 1.0000001;
        free(malloc(100 + (size_t)i * 1000));
        usleep(1000);
    }
    return number;
}

static void *breed(void *number)
{
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live, number) == 0)
            pthread_join(thread, NULL);
    }
}

static void storm(void)
{
    for (int i = 0; i < STORM; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, 9);
            usleep(1000 * (useconds_t)(i % 7));
            _exit(0);
        }
}

int main(int count, char **arguments)
{
    pthread_t thread;
    struct epoll_event event = {.events = EPOLLIN};
    char line[64];
    int events = epoll_create1(EPOLL_CLOEXEC);
    (void)count;
    epoll_ctl(events, EPOLL_CTL_ADD, 0, &event);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, breed, (void *)i);
    for (long turns = 0;; turns++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (epoll_wait(events, &event, 1, 5) <= 0)
            continue;
        ssize_t n = read(0, line, sizeof(line) - 1);
        if (n <= 0)
            return 0;
        line[n] = '\0';
        printf("turns %ld\n", turns);
        fflush(stdout);
        if (strstr(line, "exec"))
            execv("/proc/self/exe", arguments);
        if (strstr(line, "fork"))
            storm();
    }
}
