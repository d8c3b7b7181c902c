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
#include "symbol/memory.h"
#include "symbol/perfmap.h"
#include "profile/target_runtimes.h"
#include "unwind/native.h"
#include "unwind/sampler.h"

/* Frames that were named. */
struct process_names {
    struct map places;      /* hash of a frame's words -> place in `frames`, count in the low byte */
    ARRAY(uint32_t) frames; /* ids, the innermost first */
};

/* A frame of a heap that moves. */
struct process_moving {
    uint64_t read_ns;  /* when its name was read, or found to hold */
    uint64_t identity; /* as the runtime has it; 0: it has none */
    uint64_t frames;   /* place in the ids, count in the low byte */
    uint32_t refreshed;
};

/* What the processes of one sampler share. Zeros to use. */
struct process_shared {
    bool source, lines; /* native frames carry file and line of their function; all have their own line */
    bool inlined;       /* functions that compilers have put into others are frames of their own */
    bool lazy;          /* rows of a file are read when a stack leads into it, not when it is mapped */
    struct memory_pages pages; /* to be forgotten for each batch of samples */
    /* Of native frames, by file and address, as far as there is room: */
    struct map frames; /* place in `ids`, count in the low byte */
    struct map places; /* source file (high half) and line of the address */
    ARRAY(uint32_t) ids;
    uint32_t of; /* the serial of the profile whose ids these are */
};

void process_shared_done(struct process_shared *shared);

enum {
#define T(name) +1
    PROCESS_RUNTIMES = 0 TARGETS_WITH_RUNTIME(T)
#undef T
};

struct process {
    pid_t pid;
    struct native *native;
    struct process_shared *shared;
    struct {
        void *state;              /* NULL: it is not in the process, or cannot be read */
        bool unreadable;          /* the latter */
    } runtimes[PROCESS_RUNTIMES]; /* of the runtime in that place of RUNTIMES */
    bool lacks_rows;              /* some found no room when it was described last */
    struct perfmap *perfmap;
    bool perfmap_tried;
    bool refresh_wanted;
    uint64_t born_ns, loaded_ns;
    uint64_t detected_ns; /* when its runtimes were last looked for */
    size_t detected_modules;
    bool mapped;         /* code was mapped since it was read */
    bool gone;           /* it ended; what is known is what the kernel announced */
    uint64_t generation; /* of what the present sample's addresses mean, where its runtime counts that */
    struct process_names names, moving; /* the latter of heaps that move: its places are those in `moves` */
    ARRAY(struct process_moving) moves;
    uint32_t refreshed; /* how often it was read again */
    uint32_t names_of;  /* the serial of the profile whose ids these are */
};

/* shared must outlive it, as must files. */
int process_open(pid_t pid, struct native_files *files, struct process_shared *shared,
                 struct process **ret_process);

/* The same for one whose mappings are known otherwise, where nothing has to be read: all its files are open
 * already, no runtime is among them, and no code was generated. -ESTALE: that is not so. The modules are
 * taken over, also on failure. */
int process_open_known(pid_t pid, struct modules *modules, struct native_files *files,
                       struct process_shared *shared, struct process **ret_process);

/* The same for a process that cannot be read any more; the modules are taken over, also on failure. */
int process_open_ended(pid_t pid, struct modules *modules, struct native_files *files,
                       struct process_shared *shared, struct process **ret_process);
void process_free(struct process *process);

/* Fills in what the kernel needs to walk the process's stacks. */
void process_describe(struct process *process, struct tables *tables,
                      struct sampler_process *ret_description);

/* Its own rows, which the kernel must not read any more. */
void process_give_rows(struct process *process, struct tables *tables);

/* Reads the mappings again, and forgets names of code that may have changed. -ESRCH when it ended: then all
 * stays as it is. */
int process_refresh(struct process *process);

/* The same for one whose mappings are known otherwise, as process_open_known(). -ESTALE: what is known of it
 * is not enough, and it has to be read. The modules are taken over, also on failure. */
int process_refresh_known(struct process *process, struct modules *modules, struct native_files *files);

/* "native", "Python 3.11", "Node.js (V8)", "Java (HotSpot)" */
const char *process_runtime(const struct process *process);

/* A runtime in it compiles code all the time: what is known of it is soon old. */
bool process_compiles(const struct process *process);

/* How its stacks are walked, for people: "native code by its unwind tables (12 files), ...; CPython frames
 * ..." */
void process_unwinders(struct process *process, struct text *ret_text);

/* The frame of a function that had left its address, or may have, before its name was read. */
#define PROCESS_NAME_GONE "(gone)"

struct process_stack {
    uint32_t frames[1024]; /* ids in the profile, the innermost first */
    size_t count;
    enum profile_frame_kind
        runtime;          /* the first language above native code that was met, else FRAME_NATIVE */
    enum sampler_end end; /* where naming had to stop; END_COMPLETE: it did not */
    bool passing;         /* a name that was put last is none to be kept: more will be known soon */
    bool unsettled;       /* the same of any of them, for the user to clear */
};

/* Names kept for each process: those of its native frames are kept with the files, too. */
enum { PROCESS_NAMES_LIMIT = 4096, PROCESS_MOVING_LIMIT = 1024 };

/* What addresses were called may be wrong by now. */
void process_forget_names(struct process_names *names);
void process_forget_moving(struct process *process);

/* Names the user part of a sample: native frames, with the frames of interpreters in their places. */
void process_name(struct process *process, struct profile *profile, const struct sampler_sample *sample,
                  const uint64_t *user, const uint64_t *python, uint64_t now_ns,
                  struct process_stack *ret_stack);

/* Walks and names a stack from a copy of its top, which the sample is. Sets *ret_end to why it ended. */
void process_walk(struct process *process, struct profile *profile, const struct sampler_sample *sample,
                  uint64_t now_ns, const struct registers *registers, const struct stack_copy *copy,
                  struct process_stack *ret_stack, enum sampler_end *ret_end);

#endif
