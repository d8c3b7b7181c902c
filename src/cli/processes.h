/* Which processes people mean: by what runs in them, or by a container's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROCESSES_H
#define CLI_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

#include "base/text.h"

/* Processes whose program is called so: the command's name, the program's file, or the script that an
 * interpreter runs (with or without its ending). Not the caller's own. At most room; returns how many. */
size_t processes_named(const char *name, pid_t *ret_pids, size_t room);

/* What processes' cgroup paths contain when they are in the container of this name: its id, from what Docker
 * and Podman write down in /var/lib. False: no container is called so. */
bool container_named(const char *name, char *ret_id, size_t size);

/* How many processes' cgroup paths contain the text. */
size_t processes_in_cgroup(const char *text);

/* Names of cgroups that have processes, at most `most`: "a, b, c". */
void cgroups_list(size_t most, struct text *out);

#endif
