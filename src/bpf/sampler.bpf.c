/* The sampler in the kernel: at each tick of a perf event, and whenever a thread was off the CPU for long
 * enough, walks the kernel's stack, the native stack (by compiled unwind rows, frame pointers, or V8's and
 * HotSpot's frames) and CPython's frames, and sends them. Processes that are not known yet are sent as a copy
 * of their stack. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "bpf/owner.h"
#include "bpf/walk.h"
#include "unwind/sampler.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile unsigned int only_targets = 0;         /* 1: only processes in `targets` */
const volatile unsigned long long off_cpu_min_ns = 0; /* shorter waits are not sent */
const volatile unsigned int want_kernel = 1;
const volatile unsigned int want_wakers = 0; /* 1: the stacks of who ends waits, too */
const volatile unsigned int own_pid = 0;     /* the agent does not sample itself */
const volatile unsigned int want_births = 0; /* 1: news of processes that are wanted go to `births` */

const volatile unsigned int ticks_alone = 0; /* 1: nothing but ticks sends stacks */

unsigned long long started_ns;      /* when the clock was set */
unsigned long long clock_period_ns; /* on average, of a clock; 0: another event. The rate may change */
unsigned long long clock_limit_ns;  /* a longer time between two ticks is a gap */
unsigned int can_wake;              /* 1: the user's half waits to be woken */

/* A question of the user's half, and the answer of on_name(). */
unsigned long long kernel_address;
char kernel_name[SAMPLER_KERNEL_NAME];

struct copy {
    struct sampler_sample head;
    struct registers registers;
    u8 stack[SAMPLER_COPY_BYTES +
             SAMPLER_KERNEL * 8]; /* as far as it was read; behind it the kernel's frames */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, struct sampler_process);
    __uint(max_entries, 8192);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, u32);
    __uint(max_entries, 65536);
} targets SEC(".maps");

/* Processes of which something was sent, so that the user's half must learn what becomes of them: of the many
 * that come and go between two ticks it need not know. Of one that had to give way because so many were sent
 * lately, it knows without that that it has ended (sampler_tidy()). */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, u8);
    __uint(max_entries, 8192);
} sent SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct sample);
    __uint(max_entries, 2); /* one for ticks, one for switches: a tick may interrupt a switch */
} scratch SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct cache);
    __uint(max_entries, 2);
} caches SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct copy);
    __uint(max_entries, 2);
} copies SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, SAMPLER_RING_BYTES);
} samples SEC(".maps");

/* News for who follows processes to put breakpoints into them. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
} births SEC(".maps");

/* Stacks of threads that left the CPU, until they are back. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, struct sample);
    __uint(max_entries, 1);
} waiting SEC(".maps");

/* Who woke them, until they run. */
struct wake {
    u64 ready_ns;
    struct sampler_waker by;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, struct wake);
    __uint(max_entries, 1);
} wakes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct wake);
    __uint(max_entries, 1);
} wake_scratch SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, u64);
    __uint(max_entries, COUNT_MAX);
} counts SEC(".maps");

static __always_inline void add(u32 what, u64 more)
{
    u64 *n = bpf_map_lookup_elem(&counts, &what);
    if (n)
        __sync_fetch_and_add(n, more); /* programs of uprobes are preempted */
}

static __always_inline void count(u32 what)
{
    add(what, 1);
}

/* The programs measure themselves, as activity.bpf.c's do (bpf/runs.h): those at ticks each time, the others,
 * which run far more often, now and then. */
static __always_inline u64 run_begins(void)
{
    u32 what = COUNT_RUNS;
    u64 *n = bpf_map_lookup_elem(&counts, &what);
    return n && ++*n % SAMPLER_TIMED_RUNS == 0 ? bpf_ktime_get_ns() : 0;
}

#define RUN(statement)                                           \
    do {                                                         \
        u64 begun_ns_ = run_begins();                            \
        statement;                                               \
        if (begun_ns_)                                           \
            add(COUNT_TIMED_NS, bpf_ktime_get_ns() - begun_ns_); \
    } while (0)

/* ---- samples ---- */

#define PF_KTHREAD 0x00200000

static __always_inline void begin(struct sampler_sample *head, u32 kind, u64 weight, u64 now_ns)
{
    u64 id = bpf_get_current_pid_tgid();
    head->time_ns = now_ns;
    head->weight = weight;
    head->pid = id >> 32;
    head->tid = (u32)id;
    head->kind = kind;
    head->end = END_COMPLETE;
    head->ready_ns = head->unloads = 0;
    head->kernel_words = head->user_words = head->python_words = 0;
    head->cpu = bpf_get_smp_processor_id();
    head->user = (u32)bpf_get_current_uid_gid();
    head->goroutine = 0;
    head->owner.user_namespace = 0;
    bpf_get_current_comm(head->name, sizeof(head->name));
}

static __always_inline void count_unloads(struct sampler_sample *head, struct sampler_process *process)
{
    u64 unloads;
    if (process->unloads_address &&
        bpf_probe_read_user(&unloads, sizeof(unloads), (void *)process->unloads_address) == 0)
        head->unloads = unloads + 1;
}

/* Fills in the stacks; the number of bytes to send. user: NULL when it has no stack there. */
static __always_inline u32 fill(void *ctx, struct sample *sample, struct sampler_process *process,
                                struct registers *user, struct task_struct *task, int in_kernel, u32 slot)
{
    struct walk w = {.process = process, .sample = sample};
    u32 before = 0;
    w.cache = bpf_map_lookup_elem(&caches, &slot);
    if (!w.cache)
        return 0;
    if (want_kernel && in_kernel) {
        long n = bpf_get_stack(ctx, sample->words, SAMPLER_KERNEL * 8, 0);
        before = n > 0 ? (u32)n / 8 : 0;
    }
    sample->at = before;
    sample->mapping = sample->unmet = 0;
    sample->window_at = -sizeof(sample->window);
    sample->head.kernel_words = before;
    if (process && user) {
        sample->r = *user;
        sample->end = END_DEPTH;
        bpf_loop(SAMPLER_DEPTH, step, &w, 0);
        sample->head.user_words = sample->at - before;
        before = sample->at;
        count_unloads(&sample->head, process);
        if (process->python.key_address)
            walk_python(process, sample, task);
        else if (process->ruby.module_address)
            walk_ruby(process, sample, task);
        sample->head.python_words = sample->at - before;
        sample->head.end = sample->end;
    } else if (BPF_CORE_READ(task, flags) & PF_KTHREAD) {
        sample->head.end = END_KERNEL;
    }
    u32 at = sample->at;
    if (at > SAMPLER_WORDS) {
        at = SAMPLER_WORDS;
        if (sample->head.kernel_words + sample->head.user_words > SAMPLER_WORDS) {
            sample->head.user_words = SAMPLER_WORDS - SAMPLER_KERNEL;
            sample->head.kernel_words = 0;
            sample->head.end = END_DEPTH;
        }
        sample->head.python_words = 0;
    }
    return sizeof(struct sampler_sample) + at * 8;
}

/* At low rates the user's half sleeps until something comes that it must see at once: a process that it does
 * not know, and names that are in a process's memory alone. The rest it takes when it comes by. */
static __always_inline u64 wakes_up(void)
{
    return can_wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline int names_pass(struct sampler_process *process, u32 end)
{
    return end != END_COMPLETE || process->has_script || process->java_high || process->python.key_address ||
           process->ruby.module_address;
}

static __always_inline void send_with(struct sample *sample, u64 size, u64 flags)
{
    HIDE(size);
    if (size > sizeof(sample->head) + sizeof(sample->words))
        size = sizeof(sample->head) + sizeof(sample->words);
    HIDE(size);
    if (bpf_ringbuf_output(&samples, sample, size, flags))
        count(COUNT_LOST);
}

static __always_inline void send(struct sample *sample, u64 size)
{
    send_with(sample, size, BPF_RB_NO_WAKEUP);
}

/* The top of the stack; how many pages of it. By pages, because some in the middle may never have been
 * touched: those are zero. */
VERIFIED_ALONE int copy_stack(struct copy *copy)
{
    if (!copy)
        return 0;
    u64 from = (copy->registers.sp - SAMPLER_RED_ZONE) & ~(SAMPLER_COPY_STEP - 1ull);
    u32 pages = 0, limit = SAMPLER_COPY_STEPS;
    /* While the user's half is busy, room for more of them matters more. */
    u64 waiting_bytes = bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA);
    if (waiting_bytes > SAMPLER_RING_BYTES / 4)
        limit = waiting_bytes > SAMPLER_RING_BYTES / 2 ? 1 : 2;
#pragma unroll
    for (u32 i = 0; i < SAMPLER_COPY_STEPS; i++) {
        if (i <= limit && /* the first may hold little of the stack */
            bpf_probe_read_user(copy->stack + i * SAMPLER_COPY_STEP, SAMPLER_COPY_STEP,
                                (void *)(from + i * SAMPLER_COPY_STEP)) == 0)
            pages = i + 1;
        HIDE(pages);
    }
    return pages;
}

/* Registers and stack of a process without tables (NULL), or with code that was not there when they were
 * made. */
static __always_inline void send_copy(void *ctx, struct sampler_process *process, struct registers *user,
                                      int in_kernel, u64 weight, u64 now_ns, u32 slot)
{
    struct copy *copy = bpf_map_lookup_elem(&copies, &slot);
    if (!copy)
        return;
    begin(&copy->head, SAMPLE_COPY, weight, now_ns);
    note_owner(&copy->head.owner, bpf_get_current_task_btf());
    if (process)
        count_unloads(&copy->head, process);
    copy->registers = *user;
    u64 pages = copy_stack(copy);
    HIDE(pages);
    if (pages > SAMPLER_COPY_STEPS)
        pages = SAMPLER_COPY_STEPS;
    HIDE(pages);
    u64 size = sizeof(struct sampler_sample) + sizeof(copy->registers) + pages * SAMPLER_COPY_STEP;
    copy->head.user_words = 3 + pages * (SAMPLER_COPY_STEP / 8);
    if (want_kernel && in_kernel) {
        long n = bpf_get_stack(ctx, copy->stack + pages * SAMPLER_COPY_STEP, SAMPLER_KERNEL * 8, 0);
        copy->head.kernel_words = n > 0 ? (u32)n / 8 : 0;
        size += copy->head.kernel_words * 8;
    }
    HIDE(size);
    if (size > sizeof(*copy))
        size = sizeof(*copy);
    HIDE(size);
    count(COUNT_UNKNOWN);
    if (bpf_ringbuf_output(&samples, copy, size, wakes_up()))
        count(COUNT_LOST);
}

static __always_inline int wanted(u32 pid)
{
    if (pid == own_pid)
        return 0;
    if (!only_targets)
        return 1;
    u32 *target = bpf_map_lookup_elem(&targets, &pid);
    return target && *target == TARGET_RUNS;
}

/* None in the kernel's own threads (also while they use a process's memory), in a process that is about to
 * end, in io_uring's workers, which never leave the kernel, and while a new program takes the place of one
 * whose memory is gone. */
static __always_inline int user_registers(struct task_struct *task, struct registers *ret_user)
{
    if (BPF_CORE_READ(task, flags) & PF_KTHREAD || !BPF_CORE_READ(task, mm))
        return 0;
    struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
    u64 word;
    if (BPF_CORE_READ_BITFIELD_PROBED(task, in_execve) &&
        bpf_probe_read_user(&word, sizeof(word), (void *)registers->sp))
        return 0;
    *ret_user = (struct registers){.pc = registers->ip, .sp = registers->sp, .fp = registers->bp};
    return ret_user->pc != 0;
}

/* What a tick stands for. The clock's period is changed at random all the time, which restarts it; so a tick
 * stands for the time since the one before, on this CPU. After a longer gap the machine itself stood
 * still. */
static __always_inline u64 weigh(struct bpf_perf_event_data *ctx, struct sample *sample, u64 now_ns)
{
    if (!clock_period_ns)
        return ctx->sample_period;
    u64 elapsed = now_ns - (sample->tick_ns ?: started_ns);
    sample->tick_ns = now_ns;
    return elapsed < clock_limit_ns ? elapsed : clock_period_ns;
}

static __always_inline void note_sent(u32 pid)
{
    u8 yes = 1;
    if (ticks_alone && !bpf_map_lookup_elem(&sent, &pid))
        bpf_map_update_elem(&sent, &pid, &yes, BPF_ANY);
}

/* Has the user's half no business with it? Then what it has of its parent's is forgotten. Before that, all
 * that is sent of it must be noted. */
static __always_inline int passes_unseen(u32 pid)
{
    if (!ticks_alone)
        return 0;
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    int seen = bpf_map_lookup_elem(&sent, &pid) != 0;
    if (seen)
        bpf_map_delete_elem(&sent, &pid);
    if (seen || (process && process->pid == pid))
        return 0;
    if (process)
        bpf_map_delete_elem(&processes, &pid);
    return 1;
}

static __always_inline void tick(struct bpf_perf_event_data *ctx, u64 now_ns)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32, slot = 0;
    struct sample *sample = bpf_map_lookup_elem(&scratch, &slot);
    if (!sample)
        return;
    u64 weight = weigh(ctx, sample, now_ns);
    count(COUNT_TICKS);
    if ((u32)bpf_get_current_pid_tgid() == 0 || !wanted(pid)) /* idle */
        return;
    struct task_struct *task = bpf_get_current_task_btf();
    struct registers user = {.pc = ctx->regs.ip, .sp = ctx->regs.sp, .fp = ctx->regs.bp};
    int in_kernel = (s64)user.pc <= 0, has_user = !in_kernel || user_registers(task, &user);
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    if (process && process->ignored)
        return;
    note_sent(pid);
    if (process || !has_user) {
        count(COUNT_SAMPLES);
        begin(&sample->head, SAMPLE_CPU, weight, now_ns);
        u32 size = fill(ctx, sample, process, has_user ? &user : 0, task, in_kernel, slot);
        u32 end = sample->head.end;
        int again = (end == END_NO_MODULE || end == END_NO_ROW) &&
                    (sample->unmet || (process && now_ns < process->young_until_ns));
        if (!process || !has_user || !again) {
            send_with(sample, size,
                      process && has_user && names_pass(process, end) ? wakes_up() : BPF_RB_NO_WAKEUP);
            return;
        }
    }
    send_copy(ctx, process, &user, in_kernel, weight, now_ns, slot);
}

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
    u64 begun_ns = bpf_ktime_get_ns();
    tick(ctx, begun_ns);
    add(COUNT_TICKS_NS, bpf_ktime_get_ns() - begun_ns);
    return 0;
}

/* ---- off the CPU ---- */

/* Puts the waker behind the sample's words, where there is room; how many words. */
static __always_inline u32 add_waker(struct sample *sample, const struct wake *wake, u32 words)
{
    u64 at = words;
    HIDE(at);
    if (at > SAMPLER_WORDS - sizeof(wake->by) / 8)
        return 0;
    HIDE(at);
    return bpf_probe_read_kernel(&sample->words[at], sizeof(wake->by), &wake->by) ? 0 : sizeof(wake->by) / 8;
}

/* Sends the wait of a thread that is back on a CPU, if it was long enough, and forgets it. */
VERIFIED_ALONE int end_wait(struct sample *sample, u32 tid, u64 back_ns)
{
    if (!sample)
        return 0;
    u64 waited = back_ns - sample->head.time_ns;
    struct wake *wake = bpf_map_lookup_elem(&wakes, &tid);
    if (waited >= off_cpu_min_ns) {
        sample->head.weight = waited;
        /* What nobody woke did not sleep: it was preempted, or gave way to others. */
        sample->head.ready_ns = !wake ? waited : back_ns > wake->ready_ns ? back_ns - wake->ready_ns : 0;
        u32 words = sample->head.kernel_words + sample->head.user_words + sample->head.python_words;
        if (words > SAMPLER_WORDS)
            words = SAMPLER_WORDS;
        send(sample,
             sizeof(struct sampler_sample) + (words + (wake ? add_waker(sample, wake, words) : 0)) * 8);
    }
    bpf_map_delete_elem(&waiting, &tid);
    if (wake)
        bpf_map_delete_elem(&wakes, &tid);
    return 0;
}

/* When a thread that is about to leave its CPU got it, by the scheduler's account; 0: it keeps none. */
static __always_inline u64 back_since_ns(struct task_struct *task, u64 now_ns)
{
    if (!bpf_core_field_exists(task->sched_info.last_arrival) || !bpf_core_field_exists(task->se.cfs_rq))
        return 0;
    return now_ns -
           (BPF_CORE_READ(task, se.cfs_rq, rq, clock) - BPF_CORE_READ(task, sched_info.last_arrival));
}

static __always_inline void switched(void *ctx, struct task_struct *previous, struct task_struct *next)
{
    u32 pid = BPF_CORE_READ(previous, tgid), tid = BPF_CORE_READ(previous, pid), slot = 1;
    if (tid && wanted(pid)) {
        struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
        struct sample *sample = bpf_map_lookup_elem(&scratch, &slot);
        if (sample && !(process && process->ignored)) {
            struct task_struct *task = bpf_get_current_task_btf();
            struct registers user = {0};
            u64 now_ns = bpf_ktime_get_ns();
            int has_user = user_registers(task, &user);
            /* It was not seen to come back: the tracepoint is silent for some of the threads from which
             * others take over. */
            struct sample *unseen = bpf_map_lookup_elem(&waiting, &tid);
            if (unseen) {
                u64 back_ns = back_since_ns(previous, now_ns);
                if (back_ns > unseen->head.time_ns)
                    end_wait(unseen, tid, back_ns);
                else
                    count(COUNT_LOST);
            }
            begin(&sample->head, SAMPLE_OFF, 0, now_ns);
            fill(ctx, sample, process, has_user ? &user : 0, task, 1, slot);
            if (!process && has_user) {
                /* The user's half learns of the process; this wait gets the kernel's frames only. */
                send_copy(ctx, 0, &user, 0, 0, now_ns, slot);
                sample->head.end = END_GONE;
            }
            bpf_map_delete_elem(&wakes, &tid);
            bpf_map_update_elem(&waiting, &tid, sample, BPF_ANY);
        }
    }
    tid = BPF_CORE_READ(next, pid);
    if (!tid)
        return;
    struct sample *sample = bpf_map_lookup_elem(&waiting, &tid);
    if (!sample)
        return;
    end_wait(sample, tid, bpf_ktime_get_ns());
}

SEC("raw_tp/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *previous, struct task_struct *next)
{
    RUN(switched(ctx, previous, next));
    return 0;
}

/* The stack of the thread that runs, which wakes another one. In an interrupt it is not its doing: that shows
 * in the kernel's frames, to the user's half. */
static __always_inline void send_waker(void *ctx, u32 tid, u64 now_ns)
{
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32, slot = 1;
    struct task_struct *waker = bpf_get_current_task_btf();
    struct registers user = {};
    int has_user = user_registers(waker, &user);
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    struct sample *sample = bpf_map_lookup_elem(&scratch, &slot);
    if (!sample || !(u32)id || (has_user && !process) || (process && process->ignored))
        return;
    begin(&sample->head, SAMPLE_WAKER, tid, now_ns);
    send(sample, fill(ctx, sample, process, has_user ? &user : 0, waker, 1, slot));
}

/* Not sched_wakeup, which may come in an interrupt of the CPU that the thread goes to. */
static __always_inline void waking(void *ctx, struct task_struct *task)
{
    u32 tid = BPF_CORE_READ(task, pid), slot = 0;
    struct sample *waits = bpf_map_lookup_elem(&waiting, &tid);
    if (!waits)
        return;
    u64 since_ns = waits->head.time_ns;
    struct wake *wake = bpf_map_lookup_elem(&wake_scratch, &slot);
    if (!wake)
        return;
    u64 id = bpf_get_current_pid_tgid();
    wake->ready_ns = bpf_ktime_get_ns();
    wake->by.pid = id >> 32;
    wake->by.tid = (u32)id;
    bpf_get_current_comm(wake->by.name, sizeof(wake->by.name));
    __builtin_memset(wake->by.frames, 0, sizeof(wake->by.frames));
    bpf_get_stack(ctx, wake->by.frames, sizeof(wake->by.frames), 0);
    u64 now_ns = wake->ready_ns;
    if (bpf_map_update_elem(&wakes, &tid, wake, BPF_NOEXIST)) /* the first made it ready */
        return;
    if (want_wakers && now_ns - since_ns >= off_cpu_min_ns)
        send_waker(ctx, tid, now_ns);
}

SEC("raw_tp/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
    RUN(waking(ctx, task));
    return 0;
}

/* Is the breakpoint that was passed one for this process? */
static __always_inline int concerns(struct pt_regs *ctx)
{
    u32 only = bpf_get_attach_cookie(ctx) >> 32;
    return !only || only == bpf_get_current_pid_tgid() >> 32;
}

/* A uprobe's program may be preempted by another one on the same CPU: each takes a place that is free. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, u32);
    __uint(max_entries, SAMPLER_ALLOC_SLOTS);
} alloc_slots SEC(".maps");

/* What is to be set to 0 afterwards; NULL: all are taken. */
static __always_inline u32 *take_slot(u32 *ret_slot)
{
    u32 *busy = 0;
    *ret_slot = SAMPLER_ALLOC_SLOTS;
#pragma unroll
    for (u32 i = 0; i < SAMPLER_ALLOC_SLOTS; i++) {
        u32 key = i;
        u32 *at = busy ? 0 : bpf_map_lookup_elem(&alloc_slots, &key);
        if (at && __sync_val_compare_and_swap(at, 0, 1) == 0) {
            busy = at;
            *ret_slot = i;
        }
    }
    return busy;
}

#include "bpf/allocs.h"
#include "bpf/hits.h"
#include "bpf/io.h"
#include "bpf/locks.h"
#include "bpf/goroutines.h"

/* ---- lifecycle ---- */

static __always_inline void send_note(u32 kind, u32 pid, u64 value)
{
    struct sampler_sample *head = bpf_ringbuf_reserve(&samples, sizeof(*head), 0);
    if (!head)
        return;
    begin(head, kind, value, bpf_ktime_get_ns());
    head->pid = pid;
    bpf_ringbuf_submit(head, BPF_RB_NO_WAKEUP);
}

static __always_inline void send_birth(u32 pid, u32 kind)
{
    struct sampler_birth birth = {.time_ns = bpf_ktime_get_ns(), .pid = pid, .kind = kind};
    if (!want_births)
        return;
    if (kind == BIRTH_FORK)
        count(COUNT_BIRTHS);
    bpf_ringbuf_output(&births, &birth, sizeof(birth), BPF_RB_FORCE_WAKEUP);
}

SEC("raw_tp/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
    u32 pid = BPF_CORE_READ(parent, tgid), new_pid = BPF_CORE_READ(child, tgid), runs = TARGET_RUNS;
    if (pid == new_pid || !wanted(pid))
        return 0;
    /* Until it runs another program, it has what its parent has. */
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    if (!process || bpf_map_update_elem(&processes, &new_pid, process, BPF_ANY))
        bpf_map_delete_elem(&processes, &new_pid); /* of one that had this number before */
    if (only_targets)
        bpf_map_update_elem(&targets, &new_pid, &runs, BPF_ANY);
    send_birth(new_pid, BIRTH_FORK);
    return 0;
}

SEC("raw_tp/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
    u32 pid = BPF_CORE_READ(task, tgid), *target = bpf_map_lookup_elem(&targets, &pid);
    if (target)
        *target = TARGET_RUNS;
    if (!wanted(pid))
        return 0;
    if (!passes_unseen(pid)) {
        bpf_map_delete_elem(&processes, &pid);
        send_note(SAMPLE_EXEC, pid, 0);
    }
    send_birth(pid, BIRTH_EXEC);
    return 0;
}

SEC("raw_tp/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
    u32 pid = BPF_CORE_READ(task, tgid);
    if (BPF_CORE_READ(task, signal, live.counter) > 0 || !wanted(pid)) /* other threads live on */
        return 0;
    bpf_map_delete_elem(&targets, &pid);
    if (!passes_unseen(pid))
        send_note(SAMPLE_EXIT, pid, 0);
    send_birth(pid, BIRTH_EXIT);
    return 0;
}

/* ---- names ---- */

/* Run by the user's half: the name of the kernel's function at kernel_address. */
SEC("syscall")
int on_name(void *context)
{
    static const char format[] = "%ps";
    u64 address = kernel_address;
    return bpf_snprintf(kernel_name, sizeof(kernel_name), format, &address, sizeof(address)) < 0;
}
