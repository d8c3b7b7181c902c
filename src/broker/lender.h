/* A process with rights that opens what one that has given its own up may still read of other processes: for
 * `sonde profile` and `top`, which parse that themselves. Used by src/cli/confine.c.
 *
 * It lends descriptors: the text of maps and the like, the files that a process maps, others that everybody
 * may read or that are code (broker_code_file()), and memory for reading. Of which processes, it is told
 * before the other gives its rights up: of those, of what they and their children start, and of everything
 * that the same users run in the same user namespaces; of those of a control group; or of all. Memory is lent
 * of those that were named with what they start, and of others only if they run a runtime whose names are
 * kept there (marks.h).
 *
 * Where workers read the processes, one for each domain of trust (domain.h), it is they who are lent all
 * that; each only what belongs to the processes of its domain. The sampler, which gives them work and parses
 * none of it, is then lent no more than a few texts of /proc. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_LENDER_H
#define BROKER_LENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/problem.h"
#include "broker/domain.h"
#include "broker/worker.h"

/* Forks it: called before anything foreign is read. marks: strings in files of runtimes whose processes'
 * memory is read, ending with NULL. kind: of the workers; NULL: who starts it parses for itself. 0 or a
 * negative errno with problem set. */
int lender_start(const char *const *marks, const struct worker_kind *kind, struct problem *problem);

/* Adds a process, or all (0). -EPERM once lender_begin() was called. */
int lender_allow(pid_t pid);

/* Adds all that are, when they are asked about, in a control group whose path contains this text. */
int lender_allow_cgroup(const char *cgroup);

/* From now on handles of processes (base/proc.h), files of processes (base/process_file.h) and their memory
 * (symbol/memory.h) are the lender's, but for what everybody may read; it takes no more processes. For one
 * thread. */
void lender_begin(void);

enum { LENDER_WORKERS = 32 };

/* Which worker reads a process: its number (never another's), as a process, and its socket when it is new,
 * else -1. Its first message is its hello (worker.h). */
struct lent_worker {
    uint32_t number;
    pid_t pid;
    int socket;
    struct domain_owner
        owner; /* whose processes it reads; user_namespace 0: that cannot be said in numbers */
};

/* user: of a process that may have ended. -ESRCH: there is no such process, -EUSERS: there are as many
 * workers as there may be, -EAGAIN: the last one for this domain has died a moment ago, -ENOSYS: there are
 * none. */
int lender_worker(pid_t pid, struct lent_worker *ret_worker);
int lender_worker_of_ended(uid_t user, struct lent_worker *ret_worker);

/* It is of no use any more, or failed, and is killed: then the next one of its domain has to wait, each time
 * longer. */
void lender_end_worker(uint32_t number, bool failed);

/* Its CPU time so far, as it said with its last answer. */
uint64_t lender_cpu_ns(void);

#endif
