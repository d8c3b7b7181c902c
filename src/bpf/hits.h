/* Stacks at places in the kernel or in programs, for `sonde profile --event uprobe:...`: part of
 * sampler.bpf.c, where the programs are loaded only for that event. Every hit is counted. A stack is taken at
 * each hit_every-th, and of these at most hit_limit in HIT_WINDOW_NS on a CPU; it stands for all hits since
 * the stack before it on this CPU, so that weights add up to what was counted. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_HITS_H
#define BPF_HITS_H

#define HIT_WINDOW_NS 100000000ull

/* Set before loading. */
const volatile unsigned long long hit_every = 1, hit_limit = 0;

struct hits {
    u64 all;      /* of what is wanted */
    u64 pending;  /* since the last stack */
    u64 begun_ns; /* of the window */
    u64 stacks;   /* in it */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct hits);
    __uint(max_entries, 1);
} hits SEC(".maps");

/* How many hits the stack stands for that is to be taken now; 0: none is. A uprobe's program may be preempted
 * by another thread's on its CPU at any instruction: what is counted is added in one. */
static __always_inline u64 hit_weight(u64 now_ns)
{
    u32 zero = 0;
    struct hits *h = bpf_map_lookup_elem(&hits, &zero);
    if (!h)
        return 0;
    __sync_fetch_and_add(&h->all, 1);
    u64 pending = __sync_fetch_and_add(&h->pending, 1) + 1;
    if (now_ns - h->begun_ns >= HIT_WINDOW_NS) {
        h->begun_ns = now_ns;
        h->stacks = 0;
    }
    if (pending < hit_every || h->stacks >= hit_limit)
        return 0;
    __sync_fetch_and_add(&h->stacks, 1);
    return __sync_lock_test_and_set(&h->pending, 0); /* 0: another thread has taken them */
}

/* How many hits the stack stands for, or 0: none is taken. What is sent is that, or `sent` in its place. */
static __always_inline u64 hit_sample(void *ctx, struct registers *user, int has_user, int in_kernel,
                                      u64 sent)
{
    u64 id = bpf_get_current_pid_tgid(), now_ns = bpf_ktime_get_ns();
    u32 pid = id >> 32, slot = 0;
    if (!(u32)id || !wanted(pid))
        return 0;
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    if (process && process->ignored)
        return 0;
    u64 weight = hit_weight(now_ns);
    if (!weight)
        return 0;
    u32 *busy = take_slot(&slot);
    struct sample *sample = busy ? bpf_map_lookup_elem(&scratch, &slot) : 0;
    if (!sample) {
        count(COUNT_LOST);
        if (busy)
            *busy = 0;
        return 0;
    }
    count(COUNT_SAMPLES);
    sent = sent ?: weight;
    if (process || !has_user) {
        begin(&sample->head, SAMPLE_CPU, sent, now_ns);
        send(sample,
             fill(ctx, sample, process, has_user ? user : 0, bpf_get_current_task_btf(), in_kernel, slot));
    } else {
        send_copy(ctx, 0, user, in_kernel, sent, now_ns, slot);
    }
    *busy = 0;
    return weight;
}

/* In the kernel. */
static __always_inline u64 tracepoint_hit(void *ctx, u64 sent)
{
    struct registers user = {};
    int has_user = user_registers(bpf_get_current_task_btf(), &user);
    return hit_sample(ctx, &user, has_user, 1, sent);
}

SEC("tracepoint")
int on_tracepoint(void *ctx)
{
    RUN(tracepoint_hit(ctx, 0));
    return 0;
}

SEC("uprobe")
int on_hit(struct pt_regs *ctx)
{
    struct registers user = {.pc = ctx->ip, .sp = ctx->sp, .fp = ctx->bp};
    RUN(if (concerns(ctx)) hit_sample(ctx, &user, 1, 0, 0));
    return 0;
}

#endif
