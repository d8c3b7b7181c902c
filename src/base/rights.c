/* See rights.h. The calls are the kernel's own: those of the C library change all threads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rights.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

int rights_take(uid_t user, gid_t group, struct file_rights *ret_ours)
{
    struct file_rights ours = {.group_count = getgroups(0, NULL)};
    if (ours.group_count > 0) {
        ours.groups = calloc((size_t)ours.group_count, sizeof(*ours.groups));
        if (!ours.groups)
            return -ENOMEM;
        ours.group_count = getgroups(ours.group_count, ours.groups);
        (void)syscall(SYS_setgroups, 0, NULL);
    }
    (void)setfsgid(group);
    (void)setfsuid(user);                     /* last: it takes root's capabilities for files away */
    if ((uid_t)setfsuid((uid_t)-1) != user) { /* nobody has that number here: the call says nothing */
        rights_give_back(&ours);
        return -EPERM;
    }
    *ret_ours = ours;
    return 0;
}

void rights_give_back(struct file_rights *ours)
{
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
    if (ours->group_count > 0)
        (void)syscall(SYS_setgroups, ours->group_count, ours->groups);
    free(ours->groups);
    *ours = (struct file_rights){0};
}
