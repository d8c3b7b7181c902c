/* Copies that a compiler made of a hooked function: their calls do not pass the hook. Called once hooks are
 * planned. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_COPIES_H
#define ATTACH_COPIES_H

#include "attach/patch.h"

/* Notes in the target each copy that is called and not hooked itself, as something that cannot be seen. */
void copies_note(struct target *target, const struct patch_set *set);

#endif
