/* See writer.h. A question is a message of protocol.h: `question` is an owner_call, `start` the flags of
 * open(2), the bytes are one or two paths, each with its end. The answer has a result, or a descriptor. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/writer.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/macro.h"
#include "base/owner.h"
#include "broker/apart.h"
#include "broker/protocol.h"
#include "broker/sandbox.h"

static struct {
    ARRAY(const char *) paths;
    const char *directory; /* that may be removed; NULL: none */
    int socket;
    uint32_t asked;
    pthread_mutex_t lock;
} writer = {.socket = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- which paths ---- */

static bool goes_up(const char *path)
{
    for (const char *at = strstr(path, ".."); at; at = strstr(at + 1, ".."))
        if ((at == path || at[-1] == '/') && (at[2] == '/' || !at[2]))
            return true;
    return false;
}

static size_t length_of(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

/* Whether path is one that was named, what replaces it, or lies below one; of a call that makes directories
 * also whether one that was named lies below it. */
static bool is_granted(enum owner_call call, const char *path)
{
    size_t length = length_of(path);
    if (call == OWNER_RMDIR)
        return writer.directory && strcmp(path, writer.directory) == 0;
    array_foreach (&writer.paths, at) {
        size_t named = length_of(*at);
        const char *rest = strncmp(path, *at, named) == 0 ? path + named : NULL;
        if (rest && (!*rest || strcmp(rest, ".new") == 0 || (*rest == '/' && !goes_up(rest))))
            return true;
        if (call == OWNER_MKDIR && length < named && strncmp(path, *at, length) == 0 &&
            ((*at)[length] == '/' || path[length - 1] == '/'))
            return true;
    }
    return false;
}

/* ---- in the writer ---- */

static int carry_out(const struct broker_head *asked, const char *path, const char *to)
{
    switch (asked->question) {
    case OWNER_OPEN:
        return owner_open(path, (int)asked->start);
    case OWNER_MKDIR:
        return owner_mkdir(path);
    case OWNER_RENAME:
        return owner_rename(path, to);
    case OWNER_UNLINK:
        return owner_unlink(path);
    case OWNER_IS_PLAIN:
        return owner_is_plain(path);
    case OWNER_RMDIR:
        return owner_rmdir(path);
    }
    return -EPERM;
}

static int answer(const struct broker_head *asked, const char *bytes, size_t length)
{
    const char *end = length ? memchr(bytes, 0, length) : NULL, *to = end ? end + 1 : NULL;
    bool two = asked->question == OWNER_RENAME;
    size_t rest = end ? length - (size_t)(to - bytes) : 0;
    if (!end || end == bytes || two != (rest > 1) || (two && memchr(to, 0, rest) != to + rest - 1))
        return -EPERM;
    if (!is_granted(asked->question, bytes) || (two && !is_granted(asked->question, to)))
        return -EPERM;
    return carry_out(asked, bytes, to);
}

/* What it needs for the rights of the user who called sudo (base/owner.c), and to write where root may. */
#define NEEDED \
    (1ull << CAP_SETUID | 1ull << CAP_SETGID | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH)

static void run_writer(void *unused, int socket)
{
    static char bytes[2 * PATH_MAX + 2];
    const struct sandbox_rights rights = {.capabilities = NEEDED, .all_files = true};
    if (sandbox_confine(&rights, NULL) < 0)
        return;
    for (struct broker_head asked = {0};;) {
        ptrdiff_t n = broker_receive(socket, &asked, bytes, sizeof(bytes), NULL);
        if (n < 0 && n != -EPROTO)
            return;
        int r = n >= 0 && asked.verb == BROKER_QUESTION ? answer(&asked, bytes, (size_t)n) : -EPERM;
        bool has_file = r >= 0 && asked.question == OWNER_OPEN;
        const struct broker_head head = {.verb = BROKER_ANSWER,
                                         .question = asked.question,
                                         .result = has_file ? 0 : r,
                                         .serial = asked.serial};
        int sent = broker_send(socket, head, NULL, 0, has_file ? r : -1);
        if (has_file)
            close(r);
        if (sent < 0)
            return;
    }
}

/* ---- in the one that asks ---- */

static int exchange(struct broker_head head, const char *bytes, size_t length)
{
    int fd = -1;
    head.serial = ++writer.asked;
    int r = broker_send(writer.socket, head, bytes, length, -1);
    if (r < 0)
        return r;
    if (broker_receive(writer.socket, &head, NULL, 0, &fd) < 0 || head.verb != BROKER_ANSWER ||
        head.serial != writer.asked)
        return -EPIPE;
    return head.result < 0 || head.question != OWNER_OPEN ? head.result : fd >= 0 ? fd : -EPROTO;
}

/* owner_ask_fn. */
static int ask(enum owner_call call, const char *path, const char *to, int flags)
{
    char bytes[2 * PATH_MAX + 2];
    size_t length = strlen(path) + 1, more = to ? strlen(to) + 1 : 0;
    if (!is_granted(call, path))
        return -ENOSYS;
    if (length > PATH_MAX || more > PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(bytes, path, length);
    memcpy(bytes + length, to ? to : "", more);
    const struct broker_head head = {
        .verb = BROKER_QUESTION, .question = call, .start = (uint64_t)(unsigned)flags};
    pthread_mutex_lock(&writer.lock);
    int r = exchange(head, bytes, length + more);
    pthread_mutex_unlock(&writer.lock);
    return r;
}

void writer_may_remove(const char *directory)
{
    writer.directory = directory;
}

int writer_start(const char *const *paths, size_t count, struct problem *problem)
{
    for (size_t i = 0; i < count; i++)
        if (paths[i] && *paths[i] && array_add(&writer.paths, paths[i]) < 0)
            return problem_set(problem, -ENOMEM, "out of memory");
    if (!writer.paths.count && !writer.directory)
        return 0;
    int r = apart_start("sonde:writer", run_writer, NULL, &writer.socket, problem);
    if (r == 0)
        owner_ask_from_now_on(ask);
    return r;
}
