/* The socket behind a descriptor, and whose it is. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_SOCKETS_H
#define BPF_SOCKETS_H

#include "bpf/ends.h"
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define ENDS(e)                                                                           \
    .local_high = (e).local_high, .local_low = (e).local_low, .peer_high = (e).peer_high, \
    .peer_low = (e).peer_low, .local_port = (e).local_port, .peer_port = (e).peer_port, .family = (e).family

/* The TCP socket behind a descriptor of the current process, or NULL. */
static __always_inline struct sock *tcp_socket(struct task_struct *task, u32 fd)
{
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    if (fd >= BPF_CORE_READ(table, max_fds))
        return 0;
    struct file **slots = BPF_CORE_READ(table, fd), *file = 0;
    bpf_probe_read_kernel(&file, sizeof(file), slots + fd);
    if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & 0170000) != 0140000) /* S_IFMT, S_IFSOCK */
        return 0;
    struct socket *socket = BPF_CORE_READ(file, private_data);
    struct sock *sk = BPF_CORE_READ(socket, sk);
    u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    if ((family != AF_INET && family != AF_INET6) || BPF_CORE_READ(sk, sk_protocol) != TCP)
        return 0;
    return sk;
}

/* Whose sockets they are: those that connect while this runs and those that a process had when it became a
 * target, until they are closed; and of those that it accepts, the port that it listens on. Sockets could
 * carry that themselves (socket storage), which takes ten times as long, and for each that is accepted. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u64); /* struct sock * */
    __type(value, u32);
    __uint(max_entries, 65536);
} sockets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, u64); /* port_of() */
    __type(value, u32);
    __uint(max_entries, 1024);
} listeners SEC(".maps");

static __always_inline u64 port_of(struct sock *sk)
{
    u64 network = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
    return network << 16 | BPF_CORE_READ(sk, __sk_common.skc_num);
}

/* 0: there is no room for it. */
static __always_inline _Bool own_socket(struct sock *sk, int state, u32 pid)
{
    u64 key = (u64)sk, port = port_of(sk);
    if (state == STATE_LISTEN)
        return !bpf_map_update_elem(&listeners, &port, &pid, BPF_ANY);
    return !bpf_map_update_elem(&sockets, &key, &pid, BPF_ANY);
}

static __always_inline void forget_socket(struct sock *sk)
{
    u64 key = (u64)sk;
    bpf_map_delete_elem(&sockets, &key);
}

/* NULL: of no traced process. */
static __always_inline u32 *socket_owner(struct sock *sk)
{
    u64 key = (u64)sk, port = port_of(sk);
    u32 *owner = bpf_map_lookup_elem(&sockets, &key);
    return owner ? owner : bpf_map_lookup_elem(&listeners, &port);
}

#endif
