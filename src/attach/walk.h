/* Reads struct offsets from the machine code of small functions of this very build, whose source says which
 * field they touch: a build with other options, or with fields added, shows its own offsets. Used by the
 * layouts of targets (src/targets/NAME/attach_layout.c). Nothing is assumed: what does not match its pattern
 * exactly stays SONDE_NO_OFFSET. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_WALK_H
#define ATTACH_WALK_H

#include <Zydis/Zydis.h>

#include "attach/target.h"

enum { INSTRUCTIONS_MAX = 48, DEREFS_MAX = 4, REGISTERS = 16, SLOTS = 8 };

/* What a register holds: rdi of the function's entry, followed through loads. count < 0: unknown. */
struct chain {
    int count;
    int32_t offsets[DEREFS_MAX];
};

/* One thing that the function does to memory reached from its first argument. */
struct access {
    struct chain chain; /* the last offset is the accessed one */
    uint8_t bytes;
    enum { ACCESS_LOAD, ACCESS_STORE_ZERO } kind;
};

/* What lies in the frame at rbp + displacement, where code without optimisation keeps everything. */
struct slot {
    int64_t displacement;
    struct chain chain;
};

struct walk {
    ARRAY(struct access) accesses;
    struct slot slots[SLOTS];
    int slot_count;
    bool framed;                       /* rbp holds the frame's address */
    struct chain registers[REGISTERS]; /* at its end */
    bool returned;                     /* ended with ret, not with a call or jump */
};

/* At the entry of a function: rdi holds its first argument, nothing else is known. */
struct walk walk_begin(void);

/* The index of a general register in walk.registers, or -1. */
int walk_register(ZydisRegister r);

/* Follows one instruction that is no branch. 0 or -ENOMEM. */
int walk_step(struct walk *walk, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op);

/* Follows a function in a straight line (conditional branches are not taken, but where flags are tested:
 * there as if none were set) to its ret or jump, through calls when through_calls. Caller:
 * array_done(&ret->accesses). */
int walk_function(struct target *target, const char *function, bool through_calls, struct walk *ret);

/* The offset at place `last` of the only chain of `count` derefs that ends in rax at ret. */
int32_t walk_returned(struct target *target, const char *function, int count);

/* The offset of the n-th (from 0) access of that kind, size and number of derefs; prefix (may be NULL) holds
 * the offsets that the derefs before the last must have. */
int32_t walk_access(const struct walk *walk, int kind, int bytes, int count, const int32_t *prefix, int n);

#endif
