/* What a thread waits for when it waits for a futex: which kind of lock or condition, and where in the
 * program. The functions on its stack say so; where they have no names, the futex's own value does. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_LOCK_KINDS_H
#define PROFILE_LOCK_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "profile/profile.h"
#include "unwind/sampler.h"

enum lock_class {
    LOCK_OWNED,     /* one thread has it at a time, and who wakes a waiter had it */
    LOCK_TURNS,     /* may be used as a lock: it is one if those that wake others wait for it, too */
    LOCK_CONDITION, /* nobody has it: condition variables, parked threads, the end of a thread */
};

/* How two waits are known to be for the same one. */
enum lock_identity {
    LOCK_BY_ADDRESS, /* of the futex */
    LOCK_BY_SITE,    /* the futex is the thread's own: by where they wait */
    LOCK_BY_PROCESS, /* there is one in a process */
};

/* Where the number of the thread that has it lies. */
enum lock_owner { OWNER_UNKNOWN, OWNER_PTHREAD, OWNER_FUTEX };

struct lock_kind {
    const char *name; /* for people: "pthread mutex" */
    enum lock_class class;
    enum lock_identity identity;
    enum lock_owner owner;
    bool hides;    /* a runtime whose locks are its own: waits for them are none of the kernel's */
    uint8_t words; /* 2: it waits for one of two words, side by side */
    enum profile_frame_kind language; /* of the functions that use it; FRAME_NATIVE: any */
};

/* What is known of the frames of one profile. All zero is a valid one that knows nothing yet. */
struct lock_frames {
    ARRAY(uint8_t) roles; /* by frame */
    uint32_t serial;      /* of the profile */
};

struct lock_place {
    const struct lock_kind *kind;
    uint32_t site; /* the frame of the program's function that waits; 0: there is none */
};

/* frames: of the profile, the innermost first; may be none. lock: what it waits for. */
struct lock_place lock_kinds_place(struct lock_frames *known, const struct profile *profile,
                                   const uint32_t *frames, size_t count, const struct sampler_lock *lock);

/* The program's function in which a thread let others go on; 0: there is none. */
uint32_t lock_kinds_released(struct lock_frames *known, const struct profile *profile,
                             const struct lock_kind *kind, const uint32_t *frames, size_t count);

/* The number of the thread that had it when the wait began, as the program's memory says it: not to be
 * believed as it is. 0: not known. */
uint32_t lock_kinds_owner(const struct lock_kind *kind, const struct sampler_lock *lock);

void lock_kinds_done(struct lock_frames *known);

#endif
