/* Where a build of V8 keeps what a stack walk needs: read from the v8dbg_* symbols that every Node.js binary
 * carries for post-mortem debuggers, and from tables in the binary that name builtins and bytecodes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_NODE_UNWIND_LAYOUT_H
#define TARGETS_NODE_UNWIND_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/problem.h"
#include "symbol/elf.h"

enum v8_opcode_kind {
    OP_OTHER = 0,
    OP_WIDE,            /* prefix: operands of 2 bytes */
    OP_EXTRA_WIDE,      /* prefix: operands of 4 bytes */
    OP_NAME_FIRST,      /* first operand: constant with a name or literal (globals, string constants) */
    OP_NAME_SECOND,     /* second operand: constant with a property name */
    OP_CONTEXT_CURRENT, /* first operand: slot of the current context */
    OP_CONTEXT,         /* second operand: slot, third: depth of the context */
    OP_REGEXP,          /* first operand: constant with a pattern */
    OP_SMI,             /* first operand: an integer literal */
    OP_CLOSURE,         /* creates an inner function */
    OP_CALL,            /* a call: its position is that of the callee's name */
    OP_CONSTRUCT,
    OP_JUMP_LOOP,
    OP_STAR,       /* stores the accumulator in the register of the first operand */
    OP_STAR_SHORT, /* the same, the register is in the opcode */
};

/* Offsets are from the start of the object, for untagged pointers. -1 where this build has no such thing. */
struct v8_layout {
    char build_id[129];
    int32_t frame_entry, frame_construct_entry, frame_exit, frame_builtin_exit, frame_api_exit,
        frame_accessor_exit, frame_stub, frame_internal, frame_construct, frame_irregexp, frame_last;
    int32_t map_instance_type, string_length, seq_one_byte, seq_two_byte, cons_first, cons_second,
        sliced_parent, sliced_offset, thin_actual, external_resource;
    int32_t function_shared, function_code, shared_name, shared_script, shared_data, script_name,
        script_source, script_line_offset;
    int32_t bytecode_data, bytecode_constants, bytecode_positions, fixed_array_data, byte_array_data;
    int32_t code_start;   /* of the instructions, where Code holds them (before V8 11) */
    int32_t stream_start; /* of the instructions in an InstructionStream, whose Code is named at offset 8 */
    int32_t code_positions, code_deoptimization;
    bool two_position_bits; /* below a code offset in tables of positions */
    int32_t code_flags, code_kind_mask, code_kind_baseline;
    int32_t wrapper_shared;
    int32_t deopt_literals, deopt_inlinings;
    int32_t regexp_source, regexp_flags, regexp_data;
    int32_t scope_first; /* index of the first context local's name */
    uint16_t type_regexp, type_script, type_shared, type_bytecode, type_scope_info, type_first_nonstring,
        type_function, type_byte_array, type_fixed_array, type_debug_info, type_trusted_byte_array, type_code,
        type_stream, type_wrapper;

    uint64_t blob_address; /* embedded builtins: address in the file, size */
    uint64_t blob_size;
    uint8_t bytecode_sizes[3][256]; /* by operand scale; 0 when unknown */
    uint8_t opcode_kind[256];
    uint8_t star0;    /* the short store to r0; r1 is one less */
    unsigned opcodes; /* 0 when the bytecodes are not known */
};

/* -ENOENT when the file holds no V8 (or one without the symbols), -ENOTSUP for a layout that is not supported
 * (compressed pointers, before Node.js 16). */
int v8_layout_read(struct elf *elf, struct v8_layout *ret_layout, struct problem *problem);

/* The same of one file, for all processes that run it: a fact_reader (unwind/facts.h). */
struct v8_layout_fact {
    int result; /* -ENOTSUP: V8 is there, but as the problem says */
    struct problem problem;
    struct v8_layout layout;
};
int v8_layout_fact(struct elf *elf, void *ret_fact);

#endif
