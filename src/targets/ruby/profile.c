/* CRuby's stacks in profiles: see profile/runtime.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "targets/ruby/unwind.h"

struct state {
    struct ruby ruby;
    /* The Ruby frames of the sample that is named, the innermost first. */
    const uint64_t *words;
    size_t count, next;
};

static int open_ruby(struct process *p, void **ret_state)
{
    struct ruby ruby;
    int r = ruby_find(p->native, &ruby);
    if (r < 0)
        return r;
    struct state *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->ruby = ruby;
    *ret_state = s;
    return 0;
}

static const char *called(const void *state)
{
    return "Ruby 3.1";
}

static const char *walked(const void *state)
{
    return "Ruby 3.1 by its control frames";
}

static void describe(void *state, struct process *p, struct tables *tables, struct sampler_process *d)
{
    const struct state *s = state;
    d->ruby = s->ruby.frames;
}

static void begin(void *state, struct process *p, const struct sampler_sample *sample, const uint64_t *words,
                  uint64_t now_ns)
{
    struct state *s = state;
    s->words = words;
    s->count = words ? sample->python_words / SAMPLER_PYTHON_WORDS : 0;
    s->next = 0;
}

/* Of a process that has ended only what was read before has a name. */
static void put_function(const struct ruby *ruby, struct process *p, struct profile *profile,
                         uint64_t address, uint64_t identity, struct process_stack *out)
{
    uint64_t key[] = {address, identity}, hash = map_hash(key, sizeof(key));
    uint64_t *known = identity ? map_get(&p->names.places, hash) : NULL;
    struct ruby_function function;
    if (known) {
        process_put(out, (uint32_t)*known);
        return;
    }
    int r = ruby_function(ruby, p->pid, address, identity, &function);
    if (r < 0) {
        const char *name = r == -ESTALE ? PROCESS_NAME_GONE : "[unreadable Ruby frame]";
        process_put(out, profile_named_frame(profile, name, FRAME_RUBY));
        return;
    }
    struct profile_frame frame = {.kind = FRAME_RUBY, .line = function.line};
    frame.name = profile_string(profile, function.name);
    frame.file = profile_string(profile, function.file);
    uint32_t id = profile_add_frame(profile, &frame);
    uint64_t *place = identity ? map_put(&p->names.places, hash, NULL) : NULL;
    if (place) /* without memory it will be read again */
        *place = id;
    process_put(out, id);
}

static bool is_interpreter(const void *state, uint64_t pc)
{
    const struct state *s = state;
    return pc >= s->ruby.execute[0] && pc < s->ruby.execute[1];
}

/* The interpreter's loop, which the function that is found by its name calls: what it does is the Ruby
 * function's own. In Debian's library it has no name. */
static void leave_out_loop(const struct profile *p, struct process_stack *out)
{
    if (!out->count)
        return;
    const struct profile_frame *f = &p->frames.at[out->frames[out->count - 1]];
    const char *name = profile_text(p, f->name), *module = profile_text(p, f->module);
    if (f->kind == FRAME_NATIVE && strstr(module, "libruby") &&
        (strncmp(name, module, strlen(module)) == 0 || strcmp(name, "vm_exec_core") == 0))
        out->count--;
}

static bool put_interpreted(void *state, struct process *p, struct profile *profile,
                            struct process_stack *out)
{
    struct state *s = state;
    bool outermost = false;
    if (s->next == s->count)
        return false;
    leave_out_loop(profile, out);
    for (; s->next < s->count && !outermost; s->next++) {
        const uint64_t *words = s->words + SAMPLER_PYTHON_WORDS * s->next;
        put_function(&s->ruby, p, profile, words[0], words[3], out);
        outermost = ruby_is_outermost(words[2]);
    }
    return true;
}

const struct runtime runtime_ruby = {.language = FRAME_RUBY,
                                     .mark = "ruby_current_ec",
                                     .open = open_ruby,
                                     .close = free,
                                     .called = called,
                                     .walked = walked,
                                     .describe = describe,
                                     .begin = begin,
                                     .is_interpreter = is_interpreter,
                                     .put_interpreted = put_interpreted};
