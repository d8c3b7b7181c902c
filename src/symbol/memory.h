/* Reading another process's memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_MEMORY_H
#define SYMBOL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In a worker without rights (broker/worker.h): the memory of a process is read through the descriptor from
 * now on, which stays the caller's; -1: through none. -ENOMEM. */
int memory_read_through_descriptor(pid_t pid, int memory);

/* In one that has given its rights up (broker/lender.h): from now on the memory of a process is read through
 * a descriptor that this function opens, or returns a negative errno. They are kept as long as there is room.
 */
typedef int memory_open_fn(pid_t pid);
void memory_open_from_now_on(memory_open_fn *open);

/* The process may execute another program by now (one that shared its parent's memory until then leaves that
 * behind): what is kept for it is closed. */
void memory_forget(pid_t pid);

/* Copies size bytes at address of process pid. 0, or -EFAULT (part is not mapped), -ESRCH, -EPERM. */
int memory_read(pid_t pid, uint64_t address, void *buffer, size_t size);

/* Copies as many bytes as are mapped; how many (0 to size), or -EPERM, -ESRCH. */
ssize_t memory_read_some(pid_t pid, uint64_t address, void *buffer, size_t size);

/* Pages of processes, for readers of many small pieces: each is copied once until memory_pages_forget().
 * Zeros to use. */
struct memory_pages {
    struct memory_page *at;
    uint64_t round;
};

/* The same as memory_read(), through the pages (NULL: not). */
int memory_read_through(struct memory_pages *pages, pid_t pid, uint64_t address, void *buffer, size_t size);
void memory_pages_forget(struct memory_pages *pages);
void memory_pages_done(struct memory_pages *pages);

/* A NUL-terminated string, cut to size - 1 bytes. pages: NULL, or as above. */
int memory_read_string(struct memory_pages *pages, pid_t pid, uint64_t address, char *buffer, size_t size);

#endif
