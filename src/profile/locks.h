/* Which threads wait for which lock, where, and which thread holds it during the wait: accounts of waits for
 * futexes, and of goroutines, which wait without one.
 *
 * A lock passes from thread to thread: the one that ends a wait had it since the previous holder released it.
 * So a wait is divided at the releases that other waits for the same lock ended with, and each part belongs
 * to the thread that ended it; the first one, where the program's memory names an owner that is a thread of
 * the same process, to that thread. What no thread holds (condition variables, parked threads) is accounted
 * for separately. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_LOCKS_H
#define PROFILE_LOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/lock_kinds.h"
#include "profile/profile.h"
#include "unwind/sampler.h"

struct locks;

/* profile: whose frames all stacks here are of; it outlives the locks, and is not folded before
 * locks_into_profile(). least_ns: shorter waits are left out. thread_name: whether the process has a thread
 * of this number, and what it is called. 0 or -ENOMEM. */
int locks_new(struct profile *profile, uint64_t least_ns,
              bool (*thread_name)(void *context, uint32_t pid, uint32_t tid, char ret_name[16]),
              void *context, struct locks **ret_locks);
void locks_free(struct locks *locks);
DEFINE_FREEP(struct locks, locks_free)

/* A stack: groups are process, thread and why it is truncated, the outermost first; frames the innermost
 * first. */
struct lock_stack {
    const uint32_t *groups, *frames;
    size_t group_count, count;
    bool idle; /* it waits for work */
};

/* The three records of a wait (unwind/sampler.h), in the order of their times. */
void locks_began(struct locks *locks, const struct sampler_sample *head, const struct sampler_lock *lock,
                 const struct lock_stack *stack);
void locks_woke(struct locks *locks, const struct sampler_sample *head, const struct lock_stack *stack);
void locks_ended(struct locks *locks, const struct sampler_sample *head, const struct sampler_lock_end *end);

/* Goroutines wait, and go on, likewise; in place of the second record come those of all who let others go on
 * while somebody waits. */
void locks_released(struct locks *locks, const struct sampler_sample *head, const struct lock_stack *stack);

/* Waits of a process's goroutines are seen: locks_hidden() does not name it. */
void locks_see(struct locks *locks, uint32_t pid);

/* Sampling is over at now_ns: waits for locks that have not ended are counted until then. */
void locks_finish(struct locks *locks, uint64_t now_ns);

/* ---- what came out ---- */

struct lock_holder {
    uint32_t pid, tid;
    bool goroutine; /* tid is the number of one */
    char name[16];
    uint32_t where; /* the frame in which it let others go on; 0: not known */
    uint32_t stack; /* in locks_stacks(); 0: not known */
    uint64_t held_ns, count;
};

/* One place in the program that waits for one lock. */
struct lock_site {
    uint32_t frame; /* 0: not known */
    uint64_t waited_ns, longest_ns, count;
    uint32_t open;               /* of the count: waits that had not ended */
    size_t threads;              /* that waited, or goroutines */
    uint32_t stack;              /* of the longest wait, in locks_stacks() */
    struct lock_holder *holders; /* by what they held; for conditions who ended the waits */
    size_t holder_count;
    uint64_t no_cpu_ns;  /* nobody is known to have held it: who had been let go on did not run yet */
    uint64_t unknown_ns; /* nobody is known to have held it */
};

struct lock_account {
    uint32_t pid, process; /* the frame of the process' name */
    uint64_t address;      /* 0: known by where it is waited for */
    const struct lock_kind *kind;
    bool is_lock; /* else a condition */
    uint64_t waited_ns, count;
    struct lock_site *sites; /* by waited_ns */
    size_t site_count;
};

/* By waited_ns, locks first. To be freed with locks_accounts_free(); NULL when memory ran out. */
struct lock_account *locks_accounts(const struct locks *locks, size_t *ret_count);
void locks_accounts_free(struct lock_account *accounts, size_t count);

/* The names (frames) of processes whose runtime lets waits for its own locks pass without the kernel: at most
 * size of them. How many. */
size_t locks_hidden(const struct locks *locks, uint32_t *ret_processes, size_t size);

/* A trie whose frames are those of the profile; nodes carry no weight. */
const struct profile *locks_stacks(const struct locks *locks);

/* Adds the waits for locks to the profile: the stack that waited, then who held it, then its stack, the
 * innermost frame first. */
void locks_into_profile(const struct locks *locks);

struct locks_counts {
    uint64_t waits;      /* that were counted */
    uint64_t idle_waits; /* for work, left out */
    uint64_t idle_ns;
    uint64_t torn;    /* their beginning or end is not known */
    uint64_t crowded; /* left out because there are too many locks, places or threads */
};

struct locks_counts locks_counts(const struct locks *locks);

#endif
