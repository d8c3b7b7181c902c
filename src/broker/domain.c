/* See domain.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/domain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macro.h"
#include "broker/sandbox.h"

/* Has it no user but its own, which nobody else has? */
static bool is_confined(const char *users)
{
    unsigned long real, effective, saved;
    return sscanf(users, "%lu %lu %lu", &real, &effective, &saved) == 3 && real == effective &&
           real == saved && sandbox_is_nobody_else((uid_t)real);
}

int domain_of(const struct proc *proc, struct domain *ret_domain)
{
    enum { STATUS_MAX = 64 << 10 };
    _cleanup_(freep) char *status = NULL;
    struct stat owned, namespace;
    size_t length;
    struct domain domain = {.owner = 0};
    /* Not the directory itself, which is always its effective user's. */
    if (fstatat(proc->directory, "status", &owned, 0) < 0 ||
        fstatat(proc->directory, "ns/user", &namespace, 0) < 0 ||
        proc_read(proc, "status", STATUS_MAX, &status, &length) < 0 ||
        !proc_parse_status_text(status, length, "Uid", domain.users, sizeof(domain.users)) ||
        !proc_exists(proc))
        return -ESRCH;
    bool confined = is_confined(domain.users);
    if (confined)
        snprintf(domain.users, sizeof(domain.users), "confined");
    domain.owner = confined ? 0 : owned.st_uid; /* which would be itself */
    domain.user_namespace = namespace.st_ino;
    *ret_domain = domain;
    return 0;
}

struct domain domain_of_ended(uid_t user)
{
    struct domain domain = {.owner = user};
    snprintf(domain.users, sizeof(domain.users), "%u", user);
    return domain;
}

bool domain_owner(const struct domain *domain, struct domain_owner *ret_owner)
{
    struct domain_owner o = {.user_namespace = (uint32_t)domain->user_namespace};
    if (!o.user_namespace || o.user_namespace != domain->user_namespace ||
        sscanf(domain->users, "%u %u %u %u", &o.users[0], &o.users[1], &o.users[2], &o.users[3]) != 4 ||
        o.users[1] != domain->owner)
        return false;
    *ret_owner = o;
    return true;
}

bool domain_same(const struct domain *a, const struct domain *b)
{
    return a->owner == b->owner && a->user_namespace == b->user_namespace && strcmp(a->users, b->users) == 0;
}
