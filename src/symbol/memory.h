/* Reading another process's memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_MEMORY_H
#define SYMBOL_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Copies size bytes at address of process pid. 0, or -EFAULT (part is not mapped), -ESRCH, -EPERM. */
int memory_read(pid_t pid, uint64_t address, void *buffer, size_t size);

/* Copies as many bytes as are mapped; how many (0 to size), or -EPERM, -ESRCH. */
ssize_t memory_read_some(pid_t pid, uint64_t address, void *buffer, size_t size);

/* A NUL-terminated string, cut to size - 1 bytes. */
int memory_read_string(pid_t pid, uint64_t address, char *buffer, size_t size);

#endif
