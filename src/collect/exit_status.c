/* See exit_status.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/exit_status.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

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

/* Of a process that nobody has waited for yet. */
static int status_of_zombie(const struct proc *proc)
{
    struct proc_stat stat;
    return proc_read_stat(proc, 0, &stat) == 0 && stat.state == 'Z' ? stat.exit_code : -1;
}

static int status_of_reaped(int pidfd)
{
    struct pidfd_info_exit info = {.mask = PIDFD_INFO_HAS_EXIT};
    return ioctl(pidfd, PIDFD_GET_INFO_REQUEST, &info) == 0 && info.mask & PIDFD_INFO_HAS_EXIT
               ? info.exit_code
               : -1;
}

int exit_status_of(const struct proc *proc)
{
    int status = status_of_zombie(proc);
    return status >= 0 ? status : status_of_reaped(proc->pidfd);
}
