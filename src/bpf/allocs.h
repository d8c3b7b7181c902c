/* What programs take from malloc() and its family, for `sonde profile --event alloc`: part of sampler.bpf.c,
 * where the programs are loaded only for that event. They hang on these functions' beginnings and ends
 * (uprobes: a trap into the kernel each). An allocation of size bytes is sampled with the probability
 * 1 - e^(-size / interval), as if each byte were chosen with 1/interval: what was chosen stands for
 * size / probability bytes, so that sums are right on average however large or small the pieces are. Those
 * that were sampled are remembered until they are freed. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_ALLOCS_H
#define BPF_ALLOCS_H

/* Set before loading: bytes, and e^-x * 2^32 for x in steps of 1/256; the last entry is 0. */
const volatile unsigned long long alloc_interval = 0;
const volatile unsigned int alloc_decay[SAMPLER_DECAYS];

/* A call that a thread is in. The family's functions may call each other: the outermost counts. */
struct alloc_call {
    u64 sp; /* when it began: where its return address lies */
    u64 size;
    u64 old; /* of realloc(): what it was given; of posix_memalign(): where it puts the result */
    u32 sampled, is_realloc;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, struct alloc_call);
    __uint(max_entries, 1);
} alloc_calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct sampler_live);
    __type(value, u64); /* when it was made */
    __uint(max_entries, 1);
} alive SEC(".maps");

/* Threads whose heap had no page left when it was asked last. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, u32);
    __uint(max_entries, 1);
} heap_failed SEC(".maps");

/* By thread: what is about to get an area of a heap to divide. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, u64);
    __uint(max_entries, 1);
} heap_owners SEC(".maps");

/* A copy of a stack is large, and a program that begins allocates much. */
enum { ASK_NS = 2000000 };
static u64 alloc_asked_ns;

/* Of 2^32. */
static __always_inline u64 alloc_probability(u64 size)
{
    const u64 one = 1ull << 32;
    u64 interval = alloc_interval, whole = size / interval;
    if (whole >= SAMPLER_DECAYS / 256 - 1)
        return one;
    u64 x = (whole << 32) + ((size - whole * interval) << 32) / interval, step = x >> 24,
        rest = x & 0xffffff; /* of 2^32 */
    if (!step)               /* small: 1 - e^-x by its series, as the table's entries are near 1 */
        return x - (x * x >> 33) + ((x * x >> 32) * x >> 32) / 6;
    if (step >= SAMPLER_DECAYS)
        return one;
    u64 decay = alloc_decay[step];
    u64 factor = one - rest + (rest * rest >> 33);
    return one - (decay * factor >> 32);
}

static __always_inline int alloc_begin(struct pt_regs *ctx, u64 size, u64 old, u32 is_realloc)
{
    u64 id = bpf_get_current_pid_tgid();
    u32 tid = (u32)id;
    if (!wanted(id >> 32) || !concerns(ctx))
        return 0;
    struct alloc_call *outer = bpf_map_lookup_elem(&alloc_calls, &tid);
    if (outer && outer->sp > ctx->sp) /* else it was left by longjmp(), or with its thread */
        return 0;
    struct alloc_call call = {.sp = ctx->sp, .size = size, .old = old, .is_realloc = is_realloc};
    call.sampled = bpf_get_prandom_u32() < alloc_probability(size);
    bpf_map_update_elem(&alloc_calls, &tid, &call, BPF_ANY);
    return 0;
}

static __always_inline void alloc_forget(u64 address)
{
    u64 id = bpf_get_current_pid_tgid();
    struct sampler_live key = {.address = address, .pid = id >> 32};
    if (!address || !bpf_map_lookup_elem(&alive, &key) || bpf_map_delete_elem(&alive, &key))
        return;
    struct {
        struct sampler_sample head;
        struct sampler_alloc alloc;
    } *record = bpf_ringbuf_reserve(&samples, sizeof(*record), 0);
    if (!record) {
        count(COUNT_LOST);
        return;
    }
    __builtin_memset(record, 0, sizeof(*record));
    record->head.time_ns = bpf_ktime_get_ns();
    record->head.pid = key.pid;
    record->head.tid = (u32)id;
    record->head.kind = SAMPLE_FREE;
    record->alloc.address = address;
    bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* The stack that asked for it, with the allocation behind its words. */
static __always_inline void alloc_send(struct pt_regs *ctx, struct sample *sample, u32 slot,
                                       const struct sampler_alloc *alloc, u64 now_ns)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    struct task_struct *task = bpf_get_current_task_btf();
    /* malloc() has returned; what called it is found by the call, not by what comes behind that. */
    struct registers user = {.pc = ctx->ip - !alloc->in_heap, .sp = ctx->sp, .fp = ctx->bp};
    if (process && process->ignored)
        return;
    if (!process && now_ns - alloc_asked_ns > ASK_NS) { /* so that the user's half learns of it */
        alloc_asked_ns = now_ns;
        send_copy(ctx, 0, &user, 0, 0, now_ns, slot);
    }
    begin(&sample->head, SAMPLE_ALLOC, alloc->size, now_ns);
    fill(ctx, sample, process, &user, task, 0, slot);
    if (!process)
        sample->head.end = END_GONE;
    struct sampler_sample *head = &sample->head;
    u64 at = head->kernel_words + head->user_words + head->python_words;
    HIDE(at);
    if (at > SAMPLER_WORDS - sizeof(*alloc) / 8) { /* too deep to have room for it */
        head->kernel_words = head->user_words = head->python_words = 0;
        head->end = END_DEPTH;
        at = 0;
    }
    HIDE(at);
    if (at > SAMPLER_WORDS - sizeof(*alloc) / 8 ||
        bpf_probe_read_kernel(&sample->words[at], sizeof(*alloc), alloc))
        return;
    send(sample, sizeof(*head) + at * 8 + sizeof(*alloc));
}

static __always_inline void alloc_made(struct pt_regs *ctx, u64 address, u64 size, u32 in_heap)
{
    u32 slot;
    u32 *busy = take_slot(&slot);
    struct sample *sample = busy ? bpf_map_lookup_elem(&scratch, &slot) : 0;
    if (!sample) {
        count(COUNT_LOST);
        if (busy)
            *busy = 0;
        return;
    }
    u64 now_ns = bpf_ktime_get_ns();
    struct sampler_live key = {.address = address, .pid = bpf_get_current_pid_tgid() >> 32};
    struct sampler_alloc alloc = {.address = address, .size = size, .followed = !in_heap, .in_heap = in_heap};
    if (!in_heap && bpf_map_update_elem(&alive, &key, &now_ns, BPF_ANY)) {
        alloc.followed = 0;
        count(COUNT_NOT_FOLLOWED);
    }
    alloc_send(ctx, sample, slot, &alloc, now_ns);
    *busy = 0;
}

/* The call that this is the end of, copied and forgotten. */
static __always_inline int alloc_end(struct pt_regs *ctx, struct alloc_call *ret_call)
{
    u32 tid = (u32)bpf_get_current_pid_tgid();
    struct alloc_call *call = bpf_map_lookup_elem(&alloc_calls, &tid);
    if (!call || call->sp + 8 != ctx->sp)
        return 0;
    *ret_call = *call;
    bpf_map_delete_elem(&alloc_calls, &tid);
    return 1;
}

SEC("uprobe")
int on_malloc(struct pt_regs *ctx)
{
    RUN(alloc_begin(ctx, ctx->di, 0, 0));
    return 0;
}

SEC("uprobe")
int on_calloc(struct pt_regs *ctx)
{
    RUN(alloc_begin(ctx, ctx->di * ctx->si, 0, 0));
    return 0;
}

SEC("uprobe")
int on_realloc(struct pt_regs *ctx)
{
    RUN(alloc_begin(ctx, ctx->si, ctx->di, 1));
    return 0;
}

/* aligned_alloc(), memalign() */
SEC("uprobe")
int on_aligned(struct pt_regs *ctx)
{
    RUN(alloc_begin(ctx, ctx->si, 0, 0));
    return 0;
}

SEC("uprobe")
int on_posix_memalign(struct pt_regs *ctx)
{
    RUN(alloc_begin(ctx, ctx->dx, ctx->di, 0));
    return 0;
}

SEC("uprobe")
int on_free(struct pt_regs *ctx)
{
    RUN(if (ctx->di && wanted(bpf_get_current_pid_tgid() >> 32) && concerns(ctx)) alloc_forget(ctx->di));
    return 0;
}

static __always_inline void alloc_returned(struct pt_regs *ctx)
{
    struct alloc_call call;
    if (!alloc_end(ctx, &call))
        return;
    if (call.is_realloc && (ctx->ax || !call.size))
        alloc_forget(call.old);
    if (call.sampled && ctx->ax)
        alloc_made(ctx, ctx->ax, call.size, 0);
}

SEC("uretprobe")
int on_alloc_return(struct pt_regs *ctx)
{
    RUN(alloc_returned(ctx));
    return 0;
}

static __always_inline void posix_returned(struct pt_regs *ctx)
{
    struct alloc_call call;
    u64 address;
    if (!alloc_end(ctx, &call) || !call.sampled || (int)ctx->ax ||
        bpf_probe_read_user(&address, sizeof(address), (void *)call.old))
        return;
    alloc_made(ctx, address, call.size, 0);
}

SEC("uretprobe")
int on_posix_return(struct pt_regs *ctx)
{
    RUN(posix_returned(ctx));
    return 0;
}

/* Of virtual machines that divide their heap themselves: a thread has used up a piece of it, or takes one
 * for a large object, whose size is one of the function's parameters. */
static __always_inline void heap_used(struct pt_regs *ctx, u64 bytes)
{
    if (wanted(bpf_get_current_pid_tgid() >> 32) && concerns(ctx))
        alloc_made(ctx, 0, bytes, 1);
}

SEC("uprobe")
int on_heap_second(struct pt_regs *ctx)
{
    RUN(heap_used(ctx, (u32)ctx->si));
    return 0;
}

/* The number in the program's cookie. */
static __always_inline u32 cookie_bytes(struct pt_regs *ctx)
{
    return (u32)bpf_get_attach_cookie(ctx);
}

/* The parameter's type is int, or as large as a register: the cookie has its size. */
SEC("uprobe")
int on_heap_third(struct pt_regs *ctx)
{
    RUN(heap_used(ctx, cookie_bytes(ctx) == sizeof(u32) ? (u32)ctx->dx : ctx->dx));
    return 0;
}

/* V8 from Node 22 on: a function whose object (its first parameter) gets an area of the heap, from which the
 * next objects are taken. The object is { methods, allocator }, the allocator { thread's heap or 0 for a
 * collector's, ... }, with a pointer to { begin, next, end } of its area where the program's cookie says. */
enum { AREA_MOST = 1 << 20 };

static __always_inline u64 user_word(u64 address)
{
    u64 word = 0;
    bpf_probe_read_user(&word, sizeof(word), (void *)address);
    return word;
}

static __always_inline void heap_area_begins(struct pt_regs *ctx)
{
    u64 id = bpf_get_current_pid_tgid(), allocator;
    u32 tid = (u32)id;
    if (!wanted(id >> 32) || !(allocator = user_word(ctx->di + 8)) || !user_word(allocator))
        return;
    bpf_map_update_elem(&heap_owners, &tid, &allocator, BPF_ANY);
}

SEC("uprobe")
int on_heap_area(struct pt_regs *ctx)
{
    RUN(heap_area_begins(ctx));
    return 0;
}

static __always_inline void heap_area_ends(struct pt_regs *ctx)
{
    u32 tid = (u32)bpf_get_current_pid_tgid();
    u64 *owner = bpf_map_lookup_elem(&heap_owners, &tid), area[3];
    if (!owner)
        return;
    u64 at = user_word(*owner + cookie_bytes(ctx));
    bpf_map_delete_elem(&heap_owners, &tid);
    if (!(ctx->ax & 0xff) || bpf_probe_read_user(area, sizeof(area), (void *)at))
        return; /* all is used up: garbage is to be collected */
    if (area[0] <= area[1] && area[1] < area[2] && area[2] - area[1] <= AREA_MOST)
        heap_used(ctx, area[2] - area[1]);
}

SEC("uretprobe")
int on_heap_area_end(struct pt_regs *ctx)
{
    RUN(heap_area_ends(ctx));
    return 0;
}

/* A function that returns true for another page of the heap, or false when all are used up, too, and garbage
 * has to be collected; before that, it is asked once more. The program's cookie is the size of a page. */
SEC("uretprobe")
int on_heap_page(struct pt_regs *ctx)
{
    u32 tid = (u32)bpf_get_current_pid_tgid(), one = 1;
    if (!concerns(ctx))
        return 0;
    u32 *failed = bpf_map_lookup_elem(&heap_failed, &tid);
    int fails = !(ctx->ax & 0xff), again = failed && *failed && fails;
    if (failed)
        *failed = fails;
    else if (fails)
        bpf_map_update_elem(&heap_failed, &tid, &one, BPF_ANY);
    if (!again)
        RUN(heap_used(ctx, cookie_bytes(ctx)));
    return 0;
}

#endif
