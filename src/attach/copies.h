/* Copies that a compiler made of a hooked function: their calls do not pass the hook. In a worker
 * (plan_worker.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_COPIES_H
#define ATTACH_COPIES_H

#include "attach/patch.h"

/* Adds all copies of functions that a file has, whichever are hooked: 0 or -ENOMEM. */
int copies_find(struct elf *elf, struct named_functions *ret_copies);

/* Once hooks are planned: notes in the target each copy that is called and not hooked itself, as something
 * that cannot be seen. */
void copies_note(struct target *target, const struct patch_set *set);

#endif
