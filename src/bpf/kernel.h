/* The few kernel structures that the BPF programs read. Field offsets are corrected when the program is
 * loaded (CO-RE), so only names and types matter here, and no kernel headers or BTF are needed to build. */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

/* x86-64, as the user-space ABI has it. */
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags,
        sp, ss;
};

struct bpf_perf_event_data {
    struct pt_regs regs;
    u64 sample_period;
    u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
    unsigned long fsbase;
};

struct mm_struct;

struct ns_common {
    unsigned int inum;
};

struct pid_namespace {
    struct ns_common ns;
};

struct upid {
    int nr;
    struct pid_namespace *ns;
};

struct pid {
    unsigned int level;
    struct upid numbers[1];
};

struct inode {
    unsigned short i_mode;
};

struct file {
    struct inode *f_inode;
    void *private_data;
};

struct fdtable {
    unsigned int max_fds;
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

typedef struct {
    int counter;
} atomic_t;

struct signal_struct {
    atomic_t live; /* threads that did not end */
};

/* What the scheduler keeps of a thread: how long it could go on and had no CPU, since when it is in a queue
 * for one (0: in none), and when it last got one, by the clock of that queue. */
struct sched_info {
    unsigned long long run_delay, last_queued, last_arrival;
};

struct rq {
    u64 clock;
};

struct cfs_rq {
    struct rq *rq;
};

struct sched_entity {
    struct cfs_rq *cfs_rq;
};

struct task_struct {
    int pid;
    int tgid;
    int on_rq;
    struct sched_entity se;
    struct sched_info sched_info;
    struct task_struct *group_leader;
    struct pid *thread_pid;
    struct files_struct *files;
    struct signal_struct *signal;
    struct mm_struct *mm;
    unsigned int flags;
    unsigned int in_execve : 1;
    struct thread_struct thread;
    char comm[16];
};

/* ---- sockets ---- */

struct in6_addr {
    union {
        u8 u6_addr8[16];
    } in6_u;
};

struct net {
    struct ns_common ns;
};

typedef struct {
    struct net *net;
} possible_net_t;

struct sock_common {
    u32 skc_daddr;
    u32 skc_rcv_saddr;
    u16 skc_dport;
    u16 skc_num;
    unsigned short skc_family;
    unsigned char skc_state;
    possible_net_t skc_net;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
    struct sock_common __sk_common;
    u16 sk_protocol;
    int sk_err;
};

struct inet_connection_sock { /* begins with struct sock */
    u8 icsk_pending;
};

struct socket {
    struct sock *sk;
};

/* ---- disks ---- */

struct gendisk {
    int major;
    int first_minor;
    char disk_name[32];
};

struct request_queue {
    struct gendisk *disk;
};

struct request {
    struct request_queue *q;
    unsigned int cmd_flags;
    unsigned int __data_len;
    u64 __sector;
    u64 start_time_ns;
};

/* ---- what iterators get ---- */

struct bpf_iter_meta;

struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
};

struct bpf_iter__task_file {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
    u32 fd;
    struct file *file;
};

#pragma clang attribute pop

#endif
