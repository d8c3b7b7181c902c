/* Names for a process's stacks: each frame's function, whatever runtime it is of, and walking copied stacks.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "symbol/demangle.h"

/* How long a name in a heap that moves is believed. */
#define MOVING_NS NS_PER_S

#define INLINED_LIMIT 32 /* functions in one another at one address */
#define SHARED_LIMIT  24576

#define UNKNOWN_CODE "[unknown code]"

/* What a stack counts for before any of its frames says more. */
static enum profile_frame_kind main_runtime(const struct process *p)
{
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state || (p->runtimes[i].unreadable && RUNTIMES[i]->unknown))
            return RUNTIMES[i]->language;
    return FRAME_NATIVE;
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
            process_put(out, shared->ids.at[(*known >> 8) + i]);
        return;
    }
    size_t count = native_frames(p, profile, file, module, pc, address, lines, frames),
           first = shared->ids.count;
    bool kept = true;
    for (size_t i = 0; i < count; i++) {
        uint32_t id = profile_add_frame(profile, &frames[i]);
        kept &= array_add(&shared->ids, id) == 0;
        process_put(out, id);
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
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->name &&
            RUNTIMES[i]->name(p->runtimes[i].state, p, profile, pc, call, NULL, lines, out))
            return;
    if (!p->perfmap_tried) {
        p->perfmap_tried = true;
        if (perfmap_read(p->pid, &p->perfmap) < 0)
            p->perfmap = NULL;
    }
    const char *name = p->perfmap ? perfmap_find(p->perfmap, pc - call) : NULL;
    p->refresh_wanted |= !name;
    frame.name = profile_string(profile, name ? name : UNKNOWN_CODE);
    process_put(out, profile_add_frame(profile, &frame));
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
    stack->end = END_UNKNOWN_CODE;
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].unreadable && RUNTIMES[i]->unknown)
            stack->end = END_UNKNOWN_JAVA;
    return true;
}

/* Of frames with that tag; NULL: none has it. */
static const struct runtime *tagged(uint64_t tag, size_t *ret_place)
{
    for (*ret_place = 0; tag && RUNTIMES[*ret_place]; ++*ret_place)
        if (RUNTIMES[*ret_place]->tag == tag)
            return RUNTIMES[*ret_place];
    return NULL;
}

static uint64_t frame_key(const struct process *p, const uint64_t *words, size_t count, bool call, bool lines,
                          const struct runtime *runtime)
{
    uint64_t identity[8] = {words[0], (uint64_t)call << 1 | lines, [7] = p->generation};
    if (count > 1)
        memcpy(identity + 2, words + 1, (count - 1) * sizeof(*words));
    if (runtime && runtime->has_position && !lines)
        identity[1 + runtime->words] = 0;
    return map_hash(identity, sizeof(identity));
}

static void put_known(const struct process_names *names, uint64_t known, struct process_stack *out)
{
    for (uint64_t i = 0; i < (known & 0xff); i++)
        process_put(out, names->frames.at[(known >> 8) + i]);
}

/* Keeps the frames that were put last; false: not all of them. */
static bool keep_frames(struct process_names *names, const struct process_stack *out, size_t before,
                        uint64_t *ret_known)
{
    *ret_known = (uint64_t)names->frames.count << 8 | MIN(out->count - before, 255u);
    for (size_t i = before; i < out->count; i++)
        if (array_add(&names->frames, out->frames[i]) < 0)
            return false;
    return true;
}

static void name_untagged(struct process *p, struct profile *profile, const uint64_t *words, bool call,
                          bool lines, struct process_stack *out)
{
    bool added;
    uint64_t key = frame_key(p, words, 1, call, lines, NULL), *known = map_put(&p->names.places, key, &added);
    if (known && !added) {
        put_known(&p->names, *known, out);
        return;
    }
    size_t before = out->count;
    out->passing = false;
    name_native(p, profile, SAMPLER_PC(words[0]), call, lines, out);
    out->unsettled |= out->passing;
    if (known && out->passing)
        map_remove(&p->names.places, key);
    else if (known && !keep_frames(&p->names, out, before, known))
        *known = 0;
}

/* A name in a heap that moves is believed for a while; after that, if its function is still the same. */
static bool still_holds(const struct process *p, const struct runtime *runtime, void *state,
                        const uint64_t *words, uint64_t now_ns, struct process_moving *move)
{
    bool fresh = move->refreshed == p->refreshed && now_ns - move->read_ns <= MOVING_NS;
    if (!fresh && (!move->identity || runtime->identity(state, words + 1) != move->identity))
        return false;
    if (!fresh)
        move->read_ns = now_ns;
    move->refreshed = p->refreshed;
    return true;
}

static void name_tagged(struct process *p, struct profile *profile, const struct runtime *runtime,
                        void *state, const uint64_t *words, size_t count, bool call, bool lines,
                        uint64_t now_ns, struct process_stack *out)
{
    bool added;
    uint64_t key = frame_key(p, words, count, call, lines, runtime),
             *at = map_put(&p->moving.places, key, &added);
    if (at && !added && still_holds(p, runtime, state, words, now_ns, &p->moves.at[*at])) {
        put_known(&p->moving, p->moves.at[*at].frames, out);
        return;
    }
    size_t before = out->count;
    struct process_moving move = {.read_ns = now_ns, .refreshed = p->refreshed};
    out->passing = false;
    if (at && runtime->identity)
        move.identity = runtime->identity(state, words + 1);
    runtime->name(state, p, profile, SAMPLER_PC(words[0]), call, words + 1, lines, out);
    out->unsettled |= out->passing;
    if (!at)
        return;
    bool kept = !out->passing && keep_frames(&p->moving, out, before, &move.frames);
    if (kept && added) {
        *at = p->moves.count;
        kept = array_add(&p->moves, move) == 0;
    } else if (kept) {
        p->moves.at[*at] = move;
    }
    if (!kept)
        map_remove(&p->moving.places, key);
}

static void name_frame(struct process *p, struct profile *profile, const uint64_t *words, size_t count,
                       bool call, bool lines, uint64_t now_ns, struct process_stack *out)
{
    size_t place;
    const struct runtime *runtime = tagged(words[0] >> SAMPLER_TAG_SHIFT, &place);
    void *state = runtime ? p->runtimes[place].state : NULL;
    if (state)
        name_tagged(p, profile, runtime, state, words, count, call, lines, now_ns, out);
    else
        name_untagged(p, profile, words, call, lines, out);
}

/* The interpreter whose function it is; NULL: none's. */
static const struct runtime *interpreter_at(const struct process *p, uint64_t word, bool call,
                                            size_t *ret_place)
{
    for (size_t i = 0; !(word >> SAMPLER_TAG_SHIFT) && RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->is_interpreter &&
            RUNTIMES[i]->is_interpreter(p->runtimes[i].state, word - call)) {
            *ret_place = i;
            return RUNTIMES[i];
        }
    return NULL;
}

static void begin_runtimes(struct process *p, const struct sampler_sample *sample, const uint64_t *python,
                           uint64_t now_ns)
{
    p->generation = 0;
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->begin)
            RUNTIMES[i]->begin(p->runtimes[i].state, p, sample, python, now_ns);
}

void process_name(struct process *p, struct profile *profile, const struct sampler_sample *sample,
                  const uint64_t *user, const uint64_t *python, uint64_t now_ns,
                  struct process_stack *ret_stack)
{
    bool lines = p->shared->lines;
    bool other = p->names_of != profile->serial;
    if (other || p->names.places.count > PROCESS_NAMES_LIMIT ||
        p->names.frames.count > 4 * PROCESS_NAMES_LIMIT)
        process_forget_names(&p->names);
    if (other || p->moves.count > PROCESS_MOVING_LIMIT || p->moving.frames.count > 4 * PROCESS_MOVING_LIMIT)
        process_forget_moving(p);
    p->names_of = profile->serial;
    begin_runtimes(p, sample, python, now_ns);
    ret_stack->runtime = FRAME_NATIVE;
    ret_stack->end = END_COMPLETE;
    for (uint32_t i = 0; i < sample->user_words;) {
        size_t place;
        const struct runtime *runtime = tagged(user[i] >> SAMPLER_TAG_SHIFT, &place);
        size_t count = runtime ? 1 + runtime->words : 1;
        if (i + count > sample->user_words)
            break;
        bool call = i > 0;
        const struct runtime *interpreter = interpreter_at(p, user[i], call, &place);
        if (interpreter) {
            ret_stack->runtime = interpreter->language;
            interpreter->put_interpreted(p->runtimes[place].state, p, profile, ret_stack);
        } else {
            name_frame(p, profile, user + i, count, call, lines, now_ns, ret_stack);
            if (stop_at_unknown(p, profile, ret_stack))
                break;
        }
        i += (uint32_t)count;
    }
    if (ret_stack->runtime == FRAME_NATIVE)
        ret_stack->runtime = main_runtime(p);
    /* Interpreted frames that no native frame stands for (the native walk ended early) are better than none.
     */
    for (size_t i = 0; RUNTIMES[i]; i++)
        while (p->runtimes[i].state && RUNTIMES[i]->put_interpreted &&
               RUNTIMES[i]->put_interpreted(p->runtimes[i].state, p, profile, ret_stack))
            ;
}

static enum native_step step_and_name(struct process *p, struct profile *profile,
                                      const struct stack_copy *copy, struct registers *r, bool call,
                                      bool lines, struct process_stack *out)
{
    enum native_step step;
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->step &&
            RUNTIMES[i]->step(p->runtimes[i].state, p, profile, copy, r, call, out, &step))
            return step;
    name_native(p, profile, r->pc, call, lines, out);
    return native_step(p->native, copy, r, call);
}

static void walk_copy(struct process *p, struct profile *profile, const struct registers *registers,
                      const struct stack_copy *copy, struct process_stack *ret_stack,
                      enum sampler_end *ret_end)
{
    bool lines = p->shared->lines;
    ret_stack->runtime = main_runtime(p);
    *ret_end = END_COMPLETE;
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (p->runtimes[i].state && RUNTIMES[i]->walk) {
            RUNTIMES[i]->walk(p->runtimes[i].state, profile, registers, copy, lines, ret_stack, ret_end);
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

void process_walk(struct process *p, struct profile *profile, const struct sampler_sample *sample,
                  uint64_t now_ns, const struct registers *registers, const struct stack_copy *copy,
                  struct process_stack *ret_stack, enum sampler_end *ret_end)
{
    begin_runtimes(p, sample, NULL, now_ns);
    walk_copy(p, profile, registers, copy, ret_stack, ret_end);
}
