/* Runtimes whose frames the sampler walks and names. Each is one `const struct runtime runtime_NAME` in
 * src/targets/NAME/profile.c; the table is made from event/targets.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_RUNTIME_H
#define PROFILE_RUNTIME_H

#include "profile/process.h"
#include "profile/sampler.h"

/* Code in a mapping that is stepped through in a way of its own. */
struct runtime_code {
    uint64_t start, end;
    enum sampler_code code;
    const struct table_range *rows; /* NULL: none are needed */
    uint64_t bias;                  /* of the rows */
};

/* A heap of the runtime's own, whose objects malloc() does not make. */
struct runtime_heap {
    const char *called;    /* as sampler_runtime() begins */
    const char *objects;   /* that are not seen, or of which it is not seen what stays */
    const char *allocates; /* what helps to see who makes them, and */
    const char *stays;     /* what stays */
    /* Functions that are called when a part of the heap has been used up; ended by one without a name. */
    struct runtime_heap_place {
        const char *symbol; /* mangled; its beginning alone where it ends in % */
        enum place_function function;
        uint32_t bytes;
        const char *member; /* a function whose code begins with loading a member of its first parameter:
                               where that lies is `bytes`; NULL: as above */
        const char *unless; /* a function of files in which it is left out; NULL: of none */
    } places[12];
};

struct runtime {
    enum profile_frame_kind language; /* of a stack none of whose frames says more */
    const char *unknown;              /* the name of one that cannot be read; NULL: it is not mentioned */
    bool generates;                   /* generated code in the process is this runtime's */
    bool compiles;                    /* it generates code all the time: the process is read again often */
    /* Frames with this tag (unwind/sampler.h; 0: there are none) carry so many words behind their pc. With
     * has_position, the last one gives only the position within the function. */
    uint64_t tag;
    uint32_t words;
    bool has_position;
    const struct runtime_heap *heap; /* NULL: malloc() is all there is */

    /* What a file that brings the runtime into a process holds, such as the name of a symbol that open()
     * looks for: only of processes that execute such a file is memory lent (sampler_marks()), but for those
     * that were named. NULL: no memory is read. */
    const char *mark;

    /* ---- required ---- */

    /* Looks for the runtime in the process. 0 and a state for close(); -ENOTSUP: a version that cannot be
     * read; another negative errno: it is not there (yet). */
    int (*open)(struct process *process, void **ret_state);
    void (*close)(void *state);
    /* For people: "Java (HotSpot)", and how its stacks are walked. */
    const char *(*called)(const void *state);
    const char *(*walked)(const void *state);
    /* Fills in what the kernel's half must know of the process. */
    void (*describe)(void *state, struct process *process, struct tables *tables,
                     struct sampler_process *description);

    /* ---- optional: NULL where there is nothing to do ---- */

    /* The process may have changed since. */
    void (*refresh)(void *state);
    /* Gives back the rows that describe() took. */
    void (*give_rows)(void *state, struct tables *tables);
    /* Is there code of this runtime in the mapping? */
    bool (*code_in)(void *state, const struct mapping *mapping, struct runtime_code *ret_code);

    /* Called before the frames of a sample are named. python: the sample's words of that kind; NULL for a
     * copied stack. Sets process->generation where names are kept for samples of the same one alone. */
    void (*begin)(void *state, struct process *process, const struct sampler_sample *sample,
                  const uint64_t *python, uint64_t now_ns);
    /* Names the code at pc, inlined functions first. words: those behind the pc, or NULL for a frame without
     * a tag in code of no file. False: the code is not this runtime's. Sets out->passing when the name must
     * not be cached. Required with a tag. */
    bool (*name)(void *state, struct process *process, struct profile *profile, uint64_t pc, bool call,
                 const uint64_t *words, bool lines, struct process_stack *out);
    /* What the function of a frame with a tag is told by, where its name holds as long as that is the same;
     * 0: it cannot be told, and a name is read again after a while. */
    uint64_t (*identity)(void *state, const uint64_t *words);
    /* Interpreters: is pc in the interpreter's own function? The second one puts the interpreted frames of
     * one run of it in its place; false: none are left. */
    bool (*is_interpreter)(const void *state, uint64_t pc);
    bool (*put_interpreted)(void *state, struct process *process, struct profile *profile,
                            struct process_stack *out);

    /* Copied stacks. One frame up, named, from code of this runtime (false: it is not); or the whole stack.
     */
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
