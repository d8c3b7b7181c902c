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
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rights.h"

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
    struct file_rights ours;
    bool changed;
};

static struct rights take_rights(void)
{
    struct rights rights = {0};
    uid_t user, group;
    if (decision != OURS && geteuid() == 0 && number("SUDO_UID", &user) && user && number("SUDO_GID", &group))
        rights.changed = rights_take(user, group, &rights.ours) == 0;
    return rights;
}

/* Whether to try again as root. */
static bool give_back(struct rights *rights, int result)
{
    if (!rights->changed)
        return false;
    rights_give_back(&rights->ours);
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

/* ---- asking another process ---- */

static owner_ask_fn *ask_writer; /* set once */

void owner_ask_from_now_on(owner_ask_fn *ask)
{
    ask_writer = ask;
}

static int asked(enum owner_call call, const char *path, const char *to, int flags)
{
    return ask_writer ? ask_writer(call, path, to, flags) : -ENOSYS;
}

/* ---- a temporary file ---- */

static const char TEMPORARY[] = "(temporary file)"; /* names the one that was opened before */
static int temporary = -1;

static int make_temporary(char *path, size_t size)
{
    if (snprintf(path, size, "%s/sonde-data-XXXXXX", file_temporary_folder()) >= (int)size)
        return -ENAMETOOLONG;
    int fd = mkostemp(path, O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int owner_reserve_temporary(void)
{
    char path[PATH_MAX];
    int fd = make_temporary(path, sizeof(path));
    if (fd < 0)
        return fd;
    unlink(path);
    temporary = fd;
    return 0;
}

int owner_temporary(char *ret_path, size_t size)
{
    if (temporary >= 0)
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
    if (temporary >= 0 && strcmp(path, TEMPORARY) == 0) {
        int fd = fcntl(temporary, F_DUPFD_CLOEXEC, 0);
        return fd < 0 ? -errno : fd;
    }
    int fd = asked(OWNER_OPEN, path, NULL, flags);
    return fd != -ENOSYS ? fd : AS_OWNER(open(path, flags | O_CLOEXEC, 0600));
}

int owner_append(const char *path)
{
    struct rights rights = take_rights();
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd;
    if (rights.changed)
        rights_give_back(&rights.ours);
    return r;
}

int owner_mkdir(const char *path)
{
    int r = asked(OWNER_MKDIR, path, NULL, 0);
    return r != -ENOSYS ? r : AS_OWNER(mkdir(path, 0700));
}

int owner_rename(const char *from, const char *to)
{
    int r = asked(OWNER_RENAME, from, to, 0);
    return r != -ENOSYS ? r : AS_OWNER(rename(from, to));
}

int owner_unlink(const char *path)
{
    int r = asked(OWNER_UNLINK, path, NULL, 0);
    return r != -ENOSYS ? r : AS_OWNER(unlink(path));
}

int owner_rmdir(const char *path)
{
    int r = asked(OWNER_RMDIR, path, NULL, 0);
    return r != -ENOSYS ? r : AS_OWNER(rmdir(path));
}

int owner_is_plain(const char *path)
{
    struct stat st;
    int r = asked(OWNER_IS_PLAIN, path, NULL, 0);
    return r != -ENOSYS ? r : lstat(path, &st) < 0 || S_ISREG(st.st_mode);
}
