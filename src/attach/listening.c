/* See listening.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/listening.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/aside.h"
#include "base/array.h"
#include "base/file.h"
#include "base/macro.h"

enum { TABLE_MAX = 64 << 20, SOCKETS_MAX = 1 << 18, PORTS_MAX = 64 };

struct socket {
    uint64_t inode;
    uint16_t port;
};
struct sockets {
    ARRAY(struct socket) list; /* TCP sockets that listen in one network namespace */
};

static int add_socket(struct sockets *to, uint64_t inode, uint16_t port)
{
    return inode ? array_add(&to->list, (struct socket){inode, port}) : 0;
}

/* ---- asking the kernel for those that listen ---- */

/* sock_diag(7): the kernel goes through listening sockets alone, and not, as for /proc/net/tcp, through the
 * table of all connections of the host, whose length its memory decides and which takes some milliseconds. */
static int ask(int netlink, uint8_t family)
{
    const struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 request;
    } message = {
        .head = {.nlmsg_len = sizeof(message),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request = {.sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = 1u << TCP_LISTEN}};
    return send(netlink, &message, sizeof(message), 0) == sizeof(message) ? 0 : -errno;
}

/* 1: more is to come, 0: that was all. */
static int take_answer(const char *bytes, size_t length, struct sockets *to)
{
    for (const struct nlmsghdr *head = (const void *)bytes; NLMSG_OK(head, length);
         head = NLMSG_NEXT(head, length)) {
        const struct inet_diag_msg *found = NLMSG_DATA(head);
        if (head->nlmsg_type == NLMSG_DONE || to->list.count >= SOCKETS_MAX)
            return 0;
        if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY || head->nlmsg_len < NLMSG_LENGTH(sizeof(*found)))
            return -ENOTSUP;
        if (add_socket(to, found->idiag_inode, ntohs(found->id.idiag_sport)) < 0)
            return -ENOMEM;
    }
    return 1;
}

static int ask_for_family(int netlink, uint8_t family, struct sockets *to)
{
    _Alignas(struct nlmsghdr) char bytes[16 << 10];
    int r = ask(netlink, family);
    for (r = r < 0 ? r : 1; r > 0;) {
        ssize_t n = recv(netlink, bytes, sizeof(bytes), 0);
        r = n < 0 && errno == EINTR ? 1 : n <= 0 ? -EIO : take_answer(bytes, (size_t)n, to);
    }
    return r;
}

/* In our network namespace. */
static int ask_here(struct sockets *to)
{
    _cleanup_(file_closep) int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    int r = netlink < 0 ? -errno : ask_for_family(netlink, AF_INET, to);
    return r < 0 ? r : ask_for_family(netlink, AF_INET6, to);
}

/* In the process's, by a child of ours: who has gone over there need not be able to come back. */
struct elsewhere {
    int namespace;
    struct sockets *sockets;
};

static int ask_there(void *context)
{
    const struct elsewhere *there = context;
    return setns(there->namespace, CLONE_NEWNET) < 0 ? -errno : ask_here(there->sockets);
}

static int ask_of(const struct proc *proc, struct sockets *to)
{
    struct stat ours, theirs;
    if (stat("/proc/self/ns/net", &ours) < 0 || fstatat(proc->directory, "ns/net", &theirs, 0) < 0)
        return -errno;
    if (ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev)
        return ask_here(to);
    _cleanup_(file_closep) int namespace = openat(proc->directory, "ns/net", O_RDONLY | O_CLOEXEC);
    return namespace < 0 ? -errno : aside_share(ask_there, &(struct elsewhere){namespace, to}, NULL, NULL);
}

/* ---- or reading the table ---- */

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
            state == TCP_LISTEN && port <= UINT16_MAX)
            (void)add_socket(to, inode, (uint16_t)port);
    }
}

/* Of the process's network namespace, which may be one that we may not enter, or of a kernel without
 * sock_diag. */
static void find_sockets(const struct proc *proc, struct sockets *ret)
{
    if (ask_of(proc, ret) >= 0)
        return;
    array_clear(&ret->list);
    read_table(proc, "tcp", ret);
    read_table(proc, "tcp6", ret);
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

static bool note_one(void *context, uint64_t inode)
{
    (void)inode;
    *(bool *)context = true;
    return false;
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
    bool has_sockets = false;
    each_socket(proc, note_one, &has_sockets);
    if (has_sockets)
        find_sockets(proc, &sockets);
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
    find_sockets(proc, &sockets);
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
