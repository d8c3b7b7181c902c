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

/* Opens a file for owner_temporary() while there is a right to make one: who gives that up calls it before. 0
 * or a negative errno. */
int owner_reserve_temporary(void);

/* An empty file of its own in TMPDIR or /tmp: its path, which the caller opens once with owner_open() and
 * unlinks. 0 or a negative errno; then the path is where it could not be made. */
int owner_temporary(char *ret_path, size_t size);

/* mkdir(2), rmdir(2), rename(2) and unlink(2) as the owner: 0 or a negative errno. */
int owner_mkdir(const char *path);
int owner_rmdir(const char *path);
int owner_rename(const char *from, const char *to);
int owner_unlink(const char *path);

/* 1 when there is a plain file or nothing, so that another file may be renamed to path; 0 when there is a
 * link, a device, a pipe ...: what is written goes there. */
int owner_is_plain(const char *path);

/* How a process that has given its rights up does the above: by asking another one (broker/writer.h).
 * -ENOSYS: it is done here. */
enum owner_call { OWNER_OPEN = 1, OWNER_MKDIR, OWNER_RENAME, OWNER_UNLINK, OWNER_IS_PLAIN, OWNER_RMDIR };
typedef int owner_ask_fn(enum owner_call call, const char *path, const char *to, int flags);
void owner_ask_from_now_on(owner_ask_fn *ask);

#endif
