/* See process_file.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"

int process_root_open(const struct proc *proc)
{
    if (proc)
        return proc_file_open(proc, "root", O_PATH | O_DIRECTORY);
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Links, also absolute ones and "..", stay below root. */
static int open_below(int root, const char *path, uint64_t flags)
{
    const struct open_how how = {.flags = flags | O_CLOEXEC,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* A file of /proc, /sys and the like is no data of the process: it is made when it is read, by the reader's
 * rights, and what there is called regular may be another process's memory. */
static bool is_made_by_kernel(int place)
{
    static const unsigned long TYPES[] = {
        PROC_SUPER_MAGIC, SYSFS_MAGIC,        DEBUGFS_MAGIC,       TRACEFS_MAGIC,  SECURITYFS_MAGIC,
        BPF_FS_MAGIC,     CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, EFIVARFS_MAGIC, PSTOREFS_MAGIC};
    struct statfs fs;
    if (fstatfs(place, &fs) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(TYPES); i++)
        if ((unsigned long)fs.f_type == TYPES[i])
            return true;
    return false;
}

/* For reading what was opened by its place only (O_PATH), if it is a regular file: a device may do something
 * when it is opened, a pipe waits. */
static int open_place(int place)
{
    struct stat st;
    char self[64];
    if (fstat(place, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || is_made_by_kernel(place))
        return -EINVAL;
    snprintf(self, sizeof(self), "/proc/self/fd/%d", place);
    int fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

int process_file_open(int root, const char *path)
{
    _cleanup_(file_closep) int place = open_below(root, path, O_PATH);
    return place < 0 ? place : open_place(place);
}

int process_file_of(const struct proc *proc, const char *path)
{
    int fd = proc_ask(proc, proc ? PROC_FILE : PROC_OURS, path, 0, 0);
    if (fd != -ENOSYS)
        return fd;
    _cleanup_(file_closep) int root = process_root_open(proc);
    return root < 0 ? root : process_file_open(root, path);
}

int process_folder_open(int root, const char *path)
{
    return open_below(root, path, O_PATH | O_DIRECTORY);
}

int process_mapped_open(const struct proc *proc, uint64_t start, uint64_t end)
{
    char name[64];
    int asked = proc_ask(proc, PROC_MAPPED, NULL, start, end);
    if (asked != -ENOSYS)
        return asked;
    snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, start, end);
    _cleanup_(file_closep) int place = proc_file_open(proc, name, O_PATH);
    return place < 0 ? place : open_place(place);
}

int process_file_read(const struct proc *proc, const char *path, size_t limit, char **ret_data,
                      size_t *ret_length)
{
    _cleanup_(file_closep) int fd = process_file_of(proc, path);
    return fd < 0 ? fd : file_read_fd(fd, limit, ret_data, ret_length);
}

bool process_has_path(const struct proc *proc, const char *path)
{
    char whole[2 * PATH_MAX];
    ssize_t folder = 0;
    if (path[0] != '/') {
        folder = proc_read_link(proc, "cwd", whole, PATH_MAX);
        if (folder <= 0)
            return false;
    }
    if (snprintf(whole + folder, sizeof(whole) - (size_t)folder, "/%s", path) >=
        (int)(sizeof(whole) - (size_t)folder))
        return false;
    _cleanup_(file_closep) int root = process_root_open(proc);
    _cleanup_(file_closep) int place = root < 0 ? root : open_below(root, whole, O_PATH);
    return place >= 0;
}
