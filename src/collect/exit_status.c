/* See exit_status.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/exit_status.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/file.h"
#include "base/macro.h"

/* struct pidfd_info of linux/pidfd.h, Linux 6.15; older headers do not have it. */
struct pidfd_info_exit {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t numbers[11];
    int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info_exit) == 64, "the size is part of the request's number");
#define PIDFD_GET_INFO_REQUEST _IOWR(0xff, 11, struct pidfd_info_exit)
#define PIDFD_INFO_HAS_EXIT    (1u << 3)

/* Field 52 of /proc/PID/stat, of a process that nobody has waited for yet. */
static int status_of_zombie(pid_t pid)
{
    enum { FIELD_STATE = 3, FIELD_EXIT_CODE = 52 };
    char path[64];
    _cleanup_(freep) char *stat = NULL;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const char *at = file_read(path, 8192, &stat, NULL) == 0 ? strrchr(stat, ')') : NULL;
    if (!at || strncmp(at, ") Z ", 4) != 0)
        return -1;
    for (int field = FIELD_STATE - 1; at && field < FIELD_EXIT_CODE; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? atoi(at) : -1;
}

static int status_of_reaped(int pidfd)
{
    struct pidfd_info_exit info = {.mask = PIDFD_INFO_HAS_EXIT};
    return pidfd >= 0 && ioctl(pidfd, PIDFD_GET_INFO_REQUEST, &info) == 0 && info.mask & PIDFD_INFO_HAS_EXIT
               ? info.exit_code
               : -1;
}

int exit_status_of(int pidfd, pid_t pid)
{
    int status = status_of_zombie(pid);
    return status >= 0 ? status : status_of_reaped(pidfd);
}
