/* What the programs cost: each counts its runs and times every so many of them by itself: the kernel's own
 * measuring (bpf_enable_stats) would make every BPF program of the host read the clock twice. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_RUNS_H
#define BPF_RUNS_H

#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

#include "event/kernel.h"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct sonde_kernel_runs);
    __uint(max_entries, 1);
} runs SEC(".maps");

static __always_inline u64 run_begins(u32 family)
{
    u32 all = 0;
    struct sonde_kernel_runs *r = bpf_map_lookup_elem(&runs, &all);
    return r && ++r->of[family].count % SONDE_TIMED_RUNS == 0 ? bpf_ktime_get_ns() : 0;
}

static __always_inline void run_ends(u32 family, u64 begun_ns)
{
    u32 all = 0;
    struct sonde_kernel_runs *r = begun_ns ? bpf_map_lookup_elem(&runs, &all) : 0;
    if (r)
        r->of[family].timed_ns += bpf_ktime_get_ns() - begun_ns;
}

/* A statement as a whole run of a program. */
#define RUN(family, statement)                             \
    do {                                                   \
        u64 begun_ns_ = run_begins(SONDE_FAMILY_##family); \
        statement;                                         \
        run_ends(SONDE_FAMILY_##family, begun_ns_);        \
    } while (0)

#endif
