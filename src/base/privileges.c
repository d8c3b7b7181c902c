/* See privileges.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/privileges.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel takes all capabilities away with the last of root's numbers. */
static int become(uid_t user, gid_t group)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(group, group, group) < 0 || setresuid(user, user, user) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    return setuid(0) == 0 ? -EPERM : 0;
}

int privileges_leave_for(const char *path, struct problem *problem)
{
    struct stat st;
    if (geteuid() != 0 || stat(path, &st) < 0 || st.st_uid == 0)
        return 0;
    int r = become(st.st_uid, st.st_gid);
    if (r < 0)
        return problem_set(problem, r,
                           "%s: belongs to user %u, and root's rights cannot be given up to read it: %s",
                           path, st.st_uid, strerror(-r));
    if (access(path, R_OK) == 0)
        return 0;
    r = -errno;
    problem_set(problem, r, "%s: its owner, user %u, as whom root reads it, cannot: %s", path, st.st_uid,
                strerror(-r));
    problem_remedy(problem, "Copy it to where that user can read it, or make the copy root's (chown).");
    return r;
}
