/* For tests of processes apart (broker/apart.h): the socket that leads to the one that was started last, so
 * that it can be told what nobody would who asks it properly. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SOCKET_OF_H
#define TESTS_UNIT_SOCKET_OF_H

#include <sys/socket.h>

/* The highest descriptor that is one; -1 when there is none. */
static inline int socket_of_last(void)
{
    for (int fd = 100; fd > 2; fd--) {
        int type = 0;
        socklen_t size = sizeof(type);
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
            return fd;
    }
    return -1;
}

#endif
