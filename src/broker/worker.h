/* The worker's side: what parses bytes that other programs control runs here, without any right (sandbox.h),
 * and asks its broker for what it needs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_WORKER_H
#define BROKER_WORKER_H

#include <stddef.h>
#include <sys/types.h>

#include "base/problem.h"

/* A kind of work. Functions run in the worker; the handles of its targets (base/proc.h), their files
 * (base/process_file.h) and their memory (symbol/memory.h) work as everywhere, through the broker. */
struct worker_kind {
    const char *name; /* as ps(1) shows it, at most 15 bytes */
    void *(*begin)(void);
    /* One piece of work about a target. The result, at most BROKER_BYTES_MAX bytes, is malloc'ed. 0 or a
     * negative errno with the problem in words. */
    int (*work)(void *context, pid_t target, const void *bytes, size_t length, void **ret_result,
                size_t *ret_length, struct problem *problem);
    void (*forget)(void *context, pid_t target);
    /* Memory that it shares with who gives it work, as a descriptor, and bytes with it; before any work.
     * NULL: there is none. */
    void (*share)(void *context, int fd, const void *bytes, size_t length);
};

/* Confines this process and works until the broker has gone. */
_Noreturn void worker_run(const struct worker_kind *kind, int socket);

/* The same for one who gets its work over one socket and asks, also for memory, over another (lender.h); and
 * over a third for files of debug information (fetcher.h; -1: it does not). */
_Noreturn void worker_run_lent(const struct worker_kind *kind, int work, int questions, int fetcher);

#endif
