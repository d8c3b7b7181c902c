/* See call.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/call.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macro.h"

enum {
    FXSAVE_BYTES = 512,
    XSAVE_HEADER_END = FXSAVE_BYTES + 64,
    SOFTWARE_BYTES = 464, /* of the FXSAVE area: struct fpx_software */
    FEATURES_LEGACY = 3,  /* x87, SSE */
    FEATURE_PKRU = 9,
    FEATURES = 63,
    XSAVE_LEAF = 0xd, /* of CPUID */
};

/* The kernel's codes in rax for a system call that a signal has cut short (include/linux/errno.h). */
enum { RESTARTSYS = 512, RESTARTNOINTR = 513, RESTARTNOHAND = 514, RESTART_BLOCK = 516 };
enum { SYSCALL_BYTES = 2 };

/* struct rt_sigframe of the kernel (arch/x86/include/asm/sigframe.h, uapi/asm/sigcontext.h, ucontext.h):
 * offset
 *      0 return address
 *      8 flags, link
 *     24 alternate stack: address, flags, size
 *     48 registers, in this order; 184 eflags; 192 cs, gs, fs, ss
 *    200 err, trapno, oldmask, cr2, address of the floating-point state; 8 words reserved
 *    304 blocked signals
 *    312 siginfo */
struct frame {
    uint64_t back;
    uint64_t flags, link;
    uint64_t stack;
    uint32_t stack_flags, stack_padding;
    uint64_t stack_bytes;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
    uint64_t eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, fault_address, xstate, reserved[8];
    uint64_t signals;
    char info[128];
};
_Static_assert(offsetof(struct frame, r8) == 48 && offsetof(struct frame, cs) == 192 &&
                   offsetof(struct frame, signals) == 304 && sizeof(struct frame) == 440,
               "the kernel's layout");

enum {
    HAS_XSTATE = 1,     /* UC_FP_XSTATE */
    HAS_STACK_SEG = 2,  /* UC_SIGCONTEXT_SS */
    STRICT_SEGMENT = 4, /* UC_STRICT_RESTORE_SS */
    /* No mode of an alternate stack: rt_sigreturn leaves the thread's as it is. */
    STACK_UNCHANGED = 7,
};

/* struct _fpx_sw_bytes: what says that the floating-point state is more than FXSAVE's. */
struct fpx_software {
    uint32_t magic, extended_bytes;
    uint64_t features;
    uint32_t bytes, padding[7];
};
enum { MAGIC_BEGIN = 0x46505853, MAGIC_END = 0x46505845 };

int call_state_save(pid_t tid, struct call_state *state)
{
    struct iovec area = {state->xstate, sizeof(state->xstate)};
    if (ptrace(PTRACE_GETREGS, tid, NULL, &state->regs) < 0 ||
        ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &area) < 0 ||
        ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(state->signals), &state->signals) < 0)
        return -errno;
    state->xstate_bytes = area.iov_len;
    return 0;
}

static int set_xstate(pid_t tid, const char *xstate, size_t bytes)
{
    struct iovec area = {(void *)(uintptr_t)xstate, bytes};
    return ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &area) < 0 ? -errno : 0;
}

int call_state_restore(pid_t tid, const struct call_state *state)
{
    int r = set_xstate(tid, state->xstate, state->xstate_bytes);
    if (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(state->signals), &state->signals) < 0)
        r = -errno;
    if (ptrace(PTRACE_SETREGS, tid, NULL, &state->regs) < 0)
        r = -errno;
    return r;
}

static uint64_t features_of(const struct call_state *state)
{
    uint64_t features = 0;
    if (state->xstate_bytes >= XSAVE_HEADER_END)
        memcpy(&features, state->xstate + FXSAVE_BYTES, sizeof(features));
    return features;
}

int call_state_begin(pid_t tid, const struct call_state *state)
{
    if (state->xstate_bytes < XSAVE_HEADER_END)
        return 0;
    char *xstate = malloc(state->xstate_bytes);
    if (!xstate)
        return -ENOMEM;
    memcpy(xstate, state->xstate, state->xstate_bytes);
    uint64_t features = features_of(state) & 1ull << FEATURE_PKRU;
    memcpy(xstate + FXSAVE_BYTES, &features, sizeof(features));
    int r = set_xstate(tid, xstate, state->xstate_bytes);
    free(xstate);
    return r;
}

struct user_regs_struct call_resumed(const struct user_regs_struct *regs)
{
    struct user_regs_struct on = *regs;
    if ((int)regs->orig_rax >= 0)
        switch (-(int64_t)regs->rax) {
        case RESTARTSYS:
        case RESTARTNOINTR:
        case RESTARTNOHAND:
            on.rax = regs->orig_rax;
            on.rip -= SYSCALL_BYTES;
            break;
        case RESTART_BLOCK:
            on.rax = (unsigned long long)-EINTR;
        }
    on.orig_rax = (unsigned long long)-1;
    return on;
}

/* Where the states of the CPU's features end in the image; 0: it has no such feature. Learnt once, while
 * nobody is held: a virtual machine's CPU takes 2 us to answer, and there are many questions. */
static uint32_t feature_ends[FEATURES];

static void learn_features(void)
{
    static bool learnt;
    unsigned low, high, size, offset, b, c, d;
    if (learnt || !__get_cpuid_count(XSAVE_LEAF, 0, &low, &b, &c, &high))
        return;
    for (unsigned i = 2; i < FEATURES; i++)
        if ((low | (uint64_t)high << 32) >> i & 1) {
            __cpuid_count(XSAVE_LEAF, i, size, offset, c, d);
            feature_ends[i] = offset + size;
        }
    learnt = true;
}

/* How many bytes the state takes with the features that are in use. The kernel refuses more than the process
 * may have, which ptrace's image may be: it has room for features that need permission (AMX). */
static size_t used_bytes(const struct call_state *state)
{
    uint64_t features = features_of(state);
    size_t used = XSAVE_HEADER_END;
    learn_features();
    for (unsigned i = 2; i < FEATURES; i++)
        if (features >> i & 1)
            used = MAX(used, (size_t)feature_ends[i]);
    return MIN(used, state->xstate_bytes);
}

/* The floating-point state as a frame has it; how many bytes. */
static size_t write_xstate(const struct call_state *state, char *to)
{
    if (state->xstate_bytes < XSAVE_HEADER_END) { /* a CPU without XSAVE */
        memcpy(to, state->xstate, FXSAVE_BYTES);
        memset(to + SOFTWARE_BYTES, 0, sizeof(struct fpx_software));
        return FXSAVE_BYTES;
    }
    size_t bytes = used_bytes(state);
    const uint32_t end = MAGIC_END;
    const struct fpx_software software = {.magic = MAGIC_BEGIN,
                                          .extended_bytes = (uint32_t)(bytes + sizeof(end)),
                                          .features = features_of(state) | FEATURES_LEGACY,
                                          .bytes = (uint32_t)bytes};
    memcpy(to, state->xstate, bytes);
    memcpy(to + SOFTWARE_BYTES, &software, sizeof(software));
    memcpy(to + bytes, &end, sizeof(end));
    return bytes + sizeof(end);
}

void call_frame_make(const struct call_state *state, uint64_t under, uint64_t back, struct call_frame *frame)
{
    const struct user_regs_struct r = call_resumed(&state->regs);
    /* From the top: the floating-point state, at a multiple of 64; the frame, at one of 16 plus 8, as a
     * function finds its stack pointer. */
    uint64_t top = (under - (state->xstate_bytes + sizeof(uint32_t))) & ~63ull;
    frame->address = ((top - sizeof(struct frame)) & ~15ull) - 8;
    char *xstate = frame->data + (top - frame->address);
    memset(frame->data, 0, (size_t)(xstate - frame->data));
    frame->bytes = (size_t)(xstate - frame->data) + write_xstate(state, xstate);
    const struct frame made = {
        .back = back,
        .flags = HAS_STACK_SEG | STRICT_SEGMENT | (state->xstate_bytes >= XSAVE_HEADER_END ? HAS_XSTATE : 0),
        .stack_flags = STACK_UNCHANGED,
        .r8 = r.r8,
        .r9 = r.r9,
        .r10 = r.r10,
        .r11 = r.r11,
        .r12 = r.r12,
        .r13 = r.r13,
        .r14 = r.r14,
        .r15 = r.r15,
        .rdi = r.rdi,
        .rsi = r.rsi,
        .rbp = r.rbp,
        .rbx = r.rbx,
        .rdx = r.rdx,
        .rax = r.rax,
        .rcx = r.rcx,
        .rsp = r.rsp,
        .rip = r.rip,
        .eflags = r.eflags,
        .cs = (uint16_t)r.cs,
        .ss = (uint16_t)r.ss,
        .old_mask = state->signals,
        .xstate = top,
        .signals = state->signals,
    };
    memcpy(frame->data, &made, sizeof(made));
}

/* ---- the way out of a handler ---- */

/* mov $15, %rax (or %eax); syscall */
static const uint8_t WIDE[] = {0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05},
                     SHORT[] = {0xb8, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05};

static size_t restorer_bytes(const uint8_t *code, size_t size)
{
    if (size >= sizeof(WIDE) && memcmp(code, WIDE, sizeof(WIDE)) == 0)
        return sizeof(WIDE);
    return size >= sizeof(SHORT) && memcmp(code, SHORT, sizeof(SHORT)) == 0 ? sizeof(SHORT) : 0;
}

/* Piece by piece: it stands in the first part of a C library, and each page that is read of a process is
 * brought into its memory, and ours, first. */
static int search(int memory, uint64_t start, uint64_t end, uint64_t *ret_address)
{
    enum { MOST = 16 << 20, PIECE = 16 << 10 };
    uint8_t code[PIECE];
    end = MIN(end, start + MOST);
    for (uint64_t at = start; at < end; at += PIECE - sizeof(WIDE) + 1) {
        ssize_t n = pread(memory, code, MIN(sizeof(code), end - at), (off_t)at);
        for (ssize_t i = 0; i < n; i++)
            if ((code[i] == WIDE[0] || code[i] == SHORT[0]) && restorer_bytes(code + i, (size_t)(n - i))) {
                *ret_address = at + (uint64_t)i;
                return 0;
            }
        if (n < PIECE)
            break;
    }
    return -ENOENT;
}

int call_find_restorer(const struct modules *modules, int memory, uint64_t *ret_address,
                       struct problem *problem)
{
    static const char *const LIBRARIES[] = {"libc.so", "libc-", "ld-musl", "libpthread"};
    learn_features();
    for (size_t i = 0; i < ARRAY_SIZE(LIBRARIES); i++) {
        const struct module *module = modules_named(modules, LIBRARIES[i]);
        array_foreach (&modules->mappings, m)
            if (module && m->executable && m->module == (uint32_t)(module - modules->list.at) &&
                search(memory, m->start, m->end, ret_address) == 0)
                return 0;
    }
    problem_set(problem, -ENOSYS, "process %d: it cannot be called into: no C library that is known is in it",
                modules->pid);
    problem_remedy(problem, "glibc and musl are known, when linked dynamically.");
    return -ENOSYS;
}

bool call_restorer_stands(int memory, uint64_t address)
{
    uint8_t code[sizeof(WIDE)];
    ssize_t n = pread(memory, code, sizeof(code), (off_t)address);
    return n > 0 && restorer_bytes(code, (size_t)n) != 0;
}

SONDE_BACK(call_stub);

/* Behind the frame's return address, which has been taken. */
static bool is_at_frame(const struct user_regs_struct *regs, const struct call_frame *frame)
{
    return regs->rsp == frame->address + 8;
}

bool call_is_over(const struct user_regs_struct *regs, const struct call_frame *frame, uint64_t back)
{
    return (int)regs->orig_rax == SYS_rt_sigreturn && is_at_frame(regs, frame) && regs->rip > back &&
           regs->rip <= back + SONDE_BACK_BYTES;
}

bool call_has_told(const struct user_regs_struct *regs, const struct call_frame *frame, uint64_t stub)
{
    return is_at_frame(regs, frame) && regs->rip == stub + SONDE_BACK_TOLD;
}
