/* Another user's rights on files, for a while and on this thread alone: of root, to open something as
 * somebody else would. Its other groups are given up too: a file that root's group may read is not that
 * user's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RIGHTS_H
#define BASE_RIGHTS_H

#include <sys/types.h>

struct file_rights {
    gid_t *groups; /* ours */
    int group_count;
};

/* 0; or -ENOMEM, or -EPERM where that user does not exist (a user namespace), with nothing changed. Where
 * groups cannot be given up (a user namespace may forbid it) they stay. Root's capabilities for files are
 * without effect until rights_give_back(). */
int rights_take(uid_t user, gid_t group, struct file_rights *ret_ours);
void rights_give_back(struct file_rights *ours);

#endif
