/* A program that sonde takes for Node, because it has its main function: it loads all libraries of its
 * command line as far as there is room for their thread-local storage, and then waits for events. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "looks_like_node.h"

int main(int count, char **arguments)
{
    int loaded = 0;
    for (int i = 1; i < count; i++)
        loaded += dlopen(arguments[i], RTLD_NOW) != NULL;
    printf("%d of %d were loaded\n", loaded, count - 1);
    fflush(stdout);
    struct epoll_event event;
    for (int events = epoll_create1(0);;)
        epoll_wait(events, &event, 1, 100);
}
