/* Java's stacks in profiles: see profile/runtime.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "targets/hotspot/unwind.h"

/* Reading a code cache takes milliseconds: not more often than this, and a tenth of the time at most. */
#define READ_MIN_NS (10 * NS_PER_MS)
#define READ_SHARE  10

struct state {
    struct hotspot *hotspot;
    uint32_t rows, limit;     /* kept for its code cache, which changes all the time */
    struct table_range range; /* of them, those that are used */
    uint64_t read_ns, pause_ns;
    uint64_t unloads;           /* classes unloaded, as seen last, or HOTSPOT_UNKNOWN */
    uint64_t unloads_address;   /* where they are counted; 0: not known */
    uint64_t unloaded_ns;       /* when it was seen that they had become so many: CLOCK_MONOTONIC */
    uint64_t forgotten_ns;      /* when names were forgotten, without counters */
    bool code_left;             /* their code may have left since the code cache was read */
    struct hotspot_moment when; /* of the present sample */
};

static int open_hotspot(struct process *p, void **ret_state)
{
    struct state *s = calloc(1, sizeof(*s));
    int r = s ? hotspot_open(p->native, &s->hotspot) : -ENOMEM;
    if (r < 0) {
        free(s);
        return r;
    }
    s->unloads = hotspot_unloads(s->hotspot, clock_monotonic_ns(), &s->unloads_address);
    s->unloaded_ns = s->unloads ? clock_monotonic_ns() : 0;
    *ret_state = s;
    return 0;
}

static void close_hotspot(void *state)
{
    struct state *s = state;
    hotspot_free(s->hotspot);
    free(s);
}

static const char *called(const void *state)
{
    return "Java (HotSpot)";
}

static const char *walked(const void *state)
{
    return "Java by HotSpot's code cache, interpreted, compiled and inlined";
}

static void refresh(void *state)
{
    const struct state *s = state;
    hotspot_refresh(s->hotspot);
}

static void give_rows(void *state, struct tables *tables)
{
    struct state *s = state;
    tables_give(tables, s->rows, s->limit);
    s->rows = s->limit = 0;
}

/* Code is compiled and thrown away all the time: the rows get a place of their own, with room to grow. */
static void describe(void *state, struct process *p, struct tables *tables, struct sampler_process *d)
{
    enum { ROOM = 4096 };
    struct state *s = state;
    uint32_t need = (uint32_t)hotspot_row_limit(s->hotspot), more = need + need / 2 + ROOM;
    uint32_t at = need > s->limit ? tables_take(tables, more) : 0;
    if (at) {
        give_rows(s, tables);
        s->rows = at;
        s->limit = more;
    }
    s->range = (struct table_range){0};
    if (!s->rows)
        return;
    size_t count = hotspot_rows(s->hotspot, tables->rows + s->rows, s->limit);
    s->range = (struct table_range){
        .rows_low = s->rows, .rows_high = s->rows + (uint32_t)count, .serial = ++tables->serials};
    uint64_t low, high;
    hotspot_range(s->hotspot, &low, &high);
    d->java_low = low;
    d->java_high = high;
    d->unloads_address = s->unloads_address;
    d->java = *hotspot_name_layout(s->hotspot);
}

static bool code_in(void *state, const struct mapping *m, struct runtime_code *ret_code)
{
    const struct state *s = state;
    uint64_t low, high;
    hotspot_range(s->hotspot, &low, &high);
    *ret_code = (struct runtime_code){
        .start = m->start, .end = MIN(m->end, high), .code = CODE_JAVA, .rows = &s->range, .bias = low};
    return s->rows && m->start >= low && m->start < high;
}

/* The kernel's rows follow at the next occasion. */
static bool read_code_cache(struct state *s, struct process *p, uint64_t now_ns)
{
    if (now_ns - s->read_ns <= s->pause_ns)
        return false;
    hotspot_refresh(s->hotspot);
    s->read_ns = clock_monotonic_ns();
    s->pause_ns = MAX(READ_MIN_NS, READ_SHARE * (s->read_ns - now_ns));
    p->refresh_wanted = true;
    return true;
}

/* Names are kept for samples of the same count of unloaded classes. Those of one whose count is not known are
 * not, nor is that a method has gone: of a later sample at the same address it may not be true. */
static bool put_methods(struct state *s, struct process *p, struct profile *profile,
                        const struct hotspot_place *place, struct process_stack *out)
{
    struct hotspot_frame frames[32];
    uint64_t pc = place->pc;
    size_t count = hotspot_name(s->hotspot, place, &s->when, frames, ARRAY_SIZE(frames));
    uint64_t low, high;
    hotspot_range(s->hotspot, &low, &high);
    if (!count && pc >= low && pc < high && read_code_cache(s, p, clock_monotonic_ns())) /* compiled since */
        count = hotspot_name(s->hotspot, place, &s->when, frames, ARRAY_SIZE(frames));
    if (!count && pc >= low && pc < high) {
        process_put(out, profile_named_frame(profile, "[compiled just now]", FRAME_RUNTIME));
        out->passing = true; /* its name is known when the code cache is read again */
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = frames[i].gone ? PROCESS_NAME_GONE : frames[i].name;
        process_put(out,
                    profile_named_frame(profile, name, frames[i].is_method ? FRAME_JAVA : FRAME_RUNTIME));
        out->passing |= frames[i].gone;
    }
    out->passing |= !place->identity && s->unloads != HOTSPOT_UNKNOWN && s->when.unloads == HOTSPOT_UNKNOWN;
    return count > 0;
}

/* Of words behind the pc, the first is the method and the third what it is recognised by. */
static bool name(void *state, struct process *p, struct profile *profile, uint64_t pc, bool call,
                 const uint64_t *words, bool lines, struct process_stack *out)
{
    const struct hotspot_place place = {pc, call, words ? words[0] : 0, words ? words[2] : 0};
    return put_methods(state, p, profile, &place, out);
}

/* How many classes have been unloaded by now; false: that cannot be read. While there are none, there never
 * were any. */
static bool count_unloads(struct state *s, struct process *p, uint64_t now_ns)
{
    uint64_t address, unloads = hotspot_unloads(s->hotspot, now_ns, &address);
    if (address != s->unloads_address) {
        s->unloads_address = address;
        p->refresh_wanted = true;        /* the kernel's half is to know */
        process_forget_names(&p->names); /* it was not known for how long they hold */
        process_forget_moving(p);
    }
    if (unloads == HOTSPOT_UNKNOWN)
        return false;
    if (unloads == s->unloads)
        return true;
    s->unloaded_ns = unloads ? clock_monotonic_ns() : 0;
    s->unloads = unloads;
    s->code_left = true;
    return true;
}

/* Nothing tells when names are void: they are read again each second. */
static void forget_without_counters(struct state *s, struct process *p)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (s->unloads != HOTSPOT_UNKNOWN || now_ns - s->forgotten_ns < NS_PER_S)
        return;
    s->forgotten_ns = now_ns;
    hotspot_forget_names(s->hotspot);
    process_forget_moving(p);
}

/* A wait's stack stays as it is until the wait ends: then its methods were there. */
static void begin(void *state, struct process *p, const struct sampler_sample *sample, const uint64_t *python,
                  uint64_t now_ns)
{
    struct state *s = state;
    bool waited = sample->kind == SAMPLE_OFF, counted = false;
    s->when.time_ns = sample->time_ns + (waited ? sample->weight : 0);
    s->when.unloads = sample->unloads ? sample->unloads - 1 : HOTSPOT_UNKNOWN;
    if (!p->gone && (waited || s->when.unloads == HOTSPOT_UNKNOWN || s->when.unloads != s->unloads))
        counted = count_unloads(s, p, now_ns);
    if (counted && waited && s->when.unloads != s->unloads)
        s->when.unloads = HOTSPOT_UNKNOWN;
    if (counted && s->when.unloads == HOTSPOT_UNKNOWN && s->when.time_ns >= s->unloaded_ns)
        s->when.unloads = s->unloads;
    p->generation = s->when.unloads + 1; /* 0: unknown */
    forget_without_counters(s, p);
    if (s->code_left && !p->gone && read_code_cache(s, p, clock_monotonic_ns()))
        s->code_left = false;
}

static bool step(void *state, struct process *p, struct profile *profile, const struct stack_copy *copy,
                 struct registers *r, bool call, struct process_stack *out, enum native_step *ret_step)
{
    struct state *s = state;
    struct hotspot_place place = {.pc = r->pc, .call = call};
    uint64_t low, high;
    hotspot_range(s->hotspot, &low, &high);
    if (place.pc < low || place.pc >= high)
        return false;
    *ret_step = hotspot_step(s->hotspot, copy, r, call, &place.method);
    put_methods(s, p, profile, &place, out); /* reads the code cache again when the code is new */
    if (*ret_step == STEP_NO_MODULE)
        *ret_step = hotspot_step(s->hotspot, copy, r, call, &place.method);
    return true;
}

/* A thread's part of the heap (TLAB) is full, or an object gets a place outside of one. */
static const struct runtime_heap heap = {
    .called = "Java",
    .objects = "Java's objects",
    .allocates = "jcmd PID JFR.start settings=profile",
    .stays = "jcmd PID JFR.start settings=profile, later jcmd PID JFR.dump filename=F and jfr print --events "
             "OldObjectSample F: by method",
    .places = {{"_ZN11AllocTracer27send_allocation_in_new_tlabE%", ALLOC_HEAP_THIRD, 0},
               {"_ZN11AllocTracer28send_allocation_outside_tlabE%", ALLOC_HEAP_THIRD, 0}}};

const struct runtime runtime_hotspot = {.language = FRAME_JAVA,
                                        .mark = "gHotSpotVMStructs",
                                        .unknown = "Java (a virtual machine that is not known)",
                                        .generates = true,
                                        .compiles = true,
                                        .tag = SAMPLER_JAVA,
                                        .words = 3,
                                        .heap = &heap,
                                        .open = open_hotspot,
                                        .close = close_hotspot,
                                        .called = called,
                                        .walked = walked,
                                        .refresh = refresh,
                                        .describe = describe,
                                        .give_rows = give_rows,
                                        .code_in = code_in,
                                        .begin = begin,
                                        .name = name,
                                        .step = step};
