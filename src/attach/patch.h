/* Redirects functions of a process into the probe's wrappers, from outside, as a worker has planned it
 * (plan.h). While it is written no thread of the process may run, nor stand inside bytes that are replaced.
 *
 * A patched function begins with a 5-byte jump to a thunk nearby, behind its first instruction where that can
 * be undone (relocate.h); the thunk undoes it and jumps to the wrapper. The instructions that the jump
 * replaced run from a trampoline, with the first one, which then jumps behind them. Thunks and trampolines
 * live in pools of executable memory within reach of the functions; they are never freed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_PATCH_H
#define ATTACH_PATCH_H

#include "attach/inject.h"
#include "attach/target.h"

enum { PATCH_POOL_BYTES = 16 << 10 };

struct patch {
    const struct hook *hook;
    uint64_t address;                /* of the jump in the function, in the process */
    uint64_t thunk;                  /* where it leads to */
    uint64_t original, trampoline;   /* the probe's pointer to the function, and what it is to hold */
    uint8_t length;                  /* bytes replaced */
    uint8_t before[PATCH_BYTES_MAX]; /* what stood there, for detaching */
};

struct patch_pool;

struct patch_set {
    ARRAY(struct patch) patches;
    ARRAY(struct patch_pool *) pools; /* their code, until it is written */
};

/* Maps size bytes of private executable memory at exactly address in the process: 0, or -EEXIST when the
 * place is taken, or another negative errno. */
typedef int patch_map_fn(void *context, uint64_t address, uint64_t size);

/* Maps the pools that the target's plan needs and that no earlier attachment has left, and notes them in the
 * probe's memory, where patch_plan() finds them. A negative errno when one of them cannot be had; the others
 * are there all the same. */
int patch_map_pools(struct target *target, const struct probe *probe, patch_map_fn *map, void *context);

/* Prepares a patch for each function of the target's plan (TARGET_WHOLE) that stands in memory as in its
 * file, notes in the target what cannot be hooked and why, and maps memory for thunks and trampolines: the
 * process may run during this. probe is ours in the process. The caller frees with patch_set_done(). 0 also
 * when single hooks failed; a negative errno when nothing can be patched at all. */
int patch_plan(struct target *target, const struct probe *probe, patch_map_fn *map, void *context,
               struct patch_set *ret_set, struct problem *problem);

/* Tells for each hook whether it could be planned: why is NULL when it could, else the reason in words, told
 * only where no alternative serves. Nothing is written or stopped; copies of functions are noted in the
 * target. */
typedef void patch_verdict_fn(void *context, const struct hook *hook, const char *why);
void patch_survey(struct target *target, patch_verdict_fn *verdict, void *context);

/* Writes everything, whole before anything leads to it: the pools, the probe's pointers into them, the jumps.
 * All of the jumps, or none. No thread may run, nor stand inside bytes that are replaced. */
int patch_apply(struct target *target, struct patch_set *set, struct problem *problem);

/* Puts the bytes of before back, under the same conditions. */
int patch_remove(struct target *target, const struct patch_set *set);

/* Hooks that stand in the process because the sonde that wrote them was killed: jumps into the pools that the
 * probe's memory lists, in front of what is otherwise the file's code. patch_remove() takes them out, under
 * its conditions. 0 also when there are none. */
int patch_leftover(struct target *target, const struct probe *probe, struct patch_set *ret_set);

void patch_set_done(struct patch_set *set);

/* The beginning of a function as it must read at a place; -EINVAL, with the reason, when that is out of reach
 * of what it refers to. */
int moved_place(const struct moved *moved, uint64_t place, uint8_t out[static MOVED_BYTES_MAX],
                struct problem *problem);

#endif
