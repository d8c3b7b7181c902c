/* See proc_code.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_code.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

enum { READABLE = 1, WRITABLE = 2, EXECUTABLE = 4, SHARED = 8, OR_NEXT = 16 };

int proc_code_at(int maps, uint64_t address, char name[static PROC_CODE_NAME],
                 struct proc_mapping *ret_mapping)
{
    struct proc_code_query q = {.size = sizeof(q),
                                .flags = EXECUTABLE | OR_NEXT,
                                .address = address,
                                .name_size = PROC_CODE_NAME,
                                .name = (uintptr_t)name};
    if (ioctl(maps, PROC_CODE_QUERY, &q) < 0)
        return errno == ENOENT || errno == ESRCH ? 0 : -errno;
    if (q.end <= address || q.end <= q.start) /* it would be asked for again and again */
        return -EPROTO;
    *ret_mapping = (struct proc_mapping){.start = q.start,
                                         .end = q.end,
                                         .offset = q.offset,
                                         .readable = q.answered_flags & READABLE,
                                         .writable = q.answered_flags & WRITABLE,
                                         .executable = q.answered_flags & EXECUTABLE,
                                         .shared = q.answered_flags & SHARED,
                                         .major = q.major,
                                         .minor = q.minor,
                                         .inode = q.inode,
                                         .path = name,
                                         .path_length = q.name_size ? strnlen(name, PROC_CODE_NAME - 1) : 0};
    return 1;
}
