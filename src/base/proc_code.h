/* The executable mappings of a process, one by one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_CODE_H
#define BASE_PROC_CODE_H

#include <limits.h>
#include <stdint.h>

#include "base/proc_text.h"

/* A path, and " (deleted)" behind it. */
#define PROC_CODE_NAME (PATH_MAX + 16)

/* PROCMAP_QUERY of <linux/fs.h>, which older headers do not have: filters of system calls allow it. */
#define PROC_CODE_QUERY _IOWR('f', 17, struct proc_code_query)
struct proc_code_query {
    uint64_t size, flags, address; /* asked */
    uint64_t start, end, answered_flags, page_size, offset, inode;
    uint32_t major, minor;
    uint32_t name_size, build_id_size; /* of the buffers, and of what is in them */
    uint64_t name, build_id;           /* the buffers' addresses */
};

/* The first executable mapping at or behind an address, of an open /proc/PID/maps. From Linux 6.11 on it can
 * be asked for, which spares the kernel writing the lines of all others, most of what reading them costs.
 * 1; 0: there is none; a negative errno: it cannot be asked for. ret_mapping->path lies in name. */
int proc_code_at(int maps, uint64_t address, char name[static PROC_CODE_NAME],
                 struct proc_mapping *ret_mapping);

#endif
