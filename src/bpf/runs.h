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

/* Those of this CPU. */
static __always_inline struct sonde_kernel_runs *own_runs(void)
{
    u32 all = 0;
    return bpf_map_lookup_elem(&runs, &all);
}

static __always_inline u64 run_begins(struct sonde_kernel_runs *own, u32 family)
{
    return own && ++own->of[family].count % SONDE_TIMED_RUNS == 0 ? bpf_ktime_get_ns() : 0;
}

static __always_inline void run_ends(u32 family, u64 begun_ns)
{
    struct sonde_kernel_runs *own = begun_ns ? own_runs() : 0;
    if (own)
        own->of[family].timed_ns += bpf_ktime_get_ns() - begun_ns;
}

/* A statement as a whole run of a program; this_cpu in it is what own_runs() answers. */
#define RUN(family, statement)                                       \
    do {                                                             \
        struct sonde_kernel_runs *this_cpu = own_runs();             \
        u64 begun_ns_ = run_begins(this_cpu, SONDE_FAMILY_##family); \
        statement;                                                   \
        run_ends(SONDE_FAMILY_##family, begun_ns_);                  \
    } while (0)

#endif
