/* Files of another process's file system. Whoever controls that process, or the container it is in, controls
 * every link and name in there: they are followed within its root only, as the process itself would. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROCESS_FILE_H
#define BASE_PROCESS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"

/* The process's root directory, or ours (NULL), for the functions below; a descriptor to be closed, or a
 * negative errno. */
int process_root_open(const struct proc *proc);

/* Opens a file below a root for reading, if it is a regular one: a descriptor or a negative errno (-EINVAL
 * when it is something else). Does not wait, whatever stands there. */
int process_file_open(int root, const char *path);

/* What a path below a root leads to, by its place only (O_PATH). */
int process_place_open(int root, const char *path);

/* A regular file below the root of a process, or ours (NULL), which is opened for it. */
int process_file_of(const struct proc *proc, const char *path);

/* The folder below a root, to be looked at and for openat(2) of what is directly in it. */
int process_folder_open(int root, const char *path);

/* The file that a process has mapped at [start, end), if it is a regular one; -EPERM without privilege. */
int process_mapped_open(const struct proc *proc, uint64_t start, uint64_t end);

/* A regular file of the process whole, as file_read(). */
int process_file_read(const struct proc *proc, const char *path, size_t limit, char **ret_data,
                      size_t *ret_length);

/* Is there a file or a folder of this name, seen from the process's working folder? */
bool process_has_path(const struct proc *proc, const char *path);

#endif
