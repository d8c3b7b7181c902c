/* Reading another process's memory with process_vm_readv. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/macro.h"

struct source {
    pid_t pid;
    int memory;
};
static ARRAY(struct source) sources; /* none outside of workers */

int memory_read_through_descriptor(pid_t pid, int memory)
{
    array_foreach (&sources, s)
        if (s->pid == pid) {
            s->memory = memory;
            return 0;
        }
    return array_add(&sources, (struct source){pid, memory});
}

/* ---- memory that somebody opens for us ---- */

struct opened {
    pid_t pid;
    int memory; /* or why there is none */
    uint64_t tried_ns;
};
static memory_open_fn *open_memory;
static pid_t self; /* who set it */
static struct opened opened[256];

enum { AGAIN_MS = 100 }; /* who has ended is not asked for with each read */

void memory_open_from_now_on(memory_open_fn *open)
{
    open_memory = open;
    self = getpid();
}

void memory_forget(pid_t pid)
{
    struct opened *o = &opened[(unsigned)pid % ARRAY_SIZE(opened)];
    if (o->pid == pid && o->memory >= 0)
        close(o->memory);
    if (o->pid == pid)
        *o = (struct opened){.memory = -1};
}

static struct opened *opened_of(pid_t pid)
{
    struct opened *o = &opened[(unsigned)pid % ARRAY_SIZE(opened)];
    uint64_t now_ns = o->pid == pid && o->memory >= 0 ? 0 : clock_monotonic_ns();
    if (o->pid == pid && (o->memory >= 0 || now_ns - o->tried_ns < AGAIN_MS * NS_PER_MS))
        return o;
    if (o->pid && o->memory >= 0)
        close(o->memory);
    *o = (struct opened){pid, open_memory(pid), now_ns};
    return o;
}

/* A descriptor belongs to the program that it was opened for: when that has ended, or executes another one,
 * nothing is read, not even an error, and it is opened anew. */
static ssize_t read_opened(pid_t pid, uint64_t address, void *buffer, size_t size)
{
    struct opened *o = opened_of(pid);
    for (int again = 1; o->memory >= 0; again--) {
        ssize_t n = address > INT64_MAX ? -1 : pread(o->memory, buffer, size, (off_t)address);
        if (n > 0 || (n < 0 && (address > INT64_MAX || errno == EIO || errno == EFAULT)))
            return MAX(n, 0);
        close(o->memory);
        *o = (struct opened){pid, again ? open_memory(pid) : -ESRCH, clock_monotonic_ns()};
    }
    return o->memory;
}

/* false: nobody has given a descriptor, the kernel is asked by the number. */
static bool read_source(pid_t pid, uint64_t address, void *buffer, size_t size, ssize_t *ret_read)
{
    if (open_memory && pid != self) {
        *ret_read = size ? read_opened(pid, address, buffer, size) : 0;
        return true;
    }
    if (!sources.count)
        return false;
    *ret_read = -ESRCH;
    array_foreach (&sources, s)
        if (s->pid == pid && s->memory >= 0) {
            *ret_read = address > INT64_MAX ? 0 : pread(s->memory, buffer, size, (off_t)address);
            if (*ret_read < 0)
                *ret_read = errno == EIO || errno == EFAULT ? 0 : -errno;
        }
    return true;
}

ssize_t memory_read_some(pid_t pid, uint64_t address, void *buffer, size_t size)
{
    ssize_t from_source;
    if (read_source(pid, address, buffer, size, &from_source))
        return from_source;
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
    ssize_t from_source;
    if (read_source(pid, address, buffer, size, &from_source))
        return from_source < 0 ? (int)from_source : (size_t)from_source == size ? 0 : -EFAULT;
    struct iovec local = {buffer, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (n < 0)
        return -errno;
    return (size_t)n == size ? 0 : -EFAULT;
}

enum { PAGE_BYTES = 4096, PAGES = 128 };

struct memory_page {
    uint64_t address, round;
    pid_t pid;
    int result; /* of reading it */
    uint8_t bytes[PAGE_BYTES];
};

static const struct memory_page *page_of(struct memory_pages *pages, pid_t pid, uint64_t address)
{
    uint64_t mixed = (address / PAGE_BYTES + (uint64_t)pid * 31) * 0x9E3779B97F4A7C15ull;
    if (!pages->at && !(pages->at = calloc(PAGES, sizeof(*pages->at))))
        return NULL;
    struct memory_page *page = &pages->at[(mixed >> 32) % PAGES];
    if (page->address != address || page->pid != pid || page->round != pages->round + 1) {
        page->address = address;
        page->pid = pid;
        page->round = pages->round + 1; /* 0: never read */
        page->result = memory_read(pid, address, page->bytes, PAGE_BYTES);
    }
    return page;
}

int memory_read_through(struct memory_pages *pages, pid_t pid, uint64_t address, void *buffer, size_t size)
{
    size_t into = address % PAGE_BYTES;
    if (!pages || size > PAGE_BYTES - into)
        return memory_read(pid, address, buffer, size);
    const struct memory_page *page = page_of(pages, pid, address - into);
    if (!page)
        return -ENOMEM;
    if (page->result == 0)
        memcpy(buffer, page->bytes + into, size);
    return page->result;
}

void memory_pages_forget(struct memory_pages *pages)
{
    pages->round++;
}

void memory_pages_done(struct memory_pages *pages)
{
    free(pages->at);
    pages->at = NULL;
}

int memory_read_string(struct memory_pages *pages, pid_t pid, uint64_t address, char *buffer, size_t size)
{
    if (size == 0)
        return -EINVAL;
    size_t done = 0;
    while (done + 1 < size) {
        size_t part = MIN(64 - (size_t)((address + done) % 64), size - 1 - done);
        int r = memory_read_through(pages, pid, address + done, buffer + done, part);
        if (r < 0)
            return r;
        if (memchr(buffer + done, 0, part))
            return 0;
        done += part;
    }
    buffer[done] = '\0';
    return 0;
}
