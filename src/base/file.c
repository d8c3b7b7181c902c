/* See file.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/owner.h"

int file_read(const char *path, size_t limit, char **ret_data, size_t *ret_length)
{
    _cleanup_(file_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : file_read_fd(fd, limit, ret_data, ret_length);
}

int file_read_fd(int fd, size_t limit, char **ret_data, size_t *ret_length)
{
    size_t capacity = 4096, length = 0;
    char *data = malloc(capacity);
    if (!data)
        return -ENOMEM;
    for (;;) {
        ssize_t n = read(fd, data + length, capacity - length - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n < 0) {
                int r = -errno;
                free(data);
                return r;
            }
            break;
        }
        length += (size_t)n;
        if (length > limit) {
            free(data);
            return -EFBIG;
        }
        if (capacity - length < 2) {
            char *moved = realloc(data, capacity * 2);
            if (!moved) {
                free(data);
                return -ENOMEM;
            }
            data = moved;
            capacity *= 2;
        }
    }
    data[length] = '\0';
    *ret_data = data;
    if (ret_length)
        *ret_length = length;
    return 0;
}

int file_write_all(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length) {
        ssize_t n = write(fd, at, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

/* Where what replaces path is written first: a file beside it, or path itself when it is no plain file. */
static int first_place(const char *path, char *ret_place, size_t size)
{
    int plain = owner_is_plain(path);
    if (plain < 0)
        return plain;
    return snprintf(ret_place, size, "%s%s", path, plain ? ".new" : "") < (int)size ? plain : -ENAMETOOLONG;
}

/* The place of first_place(), to be written. What somebody left beside path is not followed. */
static int open_place(const char *place, bool beside)
{
    int fd = owner_open(place, beside ? O_WRONLY | O_CREAT | O_EXCL : O_WRONLY | O_CREAT | O_TRUNC);
    if (fd == -EEXIST && owner_unlink(place) == 0)
        fd = owner_open(place, O_WRONLY | O_CREAT | O_EXCL);
    return fd;
}

int file_replace(const char *path, const void *data, size_t length)
{
    char place[PATH_MAX];
    int beside = first_place(path, place, sizeof(place));
    if (beside < 0)
        return beside;
    _cleanup_(file_closep) int fd = open_place(place, beside);
    if (fd < 0)
        return fd;
    int r = file_write_all(fd, data, length);
    if (r >= 0 && beside)
        r = owner_rename(place, path);
    if (r < 0 && beside)
        (void)owner_unlink(place);
    return r;
}

int file_replaceable(const char *path)
{
    char place[PATH_MAX];
    int beside = first_place(path, place, sizeof(place));
    if (beside <= 0)
        return beside < 0 ? beside : access(path, W_OK) == 0 || errno == ENOENT ? 0 : -errno;
    _cleanup_(file_closep) int fd = open_place(place, beside);
    if (fd < 0)
        return fd;
    return owner_unlink(place);
}

int file_make_folder(const char *path)
{
    char partial[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(partial))
        return length ? -ENAMETOOLONG : -EINVAL;
    memcpy(partial, path, length + 1);
    for (char *p = partial + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char kept = *p;
        *p = '\0';
        int r = owner_mkdir(partial);
        if (r < 0 && r != -EEXIST)
            return r;
        *p = kept;
        if (!kept)
            break;
    }
    struct stat st;
    if (stat(path, &st) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

const char *file_temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && folder[0] ? folder : "/tmp";
}

static int open_regular(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return -EACCES; /* as execve(2) has it */
}

int file_open_program(const char *name)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    int r = -ENOENT;
    if (strchr(name, '/'))
        return open_regular(name);
    for (const char *at = path ? path : "/bin:/usr/bin"; *name && at && r < 0;
         at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        int length = (int)strcspn(at, ":"); /* an empty entry is the working directory */
        if (snprintf(candidate, sizeof(candidate), "%.*s%s%s", length, at, length ? "/" : "", name) <
                (int)sizeof(candidate) &&
            access(candidate, X_OK) == 0)
            r = open_regular(candidate);
    }
    return r;
}
