/* CPython's stacks in profiles: see profile/runtime.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#include <errno.h>
#include <stdlib.h>

#include "targets/python/unwind.h"

struct state {
    struct python python;
    /* The Python frames of the sample that is named, the innermost first. */
    const uint64_t *words;
    size_t count, next;
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
    s->count = python ? sample->python_words / SAMPLER_PYTHON_WORDS : 0;
    s->next = 0;
}

/* Without memory it will be read again. */
static void remember(struct process_names *names, uint64_t key, uint32_t frame)
{
    bool added;
    uint64_t *place = map_put(&names->places, key, &added);
    if (place)
        *place = frame;
}

/* Of a process that has ended only what was read before has a name. */
static void put_function(const struct python *python, struct process *p, struct profile *profile,
                         uint64_t address, uint64_t identity, struct process_stack *out)
{
    uint64_t key[] = {address, identity}, hash = map_hash(key, sizeof(key));
    const uint64_t *known = identity ? map_get(&p->names.places, hash) : NULL;
    if (known) {
        process_put(out, (uint32_t)*known);
        return;
    }
    struct python_function function;
    int r = python_function(python, p->pid, address, identity, &function);
    if (r < 0) {
        const char *name = r == -ESTALE ? PROCESS_NAME_GONE : "[unreadable Python frame]";
        process_put(out, profile_named_frame(profile, name, FRAME_PYTHON));
        return;
    }
    struct profile_frame frame = {.kind = FRAME_PYTHON, .line = function.line};
    frame.name = profile_string(profile, function.name);
    frame.file = profile_string(profile, function.file);
    uint32_t id = profile_add_frame(profile, &frame);
    if (identity)
        remember(&p->names, hash, id);
    process_put(out, id);
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
        const uint64_t *words = s->words + SAMPLER_PYTHON_WORDS * s->next;
        mark = python_mark(&s->python, words[2]);
        if (mark != PYTHON_BORDER)
            put_function(&s->python, p, profile, words[0], words[3], out);
        s->next++;
    }
    return true;
}

static const struct runtime_heap heap = {.called = "Python",
                                         .objects =
                                             "Python's objects of up to 512 bytes, which share larger pieces",
                                         .allocates = "PYTHONMALLOC=malloc makes them single ones",
                                         .stays = "PYTHONMALLOC=malloc makes them single ones"};

const struct runtime runtime_python = {.language = FRAME_PYTHON,
                                       .mark = "_PyRuntime",
                                       .heap = &heap,
                                       .open = open_python,
                                       .close = free,
                                       .called = called,
                                       .walked = walked,
                                       .describe = describe,
                                       .begin = begin,
                                       .is_interpreter = is_interpreter,
                                       .put_interpreted = put_interpreted};
