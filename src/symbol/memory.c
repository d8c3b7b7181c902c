/* Reading another process's memory with process_vm_readv. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/macro.h"

ssize_t memory_read_some(pid_t pid, uint64_t address, void *buffer, size_t size)
{
    /* One remote part per page, because a part that is not wholly mapped yields nothing. */
    enum { PARTS = 64, PAGE = 4096 };
    size_t done = 0;
    while (done < size) {
        struct iovec remote[PARTS];
        size_t asked = 0;
        int parts = 0;
        while (parts < PARTS && done + asked < size) {
            uint64_t at = address + done + asked;
            size_t part = MIN(PAGE - (size_t)(at % PAGE), size - done - asked);
            remote[parts++] = (struct iovec){(void *)(uintptr_t)at, part};
            asked += part;
        }
        struct iovec local = {(char *)buffer + done, asked};
        ssize_t n = process_vm_readv(pid, &local, 1, remote, (unsigned long)parts, 0);
        if (n < 0 && errno != EFAULT)
            return done ? (ssize_t)done : -errno;
        if (n <= 0)
            break;
        done += (size_t)n;
        if ((size_t)n < asked)
            break;
    }
    return (ssize_t)done;
}

int memory_read(pid_t pid, uint64_t address, void *buffer, size_t size)
{
    struct iovec local = {buffer, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (n < 0)
        return -errno;
    return (size_t)n == size ? 0 : -EFAULT;
}

int memory_read_string(pid_t pid, uint64_t address, char *buffer, size_t size)
{
    if (size == 0)
        return -EINVAL;
    size_t done = 0;
    while (done + 1 < size) {
        size_t part = MIN(64 - (size_t)((address + done) % 64), size - 1 - done);
        ssize_t n = memory_read_some(pid, address + done, buffer + done, part);
        if (n < 0)
            return (int)n;
        if (n == 0)
            return -EFAULT;
        if (memchr(buffer + done, 0, (size_t)n))
            return 0;
        done += (size_t)n;
    }
    buffer[done] = '\0';
    return 0;
}
