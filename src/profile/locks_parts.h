/* The parts of the accounts of locks: locks.c fills them in, lock_accounts.c says what came out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_LOCKS_PARTS_H
#define PROFILE_LOCKS_PARTS_H

#include "base/map.h"
#include "profile/locks.h"

/* A program can have as many locks as it likes, and threads; what does not fit is counted. */
enum { LOCKS = 16384, SITES = 32768, PARTS = 131072, THREADS = 65536, NODES = 262144 };
enum { RELEASES = 64 }; /* the last ones of a lock */

/* Who may have held a lock. */
struct thread_at {
    uint32_t pid, tid;
    bool goroutine; /* tid is the number of one */
    char name[16];
    uint32_t stack, where;
};

struct release {
    uint64_t time_ns;
    uint64_t since_ns; /* when who released it went on after it had waited for it; 0: it did not wait */
    uint32_t by;       /* index of threads_at */
};

struct account {
    uint32_t pid, process;
    uint64_t address;
    const struct lock_kind *kind;
    struct release releases[RELEASES]; /* a ring, by time */
    size_t released;                   /* in all */
    struct map waiters;                /* threads, for locks that may be none */
};

struct site {
    uint32_t account, frame;
    uint64_t waited_ns, longest_ns, count;
    uint32_t open, longest_stack;
    struct map threads;
};

/* A part of waits: of a site, by a stack, for a holder. by: an index of threads_at; or NOBODY that is known;
 * or NO_CPU: who had been let go on, this thread or another, did not run yet. */
struct part {
    uint32_t site, stack, by;
    uint64_t ns, count;
};
enum { NOBODY = UINT32_MAX, NO_CPU = UINT32_MAX - 1 };

/* A thread that waits, or did. */
struct waiter {
    bool open, idle, has_waker;
    uint64_t start_ns;
    uint32_t pid, site, stack, owner;
    uint64_t back_ns;    /* when it went on after its last wait, */
    uint32_t back_site;  /* and of which site that was */
    uint64_t carried_ns; /* its earlier waits for the same lock, which nobody had ended */
    uint32_t carried_site;
    struct thread_at waker;
};

struct locks {
    struct profile *profile, *stacks;
    uint64_t least_ns;
    bool (*thread_name)(void *context, uint32_t pid, uint32_t tid, char ret_name[16]);
    void *context;
    struct lock_frames known;
    struct map account_ids, site_ids, part_ids, thread_ids, waiter_ids, names;
    struct map goroutine_locks; /* address in a process -> account */
    struct map seen;            /* processes whose goroutines' waits are seen */
    ARRAY(struct account) accounts;
    ARRAY(struct site) sites;
    ARRAY(struct part) parts;
    ARRAY(struct thread_at) threads_at;
    ARRAY(struct waiter) waiters;
    ARRAY(struct thread_at) named; /* owners that were looked up */
    struct locks_counts counts;
};

/* The index under a key: of what is there, or *count for what the caller must add; -1: there is no room. */
int64_t locks_index(struct map *ids, const void *key, size_t size, size_t count, size_t limit, bool *ret_new);

/* Threads have numbers of their own in a machine, goroutines in a process. */
uint64_t locks_waiter_key(uint32_t pid, uint32_t tid, bool goroutine);

#endif
