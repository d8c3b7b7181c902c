/* CPython's stacks in profiles: see profile/runtime.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#include <errno.h>
#include <stdlib.h>

#include "targets/python/unwind.h"

struct state {
    struct python python;
    /* The Python frames of the sample that is named: three words each, the innermost first. */
    const uint64_t *words;
    size_t count, next;
    struct python_code codes[SAMPLER_PYTHON];
};

static int open_python(struct process *p, void **ret_state)
{
    struct python python;
    int r = python_find(p->native, &python);
    if (r < 0)
        return r;
    struct state *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->python = python;
    *ret_state = s;
    return 0;
}

static const char *called(const void *state)
{
    static const char *const VERSIONS[] = {"Python 3.9", "Python 3.10", "Python 3.11", "Python 3.12",
                                           "Python 3.13"};
    const struct state *s = state;
    return VERSIONS[s->python.minor - 9];
}

static const char *walked(const void *state)
{
    static const char *const WORDS[] = {
        "Python 3.9 by the interpreter's frames", "Python 3.10 by the interpreter's frames",
        "Python 3.11 by the interpreter's frames", "Python 3.12 by the interpreter's frames",
        "Python 3.13 by the interpreter's frames"};
    const struct state *s = state;
    return WORDS[s->python.minor - 9];
}

static void describe(void *state, struct process *p, struct tables *tables, struct sampler_process *d)
{
    const struct state *s = state;
    d->python = s->python.frames;
}

static void begin(void *state, struct process *p, const struct sampler_sample *sample, const uint64_t *python,
                  uint64_t now_ns)
{
    struct state *s = state;
    s->words = python;
    s->count = python ? MIN(sample->python_words / 3, SAMPLER_PYTHON) : 0;
    s->next = 0;
    if (s->count)
        python_codes(&s->python, p->pid, python, 3, s->count, s->codes);
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
static void put_function(const struct python *python, struct process *p, struct profile *profile,
                         uint64_t address, const struct python_code *code, struct process_stack *out)
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
    if (!known && readable && python_function(python, p->pid, code, &function) == 0) {
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
    process_put(out, frame);
}

static bool is_interpreter(const void *state, uint64_t pc)
{
    const struct state *s = state;
    return python_is_evaluate(&s->python, pc);
}

static bool put_interpreted(void *state, struct process *p, struct profile *profile,
                            struct process_stack *out)
{
    struct state *s = state;
    enum python_mark mark = PYTHON_INSIDE;
    if (s->next == s->count)
        return false;
    while (s->next < s->count && mark == PYTHON_INSIDE) {
        const uint64_t *words = s->words + 3 * s->next;
        mark = python_mark(&s->python, words[2]);
        if (mark != PYTHON_BORDER)
            put_function(&s->python, p, profile, words[0], &s->codes[s->next], out);
        s->next++;
    }
    return true;
}

const struct runtime runtime_python = {.language = FRAME_PYTHON,
                                       .open = open_python,
                                       .close = free,
                                       .called = called,
                                       .walked = walked,
                                       .describe = describe,
                                       .begin = begin,
                                       .is_interpreter = is_interpreter,
                                       .put_interpreted = put_interpreted};
