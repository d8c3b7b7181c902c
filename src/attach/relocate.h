/* Reads the beginning of a function in a file: what a hook patches, and what its first instructions become
 * elsewhere. Runs in a worker (plan_worker.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_RELOCATE_H
#define ATTACH_RELOCATE_H

#include "attach/plan.h"
#include "attach/target.h"

/* The function that a hook patches: the one of its symbol, or, where a compiler has split that and its
 * callers may reach the rest directly, the rest. -ENOENT. */
int patch_find(struct target *target, const struct hook *hook, uint64_t *ret_address,
               struct elf_symbol *ret_symbol, const struct target_module **ret_module);

/* The instructions that a jump at the start of code would replace (moved_place() puts them elsewhere), with a
 * jump behind them to what follows.
 *
 * Where the first instruction does nothing that cannot be undone it stays in place, and the jump stands
 * behind it. Then other tools may have breakpoints on the function, which are mostly set there: the kernel
 * runs the file's first instruction for them (uprobes) and goes on behind it, which must not be inside our
 * jump. code: size bytes of the function as they stand at address (all of it, for the search for jumps back
 * into the first bytes). arguments: as struct hook says. 0, or -EINVAL with the reason in problem. */
int relocate(const uint8_t *code, size_t size, uint64_t address, unsigned arguments, struct moved *ret_moved,
             struct problem *problem);

#endif
