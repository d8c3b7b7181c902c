/* A Java virtual machine (HotSpot 11 to 28) read from outside, by the tables it carries for its own debugger:
 * its code cache as unwind rows, and the methods (with those inlined into them) at an address of compiled
 * code or in a frame of the interpreter. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_HOTSPOT_UNWIND_H
#define TARGETS_HOTSPOT_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "unwind/native.h"
#include "unwind/rows.h"

struct hotspot;

/* -ENOENT when the process runs no HotSpot, -ENOTSUP when its tables lack something. native must outlive it.
 */
int hotspot_open(struct native *native, struct hotspot **ret_hotspot);
void hotspot_free(struct hotspot *hotspot);
DEFINE_FREEP(struct hotspot, hotspot_free)

/* Reads the code cache again: methods are compiled all the time. */
int hotspot_refresh(struct hotspot *hotspot);

/* The addresses that the code cache spans. */
void hotspot_range(const struct hotspot *hotspot, uint64_t *ret_start, uint64_t *ret_end);

/* Rows for the whole code cache, pc relative to its start; at most limit. How many; never more than
 * hotspot_row_limit(). */
size_t hotspot_row_limit(const struct hotspot *hotspot);
size_t hotspot_rows(const struct hotspot *hotspot, struct unwind_row *rows, size_t limit);

/* One frame up, from code in the code cache, on a copy of the stack. ret_method gets the method of an
 * interpreter's frame, else 0. STEP_NO_MODULE when the code is not there (any more). */
enum native_step hotspot_step(const struct hotspot *hotspot, const struct stack_copy *stack,
                              struct registers *registers, bool call, uint64_t *ret_method);

/* Whether classes have been unloaded since it was asked last: what lies where their methods lay may be
 * another's. Of a machine without counters (-XX:-UsePerfData): whether a second has passed. */
bool hotspot_unloaded(struct hotspot *hotspot, uint64_t now_ns);

/* Forgets what methods are called. */
void hotspot_forget_names(struct hotspot *hotspot);

struct hotspot_frame {
    char name[512]; /* "java.util.UUID.randomUUID", or the name of a stub */
    bool is_method;
};

/* The methods at pc: compiled (method 0), inlined ones first, or of an interpreter's frame. How many (0: not
 * in the code cache as it was read last). */
size_t hotspot_name(struct hotspot *hotspot, uint64_t pc, bool call, uint64_t method,
                    struct hotspot_frame *frames, size_t limit);

#endif
