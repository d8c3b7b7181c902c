/* See listening.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/listening.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/macro.h"

enum { TABLE_MAX = 64 << 20, LISTEN = 0x0A, PORTS_MAX = 64 };

struct socket {
    uint64_t inode;
    uint16_t port;
};
struct sockets {
    ARRAY(struct socket) list;
};

/* /proc/PID/net/tcp and tcp6: "  sl  local_address rem_address st tx:rx tr:tm->when retrnsmt uid timeout
 * inode ...", numbers in hexadecimal but for uid, timeout and inode. They are those of the process' network
 * namespace. */
static void read_table(const struct proc *proc, const char *name, struct sockets *to)
{
    char file[32];
    _cleanup_(freep) char *table = NULL;
    snprintf(file, sizeof(file), "net/%s", name);
    if (proc_read(proc, file, TABLE_MAX, &table, NULL) < 0)
        return;
    for (const char *line = strchr(table, '\n'); line; line = strchr(line + 1, '\n')) {
        unsigned port, state;
        uint64_t inode;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %" SCNu64,
                   &port, &state, &inode) == 3 &&
            state == LISTEN && inode && port <= UINT16_MAX)
            (void)array_add(&to->list, (struct socket){inode, (uint16_t)port});
    }
}

static int by_number(const void *x, const void *y)
{
    return *(const uint16_t *)x - *(const uint16_t *)y;
}

/* Calls found() with the inode of each socket that the process holds, until that returns false. */
static void each_socket(const struct proc *proc, bool (*found)(void *context, uint64_t inode), void *context)
{
    char link[64];
    bool more = true;
    DIR *folder = proc_list(proc, "fd");
    for (struct dirent *entry; folder && more && (entry = readdir(folder));) {
        uint64_t inode;
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
        link[length > 0 ? length : 0] = '\0';
        if (sscanf(link, "socket:[%" SCNu64 "]", &inode) == 1)
            more = found(context, inode);
    }
    if (folder)
        closedir(folder);
}

/* Of the sockets those that the process holds. */
struct held {
    const struct sockets *sockets;
    uint16_t ports[PORTS_MAX];
    size_t count;
};

static bool add_held(void *context, uint64_t inode)
{
    struct held *held = context;
    array_foreach (&held->sockets->list, socket)
        if (socket->inode == inode && held->count < PORTS_MAX)
            held->ports[held->count++] = socket->port;
    return held->count < PORTS_MAX;
}

size_t listening_ports(const struct proc *proc, uint16_t *ret_ports, size_t limit)
{
    struct sockets sockets = {0};
    struct held all = {.sockets = &sockets};
    size_t count = 0;
    read_table(proc, "tcp", &sockets);
    read_table(proc, "tcp6", &sockets);
    if (sockets.list.count)
        each_socket(proc, add_held, &all);
    qsort(all.ports, all.count, sizeof(*all.ports), by_number);
    for (size_t i = 0; i < all.count; i++)
        if (!i || all.ports[i] != all.ports[i - 1]) { /* a port of both families */
            if (count < limit)
                ret_ports[count] = all.ports[i];
            count++;
        }
    array_done(&sockets.list);
    return count;
}

size_t listening_sockets(const struct proc *proc, uint16_t port, uint64_t *ret_inodes, size_t limit)
{
    struct sockets sockets = {0};
    size_t count = 0;
    read_table(proc, "tcp", &sockets);
    read_table(proc, "tcp6", &sockets);
    array_foreach (&sockets.list, socket) {
        if (socket->port != port)
            continue;
        if (count < limit)
            ret_inodes[count] = socket->inode;
        count++;
    }
    array_done(&sockets.list);
    return count;
}

struct wanted {
    const uint64_t *inodes;
    size_t count;
    bool found;
};

static bool is_wanted(void *context, uint64_t inode)
{
    struct wanted *wanted = context;
    for (size_t i = 0; i < wanted->count; i++)
        wanted->found |= wanted->inodes[i] == inode;
    return !wanted->found;
}

bool listening_holds(const struct proc *proc, const uint64_t *inodes, size_t count)
{
    struct wanted wanted = {inodes, count, false};
    if (count)
        each_socket(proc, is_wanted, &wanted);
    return wanted.found;
}
