/* Waits of goroutines, for `sonde profile --event lock`: part of sampler.bpf.c. They wait without the kernel,
 * so breakpoints stand in those functions of Go's runtime and library that are called only when a lock is not
 * free (targets/go/rows.c): where they begin, at each of their return instructions (a probe of returns would
 * change the stack, which Go moves), and in those that let others go on. By Go's calling convention of 1.17
 * and later (ABIInternal, https://go.dev/s/regabi) R14 is the goroutine's structure and RAX the first
 * parameter: the lock. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_GOROUTINES_H
#define BPF_GOROUTINES_H

struct goroutine {
    u64 address; /* of its structure */
    u64 pid;
};

struct goroutine_wait {
    u64 start_ns;
    u64 lock;
    u64 function; /* which one it waits in */
};

struct waited_lock {
    u64 address;
    u64 pid;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, struct goroutine);
    __type(value, struct goroutine_wait);
    __uint(max_entries, 1);
} goroutine_waits SEC(".maps");

/* How many goroutines wait for a lock. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, struct waited_lock);
    __type(value, u64);
    __uint(max_entries, 1);
} waited_locks SEC(".maps");

/* What the number of a goroutine lies behind is in the breakpoint's cookie; where that is not known, or no
 * number, the structure's address makes one up, which no other goroutine has at the time. */
static __always_inline u32 goroutine_number(struct pt_regs *ctx)
{
    u64 number = 0;
    u32 offset = SAMPLER_GO_OFFSET(bpf_get_attach_cookie(ctx));
    if (offset)
        bpf_probe_read_user(&number, sizeof(number), (void *)(ctx->r14 + offset));
    return number && number < SAMPLER_GO_UNNUMBERED ? (u32)number
                                                    : (u32)(ctx->r14 >> 5) | SAMPLER_GO_UNNUMBERED;
}

/* The stack, and for a wait the lock behind it. */
static __always_inline void send_goroutine(struct pt_regs *ctx, u32 kind, u64 weight, u64 now_ns,
                                           const struct sampler_lock *lock)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32, place;
    u32 *busy = take_slot(&place);
    u32 slot = SAMPLER_GO_SLOT + place; /* the others are those of ticks and switches */
    struct sample *sample = busy ? bpf_map_lookup_elem(&scratch, &slot) : 0;
    if (!sample) {
        count(COUNT_LOST);
        if (busy)
            *busy = 0;
        return;
    }
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    struct registers user = {.pc = ctx->ip, .sp = ctx->sp, .fp = ctx->bp};
    if (!process)
        send_copy(ctx, 0, &user, 0, 0, now_ns, slot);
    begin(&sample->head, kind, weight, now_ns);
    u64 size = fill(ctx, sample, process, &user, bpf_get_current_task_btf(), 0, slot);
    sample->head.goroutine = goroutine_number(ctx);
    if (!process)
        sample->head.end = END_GONE;
    if (lock)
        send_lock(sample, lock);
    else
        send(sample, size);
    *busy = 0;
}

static __always_inline int goroutine_wanted(struct pt_regs *ctx, u32 pid)
{
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    return wanted(pid) && concerns(ctx) && !(process && process->ignored);
}

static __always_inline void count_waiters(const struct waited_lock *lock, u64 more)
{
    u64 *known = bpf_map_lookup_elem(&waited_locks, lock), one = 1;
    if (!known && more == 1 && bpf_map_update_elem(&waited_locks, lock, &one, BPF_NOEXIST) == 0)
        return;
    if (!known)
        known = bpf_map_lookup_elem(&waited_locks, lock);
    if (known)
        __sync_fetch_and_add(known, more);
}

static __always_inline void goroutine_waits_for(struct pt_regs *ctx)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct goroutine g = {.address = ctx->r14, .pid = pid};
    struct goroutine_wait wait = {.lock = ctx->ax,
                                  .function = SAMPLER_GO_FUNCTION(bpf_get_attach_cookie(ctx))};
    if (!goroutine_wanted(ctx, pid))
        return;
    struct goroutine_wait *outer = bpf_map_lookup_elem(&goroutine_waits, &g);
    if (outer && outer->function < wait.function) /* a lock that uses a semaphore: the lock counts */
        return;
    struct waited_lock waited = {.address = wait.lock, .pid = pid};
    struct sampler_lock lock = {.address = wait.lock};
    count_waiters(&waited, 1);
    wait.start_ns = bpf_ktime_get_ns();
    bpf_map_update_elem(&goroutine_waits, &g, &wait, BPF_ANY);
    send_goroutine(ctx, SAMPLE_LOCK, 0, wait.start_ns, &lock);
}

static __always_inline void goroutine_is_back(struct pt_regs *ctx)
{
    u64 id = bpf_get_current_pid_tgid();
    struct goroutine g = {.address = ctx->r14, .pid = id >> 32};
    struct goroutine_wait *wait = bpf_map_lookup_elem(&goroutine_waits, &g);
    if (!wait || wait->function != SAMPLER_GO_FUNCTION(bpf_get_attach_cookie(ctx)) || !concerns(ctx))
        return;
    struct waited_lock waited = {.address = wait->lock, .pid = g.pid};
    struct {
        struct sampler_sample head;
        struct sampler_lock_end end;
    } *record = bpf_ringbuf_reserve(&samples, sizeof(*record), 0);
    count_waiters(&waited, -1ull);
    if (record) {
        __builtin_memset(record, 0, sizeof(*record));
        record->head.time_ns = wait->start_ns;
        record->head.weight = bpf_ktime_get_ns() - wait->start_ns;
        record->head.pid = g.pid;
        record->head.tid = (u32)id;
        record->head.goroutine = goroutine_number(ctx);
        record->head.kind = SAMPLE_LOCK_END;
        bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    } else {
        count(COUNT_LOST);
    }
    bpf_map_delete_elem(&goroutine_waits, &g);
}

/* Locks for which no goroutine waits are let go in silence. */
static __always_inline void goroutine_lets_go(struct pt_regs *ctx)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct waited_lock lock = {.address = ctx->ax, .pid = pid};
    u64 *waiters = bpf_map_lookup_elem(&waited_locks, &lock);
    if (waiters && (s64)*waiters > 0 && goroutine_wanted(ctx, pid))
        send_goroutine(ctx, SAMPLE_LOCK_RELEASE, lock.address, bpf_ktime_get_ns(), 0);
}

SEC("uprobe")
int on_go_wait(struct pt_regs *ctx)
{
    RUN(goroutine_waits_for(ctx));
    return 0;
}

SEC("uprobe")
int on_go_back(struct pt_regs *ctx)
{
    RUN(goroutine_is_back(ctx));
    return 0;
}

SEC("uprobe")
int on_go_release(struct pt_regs *ctx)
{
    RUN(goroutine_lets_go(ctx));
    return 0;
}

#endif
