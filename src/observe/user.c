/* Whom a command runs as. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "observe/observe_internal.h"

int observe_find_user(const char *name, uid_t *ret_user, struct problem *problem)
{
    const char *caller = getenv("SUDO_UID");
    char *end;
    *ret_user = 0;
    if (!name && (geteuid() != 0 || !caller))
        return 0;
    if (!name)
        name = caller;
    unsigned long number = strtoul(name, &end, 10);
    const struct passwd *entry = *end || end == name ? getpwnam(name) : NULL;
    if ((*end || end == name) && !entry)
        return problem_set(problem, -EINVAL, "there is no user '%s'", name);
    *ret_user = entry ? entry->pw_uid : (uid_t)number;
    if (geteuid() != 0 && *ret_user != geteuid())
        return problem_set(problem, -EPERM, "only root can run a command as '%s'", name);
    *ret_user = *ret_user == geteuid() ? 0 : *ret_user;
    return 0;
}
