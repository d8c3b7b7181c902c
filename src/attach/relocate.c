/* See relocate.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/relocate.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <string.h>

#include "symbol/stripped.h"

enum { JUMP_BYTES = 5, /* jmp rel32 */ FUNCTION_SCAN_MAX = 1 << 16 };

/* Appends bytes whose last four are the distance to an address. */
static void add_far(struct moved *moved, const uint8_t *bytes, size_t size, uint64_t to)
{
    memcpy(moved->code + moved->size, bytes, size);
    moved->size = (uint8_t)(moved->size + size + 4);
    moved->fields[moved->field_count++] =
        (struct moved_field){.to = to, .at = (uint8_t)(moved->size - 4), .from = moved->size};
}

static void add_jump(struct moved *moved, uint64_t to)
{
    static const uint8_t JUMP = 0xe9;
    add_far(moved, &JUMP, 1, to);
}

static void add_as_it_is(struct moved *moved, const uint8_t *code, size_t size)
{
    memcpy(moved->code + moved->size, code, size);
    moved->size = (uint8_t)(moved->size + size);
}

/* Rewrites one instruction for another place. *ret_ends: control does not fall through it. */
static int relocate_one(const ZydisDecodedInstruction *in, const uint8_t *code, uint64_t address,
                        struct moved *moved, bool *ret_ends, struct problem *problem)
{
    *ret_ends = in->mnemonic == ZYDIS_MNEMONIC_RET;
    if (!(in->attributes & ZYDIS_ATTRIB_IS_RELATIVE)) {
        add_as_it_is(moved, code, in->length);
        return 0;
    }
    if (in->raw.disp.size == 32 && in->raw.modrm.mod == 0 && in->raw.modrm.rm == 5) { /* disp32(%rip) */
        moved->fields[moved->field_count++] =
            (struct moved_field){.to = address + in->length + (uint64_t)in->raw.disp.value,
                                 .at = (uint8_t)(moved->size + in->raw.disp.offset),
                                 .from = (uint8_t)(moved->size + in->length)};
        add_as_it_is(moved, code, in->length);
        return 0;
    }
    if (!in->raw.imm[0].is_relative)
        return problem_set(problem, -EINVAL, "an instruction that cannot be moved");

    uint64_t to = address + in->length + (uint64_t)in->raw.imm[0].value.s;
    switch (in->mnemonic) {
    case ZYDIS_MNEMONIC_CALL: /* a thread may be in there, with a return address into our bytes */
        return problem_set(problem, -EINVAL, "a call at the function's start");
    case ZYDIS_MNEMONIC_JMP:
        add_jump(moved, to);
        *ret_ends = true;
        return 0;
    case ZYDIS_MNEMONIC_JCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
        return problem_set(problem, -EINVAL, "a short branch that has no long form");
    default: { /* jcc: 0f 8x rel32 */
        const uint8_t branch[] = {0x0f, (uint8_t)(0x80 | (in->opcode & 0x0f))};
        add_far(moved, branch, sizeof(branch), to);
        return 0;
    }
    }
}

/* Does a branch of the function lead into bytes 1 to length-1, which will be the inside of our jump? */
static bool branches_back(const ZydisDecoder *decoder, const uint8_t *code, size_t size, size_t length)
{
    size_t end = size < FUNCTION_SCAN_MAX ? size : FUNCTION_SCAN_MAX;
    ZydisDecodedInstruction in;
    for (size_t at = 0; at < end;) {
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, NULL, code + at, end - at, &in))) {
            at++; /* a jump table or padding */
            continue;
        }
        if ((in.attributes & ZYDIS_ATTRIB_IS_RELATIVE) && in.raw.imm[0].is_relative) {
            uint64_t to = at + in.length + (uint64_t)in.raw.imm[0].value.s;
            if (to > 0 && to < length)
                return true;
        }
        at += in.length;
    }
    return false;
}

/* Registers that hold nothing when a function begins, of an argument or of its caller. */
static bool is_free_register(const ZydisDecodedOperand *operand, unsigned arguments)
{
    static const ZydisRegister ARGUMENTS[] = {ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDX,
                                              ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_R8,  ZYDIS_REGISTER_R9};
    ZydisRegister whole =
        operand->type == ZYDIS_OPERAND_TYPE_REGISTER
            ? ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value)
            : ZYDIS_REGISTER_NONE;
    for (size_t i = arguments; arguments && i < ARRAY_SIZE(ARGUMENTS); i++)
        if (whole == ARGUMENTS[i])
            return true;
    return whole == ZYDIS_REGISTER_RAX || whole == ZYDIS_REGISTER_R10 || whole == ZYDIS_REGISTER_R11;
}

/* Can a function's first instruction run once more, when what it took of the stack is given back? */
static bool can_be_undone(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *operands,
                          unsigned arguments, uint32_t *ret_undone)
{
    *ret_undone = 0;
    if (in->length > KEPT_BYTES_MAX || !in->operand_count)
        return in->length <= KEPT_BYTES_MAX && in->mnemonic == ZYDIS_MNEMONIC_ENDBR64;
    switch (in->mnemonic) {
    case ZYDIS_MNEMONIC_ENDBR64:
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_TEST: /* flags only */
    case ZYDIS_MNEMONIC_CMP:
        return true;
    case ZYDIS_MNEMONIC_PUSH:
        *ret_undone = 8;
        return in->operand_width == 64;
    case ZYDIS_MNEMONIC_SUB:
        if (operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER || operands[0].reg.value != ZYDIS_REGISTER_RSP ||
            operands[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || operands[1].imm.value.s <= 0 ||
            operands[1].imm.value.s > UNDONE_BYTES_MAX)
            return false;
        *ret_undone = (uint32_t)operands[1].imm.value.s;
        return true;
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_LEA:
        return is_free_register(&operands[0], arguments);
    case ZYDIS_MNEMONIC_XOR:
        return is_free_register(&operands[0], arguments) && operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
               operands[0].reg.value == operands[1].reg.value;
    default:
        return false;
    }
}

/* The same with the first instruction kept; kept 0: nothing of it is. */
static int relocate_behind(const ZydisDecoder *decoder, const uint8_t *code, size_t size, uint64_t address,
                           uint8_t kept, struct moved *ret_moved, struct problem *problem)
{
    /* At most five instructions begin in the bytes of a jump, the last of them at the fifth. */
    _Static_assert(KEPT_BYTES_MAX + 4 * 6 + 15 + JUMP_BYTES <= MOVED_BYTES_MAX &&
                       1 + 5 + 1 <= MOVED_FIELDS_MAX && KEPT_BYTES_MAX + 4 + 15 <= PATCH_BYTES_MAX,
                   "all fit");
    struct moved moved = {.kept = kept};
    size_t length = 0;
    bool ended = false;
    while (length < kept + (size_t)JUMP_BYTES) {
        if (ended)
            return problem_set(problem, -EINVAL, "the function ends within its first %d bytes", JUMP_BYTES);
        ZydisDecodedInstruction in;
        if (length >= size ||
            !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, NULL, code + length, size - length, &in)))
            return problem_set(problem, -EINVAL, "an instruction at its start cannot be decoded");
        int r = relocate_one(&in, code + length, address + length, &moved, &ended, problem);
        if (r < 0)
            return r;
        length += in.length;
    }
    if (branches_back(decoder, code, size, length))
        return problem_set(problem, -EINVAL, "the function branches back into its first bytes");
    if (!ended)
        add_jump(&moved, address + length);
    moved.replaced = (uint8_t)length;
    *ret_moved = moved;
    return 0;
}

int relocate(const uint8_t *code, size_t size, uint64_t address, unsigned arguments, struct moved *ret_moved,
             struct problem *problem)
{
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisDecodedInstruction first;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    struct moved moved;
    uint32_t undone;
    if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size, &first, operands)) &&
        can_be_undone(&first, operands, arguments, &undone) &&
        relocate_behind(&decoder, code, size, address, first.length, &moved, NULL) == 0) {
        moved.undone = undone;
        *ret_moved = moved;
        return 0;
    }
    return relocate_behind(&decoder, code, size, address, 0, ret_moved, problem);
}

/* ---- split functions ---- */

/* Where the rest of a function lies whose beginning only tests its arguments before it jumps there, or 0.
 * What it jumps to has its signature: no argument was moved. Its callers may have the test inlined and call
 * the rest. */
static uint64_t rest_of(const uint8_t *code, size_t size, uint64_t address)
{
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisDecodedInstruction in;
    for (size_t at = 0; at < size; at += in.length) {
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code + at, size - at, &in)))
            return 0;
        uint64_t to = at + in.length + (uint64_t)in.raw.imm[0].value.s;
        bool within = in.raw.imm[0].is_relative && to < size;
        if (in.mnemonic == ZYDIS_MNEMONIC_JMP)
            return in.raw.imm[0].is_relative && !within ? address + to : 0;
        bool harmless = in.mnemonic == ZYDIS_MNEMONIC_TEST || in.mnemonic == ZYDIS_MNEMONIC_CMP ||
                        in.mnemonic == ZYDIS_MNEMONIC_ENDBR64 || in.mnemonic == ZYDIS_MNEMONIC_NOP;
        if (!harmless && !(in.meta.category == ZYDIS_CATEGORY_COND_BR && within))
            return 0;
    }
    return 0;
}

int patch_find(struct target *target, const struct hook *hook, uint64_t *ret_address,
               struct elf_symbol *ret_symbol, const struct target_module **ret_module)
{
    int r = target_find(target, hook->symbol, ret_address, ret_symbol, ret_module);
    if (r < 0 || !hook->split)
        return r;
    size_t available;
    const uint8_t *code = elf_bytes((*ret_module)->elf, ret_symbol->value, 1, &available);
    uint64_t size, rest = code ? rest_of(code, MIN(ret_symbol->size, available), ret_symbol->value) : 0;
    struct elf_symbol named;
    if (rest && elf_symbol_at((*ret_module)->elf, rest, &named) == 0 && named.value == rest)
        size = named.size;
    else if (rest && stripped_function((*ret_module)->elf, rest, &size) < 0)
        rest = 0;
    if (rest) {
        *ret_address += rest - ret_symbol->value;
        ret_symbol->value = rest;
        ret_symbol->size = size;
    }
    return 0;
}
