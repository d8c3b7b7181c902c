/* Node's stacks in profiles: see profile/runtime.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#include <stdlib.h>

#include "targets/node/unwind.h"

static int open_v8(struct process *p, void **ret_state)
{
    struct v8 *v8;
    int r = v8_open_native(p->native, &v8, NULL);
    if (r < 0)
        return r;
    v8_name_often(v8, &p->shared->pages, p->shared->lines);
    *ret_state = v8;
    return 0;
}

static void close_v8(void *state)
{
    v8_free(state);
}

static const char *called(const void *state)
{
    return "Node.js (V8)";
}

static const char *walked(const void *state)
{
    return "JavaScript by V8's frames, interpreted and compiled";
}

static void describe(void *state, struct process *p, struct tables *tables, struct sampler_process *d)
{
    d->has_script = 1;
}

static bool builtins_in(void *state, const struct mapping *m, struct runtime_code *ret_code)
{
    *ret_code = (struct runtime_code){.code = CODE_SCRIPT};
    return m->has_bias && v8_builtins_in(state, m, &ret_code->start, &ret_code->end);
}

/* Up to where frames were left out: those beside the gap did not call one another. */
static void put(struct profile *profile, const struct v8_stack *stack, bool lines, struct process_stack *out)
{
    for (size_t i = 0; i < (stack->gap ? stack->gap : stack->count); i++) {
        const struct v8_frame *f = &stack->frames[i];
        struct profile_frame frame = {.kind = f->kind == V8_JS       ? FRAME_JS
                                              : f->kind == V8_NATIVE ? FRAME_NATIVE
                                                                     : FRAME_RUNTIME};
        if (f->kind == V8_ENTRY)
            continue;
        frame.name = profile_string(profile, f->name ? f->name : "?");
        if (f->script)
            frame.file = profile_string(profile, f->script);
        if (lines)
            frame.line = f->line;
        process_put(out, profile_add_frame(profile, &frame));
    }
}

static bool name(void *state, struct process *p, struct profile *profile, uint64_t pc, bool call,
                 const uint64_t *words, bool lines, struct process_stack *out)
{
    if (!words)
        return false;
    struct v8_stack *stack = malloc(sizeof(*stack));
    if (!stack)
        return true;
    v8_stack_init(stack);
    v8_name_words(state, pc, call, words, stack);
    put(profile, stack, lines, out);
    if (stack->count == 0)
        process_put(out, profile_named_frame(profile, "[V8 code]", FRAME_RUNTIME));
    v8_stack_done(stack);
    free(stack);
    return true;
}

static uint64_t identity(void *state, const uint64_t *words)
{
    return v8_words_identity(state, words);
}

static void walk(void *state, struct profile *profile, const struct registers *registers,
                 const struct stack_copy *copy, bool lines, struct process_stack *out,
                 enum sampler_end *ret_end)
{
    struct user_regs_struct r = {.rip = registers->pc, .rsp = registers->sp, .rbp = registers->fp};
    struct v8_stack *stack = malloc(sizeof(*stack));
    if (!stack)
        return;
    v8_walk(state, &r, copy, stack);
    v8_name_frames(state, stack);
    put(profile, stack, lines, out);
    if (stack->truncated || stack->gap)
        *ret_end = END_NO_ROW;
    v8_stack_done(stack);
    free(stack);
}

#define POLICY "_ZN2v88internal32SemiSpaceNewSpaceAllocatorPolicy16EnsureAllocationE%"
#define LARGE  "LargeObjectSpace11AllocateRawE"

/* To Node 20 a page of the space for new objects is full; from 22 on, an area of such a page, whose size
 * differs while garbage is being marked. And objects that are larger than pages. */
static const struct runtime_heap heap = {
    .called = "Node",
    .objects = "JavaScript's objects",
    .allocates = "start it with --heap-prof, or use an official build of Node 16 to 26",
    .stays = "SIGUSR1 opens Node's inspector (127.0.0.1:9229); there Chrome (chrome://inspect, Memory, "
             "Allocation sampling) lists it by function",
    .places = {
        {POLICY, ALLOC_HEAP_AREA, .member = "_ZN2v88internal13MainAllocator9ExtendLABEm"},
        {"_ZN2v88internal17SemiSpaceNewSpace12AddFreshPageEv", ALLOC_HEAP_PAGE, 256 << 10, .unless = POLICY},
        {"_ZN2v88internal8NewSpace12AddFreshPageEv", ALLOC_HEAP_PAGE, 256 << 10},
        {"_ZN2v88internal19New" LARGE "i", ALLOC_HEAP_SECOND},
        {"_ZN2v88internal19Old" LARGE "i", ALLOC_HEAP_SECOND},
        {"_ZN2v88internal19Old" LARGE "iNS0_13ExecutabilityE", ALLOC_HEAP_SECOND},
        {"_ZN2v88internal19New" LARGE "PNS0_9LocalHeapEi%", ALLOC_HEAP_THIRD, sizeof(int)},
        {"_ZN2v88internal19Old" LARGE "PNS0_9LocalHeapEi", ALLOC_HEAP_THIRD, sizeof(int)},
        {"_ZN2v88internal19Old" LARGE "PNS0_9LocalHeapEiNS0_13ExecutabilityE%", ALLOC_HEAP_THIRD,
         sizeof(int)}}};

const struct runtime runtime_node = {.language = FRAME_JS,
                                     .mark = "v8dbg_frametype_EntryFrame",
                                     .generates = true,
                                     .tag = SAMPLER_SCRIPT,
                                     .words = 4,
                                     .has_position = true,
                                     .heap = &heap,
                                     .open = open_v8,
                                     .close = close_v8,
                                     .called = called,
                                     .walked = walked,
                                     .describe = describe,
                                     .code_in = builtins_in,
                                     .name = name,
                                     .identity = identity,
                                     .walk = walk};
