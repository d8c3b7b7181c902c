/* See syscall_filter.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/syscall_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/hold.h"
#include "base/macro.h"

/* ---- the calls that are made in the process's name ---- */

struct call {
    int number;
    const char *name;
    bool needed; /* loading fails without it; otherwise something is not seen */
    uint64_t arguments[6];
};

#define RX   (PROT_READ | PROT_EXEC)
#define RW   (PROT_READ | PROT_WRITE)
#define MAKE MAP_PRIVATE | MAP_ANONYMOUS
static const struct call CALLS[] = {
    {SYS_rt_sigreturn, "rt_sigreturn", true, {0}},
    {SYS_restart_syscall, "restart_syscall", true, {0}},
    {SYS_socketpair, "socketpair", true, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC}},
    {SYS_poll, "poll", true, {0, 1, 0}},
    {SYS_recvmsg, "recvmsg", true, {3, 0, MSG_CMSG_CLOEXEC}},
    {SYS_mmap, "mmap of memory", true, {0, 4096, RW, MAKE, ~0ull}},
    {SYS_openat, "openat", true, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC}},
    {SYS_read, "read", true, {3}},
    {SYS_newfstatat, "newfstatat", true, {3}},
    {SYS_mmap, "mmap of a file's code", true, {0, 4096, RX, MAP_PRIVATE | MAP_DENYWRITE | MAP_FIXED, 3}},
    {SYS_mmap, "mmap of executable memory", true, {0x10000, 4096, RX, MAKE | MAP_FIXED_NOREPLACE, ~0ull}},
    {SYS_mmap, "mmap of shared memory", true, {0, 4096, RW, MAP_SHARED, 3}},
    {SYS_mprotect, "mprotect", true, {0, 4096, PROT_READ}},
    {SYS_munmap, "munmap", true, {0, 4096}},
    {SYS_close, "close", true, {3}},
    {SYS_madvise, "madvise", true, {0, 4096, MADV_WIPEONFORK}},
    {SYS_madvise, "madvise", false, {0, 4096, MADV_DONTDUMP}},
    {SYS_getpid, "getpid", true, {0}},
    {SYS_gettid, "gettid", true, {0}},
    {SYS_fcntl, "fcntl", false, {3, F_GETFD}},
    {SYS_fstat, "fstat", false, {3}},
    {SYS_getsockname, "getsockname", false, {3}},
    {SYS_getpeername, "getpeername", false, {3}},
    {SYS_process_vm_readv, "process_vm_readv", false, {1, 0, 1, 0, 1}},
};

/* ---- a filter's verdict ---- */

/* Loads a word of the call, as the kernel lets filters do: aligned, 32 bits. */
static bool load(const struct seccomp_data *call, uint32_t offset, uint32_t *ret)
{
    if (offset & 3 || offset > sizeof(*call) - sizeof(*ret))
        return false;
    memcpy(ret, (const char *)call + offset, sizeof(*ret));
    return true;
}

static bool compute(uint16_t operation, uint32_t operand, uint32_t *a)
{
    switch (operation) {
    case BPF_ADD:
        *a += operand;
        return true;
    case BPF_SUB:
        *a -= operand;
        return true;
    case BPF_MUL:
        *a *= operand;
        return true;
    case BPF_DIV:
        *a = operand ? *a / operand : 0;
        return operand != 0;
    case BPF_AND:
        *a &= operand;
        return true;
    case BPF_OR:
        *a |= operand;
        return true;
    case BPF_XOR:
        *a ^= operand;
        return true;
    case BPF_LSH:
        *a = operand < 32 ? *a << operand : 0;
        return true;
    case BPF_RSH:
        *a = operand < 32 ? *a >> operand : 0;
        return true;
    case BPF_NEG:
        *a = -*a;
        return true;
    }
    return false;
}

static bool holds(uint16_t comparison, uint32_t a, uint32_t operand)
{
    return comparison == BPF_JEQ   ? a == operand
           : comparison == BPF_JGT ? a > operand
           : comparison == BPF_JGE ? a >= operand
                                   : (a & operand) != 0;
}

uint32_t syscall_filter_run(const struct sock_filter *program, size_t count, const struct seccomp_data *call)
{
    uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};
    for (size_t pc = 0; pc < count; pc++) {
        const struct sock_filter *in = &program[pc];
        uint32_t operand = BPF_SRC(in->code) == BPF_X ? x : in->k;
        bool right = true;
        switch (BPF_CLASS(in->code)) {
        case BPF_LD:
            if (BPF_MODE(in->code) == BPF_ABS)
                right = load(call, in->k, &a);
            else if (BPF_MODE(in->code) == BPF_MEM && in->k < BPF_MEMWORDS)
                a = memory[in->k];
            else
                a = BPF_MODE(in->code) == BPF_LEN ? (uint32_t)sizeof(*call) : in->k;
            break;
        case BPF_LDX:
            if (BPF_MODE(in->code) == BPF_MEM && in->k < BPF_MEMWORDS)
                x = memory[in->k];
            else
                x = BPF_MODE(in->code) == BPF_LEN ? (uint32_t)sizeof(*call) : in->k;
            break;
        case BPF_ST:
        case BPF_STX:
            right = in->k < BPF_MEMWORDS;
            if (right)
                memory[in->k] = BPF_CLASS(in->code) == BPF_ST ? a : x;
            break;
        case BPF_ALU:
            right = compute(BPF_OP(in->code), operand, &a);
            break;
        case BPF_JMP:
            if (BPF_OP(in->code) == BPF_JA)
                pc += in->k;
            else
                pc += holds(BPF_OP(in->code), a, operand) ? in->jt : in->jf;
            break;
        case BPF_RET:
            return BPF_RVAL(in->code) == BPF_A ? a : in->k;
        case BPF_MISC:
            if (BPF_MISCOP(in->code) == BPF_TAX)
                x = a;
            else
                a = x;
            break;
        }
        if (!right)
            break;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static bool lets_through(uint32_t verdict)
{
    uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

static int judge(pid_t pid, const struct sock_filter *program, size_t count, struct problem *problem)
{
    for (size_t i = 0; i < ARRAY_SIZE(CALLS); i++) {
        struct seccomp_data data = {.nr = CALLS[i].number, .arch = AUDIT_ARCH_X86_64};
        for (int k = 0; k < 6; k++)
            data.args[k] = CALLS[i].arguments[k];
        uint32_t verdict = syscall_filter_run(program, count, &data);
        bool harmless = (verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO && !CALLS[i].needed;
        if (lets_through(verdict) || harmless)
            continue;
        bool fails = (verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
        problem_set(problem, -EPERM, "process %d: its system call filter %s %s, which the probe needs", pid,
                    fails ? "forbids" : "would kill it for", CALLS[i].name);
        problem_remedy(problem,
                       "Add it to the filter (a systemd unit: SystemCallFilter=@system-service has all).");
        return -EPERM;
    }
    return 0;
}

/* ---- reading the filters ---- */

static bool same_namespace(const struct proc *proc)
{
    char ours[64] = "", theirs[64] = "";
    return proc_read_link(proc, "ns/pid", theirs, sizeof(theirs)) > 0 &&
           readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 && strcmp(ours, theirs) == 0;
}

static void do_nothing(int signal)
{
}

/* A child of ours makes the calls, with arguments that do nothing: does it live? */
static bool we_may(void)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGUSR1, do_nothing);
        for (size_t i = 0; i < ARRAY_SIZE(CALLS); i++)
            if (CALLS[i].number == SYS_rt_sigreturn)
                raise(SIGUSR1); /* with a frame to return to */
            else
                syscall(CALLS[i].number, -1L, -1L, -1L, -1L, -1L, -1L);
        _exit(0);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
}

/* Every filter in turn; the strictest verdict counts, so each must agree. */
static int judge_held(pid_t pid, struct problem *problem)
{
    struct sock_filter *program = calloc(BPF_MAXINSNS, sizeof(*program));
    if (!program)
        return -ENOMEM;
    int r = 0;
    for (unsigned long i = 0; r == 0; i++) {
        long count = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)i, NULL);
        if (count > 0 && count <= BPF_MAXINSNS)
            count = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)i, program);
        if (count < 0) {
            r = errno == ENOENT && i ? 1 : -EACCES;
            break;
        }
        r = judge(pid, program, (size_t)count, problem);
    }
    free(program);
    return r > 0 ? 0 : r;
}

/* Held for it; see aside.h. */
struct reading {
    const struct proc *proc;
    struct problem *problem;
};

static int judge_aside(void *context)
{
    const struct reading *reading = context;
    struct hold hold;
    int r = hold_one(reading->proc, &hold, reading->problem);
    if (r < 0)
        return r;
    r = judge_held(reading->proc->pid, reading->problem);
    hold_release(&hold);
    return r;
}

int syscall_filter_check(const struct proc *proc, struct problem *problem)
{
    if (proc_status_number(proc, "Seccomp") <= 0)
        return 0;
    int r = aside_share(judge_aside, &(struct reading){proc, problem}, NULL, NULL);
    if (r != -EACCES)
        return r;
    _cleanup_(proc_unrefp) struct proc *us = NULL;
    long ours = proc_open(getpid(), &us) == 0 ? proc_status_number(us, "Seccomp_filters") : -1,
         theirs = proc_status_number(proc, "Seccomp_filters");
    if (ours > 0 && ours == theirs && same_namespace(proc) && we_may())
        return 0;
    problem_set(problem, -EPERM,
                "process %d has a system call filter that may not be read, and that might kill it for a call "
                "of the probe",
                proc->pid);
    problem_remedy(problem, "Run sonde as root, outside of containers and services that have a filter.");
    return -EPERM;
}

long syscall_filter_count(const struct proc *proc)
{
    long count = proc_status_number(proc, "Seccomp_filters");
    return count >= 0 ? count : proc_status_number(proc, "Seccomp");
}
