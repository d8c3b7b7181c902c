/* Waits for futexes, for `sonde profile --event lock`: part of sampler.bpf.c, where the programs are loaded
 * only for that event. No program hangs on a system call: the call that a thread waits or wakes others in is
 * read from its registers when the scheduler turns from it, or is told to wake another. Three records go to
 * user space: the stack that begins to wait, the stack that ends the wait, and the wait's length. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_LOCKS_H
#define BPF_LOCKS_H

/* x86-64's numbers; the last two since Linux 6.7. */
enum { CALL_FUTEX = 202, CALL_FUTEX_WAKE = 454, CALL_FUTEX_WAIT = 455 };

/* The operations of the first, without their flags. */
enum {
    OPERATION_WAIT = 0,
    OPERATION_WAKE = 1,
    OPERATION_REQUEUE = 3,
    OPERATION_CMP_REQUEUE = 4,
    OPERATION_WAKE_OP = 5,
    OPERATION_LOCK_PI = 6,
    OPERATION_UNLOCK_PI = 7,
    OPERATION_WAIT_BITSET = 9,
    OPERATION_WAKE_BITSET = 10,
    OPERATION_WAIT_REQUEUE_PI = 11,
    OPERATION_CMP_REQUEUE_PI = 12,
    OPERATION_LOCK_PI2 = 13,
    OPERATION_MASK = 0x7f,
};

#define WAITS                                                                       \
    (1u << OPERATION_WAIT | 1u << OPERATION_LOCK_PI | 1u << OPERATION_WAIT_BITSET | \
     1u << OPERATION_WAIT_REQUEUE_PI | 1u << OPERATION_LOCK_PI2)
#define WAKES                                                                            \
    (1u << OPERATION_WAKE | 1u << OPERATION_REQUEUE | 1u << OPERATION_CMP_REQUEUE |      \
     1u << OPERATION_WAKE_OP | 1u << OPERATION_UNLOCK_PI | 1u << OPERATION_WAKE_BITSET | \
     1u << OPERATION_CMP_REQUEUE_PI)

/* A thread that waits. */
struct lock_wait {
    u64 start_ns;
    u64 ready_ns; /* when it was woken; 0: not yet */
    u64 address;
    u32 pid;
    struct sampler_lock_end end;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, struct lock_wait);
    __uint(max_entries, 1);
} lock_waits SEC(".maps");

static __always_inline int is_operation(u64 operation, u32 set)
{
    u32 number = operation & OPERATION_MASK;
    return number < 32 && set >> number & 1;
}

/* The wait of a thread that has a CPU again. */
static __always_inline void end_lock_wait(u32 tid, struct lock_wait *wait, u64 back_ns)
{
    struct {
        struct sampler_sample head;
        struct sampler_lock_end end;
    } *record = bpf_ringbuf_reserve(&samples, sizeof(*record), 0);
    if (record) {
        __builtin_memset(&record->head, 0, sizeof(record->head));
        record->head.time_ns = wait->start_ns;
        record->head.weight = back_ns - wait->start_ns;
        record->head.ready_ns = wait->ready_ns && back_ns > wait->ready_ns ? back_ns - wait->ready_ns : 0;
        record->head.pid = wait->pid;
        record->head.tid = tid;
        record->head.kind = SAMPLE_LOCK_END;
        record->end = wait->end;
        bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    } else {
        count(COUNT_LOST);
    }
    bpf_map_delete_elem(&lock_waits, &tid);
}

/* Which futex a thread waits for; 0: for none. */
static __always_inline int read_lock(struct task_struct *task, struct sampler_lock *ret_lock)
{
    struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
    u64 call = registers->orig_ax;
    if (call == CALL_FUTEX && is_operation(registers->si, WAITS)) {
        ret_lock->operation = registers->si;
        ret_lock->expected = registers->dx;
    } else if (call == CALL_FUTEX_WAIT) {
        ret_lock->operation = OPERATION_WAIT_BITSET;
        ret_lock->expected = registers->si;
    } else {
        return 0;
    }
    ret_lock->address = registers->di;
    if (bpf_probe_read_user(ret_lock->words, sizeof(ret_lock->words), (void *)ret_lock->address) == 0)
        ret_lock->known = 5;
    else if (bpf_probe_read_user(ret_lock->words, sizeof(u32), (void *)ret_lock->address) == 0)
        ret_lock->known = 1;
    return 1;
}

/* Sends a stack with the futex behind it. */
static __always_inline void send_lock(struct sample *sample, const struct sampler_lock *lock)
{
    struct sampler_sample *head = &sample->head;
    u64 at = head->kernel_words + head->user_words + head->python_words;
    HIDE(at);
    if (at > SAMPLER_WORDS - sizeof(*lock) / 8) { /* too deep to have room for it */
        head->kernel_words = head->user_words = head->python_words = 0;
        head->end = END_DEPTH;
        at = 0;
    }
    HIDE(at);
    if (at > SAMPLER_WORDS - sizeof(*lock) / 8 ||
        bpf_probe_read_kernel(&sample->words[at], sizeof(*lock), lock))
        return;
    send(sample, sizeof(*head) + at * 8 + sizeof(*lock));
}

static __always_inline void leave_for_lock(void *ctx, _Bool preempt, struct task_struct *previous, u32 pid,
                                           u32 tid)
{
    u32 slot = 1;
    u64 now_ns = bpf_ktime_get_ns();
    struct lock_wait *unseen = bpf_map_lookup_elem(&lock_waits, &tid), wait = {};
    if (unseen) { /* as in on_switch: it was not seen to come back */
        u64 back_ns = back_since_ns(previous, now_ns);
        if (back_ns > unseen->start_ns) {
            end_lock_wait(tid, unseen, back_ns);
        } else {
            bpf_map_delete_elem(&lock_waits, &tid);
            count(COUNT_LOST);
        }
    }
    struct task_struct *task = bpf_get_current_task_btf();
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    struct sample *sample = bpf_map_lookup_elem(&scratch, &slot);
    struct registers user = {};
    struct sampler_lock lock = {};
    if (!sample || (process && process->ignored) || !user_registers(task, &user))
        return;
    if (!process) /* so that the user's half learns of it, before it waits if possible */
        send_copy(ctx, 0, &user, 0, 0, now_ns, slot);
    if (preempt || !read_lock(task, &lock))
        return;
    begin(&sample->head, SAMPLE_LOCK, 0, now_ns);
    fill(ctx, sample, process, &user, task, 0, slot);
    if (!process)
        sample->head.end = END_GONE;
    send_lock(sample, &lock);
    wait.start_ns = now_ns;
    wait.address = lock.address;
    wait.pid = pid;
    bpf_map_update_elem(&lock_waits, &tid, &wait, BPF_ANY);
}

static __always_inline void lock_switched(void *ctx, _Bool preempt, struct task_struct *previous,
                                          struct task_struct *next)
{
    u32 pid = BPF_CORE_READ(previous, tgid), tid = BPF_CORE_READ(previous, pid);
    if (tid && wanted(pid))
        leave_for_lock(ctx, preempt, previous, pid, tid);
    tid = BPF_CORE_READ(next, pid);
    struct lock_wait *wait = tid ? bpf_map_lookup_elem(&lock_waits, &tid) : 0;
    if (wait)
        end_lock_wait(tid, wait, bpf_ktime_get_ns());
}

SEC("raw_tp/sched_switch")
int BPF_PROG(on_lock_switch, _Bool preempt, struct task_struct *previous, struct task_struct *next)
{
    RUN(lock_switched(ctx, preempt, previous, next));
    return 0;
}

/* Whether the thread that runs wakes waiters of this futex. Another process has it at another address. */
static __always_inline int wakes_waiters(struct task_struct *task, const struct lock_wait *wait)
{
    struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
    u64 call = registers->orig_ax;
    if (call != CALL_FUTEX_WAKE && !(call == CALL_FUTEX && is_operation(registers->si, WAKES)))
        return 0;
    return BPF_CORE_READ(task, tgid) != wait->pid || registers->di == wait->address ||
           registers->r8 == wait->address;
}

static __always_inline void lock_waking(void *ctx, struct task_struct *task)
{
    u32 tid = BPF_CORE_READ(task, pid), slot = 1;
    struct lock_wait *wait = bpf_map_lookup_elem(&lock_waits, &tid);
    if (!wait || wait->ready_ns)
        return;
    u64 now_ns = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32;
    struct task_struct *waker = bpf_get_current_task_btf();
    struct registers user = {};
    wait->ready_ns = now_ns;
    wait->end.pid = pid;
    wait->end.tid = (u32)id;
    bpf_get_current_comm(wait->end.name, sizeof(wait->end.name));
    wait->end.woken = WOKEN_OTHER;
    if (!user_registers(waker, &user) || !wakes_waiters(waker, wait))
        return;
    wait->end.woken = WOKEN_FUTEX;
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    struct sample *sample = bpf_map_lookup_elem(&scratch, &slot);
    if (!sample || !process || process->ignored)
        return;
    begin(&sample->head, SAMPLE_LOCK_WAKER, tid, now_ns);
    send(sample, fill(ctx, sample, process, &user, waker, 0, slot));
}

SEC("raw_tp/sched_waking")
int BPF_PROG(on_lock_waking, struct task_struct *task)
{
    RUN(lock_waking(ctx, task));
    return 0;
}

#endif
