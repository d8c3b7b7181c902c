/* The stall sampler: stop one thread, copy its registers and the top of its stack, let it go, then think. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/stall.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/aside.h"
#include "attach/freezer.h"
#include "attach/hold.h"
#include "base/clock.h"
#include "symbol/memory.h"
#include "unwind/v8.h"

#define STACK_BYTES   (256u << 10)
#define KNOWN         16
#define STOP_LIMIT_NS NS_PER_S /* of a machine that is very busy */

struct known {
    pid_t pid;
    struct proc *proc;
    struct v8 *v8;
    uint64_t used;
};

struct stall_sampler {
    struct known known[KNOWN];
    uint64_t looks;
    uint8_t *stack;
};

static const char *const CAUSES[STALL_CAUSES] = {"regexp", "javascript", "builtin",
                                                 "gc",     "native",     "waiting"};

const char *stall_cause_name(enum stall_cause cause)
{
    return (unsigned)cause < STALL_CAUSES ? CAUSES[cause] : "unknown";
}

int stall_sampler_new(struct stall_sampler **ret_sampler)
{
    struct stall_sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return -ENOMEM;
    sampler->stack = malloc(STACK_BYTES);
    if (!sampler->stack) {
        free(sampler);
        return -ENOMEM;
    }
    *ret_sampler = sampler;
    return 0;
}

static void forget(struct known *known)
{
    v8_free(known->v8);
    proc_unref(known->proc);
    *known = (struct known){0};
}

void stall_sampler_free(struct stall_sampler *sampler)
{
    if (!sampler)
        return;
    for (size_t i = 0; i < KNOWN; i++)
        forget(&sampler->known[i]);
    free(sampler->stack);
    free(sampler);
}

void stall_forget(struct stall_sampler *sampler, pid_t pid)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (sampler->known[i].pid == pid)
            forget(&sampler->known[i]);
}

static int know(struct stall_sampler *sampler, struct proc *proc, struct v8 **ret_v8, struct problem *problem)
{
    const pid_t pid = proc->pid;
    struct known *oldest = &sampler->known[0];
    for (size_t i = 0; i < KNOWN; i++) {
        struct known *k = &sampler->known[i];
        if (k->pid == pid && proc_exists(k->proc) && v8_refresh(k->v8) == 0) {
            k->used = ++sampler->looks;
            *ret_v8 = k->v8;
            return 0;
        }
        if (k->pid == pid)
            forget(k);
        if (k->used < oldest->used)
            oldest = k;
    }
    struct v8 *v8;
    int r = v8_open(pid, &v8, problem);
    if (r < 0)
        return r;
    forget(oldest);
    *oldest = (struct known){.pid = pid, .proc = proc_ref(proc), .v8 = v8, .used = ++sampler->looks};
    *ret_v8 = v8;
    return 0;
}

int stall_prepare(struct stall_sampler *sampler, struct proc *proc, struct problem *problem)
{
    struct v8 *v8;
    return know(sampler, proc, &v8, problem);
}

/* ---- stopping ---- */

static int refused(pid_t tid, int r, struct problem *problem)
{
    problem_set(problem, r, "thread %d cannot be looked at: %s", tid, strerror(-r));
    if (r == -EPERM)
        problem_remedy(problem,
                       "Run as root or grant CAP_SYS_PTRACE, and see that no debugger holds the process.");
    return r;
}

/* Waits for the stop that PTRACE_INTERRUPT asked for. Signals that arrive first are passed on to the thread.
 */
static int wait_for_stop(pid_t tid)
{
    uint64_t deadline = clock_monotonic_ns() + STOP_LIMIT_NS;
    for (;;) {
        int status, r = hold_take_stop(tid, &status);
        if (r < 0)
            return r;
        if (r && status >> 16 == PTRACE_EVENT_STOP)
            return 0;
        if (r) { /* a signal on its way in: deliver it when the thread goes on */
            if (ptrace(PTRACE_CONT, tid, NULL, (void *)(uintptr_t)WSTOPSIG(status)) < 0)
                return -errno;
            continue;
        }
        if (clock_monotonic_ns() > deadline)
            return -ETIMEDOUT;
        struct timespec pause = {0, 10000};
        nanosleep(&pause, NULL);
    }
}

/* Stops the thread, takes registers and stack, lets it go. Made aside (attach/aside.h): the thread does not
 * stay stopped because we are. */
struct snapshot {
    const struct proc *proc;
    pid_t tid;
    struct user_regs_struct registers;
    uint8_t *room; /* STACK_BYTES, for the stack's bytes */
    struct stack_copy stack;
    uint64_t at_ns, stopped_ns;
};

static int take_snapshot(void *context)
{
    struct snapshot *snapshot = context;
    pid_t tid = snapshot->tid;
    if (!proc_has_thread(snapshot->proc, tid))
        return -ESRCH;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
        return -errno;
    int r = 0;
    snapshot->at_ns = clock_monotonic_ns();
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
        r = -errno;
    if (r == 0)
        r = wait_for_stop(tid);
    uint64_t stopped_at = clock_monotonic_ns();
    if (r == 0 && !proc_has_thread(snapshot->proc, tid))
        r = -ESRCH; /* its number changed hands as we seized it: the other goes on as it was */
    if (r == 0 && ptrace(PTRACE_GETREGS, tid, NULL, &snapshot->registers) < 0)
        r = -errno;
    ssize_t copied = 0;
    if (r == 0)
        copied = memory_read_some(snapshot->proc->pid, snapshot->registers.rsp, snapshot->room, STACK_BYTES);
    /* A thread that would not stop can only be let go by the end of the tracer; asking again costs nothing.
     */
    if (ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0 && r == -ETIMEDOUT && wait_for_stop(tid) == 0)
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
    snapshot->stopped_ns = clock_monotonic_ns() - stopped_at;
    if (r == 0 && copied <= 0)
        r = copied < 0 ? (int)copied : -EFAULT;
    snapshot->stack = (struct stack_copy){
        .start = snapshot->registers.rsp, .bytes = snapshot->room, .size = r < 0 ? 0 : (size_t)copied};
    return r;
}

/* ---- judging ---- */

struct rule {
    const char *part; /* occurs in a native or builtin frame's name */
    enum stall_cause cause;
    const char *builtin; /* as JavaScript calls it; NULL: the builtin's own name */
};

/* Looked for in every frame inside the innermost JavaScript frame; the first rule that fits any of them
 * decides. */
static const struct rule RULES[] = {
    {"v8::internal::Heap::CollectGarbage", STALL_GC, NULL},
    {"v8::internal::Heap::PerformGarbageCollection", STALL_GC, NULL},
    {"v8::internal::Scavenger", STALL_GC, NULL},
    {"v8::internal::MarkCompactCollector", STALL_GC, NULL},
    {"v8::internal::IncrementalMarking", STALL_GC, NULL},
    {"v8::internal::Heap::HandleGCRequest", STALL_GC, NULL},
    {"v8::internal::IrregexpInterpreter", STALL_REGEXP, NULL},
    {"v8::internal::RegExpImpl", STALL_REGEXP, NULL},
    {"v8::internal::RegExp::", STALL_REGEXP, NULL},
    {"RegExpMacroAssembler", STALL_REGEXP, NULL},
    {"v8::internal::Runtime_RegExpExec", STALL_REGEXP, NULL},
    {"JsonParse", STALL_BUILTIN, "JSON.parse"},
    {"v8::internal::JsonParser", STALL_BUILTIN, "JSON.parse"},
    {"JsonStringif", STALL_BUILTIN, "JSON.stringify"},
    {"v8::internal::Builtin_JsonStringify", STALL_BUILTIN, "JSON.stringify"},
    {"node::crypto::PBKDF2", STALL_BUILTIN, "crypto.pbkdf2Sync"},
    {"node::crypto::Scrypt", STALL_BUILTIN, "crypto.scryptSync"},
    {"node::crypto::HKDF", STALL_BUILTIN, "crypto.hkdfSync"},
    {"node::crypto::RandomBytes", STALL_BUILTIN, "crypto.randomBytes"},
    {"node::crypto::RandomPrime", STALL_BUILTIN, "crypto.generatePrimeSync"},
    {"node::crypto::KeyGenJob", STALL_BUILTIN, "crypto.generateKeyPairSync"},
    {"node::crypto::Hash::", STALL_BUILTIN, "crypto hash"},
    {"node::crypto::Hmac::", STALL_BUILTIN, "crypto hmac"},
    {"node::crypto::CipherBase::", STALL_BUILTIN, "crypto cipher"},
    {"node::crypto::Sign", STALL_BUILTIN, "crypto sign or verify"},
    {"node::crypto::", STALL_BUILTIN, "crypto"},
    {"ZlibContext", STALL_BUILTIN, "zlib"},
    {"node::(anonymous namespace)::ZlibStream", STALL_BUILTIN, "zlib"},
    {"CompressionStream", STALL_BUILTIN, "zlib"},
    {"BrotliContext", STALL_BUILTIN, "zlib (brotli)"},
    {"node::SyncProcessRunner", STALL_BUILTIN, "child_process sync"},
    {"node::fs::", STALL_BUILTIN, "fs sync"},
    {"StructuredClone", STALL_BUILTIN, "structuredClone"},
    {"v8::internal::ValueSerializer", STALL_BUILTIN, "structuredClone or v8.serialize"},
    {"node::Buffer::", STALL_BUILTIN, "Buffer"},
    {"node::StringBytes::", STALL_BUILTIN, "Buffer"},
    {"v8::internal::Compiler::", STALL_NATIVE, NULL},
};

static bool user_script(const struct v8_frame *frame)
{
    return frame->script && strncmp(frame->script, "node:", 5) != 0;
}

static int responsible(const struct v8_stack *stack)
{
    int first = -1;
    for (size_t i = 0; i < stack->count; i++) {
        if (stack->frames[i].kind != V8_JS)
            continue;
        if (user_script(&stack->frames[i]))
            return (int)i;
        if (first < 0)
            first = (int)i;
    }
    return first;
}

/* Stubs and helpers of V8 that carry no meaning for people: only these builtins run for long by themselves.
 */
static bool is_library(const struct v8_frame *frame)
{
    static const char *const parts[] = {"Prototype", "JSON",      "TimSort", "IndexOf", "Includes", "Math",
                                        "StringAdd", "ArrayFrom", "Reflect", "Atomics", "Intl"};
    static const char *const not [] = {
        "CallApi",        "HandleApi",    "FunctionPrototypeApply", "FunctionPrototypeCall",
        "PromiseFulfill", "RunMicrotasks"};
    if (!frame->name)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
        if (strstr(frame->name, not [i]))
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (strstr(frame->name, parts[i]))
            return true;
    return false;
}

static bool in_system_call(const struct proc *proc, pid_t tid, int64_t *ret_number)
{
    char name[48];
    _cleanup_(freep) char *text = NULL;
    snprintf(name, sizeof(name), "task/%d/syscall", tid);
    if (proc_read(proc, name, 512, &text, NULL) < 0 || strncmp(text, "running", 7) == 0)
        return false;
    *ret_number = strtoll(text, NULL, 10);
    return *ret_number >= 0;
}

/* The registers of a thread that was interrupted in a system call: rip is behind a syscall instruction and
 * orig_rax holds its number. */
static bool stopped_in_system_call(pid_t pid, const struct user_regs_struct *registers)
{
    uint8_t code[2];
    return (int64_t)registers->orig_rax >= 0 && memory_read(pid, registers->rip - 2, code, 2) == 0 &&
           code[0] == 0x0f && code[1] == 0x05;
}

static const struct rule *rule_for(const struct v8_stack *stack, size_t end)
{
    for (size_t k = 0; k < ARRAY_SIZE(RULES); k++)
        for (size_t i = 0; i < end; i++) {
            const struct v8_frame *f = &stack->frames[i];
            if ((f->kind == V8_NATIVE || f->kind == V8_BUILTIN) && f->name && strstr(f->name, RULES[k].part))
                return &RULES[k];
        }
    return NULL;
}

static void judge(const struct v8_stack *stack, bool system_call, struct stall_report *report)
{
    size_t first_js = 0;
    while (first_js < stack->count && stack->frames[first_js].kind != V8_JS)
        first_js++;
    const char *builtin = NULL;
    size_t native = 0;
    report->cause = first_js < stack->count ? STALL_JAVASCRIPT : STALL_NATIVE;
    for (size_t i = 0; i < first_js; i++) {
        const struct v8_frame *f = &stack->frames[i];
        if (f->kind == V8_REGEXP) {
            report->cause = STALL_REGEXP;
            return;
        }
        if (f->kind == V8_BUILTIN && is_library(f))
            builtin = f->name;
        native += f->kind == V8_NATIVE;
    }
    const struct rule *rule = rule_for(stack, first_js);
    if (rule && rule->cause != STALL_NATIVE) {
        report->cause = rule->cause;
        if (rule->cause == STALL_BUILTIN)
            builtin = rule->builtin;
    } else if (native) {
        report->cause = STALL_NATIVE;
    } else if (builtin) {
        report->cause = STALL_BUILTIN;
    }
    if (system_call && report->cause != STALL_GC)
        report->cause = STALL_WAITING;
    if (report->cause == STALL_BUILTIN && builtin)
        report->builtin = strdup(builtin);
}

static enum stall_frame_kind frame_kind(enum v8_frame_kind kind)
{
    switch (kind) {
    case V8_JS:
        return STALL_FRAME_JS;
    case V8_BUILTIN:
        return STALL_FRAME_BUILTIN;
    case V8_REGEXP:
        return STALL_FRAME_REGEXP;
    case V8_ENTRY:
        return STALL_FRAME_ENTRY;
    default:
        return STALL_FRAME_NATIVE;
    }
}

/* The pattern is known from a compiled expression's frame; while V8 still interprets it, a JSRegExp lies
 * among the arguments with which the builtin called into C++. */
static void take_pattern(struct v8 *v8, const struct stack_copy *copy, struct v8_stack *stack,
                         struct stall_report *report)
{
    for (size_t i = 0; i < stack->count; i++) {
        struct v8_frame *f = &stack->frames[i];
        if (f->kind == V8_JS) {
            v8_find_pattern(v8, copy, copy->start, f->fp, &report->pattern, &report->flags);
            return;
        }
        if (!f->pattern)
            continue;
        report->pattern = f->pattern;
        report->flags = f->flags;
        f->pattern = f->flags = NULL;
        return;
    }
}

static void move_frames(struct v8_stack *stack, struct stall_report *report)
{
    report->truncated = stack->truncated;
    for (size_t i = 0; i < stack->count; i++) {
        struct v8_frame *f = &stack->frames[i];
        if (report->count == STALL_FRAMES_MAX) {
            report->truncated = "the stack is deeper than the report";
            break;
        }
        report->frames[report->count++] = (struct stall_frame){.kind = frame_kind(f->kind),
                                                               .function = f->name,
                                                               .script = f->script,
                                                               .line = f->line,
                                                               .column = f->column,
                                                               .exact = f->position == V8_POSITION_EXACT};
        f->name = f->script = NULL;
    }
    if (report->where >= (int)report->count)
        report->where = -1;
}

int stall_sample(struct stall_sampler *sampler, struct proc *proc, pid_t tid, struct stall_report *ret_report,
                 struct problem *problem)
{
    struct stall_report report = {.where = -1, .system_call = -1};
    struct snapshot snapshot = {.proc = proc, .tid = tid, .room = sampler->stack};
    struct v8 *v8;
    int r = freezer_check(proc, problem);
    if (r >= 0)
        r = know(sampler, proc, &v8, problem);
    if (r < 0)
        return r;
    bool waiting = in_system_call(proc, tid, &report.system_call);
    r = aside_share(take_snapshot, &snapshot);
    if (r < 0)
        return refused(tid, r, problem);
    report.at_ns = snapshot.at_ns;
    report.stopped_ns = snapshot.stopped_ns;
    waiting = waiting && stopped_in_system_call(proc->pid, &snapshot.registers);
    if (!waiting)
        report.system_call = -1;
    struct v8_stack *stack = malloc(sizeof(*stack));
    if (!stack)
        return problem_set(problem, -ENOMEM, "out of memory");
    v8_walk(v8, &snapshot.registers, &snapshot.stack, stack);
    v8_name_frames(v8, stack);
    judge(stack, waiting, &report);
    report.where = responsible(stack);
    if (report.cause == STALL_REGEXP)
        take_pattern(v8, &snapshot.stack, stack, &report);
    move_frames(stack, &report);
    v8_stack_done(stack);
    free(stack);
    if (!proc_exists(proc)) { /* memory was read by its number: whose was that? */
        stall_report_done(&report);
        return problem_set(problem, -ESRCH, "process %d has ended", proc->pid);
    }
    *ret_report = report;
    return 0;
}

void stall_report_done(struct stall_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        free(report->frames[i].function);
        free(report->frames[i].script);
    }
    free(report->pattern);
    free(report->flags);
    free(report->builtin);
    *report = (struct stall_report){0};
}
