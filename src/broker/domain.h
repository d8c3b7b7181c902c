/* A domain of trust: processes that could do to each other what a worker that reads them could do to them.
 * They have the same user, real, effective and saved, and the same user namespace; and the kernel either lets
 * that user trace them or does not (the owner of the files in /proc/PID is root then: who runs a program with
 * more rights than his own is not in his domain). Confined processes of sonde, each of which has a user of
 * its own, are one domain. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROKER_DOMAIN_H
#define BROKER_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"

struct domain {
    char users[48]; /* as status has them */
    uid_t owner;
    uint64_t user_namespace; /* 0: of processes that have ended, of which no more than the user is known */
};

/* The same in numbers. */
struct domain_owner {
    uint32_t users[4]; /* real, effective, saved, of the file system */
    uint32_t user_namespace;
};

/* -ESRCH when the process is gone. */
int domain_of(const struct proc *proc, struct domain *ret_domain);

/* Of processes of this user that have ended: nothing of a living one is in it. */
struct domain domain_of_ended(uid_t user);

/* False: numbers do not say which one it is, as of confined processes. */
bool domain_owner(const struct domain *domain, struct domain_owner *ret_owner);

bool domain_same(const struct domain *a, const struct domain *b);

#endif
