/* Where in a program goroutines wait for locks, go on, and let others go on: in functions that Go's own table
 * names (unwind/row_source.h), each decoded from its beginning to its end. A function whose code is not
 * understood as a whole is left alone, and with it the program: a breakpoint within an instruction would
 * destroy it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_GOROUTINES_H
#define PROFILE_GOROUTINES_H

#include "profile/sampler.h"
#include "symbol/elf.h"

/* places: room for `most`; of each the offset in the file, function and bytes are set. 0, also when there is
 * none; -ENOENT: it is none for this CPU; -EBADMSG: its code is not understood; -ENOMEM. */
int goroutines_places(const struct elf *elf, struct sampler_place *places, size_t most, size_t *ret_count);

#endif
