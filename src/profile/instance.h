/* What a process is, beyond its name: instances of one service do the same work, with as much CPU to do it
 * with. Used by the sampler, for outlier.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_INSTANCE_H
#define PROFILE_INSTANCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile/windows.h"

/* Reads what is known of a process (tid 0: its job, its parent, when it began) or of one of its threads (when
 * that began). What cannot be read stays 0. Its end is the caller's to add. */
void instance_read(pid_t pid, pid_t tid, struct profile_instance *ret_instance);

/* A number that is the same for processes with the same job; 0: unknown. cmdline: as in /proc, words that end
 * in a NUL each; numbers in it (ports, shards) make no difference. Of a title that the process gave itself
 * ("postgres: checkpointer", "postgres: app shop 127.0.0.1(5010) SELECT") only the first three words count:
 * what follows changes all the time. cpus: which it may use ("0-3"); quota: of its container ("50000
 * 100000"); "" where unknown. */
uint64_t instance_job(const char *cmdline, size_t length, const char *cpus, const char *quota);

#endif
