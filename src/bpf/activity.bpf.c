/* The kernel's side of the traced processes: their system calls, the times their threads were off a
 * CPU and who woke them, their TCP connections and what they ask of disks. Everything else is turned
 * away with a look-up or two. One record per finished thing goes into the ring buffer of its CPU; what finds
 * it full is counted by family.
 *
 * The state of a traced thread lies in its task (task storage): made for all threads of a process when it
 * becomes a target (adopt), and for each that they make; a thread without one is not traced. User space
 * switches families on and off by the word `families`, and by attaching just the programs that they need: a
 * program on system calls costs every task of the host about 150 ns a call, so at the usual level there is
 * none; in which call a thread leaves its CPU is read from its registers then. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "bpf/context.h"
#include "bpf/queues.h"
#include "bpf/runs.h"
#include "bpf/sockets.h"
#include "bpf/threads.h"
#include "bpf/wake.h"
#include "bpf/wakers.h"
#include "event/kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading: sonde's own PID namespace, 0 for the first one. */
const volatile unsigned int pid_namespace = 0;

/* Bits by enum sonde_family, changed while it runs. */
volatile unsigned int families = 0;

/* They grow when the programs that see system calls, or the scheduler, are attached: of a call or a wait that
 * began under another number, the end may have been missed. */
volatile unsigned int calls_attached = 0, sched_attached = 0;

#define WANTED(family) (families & (1u << SONDE_FAMILY_##family))

enum { FOLLOWED = 4096 };
/* Task states, as the kernel has had them for a long time. */
enum { TASK_SLEEPING = 1, TASK_DEEP = 2, TASK_HALTED = 4 | 8 };

/* The traced processes, as sonde's namespace has them. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, u32);
    __type(value, u32);
    __uint(max_entries, 4096);
} targets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct sonde_kernel_counts);
    __uint(max_entries, 1);
} counts SEC(".maps");

/* Connections being made and disk requests under way: whose they are. */
struct started {
    u64 start_ns, queued_ns;
    u32 pid, tid;
    s32 fd;
    u32 bytes;
    u32 resent; /* of a connection: how often it was asked for again */
    u64 sector; /* of a disk's request */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, u64); /* struct sock * */
    __type(value, struct started);
    __uint(max_entries, FOLLOWED);
} connects SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, u64); /* struct request * */
    __type(value, struct started);
    __uint(max_entries, FOLLOWED);
} requests SEC(".maps");

static __always_inline void count(u32 what)
{
    u32 all = 0;
    struct sonde_kernel_counts *n = bpf_map_lookup_elem(&counts, &all);
    if (n)
        n->of[what]++;
}

/* A record, or one more lost of its family. */
#define RECORD(ident, family, end, duration, ...)            \
    do {                                                     \
        struct {                                             \
            struct sonde_kernel_record head;                 \
            struct record_##ident body;                      \
        } *r_ = reserve_record(sizeof(*r_));                 \
        if (r_) {                                            \
            r_->head.end_ns = (end);                         \
            r_->head.duration_ns = (duration);               \
            r_->head.event = SONDE_EVENT_##ident;            \
            r_->head.pad = 0;                                \
            r_->body = (struct record_##ident){__VA_ARGS__}; \
            bpf_ringbuf_submit(r_, wake_sonde());            \
        } else {                                             \
            count(SONDE_FAMILY_##family);                    \
        }                                                    \
    } while (0)

/* ---- who ---- */

/* The number of a process or thread in sonde's namespace; 0 when it is not in it. */
static __always_inline u32 number_of(struct task_struct *task)
{
    struct pid *pid = BPF_CORE_READ(task, thread_pid);
    u32 level = BPF_CORE_READ(pid, level), first = bpf_core_field_offset(struct pid, numbers);
    u32 size = bpf_core_type_size(struct upid);
    for (u32 i = 0; i < 8 && i <= level; i++) {
        struct upid *at = (void *)pid + first + i * size;
        if (BPF_CORE_READ(at, ns, ns.inum) == pid_namespace)
            return BPF_CORE_READ(at, nr);
    }
    return 0;
}

static __always_inline void identify(struct task_struct *task, u32 *pid, u32 *tid)
{
    if (!pid_namespace) {
        *pid = task->tgid;
        *tid = task->pid;
    } else {
        *tid = number_of(task);
        *pid = number_of(BPF_CORE_READ(task, group_leader));
    }
}

/* Begins to trace a thread if its process is a target. Only where memory may be had. */
static __always_inline void follow(struct task_struct *task)
{
    u32 pid, tid;
    identify(task, &pid, &tid);
    if (!bpf_map_lookup_elem(&targets, &pid))
        return;
    if (!add_thread(task, pid, tid))
        count(SONDE_COUNT_THREADS_LOST);
}

/* User space reads this iterator when it has added a target. */
SEC("iter/task")
int adopt(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    if (task)
        follow(task);
    return 0;
}

/* Until it gets a CPU for the first time, a new thread waits for one; who made it woke it, so to say. */
static __always_inline void wait_first(struct thread_state *s, struct task_struct *maker, u64 now)
{
    identify(maker, &s->waker_pid, &s->waker_tid);
    s->woken_by = SONDE_woken_by_thread;
    s->off_ns = s->ready_ns = now;
    s->sched_attached = sched_attached;
    s->reason = SONDE_off_reason_new;
    s->off_call = SONDE_SYSCALL_NONE;
    s->off_fd = -1;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
    if (BPF_CORE_READ(parent, tgid) != BPF_CORE_READ(child, tgid))
        return 0;
    follow(child);
    struct thread_state *s = state_of(child);
    if (s && WANTED(sched))
        wait_first(s, parent, bpf_ktime_get_ns());
    return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
    remove_thread(task);
    return 0;
}

/* ---- sockets ---- */

static __always_inline void socket_call(struct task_struct *task, const struct thread_state *s, u8 kind,
                                        u64 now, s64 result)
{
    struct sock *sk = tcp_socket(task, kind & SONDE_CALL_ACCEPT ? (u32)result : (u32)s->fd);
    if (!sk)
        return;
    struct ends ends;
    read_ends(sk, &ends);
    u64 took = now - s->enter_ns;
    if (kind & SONDE_CALL_ACCEPT)
        RECORD(tcp_accept, tcp, now, took, .result = result, .pid = s->pid, .tid = s->tid, .fd = (s32)result,
               ENDS(ends));
    else if (kind & SONDE_CALL_SEND)
        RECORD(tcp_send, tcp, now, took, .result = result, .pid = s->pid, .tid = s->tid, .fd = s->fd,
               ENDS(ends));
    else
        RECORD(tcp_recv, tcp, now, took, .result = result, .pid = s->pid, .tid = s->tid, .fd = s->fd,
               ENDS(ends));
}

static __always_inline void tcp_state(struct sock *sk, int before, int after)
{
    u64 key = (u64)sk;
    if (after == STATE_CLOSE)
        forget_socket(sk);
    if (after == STATE_SYN_SENT || after == STATE_LISTEN) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct thread_state *s = state_of(task);
        if (!s || !WANTED(connect))
            return;
        if (!own_socket(sk, after, s->pid))
            count(SONDE_COUNT_NOT_FOLLOWED);
        if (after == STATE_LISTEN)
            return;
        s32 fd;
        call_of(task, &fd);
        struct started new = {.start_ns = bpf_ktime_get_ns(), .pid = s->pid, .tid = s->tid, .fd = fd};
        if (bpf_map_update_elem(&connects, &key, &new, BPF_ANY))
            count(SONDE_COUNT_NOT_FOLLOWED);
    } else if (before == STATE_SYN_SENT) {
        struct started *known = bpf_map_lookup_elem(&connects, &key);
        if (!known)
            return;
        struct started c = *known;
        bpf_map_delete_elem(&connects, &key);
        struct ends ends;
        read_ends(sk, &ends);
        s64 result = 0;
        if (after == STATE_CLOSE) {
            int error = BPF_CORE_READ(sk, sk_err);
            result = error ? -error : -125; /* ECANCELED: it was closed before there was an answer */
        }
        u64 now = bpf_ktime_get_ns();
        RECORD(tcp_connect, connect, now, now - c.start_ns, .result = result, .pid = c.pid, .tid = c.tid,
               .fd = c.fd, ENDS(ends), .resent = c.resent > 255 ? 255 : c.resent);
    }
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_tcp_state, struct sock *sk, int before, int after)
{
    RUN(connect, tcp_state(sk, before, after));
    return 0;
}

enum { TIMER_LOSS_PROBE = 5 };

/* In a timer's interrupt, as a rule, of whatever thread. The probe that TCP sends when the tail of what it
 * sent is not acknowledged says nothing: where a program is slow to read, its kernel acknowledges that late.
 * If the probe gets no acknowledgement either, a retransmission follows. */
static __always_inline void retransmitted(struct sock *sk)
{
    if (BPF_CORE_READ((struct inet_connection_sock *)sk, icsk_pending) == TIMER_LOSS_PROBE)
        return;
    u64 key = (u64)sk;
    u32 *owner = socket_owner(sk);
    if (!owner || !WANTED(connect))
        return;
    if (BPF_CORE_READ(sk, __sk_common.skc_state) == STATE_SYN_SENT) {
        struct started *known = bpf_map_lookup_elem(&connects, &key);
        if (known)
            known->resent++;
        return;
    }
    struct ends ends;
    read_ends(sk, &ends);
    RECORD(tcp_retransmit, connect, bpf_ktime_get_ns(), 0, .pid = *owner, ENDS(ends));
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk)
{
    RUN(connect, retransmitted(sk));
    return 0;
}

/* User space reads this iterator for a process that it adds: the connections that it has already. */
SEC("iter/task_file")
int adopt_sockets(struct bpf_iter__task_file *ctx)
{
    struct task_struct *task = ctx->task;
    struct file *file = ctx->file;
    struct thread_state *s = task ? state_of(task) : 0;
    struct socket *socket = s && file ? bpf_sock_from_file(file) : 0;
    struct sock *sk = socket ? socket->sk : 0;
    if (!sk || BPF_CORE_READ(sk, sk_protocol) != TCP)
        return 0;
    u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);
    if ((family == AF_INET || family == AF_INET6) && !own_socket(sk, state, s->pid))
        count(SONDE_COUNT_NOT_FOLLOWED);
    return 0;
}

/* ---- system calls ---- */

static __always_inline u8 outcome_of(s64 result)
{
    if (result >= 0 || result < -4095)
        return SONDE_call_outcome_ok;
    if (result == -11) /* EAGAIN */
        return SONDE_call_outcome_again;
    if (result == -4 || (result <= -512 && result >= -516)) /* EINTR, ERESTART* */
        return SONDE_call_outcome_interrupted;
    return SONDE_call_outcome_error;
}

static __always_inline void enter(struct pt_regs *regs, long id)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread_state *s = state_of(task);
    if (!s)
        return;
    u32 call = (u32)id;
    s32 fd = -1;
    if (call < SONDE_SYSCALLS) {
        u8 kind = call_kinds[call];
        if (kind & SONDE_CALL_FD)
            fd = (s32)regs->di;
        else if (kind & SONDE_CALL_FD_5)
            fd = (s32)regs->r8;
    }
    s->call = (u16)call;
    s->fd = fd;
    s->calls_attached = calls_attached;
    s->enter_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, struct pt_regs *regs, long id)
{
    RUN(sys, enter(regs, id));
    return 0;
}

static __always_inline void leave_call(long result)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread_state *s = state_of(task);
    if (!s || !s->enter_ns)
        return;
    if (s->calls_attached != calls_attached) {
        s->enter_ns = 0;
        return;
    }
    u64 now = bpf_ktime_get_ns();
    u32 call = s->call;
    if (WANTED(sys))
        RECORD(sys_call, sys, now, now - s->enter_ns, .result = result, .pid = s->pid, .tid = s->tid,
               .fd = s->fd, .call = s->call, .outcome = outcome_of(result));
    if (WANTED(tcp) && call < SONDE_SYSCALLS) {
        u8 kind = call_kinds[call];
        if (result >= 0 && kind & (SONDE_CALL_SEND | SONDE_CALL_RECEIVE | SONDE_CALL_ACCEPT))
            socket_call(task, s, kind, now, result);
    }
    s->enter_ns = 0;
    s->call = SONDE_SYSCALL_NONE;
    s->fd = -1;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, struct pt_regs *regs, long result)
{
    RUN(sys, leave_call(result));
    return 0;
}

static __always_inline void tell_open(struct thread_state *s, u64 now)
{
    if (s->enter_ns && s->calls_attached == calls_attached && WANTED(sys))
        RECORD(sys_call, sys, now, now - s->enter_ns, .result = 0, .pid = s->pid, .tid = s->tid, .fd = s->fd,
               .call = s->call, .outcome = SONDE_call_outcome_unfinished);
    s->enter_ns = 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_thread_end, struct task_struct *task)
{
    struct thread_state *s = state_of(task);
    if (s)
        tell_open(s, bpf_ktime_get_ns());
    return 0;
}

/* ---- the scheduler ---- */

/* One record for the brief times off its CPU until now. */
static __always_inline void tell_brief(struct thread_state *s, u64 now)
{
    if (!s->brief_count)
        return;
    if (WANTED(sched))
        RECORD(sched_brief, sched, not_ahead(now), between(s->brief_since_ns, now), .off_ns = s->brief_off_ns,
               .runnable_ns = s->brief_runnable_ns, .since_ns = between(s->back_ns, now),
               .count = s->brief_count, .pid = s->pid, .tid = s->tid);
    s->brief_count = 0;
}

static __always_inline void tell_death(struct thread_state *s, u64 now)
{
    if (WANTED(sched))
        RECORD(sched_switch, sched, not_ahead(now), 0, .pid = s->pid, .tid = s->tid, .fd = -1,
               .call = SONDE_SYSCALL_NONE, .processor = (u16)bpf_get_smp_processor_id(),
               .reason = SONDE_off_reason_ended, .unfinished = 1);
}

/* What may lie between waking a thread and its leaving all the same. Times of two CPUs may be the wrong way
 * round: two units are one. */
enum { EARLY_UNIT_NS = 1024, EARLY_UNITS = 50 };

static __always_inline u32 early_now(u64 now)
{
    return (u32)(now / EARLY_UNIT_NS) | 1;
}

/* Who woke it before this: it went on, and goes to sleep for another reason. */
static __always_inline void forget_early(struct thread_state *s, _Bool goes_on, u64 now)
{
    if (!s->early)
        return;
    if (goes_on || early_now(now) + 2 - s->early > EARLY_UNITS) {
        s->waker_pid = s->waker_tid = 0;
        s->woken_by = SONDE_woken_by_nobody;
    }
    s->early = 0;
}

static __always_inline void leave(struct task_struct *task, struct thread_state *s, _Bool preempted,
                                  u32 task_state, u64 now)
{
    if (s->sched_attached != sched_attached)
        s->brief_count = 0;
    else if (s->brief_count && between(s->back_ns, now) >= SONDE_BRIEF_NS)
        tell_brief(s, now);
    tell_filters(task, s, now);
    forget_early(s, preempted || task_state == 0, now);
    s->ready_ns = 0;
    s->delay_ns = counts_queues ? task->sched_info.run_delay : 0;
    if (preempted || task_state == 0) {
        s->reason = SONDE_off_reason_preempted;
        s->ready_ns = now;
    } else if (task_state & TASK_HALTED) {
        s->reason = SONDE_off_reason_stopped;
    } else if (task_state & TASK_SLEEPING) {
        s->reason = SONDE_off_reason_blocked;
    } else if (task_state & TASK_DEEP) {
        s->reason = SONDE_off_reason_uninterruptible;
    } else {
        tell_brief(s, now);
        tell_death(s, now);
        return;
    }
    s->off_fd = -1; /* where brief times are summed, the call is read for the others only, when they end */
    s->off_call = SONDE_SYSCALL_NONE;
    if (!brief_ns)
        s->off_call = (u16)call_of(task, &s->off_fd);
    else if (may_be_lock(s, task_state))
        lock_begins(task, s, now);
    s->sched_attached = sched_attached;
    s->off_ns = now;
}

/* How a time off a CPU ended; END_UNSEEN: the thread has run since. */
enum end { END_SEEN, END_UNSEEN, END_NEVER };

static __always_inline void tell_wait(struct task_struct *task, struct thread_state *s, u64 runnable, u64 now,
                                      enum end end)
{
    if (s->off_call == SONDE_SYSCALL_NONE && end != END_UNSEEN &&
        s->reason != SONDE_off_reason_new) /* it is still in the call */
        s->off_call = (u16)call_of(task, &s->off_fd);
    if (brief_ns && end == END_SEEN)
        look_for_locks(s, between(s->off_ns, now) - runnable);
    RECORD(sched_switch, sched, not_ahead(now), between(s->off_ns, now), .runnable_ns = runnable,
           .waker_pid = s->waker_pid, .waker_tid = s->waker_tid, .pid = s->pid, .tid = s->tid,
           .fd = s->off_fd, .call = s->off_call, .processor = (u16)bpf_get_smp_processor_id(),
           .reason = s->reason, .woken_by = end == END_NEVER ? s->woken_by : woken_by(s, now - runnable),
           .unfinished = end == END_NEVER);
}

static __always_inline void sum_wait(struct thread_state *s, u64 runnable, u64 now)
{
    if (!s->brief_count++) {
        s->brief_since_ns = s->off_ns;
        s->brief_off_ns = s->brief_runnable_ns = 0;
    }
    s->brief_off_ns += between(s->off_ns, now);
    s->brief_runnable_ns += runnable;
    s->back_ns = now;
    if (between(s->brief_since_ns, now) >= SONDE_BRIEF_SPAN_NS)
        tell_brief(s, now);
}

static __always_inline void come_back(struct task_struct *task, struct thread_state *s, u64 now, enum end end)
{
    if (!s->off_ns) {
        if (!(s->known & THREAD_SEEN_RUNNING))
            tell_running(s, not_ahead(now));
        return;
    }
    lock_ends(task, s);
    if (WANTED(sched) && s->sched_attached == sched_attached) {
        u64 runnable = runnable_ns(task, s, now);
        if (between(s->off_ns, now) < brief_ns && s->reason != SONDE_off_reason_stopped &&
            s->reason != SONDE_off_reason_new && end != END_NEVER) {
            sum_wait(s, runnable, now);
        } else {
            tell_brief(s, now);
            tell_wait(task, s, runnable, now, end);
        }
    } else {
        tell_running(s, not_ahead(now));
    }
    s->off_ns = 0;
    s->waker_pid = s->waker_tid = 0;
    s->woken_by = SONDE_woken_by_nobody;
}

/* A thread that leaves its CPU and was not seen to get it: the kernel's tracepoint is silent for some
 * of the threads from which others take over. */
static __always_inline void come_back_unseen(struct task_struct *task, struct thread_state *s, u64 now)
{
    u64 ran = ran_ns(task);
    if (ran && ran < between(s->off_ns, now))
        come_back(task, s, now - ran, END_UNSEEN);
    else if (s->sched_attached == sched_attached)
        count(SONDE_COUNT_MISSED_RUNS);
}

static __always_inline void switched(struct sonde_kernel_runs *this_cpu, _Bool preempted,
                                     struct task_struct *previous, struct task_struct *next, u32 task_state)
{
    u64 now = 0; /* read once for both */
    struct thread_state *out = state_of(previous);
    if (out) {
        now = switch_ns(this_cpu, previous);
        if (out->off_ns)
            come_back_unseen(previous, out, now);
        leave(previous, out, preempted, task_state, now);
    }
    struct thread_state *in = state_of(next);
    if (in)
        come_back(next, in, now ? now : switch_ns(this_cpu, next), END_SEEN);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempted, struct task_struct *previous, struct task_struct *next,
             unsigned int task_state)
{
    RUN(sched, switched(this_cpu, preempted, previous, next, task_state));
    return 0;
}

/* The same before Linux 5.18, where the state is not told. */
struct task_struct___stated {
    unsigned int __state;
} __attribute__((preserve_access_index));

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_without_state, _Bool preempted, struct task_struct *previous, struct task_struct *next)
{
    RUN(sched, switched(this_cpu, preempted, previous, next,
                        BPF_CORE_READ((struct task_struct___stated *)previous, __state)));
    return 0;
}

/* Who wakes is known when it begins to. A thread that is still in its CPU's queue and has not left need not
 * go to sleep; if it leaves right after, before who wakes it could stop it, this is what ends its wait. */
static __always_inline void waking(struct task_struct *task, _Bool can_count)
{
    struct task_struct *current = bpf_get_current_task_btf();
    struct thread_state *s = state_of(task), *waker = 0;
    if (WANTED(wakeup))
        waker = state_of(current);
    else if (!s)
        return;
    enum context context = context_of(current, task, can_count ? counted_context() : CONTEXT_UNKNOWN);
    if (waker && context == CONTEXT_THREAD) {
        u32 pid, tid;
        identify(task, &pid, &tid);
        RECORD(sched_wakeup, wakeup, bpf_ktime_get_ns(), 0, .pid = waker->pid, .tid = waker->tid,
               .woken_pid = pid, .woken_tid = tid);
    }
    if (!s)
        return;
    s->early = !s->off_ns && task->on_rq ? early_now(bpf_ktime_get_ns()) : 0;
    s->waker_pid = s->waker_tid = 0;
    s->woken_by = context == CONTEXT_THREAD    ? SONDE_woken_by_thread
                  : context == CONTEXT_UNKNOWN ? SONDE_woken_by_unknown
                                               : SONDE_woken_by_interrupt;
    if (s->woken_by != SONDE_woken_by_interrupt)
        identify(current, &s->waker_pid, &s->waker_tid);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
    RUN(sched, waking(task, 1));
    return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking_uncounted, struct task_struct *task)
{
    RUN(sched, waking(task, 0));
    return 0;
}

/* When it can go on, where the scheduler does not count that. */
static __always_inline void woken(struct task_struct *task)
{
    struct thread_state *s = state_of(task);
    if (s && s->off_ns && !s->ready_ns)
        s->ready_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
    RUN(sched, woken(task));
    return 0;
}

/* ---- disks ---- */

static __always_inline void issue(struct request *rq)
{
    struct thread_state *s = state_of(bpf_get_current_task_btf());
    if (!s || !WANTED(block))
        return;
    u64 key = (u64)rq, now = bpf_ktime_get_ns(), made = BPF_CORE_READ(rq, start_time_ns);
    struct started new = {.start_ns = now,
                          .queued_ns = made && made < now ? now - made : 0,
                          .pid = s->pid,
                          .tid = s->tid,
                          .sector = BPF_CORE_READ(rq, __sector), /* moves on when a part is done */
                          .bytes = BPF_CORE_READ(rq, __data_len)};
    if (bpf_map_update_elem(&requests, &key, &new, BPF_ANY))
        count(SONDE_COUNT_NOT_FOLLOWED);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *rq)
{
    RUN(block, issue(rq));
    return 0;
}

static __always_inline void complete(struct request *rq, int error, unsigned int bytes)
{
    u64 key = (u64)rq;
    struct started *known = bpf_map_lookup_elem(&requests, &key);
    if (!known || (!error && bytes < BPF_CORE_READ(rq, __data_len))) /* the rest will follow */
        return;
    struct started r = *known;
    bpf_map_delete_elem(&requests, &key);
    u32 operation = BPF_CORE_READ(rq, cmd_flags) & 0xff;
    u32 major = BPF_CORE_READ(rq, q, disk, major), minor = BPF_CORE_READ(rq, q, disk, first_minor);
    u64 now = bpf_ktime_get_ns();
    RECORD(block_io, block, now, now - r.start_ns, .queued_ns = r.queued_ns, .sector = r.sector,
           .bytes = r.bytes, .device = major << 20 | minor, .pid = r.pid, .tid = r.tid, .error = error,
           .operation = operation <= 3 ? operation : 255);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *rq, int error, unsigned int bytes)
{
    RUN(block, complete(rq, error, bytes));
    return 0;
}

/* ---- the end ---- */

/* What has not ended when sonde stops: read once, over all threads. */
SEC("iter/task")
int tell_unfinished(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    if (!task)
        return 0;
    struct thread_state *s = state_of(task);
    if (!s)
        return 0;
    u64 now = bpf_ktime_get_ns();
    come_back(task, s, now, END_NEVER);
    tell_brief(s, now);
    tell_open(s, now);
    return 0;
}
