/* A slow disk and a slow resolver for the benchmark of verdicts, by LD_PRELOAD: reads, opens and syncs of
 * files below a folder, and the resolving of some names, take longer. The delays are those of the
 * environment: SLOW_FOLDER   part of the paths that are slow SLOW_READ_US, SLOW_OPEN_US, SLOW_SYNC_US   what
 * is added to each SLOW_NAME     part of the names that are slow, SLOW_NAME_US Only for generated programs.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096 };
static char slow_fd[DESCRIPTORS];

static void delay(const char *variable)
{
    const char *value = getenv(variable);
    long us = value ? atol(value) : 0;
    if (us > 0)
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static int is_slow_path(const char *path)
{
    const char *folder = getenv("SLOW_FOLDER");
    return folder && *folder && path && strstr(path, folder) != NULL;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int open_slowly(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode)
{
    int slow = is_slow_path(path);
    if (slow)
        delay("SLOW_OPEN_US");
    int fd = next(path, flags, mode);
    if (fd >= 0 && fd < DESCRIPTORS)
        slow_fd[fd] = (char)slow;
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = va_arg(list, mode_t);
    va_end(list);
    return open_slowly(NEXT(open), path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = va_arg(list, mode_t);
    va_end(list);
    return open_slowly(NEXT(open64), path, flags, mode);
}

static void touch(int fd, const char *variable)
{
    if (fd >= 0 && fd < DESCRIPTORS && slow_fd[fd])
        delay(variable);
}

int close(int fd)
{
    if (fd >= 0 && fd < DESCRIPTORS)
        slow_fd[fd] = 0;
    return NEXT(close)(fd);
}

ssize_t read(int fd, void *to, size_t size)
{
    touch(fd, "SLOW_READ_US");
    return NEXT(read)(fd, to, size);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t offset)
{
    touch(fd, "SLOW_READ_US");
    return NEXT(pread64)(fd, to, size, offset);
}

ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
    touch(fd, "SLOW_READ_US");
    return NEXT(pread)(fd, to, size, offset);
}

int fsync(int fd)
{
    touch(fd, "SLOW_SYNC_US");
    return NEXT(fsync)(fd);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
    const char *slow = getenv("SLOW_NAME");
    if (!slow || !*slow || !name || !strstr(name, slow))
        return NEXT(getaddrinfo)(name, service, hints, result);
    delay("SLOW_NAME_US");
    return NEXT(getaddrinfo)("127.0.0.1", service, hints, result);
}
