/* Requests to a disk whose number and size are known: "ready", then, after a line of input, 40 reads of a
 * page in one function and 24 writes in another, past the page cache, one after the other, and 10 pages
 * written with buffers, which the kernel's threads write back as syncfs() asks them to. "done"; it ends with
 * its input. argv: a file of 1 MB that is on its disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *buffer;

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    perror(what);
    exit(1);
}

__attribute__((noinline)) static void read_rows(int fd)
{
    for (int i = 0; i < 40; i++)
        check(pread(fd, buffer, PAGE, i * PAGE) == PAGE, "pread");
}

__attribute__((noinline)) static void write_log(int fd)
{
    for (int i = 0; i < 24; i++)
        check(pwrite(fd, buffer, PAGE, i * PAGE) == PAGE, "pwrite");
}

__attribute__((noinline)) static void write_with_buffers(int fd)
{
    for (int i = 100; i < 110; i++)
        check(pwrite(fd, buffer, PAGE, i * PAGE) == PAGE, "pwrite");
}

int main(int count, char **arguments)
{
    char line[8];
    check(count == 2, "a file");
    int direct = open(arguments[1], O_RDWR | O_DIRECT), buffered = open(arguments[1], O_RDWR);
    check(direct >= 0 && buffered >= 0, arguments[1]);
    check(posix_memalign((void **)&buffer, PAGE, PAGE) == 0, "memory");
    memset(buffer, 7, PAGE);
    puts("ready");
    fflush(stdout);
    check(fgets(line, sizeof(line), stdin) != NULL, "a line");
    read_rows(direct);
    write_log(direct);
    write_with_buffers(buffered);
    check(syncfs(buffered) == 0, "syncfs");
    puts("done");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        ;
    return 0;
}
