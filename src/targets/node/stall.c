/* What a callback of Node's that is open too long is doing, from a copy of its thread's stack: see
 * collect/stall_stack.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/stall_stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/catalogue.h"
#include "targets/node/unwind.h"

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

/* V8's own code that does what JavaScript asks for with an operator, a property or an object: the way to what
 * others wrote in C++ leads through its API. What is left out may be anything. */
static bool is_engine(const struct v8_stack *stack, size_t end)
{
    static const char *const API[] = {"HandleApiCall", "FunctionCallbackArguments",
                                      "PropertyCallbackArguments::Call"};
    const char *outermost = NULL;
    if (stack->gap && stack->gap < end)
        return false;
    for (size_t i = 0; i < end; i++) {
        const char *name = stack->frames[i].kind == V8_NATIVE ? stack->frames[i].name : NULL;
        outermost = name ? name : outermost;
        for (size_t k = 0; name && k < ARRAY_SIZE(API); k++)
            if (strstr(name, API[k]))
                return false;
    }
    return outermost && strncmp(outermost, "v8::internal::", 14) == 0;
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
    } else if (native && !is_engine(stack, first_js)) {
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
    for (size_t i = 0; i < (stack->gap ? stack->gap : stack->count); i++) {
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

/* Modules take long to load by nature, the main one too: their code runs then for the first time. */
static bool is_loading(const struct v8_stack *stack)
{
    for (size_t i = 0; i < stack->count; i++)
        if (stack->frames[i].script && strncmp(stack->frames[i].script, "node:internal/modules/", 22) == 0)
            return true;
    return false;
}

static void move_frame(struct v8_frame *from, struct stall_report *report)
{
    report->frames[report->count++] = (struct stall_frame){.kind = frame_kind(from->kind),
                                                           .function = from->name,
                                                           .script = from->script,
                                                           .line = from->line,
                                                           .column = from->column,
                                                           .exact = from->position == V8_POSITION_EXACT};
    from->name = from->script = NULL;
}

/* Of a stack that the report has no room for, both ends. */
static void move_frames(struct v8_stack *stack, struct stall_report *report)
{
    enum { HALF = (STALL_FRAMES_MAX - 1) / 2 };
    bool whole = !stack->gap && stack->count <= STALL_FRAMES_MAX;
    size_t gap = stack->gap ? stack->gap : stack->count;
    size_t inner = whole ? stack->count : MIN(gap, (size_t)HALF);
    size_t outer = whole ? stack->count : MAX(stack->gap, stack->count - MIN(stack->count, (size_t)HALF));
    int where = report->where;
    if (stack->truncated)
        snprintf(report->truncated, sizeof(report->truncated), "%s", stack->truncated);
    for (size_t i = 0; i < inner; i++)
        move_frame(&stack->frames[i], report);
    if (!whole)
        report->frames[report->count++] =
            (struct stall_frame){.kind = STALL_FRAME_LEFT_OUT, .function = strdup(SONDE_FRAMES_LEFT_OUT)};
    if (where >= (int)inner)
        report->where = where >= (int)outer ? where - (int)outer + (int)report->count : -1;
    for (size_t i = outer; i < stack->count; i++)
        move_frame(&stack->frames[i], report);
}

static int open_v8(pid_t pid, void **ret_state, struct problem *problem)
{
    struct v8 *v8;
    int r = v8_open(pid, &v8, problem);
    if (r >= 0)
        *ret_state = v8;
    return r;
}

static int refresh_v8(void *state)
{
    return v8_refresh(state);
}

static void free_v8(void *state)
{
    v8_free(state);
}

static int read_v8(void *v8, const struct user_regs_struct *registers, const struct stack_copy *copy,
                   bool waiting, struct stall_report *report, struct problem *problem)
{
    struct v8_stack *stack = malloc(sizeof(*stack));
    if (!stack)
        return problem_set(problem, -ENOMEM, "out of memory");
    v8_walk(v8, registers, copy, stack);
    v8_name_frames(v8, stack);
    judge(stack, waiting, report);
    report->where = responsible(stack);
    report->loading = is_loading(stack);
    if (report->cause == STALL_REGEXP)
        take_pattern(v8, copy, stack, report);
    move_frames(stack, report);
    v8_stack_done(stack);
    free(stack);
    return 0;
}

const struct stall_source stall_source_node = {
    .open = open_v8, .refresh = refresh_v8, .free = free_v8, .read = read_v8};
