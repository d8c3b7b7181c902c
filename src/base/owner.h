/* Whose the files are that sonde writes: those of who called it, also through sudo, and nobody else's (modes
 * 0700 and 0600). Under sudo they are made with the caller's rights on the file system, so that the kernel
 * decides what the caller may write, whatever links stand in the way. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_OWNER_H
#define BASE_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* open(2) of a file to be written or made, as its owner; a descriptor or a negative errno. O_CLOEXEC is
 * added. */
int owner_open(const char *path, int flags);

/* A file to add lines to, made when there is none: never with more rights than the caller's, who may choose
 * the path but not have root write there. Links are not followed. */
int owner_append(const char *path);

/* Opens a file for writing that the process will have no right to open later: each owner_open() of the same
 * path gets it, from its beginning, and truncated where that is asked for. It is made when there is none. 0
 * or a negative errno; -EBUSY when too many are held. */
int owner_reserve(const char *path);

/* Whether a file is held for owner_open(). */
bool owner_reserved(const char *path);

/* The same of a file for owner_temporary(). */
int owner_reserve_temporary(void);

/* An empty file of its own in TMPDIR or /tmp: its path, which the caller opens once with owner_open() and
 * unlinks. 0 or a negative errno; then the path is where it could not be made. */
int owner_temporary(char *ret_path, size_t size);

/* mkdir(2), rename(2) and unlink(2) as the owner: 0 or a negative errno. */
int owner_mkdir(const char *path);
int owner_rename(const char *from, const char *to);
int owner_unlink(const char *path);

#endif
