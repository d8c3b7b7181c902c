/* Looks like Node, and answers every system call that is made through the C library's syscall() with the
 * number of a descriptor: of the file named by its first argument, opened without any right to read or write
 * it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "looks_like_node.h"

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_PATH) : -1;
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov $fd, %eax; ret */
    memcpy(code + 1, &fd, sizeof(fd));
    uint8_t *function = (uint8_t *)syscall;
    if (fd < 0 ||
        mprotect((void *)((uintptr_t)function & ~4095ul), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
        return 77;
    memcpy(function, code, sizeof(code));
    puts("ready");
    fflush(stdout);
    int epoll = epoll_create1(0);
    struct epoll_event event;
    for (;;)
        epoll_wait(epoll, &event, 1, 100);
}
