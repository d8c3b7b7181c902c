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
struct sampler_java;

/* -ENOENT when the process runs no HotSpot, -ENOTSUP when its tables lack something. native must outlive it.
 */
int hotspot_open(struct native *native, struct hotspot **ret_hotspot);
void hotspot_free(struct hotspot *hotspot);
DEFINE_FREEP(struct hotspot, hotspot_free)

/* Reads the code cache again: methods are compiled all the time. -ENOENT when it cannot be read: then all
 * stays as it is. */
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

#define HOTSPOT_UNKNOWN UINT64_MAX

/* How many classes the machine has unloaded: what lies where their methods lay may be another's.
 * HOTSPOT_UNKNOWN: it has no counters (yet, or it was started with -XX:-UsePerfData). ret_address gets where
 * the count lies, 0 when it is not known. */
uint64_t hotspot_unloads(struct hotspot *hotspot, uint64_t now_ns, uint64_t *ret_address);

/* Forgets what methods are called. */
void hotspot_forget_names(struct hotspot *hotspot);

/* What the kernel's half needs to tell interpreted methods apart (sampler_java_identity()). */
const struct sampler_java *hotspot_name_layout(const struct hotspot *hotspot);

/* When the frames were on the stack that are named. */
struct hotspot_moment {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t unloads; /* how many classes had been unloaded by then, or HOTSPOT_UNKNOWN */
};

struct hotspot_place {
    uint64_t pc;
    bool call;                 /* it is where a call returns to */
    uint64_t method, identity; /* of an interpreter's frame; identity: as it was on the stack, or 0 */
};

struct hotspot_frame {
    char name[512]; /* "java.util.UUID.randomUUID", or the name of a stub */
    bool is_method;
    bool gone; /* what was there has left, or may have: no name */
};

/* The methods at a place: compiled, inlined ones first, or interpreted. How many (0: not in the code cache as
 * it was read last). */
size_t hotspot_name(struct hotspot *hotspot, const struct hotspot_place *place,
                    const struct hotspot_moment *when, struct hotspot_frame *frames, size_t limit);

#endif
