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
#include <string.h>
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

/* ---- links, also absolute ones and "..", stay below root ---- */

/* The place of a path, step by step: the directories that lead to it are held open, so that ".." is the one
 * that was gone through, even if it has been moved since. */
struct walk {
    int root;
    int at[64]; /* below the root; the last is where it is now */
    unsigned depth, links;
    char rest[PATH_MAX]; /* what is still to be gone */
};

/* Back to the directory of this depth. */
static int walk_to(struct walk *w, unsigned depth)
{
    while (w->depth > depth)
        close(w->at[--w->depth]);
    return 0;
}

/* The link's text before the rest, which begins with a slash. */
static int follow(struct walk *w, int link)
{
    enum { LINKS_MAX = 40 }; /* as the kernel */
    char text[PATH_MAX], rest[PATH_MAX];
    ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);
    if (n <= 0 || ++w->links > LINKS_MAX)
        return n < 0 ? -errno : n == 0 ? -ENOENT : -ELOOP;
    text[n] = '\0';
    memcpy(rest, w->rest, sizeof(rest));
    if (snprintf(w->rest, sizeof(w->rest), "%s%s", text, rest) >= (int)sizeof(w->rest))
        return -ENAMETOOLONG;
    return text[0] == '/' ? walk_to(w, 0) : 0;
}

/* To the next directory, file or link; "" is behind the last slash. */
static int step(struct walk *w, const char *name)
{
    struct stat st;
    bool stays = !*name || strcmp(name, ".") == 0, up = strcmp(name, "..") == 0;
    _cleanup_(file_closep) int fd = openat(w->depth ? w->at[w->depth - 1] : w->root, stays || up ? "." : name,
                                           O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (up)
        return walk_to(w, w->depth ? w->depth - 1 : 0);
    if (stays)
        return 0;
    if (S_ISLNK(st.st_mode))
        return follow(w, fd);
    if (w->depth == ARRAY_SIZE(w->at))
        return -ENAMETOOLONG;
    w->at[w->depth++] = fd;
    fd = -1;
    return 0;
}

static int walk_below(int root, const char *path)
{
    struct walk w = {.root = root};
    int r = snprintf(w.rest, sizeof(w.rest), "%s", path) < (int)sizeof(w.rest) ? 0 : -ENAMETOOLONG;
    while (r == 0 && w.rest[0]) {
        char name[NAME_MAX + 1];
        size_t slashes = strspn(w.rest, "/"), length = strcspn(w.rest + slashes, "/");
        if (length > NAME_MAX) {
            r = -ENAMETOOLONG;
            break;
        }
        memcpy(name, w.rest + slashes, length);
        name[length] = '\0';
        memmove(w.rest, w.rest + slashes + length, strlen(w.rest + slashes + length) + 1);
        r = step(&w, name);
    }
    int fd = -1;
    if (r == 0 && w.depth)
        fd = w.at[--w.depth];
    else if (r == 0)
        fd = openat(root, ".", O_PATH | O_CLOEXEC);
    if (r == 0 && fd < 0)
        r = -errno;
    walk_to(&w, 0);
    return r < 0 ? r : fd;
}

/* By its place only (O_PATH). A filter of system calls that cannot see what openat2() is to open forbids it:
 * broker/sandbox.c, and those of some containers. */
int process_place_open(int root, const char *path)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    if (fd < 0 && (errno == EPERM || errno == ENOSYS))
        return walk_below(root, path);
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
    _cleanup_(file_closep) int place = process_place_open(root, path);
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
    struct stat st;
    int place = process_place_open(root, path);
    if (place < 0 || (fstat(place, &st) == 0 && S_ISDIR(st.st_mode)))
        return place;
    close(place);
    return -ENOTDIR;
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
    int asked = proc_ask(proc, PROC_PATH, whole, 0, 0);
    if (asked != -ENOSYS)
        return asked == 0;
    _cleanup_(file_closep) int root = process_root_open(proc);
    _cleanup_(file_closep) int place = root < 0 ? root : process_place_open(root, whole);
    return place >= 0;
}
