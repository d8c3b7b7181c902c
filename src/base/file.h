/* Whole files, and folders. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Reads a file whole, up to limit bytes (-EFBIG above), also one of /proc whose size is unknown.
 * *ret_data is NUL-terminated and owned by the caller; ret_length may be NULL. */
int file_read(const char *path, size_t limit, char **ret_data, size_t *ret_length);

/* The same of an open descriptor (kept), from where it stands. */
int file_read_fd(int fd, size_t limit, char **ret_data, size_t *ret_length);

/* Writes all of data to an open descriptor, through short writes and EINTR. */
int file_write_all(int fd, const void *data, size_t length);

/* Replaces a file in one step (temporary file beside it, then rename): a reader sees the old or the new. What
 * is no plain file (a device, a pipe, a link) is written into instead. As all files of ours it is private
 * (owner.h). */
int file_replace(const char *path, const void *data, size_t length);

/* Whether file_replace() could write there now, before much work is done for it: 0 or a negative errno. */
int file_replaceable(const char *path);

/* Creates a folder and its parents, private ones; 0 also when it exists. */
int file_make_folder(const char *path);

/* Where temporary files and directories go: TMPDIR, or /tmp. Borrowed. */
const char *file_temporary_folder(void);

/* Opens a program's file for reading as execvp(3) would find it: a name with a slash is a path, another one
 * is looked for in PATH. The descriptor of a regular file (O_CLOEXEC, O_NONBLOCK), or a negative errno. */
int file_open_program(const char *name);

static inline void file_closep(int *fd)
{
    extern int close(int);
    if (*fd >= 0)
        close(*fd);
}

#endif
