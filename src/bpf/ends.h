/* The two ends of a TCP connection, from the kernel's socket. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_ENDS_H
#define BPF_ENDS_H

#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

enum { AF_INET = 2, AF_INET6 = 10, TCP = 6 };
enum { STATE_SYN_SENT = 2, STATE_CLOSE = 7, STATE_LISTEN = 10 };

struct ends {
    u64 local_high, local_low, peer_high, peer_low;
    u16 local_port, peer_port, family;
};

static __always_inline u64 half(const struct in6_addr *address, int from)
{
    u64 word;
    __builtin_memcpy(&word, address->in6_u.u6_addr8 + from, sizeof(word));
    return __builtin_bswap64(word);
}

static __always_inline void read_ends(struct sock *sk, struct ends *ends)
{
    ends->family = BPF_CORE_READ(sk, __sk_common.skc_family);
    ends->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
    ends->peer_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (ends->family == AF_INET6) {
        struct in6_addr address;
        BPF_CORE_READ_INTO(&address, sk, __sk_common.skc_v6_rcv_saddr);
        ends->local_high = half(&address, 0);
        ends->local_low = half(&address, 8);
        BPF_CORE_READ_INTO(&address, sk, __sk_common.skc_v6_daddr);
        ends->peer_high = half(&address, 0);
        ends->peer_low = half(&address, 8);
    } else {
        ends->local_high = ends->peer_high = 0;
        ends->local_low = 0xffff00000000ull | __builtin_bswap32(BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
        ends->peer_low = 0xffff00000000ull | __builtin_bswap32(BPF_CORE_READ(sk, __sk_common.skc_daddr));
    }
}

#endif
