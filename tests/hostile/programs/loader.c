/* A program that sonde takes for Node, one of whose threads holds the loader's lock until something is
 * written to a FIFO: it loads a library (this same source, built with -DLIBRARY) whose constructor waits for
 * that. loader LIBRARY   with FIFO=path in its environment The main thread waits for events; for each line on
 * its standard input it writes how many turns it has made. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#ifdef LIBRARY
__attribute__((constructor)) static void wait_for_the_word(void)
{
    char word;
    puts("locked");
    fflush(stdout);
    int fd = open(getenv("FIFO"), O_RDONLY);
    (void)!read(fd, &word, 1);
    close(fd);
}
#else
#include "looks_like_node.h"

static void *load(void *path)
{
    dlopen(path, RTLD_NOW);
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    struct epoll_event event = {.events = EPOLLIN};
    char line[16];
    int events = epoll_create1(0);
    epoll_ctl(events, EPOLL_CTL_ADD, 0, &event);
    if (count > 1)
        pthread_create(&thread, NULL, load, arguments[1]);
    for (long turns = 0;; turns++) {
        if (epoll_wait(events, &event, 1, 10) > 0) {
            if (read(0, line, sizeof(line)) <= 0)
                return 0;
            printf("turns %ld\n", turns);
            fflush(stdout);
        }
    }
}
#endif
