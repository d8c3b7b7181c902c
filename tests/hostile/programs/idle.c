/* A program that sonde takes for Node, because it has its main function: it waits for events, and none come.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/epoll.h>

#include "looks_like_node.h"

int main(void)
{
    struct epoll_event event;
    for (int events = epoll_create1(0);;)
        epoll_wait(events, &event, 1, 100);
}
