/* One sampled process: its mappings for the kernel's walker, and the names of what the walker finds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PROCESS_H
#define PROFILE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "base/text.h"
#include "profile/profile.h"
#include "profile/tables.h"
#include "symbol/perfmap.h"
#include "unwind/hotspot.h"
#include "unwind/python.h"
#include "unwind/sampler.h"
#include "unwind/v8.h"

/* Frames that were named. */
struct process_names {
    struct map places;      /* hash of a frame's words -> place in `frames`, count in the low byte */
    ARRAY(uint32_t) frames; /* ids, the innermost first */
};

/* What the processes of one sampler share. Zeros to use. */
struct process_shared {
    bool source, lines; /* native frames carry file and line of their function; all have their own line */
    bool inlined;       /* functions that compilers have put into others are frames of their own */
    struct memory_pages pages; /* to be forgotten for each batch of samples */
    /* Of native frames, by file and address, as far as there is room: */
    struct map frames; /* place in `ids`, count in the low byte */
    struct map places; /* source file (high half) and line of the address */
    ARRAY(uint32_t) ids;
    uint32_t of; /* the serial of the profile whose ids these are */
};

void process_shared_done(struct process_shared *shared);

struct process {
    pid_t pid;
    char name[32];
    struct native *native;
    struct process_shared *shared;
    struct v8 *v8; /* NULL: none */
    struct hotspot *hotspot;
    bool unknown_java;              /* one is there, but is none that can be read */
    uint32_t java_rows, java_limit; /* rows kept for its code cache, which changes all the time */
    bool lacks_rows;                /* some found no room when it was described last */
    bool has_python;
    struct python python;
    struct perfmap *perfmap;
    bool perfmap_tried;
    bool refresh_wanted;
    uint64_t born_ns, loaded_ns, java_read_ns, java_pause_ns;
    uint64_t unloaded_ns; /* when it was seen that Java classes had been unloaded: CLOCK_MONOTONIC */
    uint64_t detected_ns; /* when its runtimes were last looked for */
    size_t detected_modules;
    bool mapped;                        /* code was mapped since it was read */
    bool gone;                          /* it ended; what is known is what the kernel announced */
    struct process_names names, moving; /* the latter of heaps that move: for a while */
    uint32_t names_of;                  /* the serial of the profile whose ids these are */
    uint64_t moving_ns;                 /* when the first of the moving names was read */
};

/* shared must outlive it, as must files. */
int process_open(pid_t pid, struct native_files *files, struct process_shared *shared,
                 struct process **ret_process);

/* The same for a process that cannot be read any more; the modules are taken over, also on failure. */
int process_open_ended(pid_t pid, struct modules *modules, struct native_files *files,
                       struct process_shared *shared, struct process **ret_process);
void process_free(struct process *process);

/* Fills in what the kernel needs to walk the process's stacks. */
void process_describe(struct process *process, struct tables *tables,
                      struct sampler_process *ret_description);

/* Its own rows, which the kernel must not read any more. */
void process_give_rows(struct process *process, struct tables *tables);

/* Reads the mappings again, and forgets names of code that may have changed. -ESRCH when it ended. */
int process_refresh(struct process *process);

/* "native", "Python 3.11", "Node.js (V8)", "Java (HotSpot)" */
const char *process_runtime(const struct process *process);

/* How its stacks are walked, for people: "native code by its unwind tables (12 files), ...; CPython frames
 * ..." */
void process_unwinders(struct process *process, struct text *ret_text);

struct process_stack {
    uint32_t frames[1024]; /* ids in the profile, the innermost first */
    size_t count;
    enum profile_frame_kind
        runtime;          /* the first language above native code that was met, else FRAME_NATIVE */
    enum sampler_end end; /* where naming had to stop; END_COMPLETE: it did not */
};

/* What addresses were called may be wrong by now. */
void process_forget_names(struct process_names *names);

/* Names the user part of a sample: native frames, with the frames of interpreters in their places. */
void process_name(struct process *process, struct profile *profile, const struct sampler_sample *sample,
                  const uint64_t *user, const uint64_t *python, uint64_t now_ns,
                  struct process_stack *ret_stack);

/* Walks and names a stack from a copy of its top. Sets *ret_end to why it ended. */
void process_walk(struct process *process, struct profile *profile, const struct registers *registers,
                  const struct stack_copy *copy, struct process_stack *ret_stack, enum sampler_end *ret_end);

#endif
