/* Names for a process's stacks: each frame's function, whatever runtime it is of, and walking copied stacks.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/process.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "symbol/demangle.h"
#include "unwind/hotspot.h"

/* How long a name in a heap that moves is believed. */
#define MOVING_NS NS_PER_S

/* Names kept for each process: those of its native frames are kept with the files, too. */
#define NAMES_LIMIT   4096
#define INLINED_LIMIT 32 /* functions in one another at one address */
#define SHARED_LIMIT  24576

/* Reading a code cache takes milliseconds: not more often than this, and a tenth of the time at most. */
#define JAVA_MIN_NS (10 * NS_PER_MS)
#define JAVA_SHARE  10

void process_forget_names(struct process_names *names)
{
    if (names->places.count > NAMES_LIMIT)
        map_done(&names->places);
    else
        map_clear(&names->places);
    array_done(&names->frames);
}

#define UNKNOWN_CODE "[unknown code]"

/* What a stack counts for before any of its frames says more. */
static enum profile_frame_kind main_runtime(const struct process *p)
{
    return p->v8                           ? FRAME_JS
           : p->hotspot || p->unknown_java ? FRAME_JAVA
           : p->has_python                 ? FRAME_PYTHON
                                           : FRAME_NATIVE;
}

static void put(struct process_stack *stack, uint32_t frame)
{
    if (stack->count < ARRAY_SIZE(stack->frames))
        stack->frames[stack->count++] = frame;
}

/* The kernel's rows follow at the next occasion. */
static bool read_code_cache(struct process *p, uint64_t now_ns)
{
    if (now_ns - p->java_read_ns <= p->java_pause_ns)
        return false;
    hotspot_refresh(p->hotspot);
    p->java_read_ns = clock_monotonic_ns();
    p->java_pause_ns = MAX(JAVA_MIN_NS, JAVA_SHARE * (p->java_read_ns - now_ns));
    p->refresh_wanted = true;
    return true;
}

static bool name_java(struct process *p, struct profile *profile, uint64_t pc, bool call, uint64_t method,
                      struct process_stack *out)
{
    struct hotspot_frame frames[32];
    size_t count = hotspot_name(p->hotspot, pc, call, method, frames, ARRAY_SIZE(frames));
    uint64_t low, high;
    hotspot_range(p->hotspot, &low, &high);
    if (!count && pc >= low && pc < high && read_code_cache(p, clock_monotonic_ns())) /* compiled since */
        count = hotspot_name(p->hotspot, pc, call, method, frames, ARRAY_SIZE(frames));
    if (!count && pc >= low && pc < high) {
        put(out, profile_named_frame(profile, "[compiled just now]", FRAME_RUNTIME));
        return true;
    }
    for (size_t i = 0; i < count; i++)
        put(out,
            profile_named_frame(profile, frames[i].name, frames[i].is_method ? FRAME_JAVA : FRAME_RUNTIME));
    return count > 0;
}

void process_shared_done(struct process_shared *shared)
{
    memory_pages_done(&shared->pages);
    map_done(&shared->frames);
    map_done(&shared->places);
    array_done(&shared->ids);
}

/* Of what is known of an address of a file. */
static uint64_t *shared_slot(struct process_shared *names, struct map *map, const struct profile *profile,
                             uint64_t serial, uint64_t address, bool lines, bool *ret_new)
{
    uint64_t identity[3] = {serial, address, lines};
    if (names->of != profile->serial || map->count > SHARED_LIMIT) {
        map_clear(&names->frames);
        map_clear(&names->places);
        array_clear(&names->ids);
        names->of = profile->serial;
    }
    return map_put(map, map_hash(identity, sizeof(identity)), ret_new);
}

/* Source file and line of a function are asked for where it begins, hence once. */
static void place_native(struct process *p, struct profile *profile, const struct native_file *file,
                         uint64_t pc, uint64_t address, uint64_t at, bool lines, struct profile_frame *frame)
{
    struct line_position position;
    bool added;
    uint64_t *known =
        shared_slot(p->shared, &p->shared->places, profile, native_file_serial(file), at, lines, &added);
    if (known && !added) {
        frame->file = (uint32_t)(*known >> 32);
        frame->line = (uint32_t)*known;
        return;
    }
    if (native_line_at(p->native, pc - address + at, !lines, &position) == 0) {
        frame->file = profile_string(profile, position.file);
        frame->line = position.line;
    }
    if (known)
        *known = (uint64_t)frame->file << 32 | frame->line;
}

static uint32_t readable_name(struct profile *profile, const char *symbol)
{
    _cleanup_(freep) char *name = demangle_or_copy(symbol, false);
    return profile_string(profile, name ? name : symbol);
}

/* What one address of a file stands for: the functions inlined there, the innermost first, and at last the
 * one that has a symbol. Returns how many. */
static size_t native_frames(struct process *p, struct profile *profile, struct native_file *file,
                            const struct module *module, uint64_t pc, uint64_t address, bool lines,
                            struct profile_frame frames[1 + INLINED_LIMIT])
{
    struct profile_frame frame = {.kind = FRAME_NATIVE};
    struct line_inlined inlined[INLINED_LIMIT];
    struct elf_symbol symbol = {.value = address};
    char text[320];
    size_t count = 0;
    frame.module = profile_string(profile, basename(module->path));
    struct profile_frame place = frame; /* of the next frame, with lines */
    if (p->shared->source && lines)
        place_native(p, profile, file, pc, address, address, true, &place);
    if (p->shared->inlined)
        count = native_inlined_at(p->native, pc, inlined, INLINED_LIMIT);
    for (size_t i = 0; i < count; i++) {
        const struct line_position *declared = &inlined[i].declared, *call = &inlined[i].call;
        frames[i] = place;
        frames[i].name = readable_name(profile, inlined[i].name);
        if (p->shared->source && !lines && declared->file) {
            frames[i].file = profile_string(profile, declared->file);
            frames[i].line = declared->line;
        }
        if (p->shared->source && lines) {
            place.file = call->file ? profile_string(profile, call->file) : 0;
            place.line = call->line;
        }
    }
    frame = place;
    if (native_symbol_at(p->native, pc, &symbol) == 0) {
        frame.name = readable_name(profile, symbol.name);
    } else {
        symbol.value = address;
        native_place(native_file_elf(file), module, address, text, sizeof(text));
        frame.name = profile_string(profile, text);
    }
    if (p->shared->source && !lines)
        place_native(p, profile, file, pc, address, symbol.value, false, &frame);
    frames[count++] = frame;
    return count;
}

static void put_native(struct process *p, struct profile *profile, struct native_file *file,
                       const struct module *module, uint64_t pc, uint64_t address, bool lines,
                       struct process_stack *out)
{
    struct process_shared *shared = p->shared;
    struct profile_frame frames[1 + INLINED_LIMIT];
    bool added;
    uint64_t *known =
        shared_slot(shared, &shared->frames, profile, native_file_serial(file), address, lines, &added);
    if (known && !added && *known) {
        for (uint64_t i = 0; i < (*known & 0xff); i++)
            put(out, shared->ids.at[(*known >> 8) + i]);
        return;
    }
    size_t count = native_frames(p, profile, file, module, pc, address, lines, frames),
           first = shared->ids.count;
    bool kept = true;
    for (size_t i = 0; i < count; i++) {
        uint32_t id = profile_add_frame(profile, &frames[i]);
        kept &= array_add(&shared->ids, id) == 0;
        put(out, id);
    }
    known =
        kept ? shared_slot(shared, &shared->frames, profile, native_file_serial(file), address, lines, NULL)
             : NULL;
    if (known)
        *known = first << 8 | count;
}

static void name_native(struct process *p, struct profile *profile, uint64_t pc, bool call, bool lines,
                        struct process_stack *out)
{
    uint64_t address;
    const struct module *module;
    struct profile_frame frame = {.kind = FRAME_GENERATED};
    struct native_file *file = native_loaded_at(p->native, pc - call, &address, &module);
    if (file) {
        put_native(p, profile, file, module, pc - call, address, lines, out);
        return;
    }
    if (p->hotspot && name_java(p, profile, pc, call, 0, out))
        return;
    if (!p->perfmap_tried) {
        p->perfmap_tried = true;
        if (perfmap_read(p->pid, &p->perfmap) < 0)
            p->perfmap = NULL;
    }
    const char *name = p->perfmap ? perfmap_find(p->perfmap, pc - call) : NULL;
    p->refresh_wanted |= !name;
    frame.name = profile_string(profile, name ? name : UNKNOWN_CODE);
    put(out, profile_add_frame(profile, &frame));
}

/* Was the last frame one that nothing names? Then it is not known how its code uses the stack, either: what
 * frame pointers lead to from there would be a guess. */
static bool stop_at_unknown(const struct process *p, const struct profile *profile,
                            struct process_stack *stack)
{
    const struct profile_frame *last =
        stack->count ? &profile->frames.at[stack->frames[stack->count - 1]] : NULL;
    if (!last || last->kind != FRAME_GENERATED ||
        strcmp(profile_text(profile, last->name), UNKNOWN_CODE) != 0)
        return false;
    stack->end = p->unknown_java ? END_UNKNOWN_JAVA : END_UNKNOWN_CODE;
    return true;
}

static void name_v8(struct process *p, struct profile *profile, uint64_t pc, bool call,
                    const uint64_t words[4], bool lines, struct process_stack *out)
{
    struct v8_stack *stack = calloc(1, sizeof(*stack));
    if (!stack)
        return;
    v8_name_words(p->v8, pc, call, words, stack);
    for (size_t i = 0; i < stack->count; i++) {
        const struct v8_frame *f = &stack->frames[i];
        struct profile_frame frame = {.kind = FRAME_RUNTIME};
        if (f->kind == V8_ENTRY)
            continue;
        frame.kind = f->kind == V8_JS ? FRAME_JS : f->kind == V8_NATIVE ? FRAME_NATIVE : FRAME_RUNTIME;
        frame.name = profile_string(profile, f->name ? f->name : "?");
        if (f->script)
            frame.file = profile_string(profile, f->script);
        if (lines)
            frame.line = f->line;
        put(out, profile_add_frame(profile, &frame));
    }
    if (stack->count == 0)
        put(out, profile_named_frame(profile, "[V8 code]", FRAME_RUNTIME));
    v8_stack_done(stack);
    free(stack);
}

/* A frame's name is looked up by its words; those of moving heaps only for a while. */
static void name_frame(struct process *p, struct profile *profile, const uint64_t *words, size_t count,
                       bool call, bool lines, struct process_stack *out)
{
    uint64_t tag = words[0] >> SAMPLER_TAG_SHIFT, pc = SAMPLER_PC(words[0]);
    uint64_t identity[8] = {words[0], (uint64_t)call << 1 | lines};
    if (count > 1)
        memcpy(identity + 2, words + 1, (count - 1) * sizeof(*words));
    if (tag == SAMPLER_V8 && !lines)
        identity[5] = 0; /* the offset in the bytecodes */
    bool added;
    struct process_names *names = tag ? &p->moving : &p->names;
    uint64_t *known = map_put(&names->places, map_hash(identity, sizeof(identity)), &added);
    if (known && !added) {
        for (uint64_t i = 0; i < (*known & 0xff); i++)
            put(out, names->frames.at[(*known >> 8) + i]);
        return;
    }
    size_t before = out->count;
    if (tag == SAMPLER_V8 && p->v8)
        name_v8(p, profile, pc, call, words + 1, lines, out);
    else if (tag == SAMPLER_JAVA && p->hotspot)
        name_java(p, profile, pc, call, words[1], out);
    else
        name_native(p, profile, pc, call, lines, out);
    if (!known)
        return;
    *known = (uint64_t)names->frames.count << 8 | MIN(out->count - before, 255u);
    for (size_t i = before; i < out->count; i++)
        if (array_add(&names->frames, out->frames[i]) < 0)
            *known = 0;
}

/* Without memory it will be read again. */
static void remember(struct process_names *names, uint64_t key, uint32_t frame)
{
    bool added;
    uint64_t *place = map_put(&names->places, key, &added);
    if (place)
        *place = frame;
}

/* A process that has ended cannot be read: its code is what lay at the address last. */
static void name_python(struct process *p, struct profile *profile, uint64_t address,
                        const struct python_code *code, struct process_stack *out)
{
    uint64_t identity[] = {address,
                           (uint64_t)code->first_line,
                           code->name_text[0],
                           code->name_text[1],
                           code->file_text[0],
                           code->file_text[1]};
    bool readable = code->name != 0;
    uint64_t key = map_hash(identity, readable ? sizeof(identity) : sizeof(address));
    struct python_function function;
    const uint64_t *known = map_get(&p->names.places, key);
    uint32_t frame = known ? (uint32_t)*known : 0;
    if (!known && readable && python_function(&p->python, p->pid, code, &function) == 0) {
        struct profile_frame f = {.kind = FRAME_PYTHON, .line = function.line};
        f.name = profile_string(profile, function.name);
        f.file = profile_string(profile, function.file);
        frame = profile_add_frame(profile, &f);
        remember(&p->names, key, frame);
    }
    if (!frame)
        frame = profile_named_frame(profile, "[unreadable Python frame]", FRAME_PYTHON);
    else if (readable)
        remember(&p->names, map_hash(&address, sizeof(address)), frame);
    put(out, frame);
}

/* The Python frames of a sample, three words each, the innermost first. */
struct python_frames {
    const uint64_t *words;
    size_t count, next;
    struct python_code codes[SAMPLER_PYTHON];
};

/* The Python frames of one run of the interpreter's function take that function's place. */
static void put_python(struct process *p, struct profile *profile, struct python_frames *frames,
                       struct process_stack *out)
{
    enum python_mark mark = PYTHON_INSIDE;
    while (frames->next < frames->count && mark == PYTHON_INSIDE) {
        const uint64_t *words = frames->words + 3 * frames->next;
        mark = python_mark(&p->python, words[2]);
        if (mark != PYTHON_BORDER)
            name_python(p, profile, words[0], &frames->codes[frames->next], out);
        frames->next++;
    }
}

static bool is_python_frame(const struct process *p, uint64_t word, bool call)
{
    return p->has_python && !(word >> SAMPLER_TAG_SHIFT) && python_is_evaluate(&p->python, word - call);
}

static void forget_java(struct process *p)
{
    hotspot_forget_names(p->hotspot);
    process_forget_names(&p->moving);
}

void process_name(struct process *p, struct profile *profile, const struct sampler_sample *sample,
                  const uint64_t *user, const uint64_t *python, uint64_t now_ns,
                  struct process_stack *ret_stack)
{
    bool lines = p->shared->lines;
    bool other = p->names_of != profile->serial;
    if (other || p->names.places.count > NAMES_LIMIT || p->names.frames.count > 4 * NAMES_LIMIT)
        process_forget_names(&p->names);
    if (other || p->moving.places.count > NAMES_LIMIT || now_ns - p->moving_ns > MOVING_NS) {
        process_forget_names(&p->moving);
        p->moving_ns = now_ns;
    }
    if (p->hotspot && !p->gone && hotspot_unloaded(p->hotspot, now_ns)) {
        p->unloaded_ns = clock_monotonic_ns();
        read_code_cache(p, p->unloaded_ns);
    }
    if (sample->time_ns < p->unloaded_ns && p->hotspot) /* what it names may be another's soon */
        forget_java(p);
    p->names_of = profile->serial;
    struct python_frames frames = {.words = python, .count = MIN(sample->python_words / 3, SAMPLER_PYTHON)};
    if (frames.count && p->has_python)
        python_codes(&p->python, p->pid, python, 3, frames.count, frames.codes);
    ret_stack->runtime = FRAME_NATIVE;
    ret_stack->end = END_COMPLETE;
    for (uint32_t i = 0; i < sample->user_words;) {
        uint64_t tag = user[i] >> SAMPLER_TAG_SHIFT;
        size_t count = tag == SAMPLER_V8 ? 5 : tag == SAMPLER_JAVA ? 3 : 1;
        if (i + count > sample->user_words)
            break;
        bool call = i > 0;
        if (is_python_frame(p, user[i], call)) {
            ret_stack->runtime = FRAME_PYTHON;
            put_python(p, profile, &frames, ret_stack);
        } else {
            name_frame(p, profile, user + i, count, call, lines, ret_stack);
            if (stop_at_unknown(p, profile, ret_stack))
                break;
        }
        i += (uint32_t)count;
    }
    if (ret_stack->runtime == FRAME_NATIVE)
        ret_stack->runtime = main_runtime(p);
    /* Python frames that no native frame stands for (the native walk ended early) are better than none. */
    while (frames.next < frames.count)
        put_python(p, profile, &frames, ret_stack);
    if (sample->time_ns < p->unloaded_ns && p->hotspot)
        forget_java(p);
}

static enum native_step step_and_name(struct process *p, struct profile *profile,
                                      const struct stack_copy *copy, struct registers *r, bool call,
                                      bool lines, struct process_stack *out)
{
    uint64_t low = 0, high = 0, method, pc = r->pc;
    if (p->hotspot)
        hotspot_range(p->hotspot, &low, &high);
    if (pc < low || pc >= high) {
        name_native(p, profile, pc, call, lines, out);
        return native_step(p->native, copy, r, call);
    }
    enum native_step step = hotspot_step(p->hotspot, copy, r, call, &method);
    name_java(p, profile, pc, call, method, out); /* reads the code cache again when the code is new */
    return step == STEP_NO_MODULE ? hotspot_step(p->hotspot, copy, r, call, &method) : step;
}

void process_walk(struct process *p, struct profile *profile, const struct registers *registers,
                  const struct stack_copy *copy, struct process_stack *ret_stack, enum sampler_end *ret_end)
{
    bool lines = p->shared->lines;
    ret_stack->runtime = main_runtime(p);
    *ret_end = END_COMPLETE;
    if (p->v8) {
        struct user_regs_struct r = {.rip = registers->pc, .rsp = registers->sp, .rbp = registers->fp};
        struct v8_stack *stack = calloc(1, sizeof(*stack));
        if (!stack)
            return;
        v8_walk(p->v8, &r, copy, stack);
        v8_name_frames(p->v8, stack);
        for (size_t i = 0; i < stack->count; i++) {
            const struct v8_frame *f = &stack->frames[i];
            struct profile_frame frame = {.kind = f->kind == V8_JS       ? FRAME_JS
                                                  : f->kind == V8_NATIVE ? FRAME_NATIVE
                                                                         : FRAME_RUNTIME};
            if (f->kind == V8_ENTRY)
                continue;
            frame.name = profile_string(profile, f->name ? f->name : "?");
            frame.file = f->script ? profile_string(profile, f->script) : 0;
            frame.line = lines ? f->line : 0;
            put(ret_stack, profile_add_frame(profile, &frame));
        }
        if (stack->truncated)
            *ret_end = END_NO_ROW;
        v8_stack_done(stack);
        free(stack);
        return;
    }
    struct registers r = *registers;
    for (int i = 0; i < SAMPLER_DEPTH; i++) {
        switch (step_and_name(p, profile, copy, &r, i > 0, lines, ret_stack)) {
        case STEP_CALLER:
            continue;
        case STEP_END:
            return;
        case STEP_NO_MODULE:
            *ret_end = stop_at_unknown(p, profile, ret_stack) ? ret_stack->end : END_NO_MODULE;
            return;
        case STEP_NO_STACK:
            *ret_end = END_NO_MEMORY;
            return;
        default:
            *ret_end = END_NO_ROW;
            return;
        }
    }
    *ret_end = END_DEPTH;
}
