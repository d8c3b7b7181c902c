/* What the kernel announces about processes while they are sampled: forks, programs started, code mapped. A
 * process that ended before anybody could read /proc/PID/maps is still known from it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_SIDEBAND_H
#define PROFILE_SIDEBAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"
#include "symbol/modules.h"

struct sideband;

/* Listens on all CPUs. Negative errno when perf events are not allowed. */
int sideband_open(struct sideband **ret_sideband);
void sideband_free(struct sideband *sideband);
DEFINE_FREEP(struct sideband, sideband_free)

/* Adds what it listens to to an epoll descriptor: it wakes when a buffer is half full. Negative errno. */
int sideband_watch(const struct sideband *sideband, int epoll);

/* Takes what was announced since the last call; it counts only once sideband_apply() gets there. */
void sideband_read(struct sideband *sideband);

/* Applies what happened until then (CLOCK_MONOTONIC); changed is called for each process that mapped code,
 * with when it did. */
typedef void sideband_changed_fn(void *context, pid_t pid, uint64_t time_ns);
void sideband_apply(struct sideband *sideband, uint64_t until_ns, sideband_changed_fn *changed,
                    void *context);

struct sideband_process {
    pid_t parent;     /* 0: not seen to begin */
    uint64_t exec_ns; /* the program it runs was started then; 0: it is the one of its parent */
    uint64_t next_exec_ns;
    size_t mapping_count;
};

/* False when nothing is known of it. */
bool sideband_find(const struct sideband *sideband, pid_t pid, struct sideband_process *ret_process);

/* What it has mapped of what was announced: an array for free(3), with paths that are borrowed until the next
 * announcement. -ENOENT when that is nothing. */
int sideband_notes(const struct sideband *sideband, pid_t pid, struct mapping_note **ret_notes,
                   size_t *ret_count);

/* The same of the program that it runs, also of what was announced and is not applied yet. -ENOENT when it
 * was not seen to start the program, or announcements were lost since. */
int sideband_notes_ahead(struct sideband *sideband, pid_t pid, struct mapping_note **ret_notes,
                         size_t *ret_count);

/* Announcements that were lost because a buffer was full. */
uint64_t sideband_lost(const struct sideband *sideband);

/* One announcement as it lies in a buffer (perf_event_open(2): header, body, then pid, tid and time). Used by
 * sideband_read(); every length in it is checked against size. 0, or -EBADMSG. */
int sideband_take(struct sideband *sideband, const void *record, size_t size);

/* One that listens to nothing. */
int sideband_new(struct sideband **ret_sideband);

#endif
