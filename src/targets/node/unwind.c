/* Walks V8's stacks from outside. How frames look (V8's frame-constants.h, from Node.js 16 to 26, x86-64):
 *
 *   [fp + 8]   return address          [fp + 0]   caller's fp
 *   [fp - 8]   either a context (a heap object: the frame is a JavaScript function's) or a marker: the
 * frame's type shifted left by one JavaScript: [fp - 16] JSFunction, [fp - 24] number of arguments; while the
 * function is not optimised also [fp - 32] BytecodeArray, [fp - 40] offset into it (a small integer; baseline
 * code keeps the feedback vector there instead) regular expressions have a frame of their own; before V8 11
 * without a marker: [fp - 8] is the subject string
 *
 * Builtins live in the binary (and, mapped a second time, beside the generated code). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/node/unwind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "symbol/memory.h"
#include "targets/node/unwind_position.h"

struct v8 {
    struct native *native;
    bool own_native;
    struct elf *elf; /* the module with V8 in it; borrowed from native */
    struct v8_layout layout;
    struct v8_heap heap;
    struct v8_sources sources;
    bool without_positions;
};

enum place { PLACE_NATIVE, PLACE_BUILTIN, PLACE_GENERATED, PLACE_NOWHERE };

/* ---- opening ---- */

static int find_v8(struct v8 *v8, struct problem *problem)
{
    const struct modules *modules = native_modules(v8->native);
    array_foreach (&modules->list, module) {
        const void *found;
        struct native_file *file = module->has_bias ? native_file_of(v8->native, module) : NULL;
        if (!file || native_file_fact(file, v8_layout_fact, sizeof(struct v8_layout_fact), &found) < 0)
            continue;
        const struct v8_layout_fact *fact = found;
        v8->elf = native_file_elf(file);
        v8->layout = fact->layout;
        if (fact->result < 0 && problem)
            *problem = fact->problem;
        return fact->result;
    }
    return problem_set(problem, -ENOENT, "process %d does not run V8", modules->pid);
}

int v8_open_native(struct native *native, struct v8 **ret_v8, struct problem *problem)
{
    _cleanup_(v8_freep) struct v8 *v8 = calloc(1, sizeof(*v8));
    if (!v8)
        return problem_set(problem, -ENOMEM, "out of memory");
    v8->native = native;
    int r = find_v8(v8, problem);
    if (r < 0)
        return r;
    v8->heap = (struct v8_heap){.pid = native_modules(native)->pid, .layout = &v8->layout};
    *ret_v8 = v8;
    v8 = NULL;
    return 0;
}

int v8_open(pid_t pid, struct v8 **ret_v8, struct problem *problem)
{
    struct native *native;
    int r = native_open(pid, &native, problem);
    if (r < 0)
        return r;
    r = v8_open_native(native, ret_v8, problem);
    if (r < 0)
        native_free(native);
    else
        (*ret_v8)->own_native = true;
    return r;
}

void v8_free(struct v8 *v8)
{
    if (!v8)
        return;
    v8_sources_done(&v8->sources);
    if (v8->own_native)
        native_free(v8->native);
    free(v8);
}

void v8_name_often(struct v8 *v8, struct memory_pages *pages, bool positions)
{
    v8->heap.pages = pages;
    v8->without_positions = !positions;
}

int v8_refresh(struct v8 *v8)
{
    return native_refresh(v8->native);
}

struct native *v8_native(struct v8 *v8)
{
    return v8->native;
}

const struct v8_layout *v8_layout(const struct v8 *v8)
{
    return &v8->layout;
}

/* ---- walking ---- */

struct walk {
    struct v8 *v8;
    const struct stack_copy *stack;
    const struct user_regs_struct *registers;
    struct v8_stack *out;
    struct registers r;
    bool call; /* r.pc is a return address */
};

/* What a builtin is called in a file without symbols. */
static const char UNKNOWN_BUILTIN[] = "Builtins_unknown";

static enum place place_of(struct v8 *v8, uint64_t pc, struct elf_symbol *ret_builtin)
{
    uint64_t address;
    struct elf *elf = native_file_at(v8->native, pc, &address, NULL);
    if (elf && (elf != v8->elf || address - v8->layout.blob_address >= v8->layout.blob_size))
        return PLACE_NATIVE;
    if (elf) {
        if (elf_symbol_at(elf, address, ret_builtin) < 0)
            ret_builtin->name = UNKNOWN_BUILTIN;
        return PLACE_BUILTIN;
    }
    const struct mapping *mapping = modules_mapping_at(native_modules(v8->native), pc);
    return mapping && mapping->executable && mapping->module == UINT32_MAX ? PLACE_GENERATED : PLACE_NOWHERE;
}

static bool has_suffix(const char *string, const char *suffix)
{
    size_t length = strlen(string), tail = strlen(suffix);
    return length >= tail && strcmp(string + length - tail, suffix) == 0;
}

/* Builtins that are the interpreter: they run in the frame of the function they interpret. */
static bool is_interpreter(const char *builtin)
{
    return has_suffix(builtin, "Handler") || strncmp(builtin, "Builtins_InterpreterEntry", 25) == 0 ||
           strncmp(builtin, "Builtins_InterpreterEnter", 25) == 0;
}

static struct v8_frame *add_frame(struct walk *w, enum v8_frame_kind kind)
{
    if (w->out->count + w->out->left_out >= V8_WALKED_MAX) {
        w->out->truncated = "the stack is deeper than can be recorded";
        return NULL;
    }
    struct v8_frame *frame = v8_stack_push(w->out);
    *frame =
        (struct v8_frame){.kind = kind, .pc = w->r.pc, .fp = w->r.fp, .call = w->call, .bytecode_offset = -1};
    return frame;
}

static uint64_t slot(const struct walk *w, int offset)
{
    uint64_t word = 0;
    stack_word(w->stack, w->r.fp + (uint64_t)(int64_t)offset, &word);
    return word;
}

/* The interpreter's registers are saved to the frame only around calls: in the innermost frame r12 holds the
 * bytecodes and r9 the offset, both as the handlers use them. */
static void read_bytecode_slots(struct walk *w, struct v8_frame *frame, bool in_interpreter)
{
    const struct v8_layout *l = &w->v8->layout;
    uint64_t bytecodes = slot(w, -32), offset = slot(w, -40);
    if (v8_type(&w->v8->heap, bytecodes) != l->type_bytecode)
        return;
    frame->bytecodes = bytecodes;
    if (in_interpreter && !w->call && w->registers->r12 == bytecodes)
        frame->bytecode_offset = (int32_t)w->registers->r9 - l->bytecode_data + 1;
    else if (v8_is_smi(offset))
        frame->bytecode_offset = v8_smi(offset) - l->bytecode_data + 1;
    else
        frame->tier = V8_BASELINE;
}

/* A frame whose [fp - 8] is a context. True when it really is a JavaScript function's. */
static bool add_function(struct walk *w, enum place place, bool in_interpreter, const char *builtin)
{
    uint64_t function = slot(w, -16);
    if (!v8_is_function(&w->v8->heap, function))
        return false;
    struct v8_frame *frame;
    if (place == PLACE_BUILTIN && !in_interpreter && w->call) { /* a builtin with JavaScript linkage */
        frame = add_frame(w, V8_BUILTIN);
        if (frame)
            frame->function = function;
        return true;
    }
    if (place == PLACE_BUILTIN && !in_interpreter) { /* innermost: it may have no frame of its own */
        uint64_t shared, script;
        frame = add_frame(w, V8_BUILTIN);
        if (v8_word(&w->v8->heap, function, w->v8->layout.function_shared, &shared) &&
            v8_word(&w->v8->heap, shared, w->v8->layout.shared_script, &script) &&
            v8_type(&w->v8->heap, script) != w->v8->layout.type_script)
            return true; /* the function is the builtin itself */
    }
    frame = add_frame(w, V8_JS);
    if (!frame)
        return true;
    frame->function = function;
    frame->context = slot(w, -8);
    frame->tier = in_interpreter ? V8_INTERPRETED : V8_OPTIMIZED;
    read_bytecode_slots(w, frame, in_interpreter);
    return true;
}

static uint64_t find_regexp(struct v8 *v8, const struct stack_copy *stack, uint64_t from, uint64_t to)
{
    enum { BYTES = 32768 };
    for (uint64_t at = from, word; at < MIN(to, from + BYTES) && stack_word(stack, at, &word); at += 8)
        if (v8_is_object(word) && v8_type(&v8->heap, word) == v8->layout.type_regexp)
            return word;
    return 0;
}

/* Compiled code of a regular expression; which one it is lies among the words of the frames around it. */
static void add_regexp(struct walk *w)
{
    struct v8_frame *frame = add_frame(w, V8_REGEXP);
    if (frame)
        frame->regexp = find_regexp(w->v8, w->stack, w->r.fp + 16, UINT64_MAX);
}

/* One of V8's frames, by the word below its frame pointer. False when it makes no sense. */
static bool add_v8_frame(struct walk *w, enum place place, const struct elf_symbol *builtin)
{
    const struct v8_layout *l = &w->v8->layout;
    /* Where builtins have no names, the bytecodes that only an interpreted function's frame holds tell. */
    bool in_interpreter =
        place == PLACE_BUILTIN &&
        (builtin->name == UNKNOWN_BUILTIN ? v8_type(&w->v8->heap, slot(w, -32)) == w->v8->layout.type_bytecode
                                          : is_interpreter(builtin->name));
    uint64_t mark = slot(w, -8);
    if (v8_is_object(mark)) {
        if (add_function(w, place, in_interpreter, builtin->name))
            return true;
        if (place == PLACE_GENERATED && l->frame_irregexp < 0 && v8_is_string(&w->v8->heap, mark)) {
            add_regexp(w);
            return true;
        }
        struct v8_frame *frame = add_frame(w, V8_BUILTIN);
        uint64_t function = slot(w, -16), map;
        if (frame && v8_is_object(function) && !v8_word(&w->v8->heap, function, 0, &map))
            frame->function = function; /* of a heap that has ended: it has no name any more */
        return frame != NULL;
    }
    if (mark & 1 || mark >> 1 == 0 || mark >> 1 > (uint64_t)l->frame_last + 8)
        return false;
    int32_t type = (int32_t)(mark >> 1);
    if (type == l->frame_irregexp)
        add_regexp(w);
    else if (type == l->frame_entry || type == l->frame_construct_entry)
        add_frame(w, V8_ENTRY);
    else
        add_frame(w, V8_BUILTIN);
    return true;
}

/* From a V8 frame to its caller. */
static bool leave_v8_frame(struct walk *w)
{
    uint64_t fp, pc;
    if (w->r.fp < w->r.sp || !stack_word(w->stack, w->r.fp, &fp) || !stack_word(w->stack, w->r.fp + 8, &pc)) {
        w->out->truncated = "the frame pointer does not lie on the stack";
        return false;
    }
    w->r = (struct registers){.pc = pc, .sp = w->r.fp + 16, .fp = fp};
    w->call = true;
    return true;
}

/* Before its first instructions ran, a builtin's or generated function's frame is still its caller's: the
 * return address is at the top of the stack. Recognised by the prologue's bytes: push rbp; mov rbp, rsp. */
static bool leave_prologue(struct walk *w)
{
    uint8_t code[4];
    uint64_t pc;
    if (w->call || memory_read(w->v8->heap.pid, w->r.pc, code, sizeof(code)) < 0)
        return false;
    if (code[0] == 0x55 && code[1] == 0x48 && code[2] == 0x89 && stack_word(w->stack, w->r.sp, &pc)) {
        w->r.pc = pc;
        w->r.sp += 8;
    } else if (code[0] == 0xc3 && stack_word(w->stack, w->r.sp, &pc)) { /* ret */
        w->r.pc = pc;
        w->r.sp += 8;
    } else {
        return false;
    }
    w->call = true;
    return true;
}

static bool is_exit_marker(const struct v8_layout *l, uint64_t word)
{
    int32_t type = (int32_t)(word >> 1);
    return word < 256 && !(word & 1) &&
           (type == l->frame_exit ||
            (type > 0 &&
             (type == l->frame_builtin_exit || type == l->frame_api_exit || type == l->frame_accessor_exit)));
}

/* Is the word a return address of native code: does a call instruction end there? */
static bool is_native_return(struct walk *w, uint64_t word)
{
    uint64_t address;
    struct elf *elf = native_file_at(w->v8->native, word - 1, &address, NULL);
    if (!elf || (elf == w->v8->elf && address - w->v8->layout.blob_address < w->v8->layout.blob_size))
        return false;
    const uint8_t *code = elf_bytes(elf, address + 1 - 6, 6, NULL);
    return code &&
           (code[1] == 0xe8 || (code[0] == 0xff && (code[1] & 0x38) == 0x10) ||
            (code[4] == 0xff && (code[5] & 0x38) == 0x10) || (code[3] == 0xff && (code[4] & 0x38) == 0x10));
}

/* Assembly without unwind rules: look up the stack for the frame in which V8 called native code. What lies
 * between is named by the return addresses found there; some may be left over from earlier calls. */
static bool find_exit_frame(struct walk *w)
{
    enum { BYTES = 65536, GUESSES = 40 };
    int guesses = 0;
    uint64_t word, fp, pc;
    for (uint64_t at = (w->r.sp + 7) & ~7ull, end = at + BYTES; at < end && stack_word(w->stack, at, &word);
         at += 8) {
        if (is_exit_marker(&w->v8->layout, word) && stack_word(w->stack, at + 8, &fp) && fp > at + 8 &&
            stack_word(w->stack, at + 16, &pc)) {
            struct elf_symbol builtin;
            enum place place = place_of(w->v8, pc - 1, &builtin);
            uint64_t ignored;
            if ((place == PLACE_BUILTIN || place == PLACE_GENERATED) && stack_word(w->stack, fp, &ignored)) {
                w->r = (struct registers){.pc = pc, .sp = at + 24, .fp = fp};
                return true;
            }
        }
        if (guesses < GUESSES && w->out->count < V8_FRAMES_MAX && is_native_return(w, word)) {
            struct registers before = w->r;
            w->r.pc = word;
            struct v8_frame *frame = add_frame(w, V8_NATIVE);
            if (frame)
                frame->guessed = true;
            w->r = before;
            guesses++;
        }
    }
    return false;
}

static bool walk_native(struct walk *w)
{
    if (!add_frame(w, V8_NATIVE))
        return false;
    enum native_step step = native_step(w->v8->native, w->stack, &w->r, w->call);
    w->call = true;
    switch (step) {
    case STEP_CALLER:
        return true;
    case STEP_END:
        return false;
    case STEP_NO_STACK:
        w->out->truncated = "the copy of the stack ends here";
        return false;
    default:
        break;
    }
    size_t count = w->out->count;
    if (find_exit_frame(w))
        return true;
    w->out->count = count;
    w->out->truncated = "no unwind rule covers the code";
    return false;
}

void v8_walk(struct v8 *v8, const struct user_regs_struct *registers, const struct stack_copy *stack,
             struct v8_stack *ret_stack)
{
    v8_stack_init(ret_stack);
    struct walk w = {.v8 = v8,
                     .stack = stack,
                     .registers = registers,
                     .out = ret_stack,
                     .r = {.pc = registers->rip, .sp = registers->rsp, .fp = registers->rbp}};
    while (!ret_stack->truncated) {
        struct elf_symbol builtin = {.name = ""};
        switch (place_of(v8, w.r.pc - w.call, &builtin)) {
        case PLACE_NATIVE:
            if (!walk_native(&w))
                return;
            break;
        case PLACE_BUILTIN:
            if (!w.call && !is_interpreter(builtin.name)) {
                struct walk before = w;
                if (leave_prologue(&w)) {
                    struct registers caller = w.r;
                    w.r = before.r;
                    w.call = false;
                    add_frame(&w, V8_BUILTIN);
                    w.r = caller;
                    w.call = true;
                    break;
                }
            }
            if (!add_v8_frame(&w, PLACE_BUILTIN, &builtin)) {
                ret_stack->truncated = "a frame of V8 that makes no sense";
                return;
            }
            if (!leave_v8_frame(&w))
                return;
            break;
        case PLACE_GENERATED:
            if (leave_prologue(&w))
                break;
            if (!add_v8_frame(&w, PLACE_GENERATED, &builtin)) {
                ret_stack->truncated = "generated code of an unknown kind";
                return;
            }
            if (!leave_v8_frame(&w))
                return;
            break;
        case PLACE_NOWHERE:
            if (w.r.pc)
                ret_stack->truncated = "the return address is not in code";
            return;
        }
    }
}

/* ---- naming ---- */

static void name_native(struct v8 *v8, struct v8_frame *frame)
{
    frame->name = native_name(v8->native, frame->pc, frame->call);
}

static void name_builtin(struct v8 *v8, struct v8_frame *frame)
{
    struct elf_symbol symbol = {0};
    char *name = NULL;
    if (place_of(v8, frame->pc - frame->call, &symbol) == PLACE_BUILTIN) {
        name = strdup(strncmp(symbol.name, "Builtins_", 9) == 0 ? symbol.name + 9 : symbol.name);
    } else if (frame->function) {
        struct v8_function function;
        if (v8_function(&v8->heap, frame->function, &function) == 0)
            name = function.name;
    }
    frame->name = name ? name : strdup(frame->function ? "(gone)" : "V8 stub");
}

static const struct {
    uint32_t bit;
    char letter;
} REGEXP_FLAGS[] = {{1 << 7, 'd'}, {1, 'g'},  {2, 'i'},      {1 << 6, 'l'}, {4, 'm'},
                    {1 << 5, 's'}, {16, 'u'}, {1 << 8, 'v'}, {8, 'y'}};

static bool read_pattern(struct v8 *v8, uint64_t regexp, char **ret_pattern, char **ret_flags)
{
    const struct v8_layout *l = &v8->layout;
    uint64_t source, flags;
    if (!regexp || !v8_word(&v8->heap, regexp, l->regexp_source, &source))
        return false;
    char *pattern = v8_string(&v8->heap, source, 4096);
    if (!pattern)
        return false;
    char text[16], *to = text;
    if (v8_word(&v8->heap, regexp, l->regexp_flags, &flags) && v8_is_smi(flags))
        for (size_t i = 0; i < ARRAY_SIZE(REGEXP_FLAGS); i++)
            if ((uint32_t)v8_smi(flags) & REGEXP_FLAGS[i].bit)
                *to++ = REGEXP_FLAGS[i].letter;
    *to = '\0';
    *ret_pattern = pattern;
    *ret_flags = strdup(text);
    return true;
}

static void name_regexp(struct v8 *v8, struct v8_frame *frame)
{
    frame->name = strdup("(regular expression)");
    read_pattern(v8, frame->regexp, &frame->pattern, &frame->flags);
}

bool v8_find_pattern(struct v8 *v8, const struct stack_copy *stack, uint64_t from, uint64_t to,
                     char **ret_pattern, char **ret_flags)
{
    return read_pattern(v8, find_regexp(v8, stack, from, to), ret_pattern, ret_flags);
}

/* A path is shown as people write it: modules carry URLs. */
static char *script_name(struct v8 *v8, uint64_t script)
{
    uint64_t word;
    if (!v8_word(&v8->heap, script, v8->layout.script_name, &word))
        return NULL;
    char *name = v8_string(&v8->heap, word, 4096);
    if (name && strncmp(name, "file://", 7) == 0) {
        memmove(name, name + 7, strlen(name + 7) + 1);
        (void)text_decode_percent(name);
    }
    return name;
}

static void set_name(struct v8_frame *frame, struct v8_function *function)
{
    if (function->name && *function->name) {
        frame->name = function->name;
    } else {
        free(function->name);
        frame->name = strdup("(anonymous)");
    }
    function->name = NULL;
}

/* Where a person wrote it, when the script was translated from something else. */
static void map_place(struct v8 *v8, uint64_t script, struct v8_frame *frame)
{
    struct source_place place;
    if (!frame->line ||
        !v8_original(&v8->heap, &v8->sources, script, frame->script, frame->line, frame->column, &place))
        return;
    char *file = strdup(place.file);
    if (!file)
        return;
    free(frame->script);
    frame->script = file;
    frame->line = place.line;
    frame->column = place.column;
}

/* A frame of optimised code stands for the function and those inlined at its pc. False when its code says
 * nothing. */
static bool name_optimised(struct v8 *v8, const struct v8_frame *frame, const struct v8_code *code,
                           struct v8_stack *out)
{
    struct v8_inlined list[16];
    size_t count = v8_inlined_at(&v8->heap, code, frame->pc - frame->call, list, ARRAY_SIZE(list));
    for (size_t i = 0; i < count; i++) {
        struct v8_frame inlined = *frame;
        struct v8_function function;
        int r = list[i].shared ? v8_function_of_shared(&v8->heap, list[i].shared, &function)
                               : v8_function(&v8->heap, frame->function, &function);
        if (r < 0)
            continue;
        set_name(&inlined, &function);
        if (function.script) {
            inlined.script = script_name(v8, function.script);
            if (!v8->without_positions)
                v8_locate_position(&v8->heap, &v8->sources, function.script, list[i].position, &inlined.line,
                                   &inlined.column);
            map_place(v8, function.script, &inlined);
        }
        inlined.position = inlined.line ? V8_POSITION_EXACT : V8_POSITION_NONE;
        *v8_stack_push(out) = inlined;
    }
    return count > 0;
}

static void name_js(struct v8 *v8, struct v8_frame *frame, struct v8_stack *out)
{
    struct v8_function function;
    struct v8_code code = {0};
    if (frame->tier != V8_INTERPRETED && v8_code_at(&v8->heap, frame->pc - frame->call, &code) == 0)
        frame->tier = code.baseline ? V8_BASELINE : V8_OPTIMIZED;
    if (frame->tier == V8_OPTIMIZED && code.code) {
        /* In a loop that was replaced while it ran, the loop says more than the position of the last call
         * before it, which is all that optimised code knows. */
        frame->bytecode_offset = frame->call ? -1 : code.loop_offset;
        if (frame->bytecode_offset < 0 && name_optimised(v8, frame, &code, out))
            return;
    }
    struct v8_frame *named = v8_stack_push(out);
    *named = *frame;
    if (v8_function(&v8->heap, frame->function, &function) < 0) {
        named->name = strdup("(moved)");
        return;
    }
    set_name(named, &function);
    if (!function.script)
        return;
    named->script = script_name(v8, function.script);
    if (v8->without_positions)
        return;
    if (frame->tier == V8_BASELINE && code.code)
        named->bytecode_offset =
            v8_baseline_offset(&v8->heap, &code, frame->bytecodes, frame->pc, frame->call);
    v8_locate(&v8->heap, &v8->sources, &function, frame->bytecodes ? frame->bytecodes : function.bytecodes,
              named->bytecode_offset, frame->context, &named->line, &named->column, &named->position);
    map_place(v8, function.script, named);
}

void v8_name_frames(struct v8 *v8, struct v8_stack *stack)
{
    struct v8_stack *named = malloc(sizeof(*named));
    if (!named)
        return;
    v8_stack_init(named);
    named->truncated = stack->truncated;
    named->left_out = stack->left_out;
    for (size_t i = 0; i < stack->count; i++) {
        struct v8_frame *frame = &stack->frames[i];
        if (stack->gap && i == stack->gap)
            named->gap = named->count;
        if (frame->kind == V8_JS) {
            name_js(v8, frame, named);
            continue;
        }
        frame = memcpy(v8_stack_push(named), frame, sizeof(*frame));
        if (frame->kind == V8_NATIVE)
            name_native(v8, frame);
        else if (frame->kind == V8_BUILTIN)
            name_builtin(v8, frame);
        else if (frame->kind == V8_REGEXP)
            name_regexp(v8, frame);
        else
            frame->name = strdup("(entry)");
    }
    memcpy(stack->frames, named->frames, named->count * sizeof(*named->frames));
    stack->count = named->count;
    stack->gap = named->gap;
    stack->left_out = named->left_out;
    free(named);
}

void v8_name_words(struct v8 *v8, uint64_t pc, bool call, const uint64_t words[4], struct v8_stack *stack)
{
    enum { AT = 4096, FP = AT + 40 }; /* an address for the copy: any will do */
    uint64_t frame[7] = {words[3], words[2], 0, words[1], words[0], 0, 0};
    struct stack_copy copy = {.start = AT, .bytes = (const uint8_t *)frame, .size = sizeof(frame)};
    struct user_regs_struct registers = {0};
    struct v8_stack *one = malloc(sizeof(*one));
    if (!one)
        return;
    v8_stack_init(one);
    struct walk w = {.v8 = v8,
                     .stack = &copy,
                     .registers = &registers,
                     .out = one,
                     .r = {.pc = pc, .fp = FP},
                     .call = call};
    struct elf_symbol builtin = {.name = ""};
    enum place place = place_of(v8, pc - call, &builtin);
    if (place == PLACE_NOWHERE) /* generated since the mappings were read */
        place = PLACE_GENERATED;
    if ((place == PLACE_BUILTIN || place == PLACE_GENERATED) && add_v8_frame(&w, place, &builtin)) {
        v8_name_frames(v8, one);
        for (size_t i = 0; i < one->count; i++) {
            if (stack->count < V8_FRAMES_MAX) {
                stack->frames[stack->count++] = one->frames[i];
                one->frames[i] = (struct v8_frame){0};
            }
        }
    }
    v8_stack_done(one);
    free(one);
}

uint64_t v8_words_identity(struct v8 *v8, const uint64_t words[4])
{
    return v8_is_object(words[0]) ? v8_function_identity(&v8->heap, words[1]) : 1; /* V8's own code */
}

bool v8_builtins_in(struct v8 *v8, const struct mapping *mapping, uint64_t *ret_start, uint64_t *ret_end)
{
    const struct modules *modules = native_modules(v8->native);
    if (!mapping->has_bias || mapping->module == UINT32_MAX)
        return false;
    struct native_file *file = native_file_of(v8->native, &modules->list.at[mapping->module]);
    if (!file || native_file_elf(file) != v8->elf)
        return false;
    uint64_t start = v8->layout.blob_address + mapping->load_bias, end = start + v8->layout.blob_size;
    *ret_start = MAX(start, mapping->start);
    *ret_end = MIN(end, mapping->end);
    return *ret_start < *ret_end;
}
