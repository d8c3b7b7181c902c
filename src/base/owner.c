/* See owner.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

/* Decided when the first file is made, once for a run: the caller's where the caller may write, else root's.
 * A choice made anew for each file could be led astray by links made meanwhile. */
static enum { UNDECIDED, CALLERS, OURS } decision;

static bool number(const char *variable, uid_t *ret)
{
    const char *text = getenv(variable);
    char *end = NULL;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (!text || end == text || *end || value >= (uid_t)-1)
        return false;
    *ret = (uid_t)value;
    return true;
}

/* The caller's rights for what follows on this thread. */
struct rights {
    uid_t user, group;
    bool changed;
};

static struct rights take_rights(void)
{
    struct rights rights = {0};
    if (decision == OURS || geteuid() != 0 || !number("SUDO_UID", &rights.user) || !rights.user ||
        !number("SUDO_GID", &rights.group))
        return rights;
    rights.changed = true;
    (void)setfsgid(rights.group);
    (void)setfsuid(rights.user); /* last: it takes root's capabilities for files away */
    return rights;
}

/* Whether to try again as root. */
static bool give_back(const struct rights *rights, int result)
{
    if (!rights->changed)
        return false;
    (void)setfsuid(0);
    (void)setfsgid(0);
    bool refused = decision == UNDECIDED && (result == -EACCES || result == -EPERM);
    if (refused)
        decision = OURS;
    else if (result >= 0)
        decision = CALLERS;
    return refused;
}

/* AS_OWNER(call): its result or a negative errno. */
#define AS_OWNER(call)                     \
    ({                                     \
        int r_;                            \
        struct rights rights_;             \
        do {                               \
            rights_ = take_rights();       \
            r_ = (call);                   \
            r_ = r_ < 0 ? -errno : r_;     \
        } while (give_back(&rights_, r_)); \
        r_;                                \
    })

/* ---- files that are opened before the right to open them is given up ---- */

enum { RESERVED_MAX = 4 };
static const char TEMPORARY[] = "(temporary file)"; /* names one that has no name */

static struct {
    char path[PATH_MAX];
    int fd;
} reserved[RESERVED_MAX];
static unsigned reserved_count;

static int hold(const char *path, int fd)
{
    if (fd < 0)
        return fd;
    if (reserved_count == RESERVED_MAX || strlen(path) >= sizeof(reserved->path)) {
        close(fd);
        return -EBUSY;
    }
    strcpy(reserved[reserved_count].path, path);
    reserved[reserved_count++].fd = fd;
    return 0;
}

/* Its place in the list, or -1. */
static int find_reserved(const char *path)
{
    for (unsigned i = 0; i < reserved_count; i++)
        if (strcmp(reserved[i].path, path) == 0)
            return (int)i;
    return -1;
}

int owner_reserve(const char *path)
{
    struct stat st;
    bool plain = stat(path, &st) < 0 || S_ISREG(st.st_mode);
    return hold(path, owner_open(path, plain ? O_RDWR | O_CREAT : O_WRONLY));
}

bool owner_reserved(const char *path)
{
    return find_reserved(path) >= 0;
}

static int make_temporary(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");
    if (snprintf(path, size, "%s/sonde-data-XXXXXX", base && base[0] ? base : "/tmp") >= (int)size)
        return -ENAMETOOLONG;
    int fd = mkostemp(path, O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int owner_reserve_temporary(void)
{
    char path[PATH_MAX];
    int fd = make_temporary(path, sizeof(path));
    if (fd >= 0)
        unlink(path);
    return hold(TEMPORARY, fd);
}

int owner_temporary(char *ret_path, size_t size)
{
    if (owner_reserved(TEMPORARY))
        return snprintf(ret_path, size, "%s", TEMPORARY) < (int)size ? 0 : -ENAMETOOLONG;
    int fd = make_temporary(ret_path, size);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

/* ---- what is done as the owner ---- */

int owner_open(const char *path, int flags)
{
    int held = find_reserved(path);
    if (held >= 0) {
        int fd = fcntl(reserved[held].fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return -errno;
        (void)lseek(fd, 0, SEEK_SET); /* what is no file has no place, and cannot be truncated */
        if (flags & O_TRUNC)
            (void)!ftruncate(fd, 0);
        return fd;
    }
    return AS_OWNER(open(path, flags | O_CLOEXEC, 0600));
}

int owner_append(const char *path)
{
    const struct rights rights = take_rights();
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd;
    if (rights.changed) {
        (void)setfsuid(0);
        (void)setfsgid(0);
    }
    return r;
}

int owner_mkdir(const char *path)
{
    return AS_OWNER(mkdir(path, 0700));
}

int owner_rename(const char *from, const char *to)
{
    return AS_OWNER(rename(from, to));
}

int owner_unlink(const char *path)
{
    return AS_OWNER(unlink(path));
}
