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

/* Of the sockets those that the process holds. */
static size_t held(const struct proc *proc, const struct sockets *sockets, uint16_t *ports)
{
    char link[64];
    size_t count = 0;
    DIR *folder = proc_list(proc, "fd");
    for (struct dirent *entry; folder && (entry = readdir(folder)) && count < PORTS_MAX;) {
        uint64_t inode;
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
        link[length > 0 ? length : 0] = '\0';
        if (sscanf(link, "socket:[%" SCNu64 "]", &inode) != 1)
            continue;
        array_foreach (&sockets->list, socket)
            if (socket->inode == inode && count < PORTS_MAX)
                ports[count++] = socket->port;
    }
    if (folder)
        closedir(folder);
    qsort(ports, count, sizeof(*ports), by_number);
    return count;
}

size_t listening_ports(const struct proc *proc, uint16_t *ret_ports, size_t limit)
{
    struct sockets sockets = {0};
    uint16_t all[PORTS_MAX];
    size_t count = 0;
    read_table(proc, "tcp", &sockets);
    read_table(proc, "tcp6", &sockets);
    for (size_t i = 0, n = sockets.list.count ? held(proc, &sockets, all) : 0; i < n; i++)
        if (!i || all[i] != all[i - 1]) { /* a port of both families */
            if (count < limit)
                ret_ports[count] = all[i];
            count++;
        }
    array_done(&sockets.list);
    return count;
}
