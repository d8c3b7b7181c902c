/* Runtimes whose code the sampler walks and names. Each is one `const struct runtime runtime_NAME` in
 * src/targets/NAME/profile.c; the table is made from event/targets.h. What a function pointer is not said to
 * be optional for may be NULL, too: then there is nothing to do. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_RUNTIME_H
#define PROFILE_RUNTIME_H

#include "profile/process.h"

/* Code in a mapping that is stepped through in a way of its own. */
struct runtime_code {
    uint64_t start, end;
    enum sampler_code code;
    const struct table_range *rows; /* NULL: none are needed */
    uint64_t bias;                  /* of the rows */
};

struct runtime {
    enum profile_frame_kind language; /* what a stack counts for before any of its frames says more */
    const char *unknown;              /* what one is called that cannot be read; NULL: it is not mentioned */
    bool generates;                   /* it knows the code that is generated while the program runs */
    bool compiles;                    /* and generates some all the time: it is read again often */
    /* Frames with this tag (unwind/sampler.h, 0: none) have so many words behind their pc, of which the last
     * says only where in its function a frame is, where it is said to. */
    uint64_t tag;
    uint32_t words;
    bool has_position;

    /* Is the runtime in the process? Negative: no; -ENOTSUP: one that cannot be read. */
    int (*open)(struct process *process, void **ret_state); /* not NULL */
    void (*close)(void *state);                             /* not NULL */
    /* "Java (HotSpot)" */
    const char *(*called)(const void *state); /* not NULL */
    /* How its stacks are walked, for people; not NULL. */
    const char *(*walked)(const void *state);
    /* The process may have changed since. */
    void (*refresh)(void *state);

    /* For the kernel: what it must know, and where in the mappings there is code of this runtime. */
    void (*describe)(void *state, struct process *process, struct tables *tables,
                     struct sampler_process *description);
    void (*give_rows)(void *state, struct tables *tables);
    bool (*code_in)(void *state, const struct mapping *mapping, struct runtime_code *ret_code);

    /* Around the naming of a sample; python: its words of that kind, NULL for a copied stack. */
    void (*begin)(void *state, struct process *process, const struct sampler_sample *sample,
                  const uint64_t *python, uint64_t now_ns);
    void (*end)(void *state, struct process *process);
    /* Names the code at pc, inlined functions first. words: those behind the pc; NULL: it is a frame without
     * a tag, in code of no file. False: it is not this runtime's. out->passing is set where a name is not to
     * be kept. */
    bool (*name)(void *state, struct process *process, struct profile *profile, uint64_t pc, bool call,
                 const uint64_t *words, bool lines, struct process_stack *out);
    /* Interpreters: is it their function, whose place the interpreted ones take? Puts those of one run of it;
     * false: none are left. */
    bool (*is_interpreter)(const void *state, uint64_t pc);
    bool (*put_interpreted)(void *state, struct process *process, struct profile *profile,
                            struct process_stack *out);

    /* Copied stacks: one frame up, from code of this runtime, which is named (false: it is not), or all of
     * it. */
    bool (*step)(void *state, struct process *process, struct profile *profile, const struct stack_copy *copy,
                 struct registers *registers, bool call, struct process_stack *out,
                 enum native_step *ret_step);
    void (*walk)(void *state, struct profile *profile, const struct registers *registers,
                 const struct stack_copy *copy, bool lines, struct process_stack *out,
                 enum sampler_end *ret_end);
};

/* In the order of the targets; ends with NULL. A process has one state for each (process->runtimes). */
extern const struct runtime *const RUNTIMES[];

/* Appends a frame; one beyond those that are kept is left out. */
void process_put(struct process_stack *stack, uint32_t frame);

#endif
