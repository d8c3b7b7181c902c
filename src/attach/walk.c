/* See walk.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/walk.h"

#include <errno.h>
#include <string.h>

int walk_register(ZydisRegister r)
{
    int index = (int)ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r) - ZYDIS_REGISTER_RAX;
    return index >= 0 && index < REGISTERS ? index : -1;
}

/* The chain of a memory operand without index and segment, or count -1. */
static struct chain operand_chain(const struct walk *walk, const ZydisDecodedOperand *operand)
{
    struct chain chain = {.count = -1};
    int base = walk_register(operand->mem.base);
    if (operand->mem.index != ZYDIS_REGISTER_NONE || operand->mem.segment == ZYDIS_REGISTER_FS || base < 0)
        return chain;
    const struct chain *from = &walk->registers[base];
    if (from->count < 0 || from->count >= DEREFS_MAX)
        return chain;
    chain = *from;
    chain.offsets[chain.count++] = (int32_t)operand->mem.disp.value;
    return chain;
}

static bool in_frame(const struct walk *walk, const ZydisDecodedOperand *operand)
{
    return walk->framed && operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
           operand->mem.base == ZYDIS_REGISTER_RBP && operand->mem.index == ZYDIS_REGISTER_NONE;
}

static void put_slot(struct walk *walk, const ZydisDecodedOperand *operand, const struct chain *chain)
{
    int i = 0;
    while (i < walk->slot_count && walk->slots[i].displacement != operand->mem.disp.value)
        i++;
    if (i == SLOTS) { /* too many to follow */
        walk->slot_count = 0;
        i = 0;
    }
    walk->slots[i] = (struct slot){operand->mem.disp.value, *chain};
    walk->slot_count = MAX(walk->slot_count, i + 1);
}

static struct chain slot_chain(const struct walk *walk, const ZydisDecodedOperand *operand)
{
    for (int i = 0; i < walk->slot_count; i++)
        if (walk->slots[i].displacement == operand->mem.disp.value)
            return walk->slots[i].chain;
    return (struct chain){.count = -1};
}

static int note(struct walk *walk, struct chain chain, const ZydisDecodedOperand *operand, int kind)
{
    if (chain.count <= 0)
        return 0;
    struct access access = {.chain = chain, .bytes = (uint8_t)(operand->size / 8), .kind = kind};
    return array_add(&walk->accesses, access);
}

static void forget(struct walk *walk, const ZydisDecodedOperand *operand)
{
    int index = operand->type == ZYDIS_OPERAND_TYPE_REGISTER ? walk_register(operand->reg.value) : -1;
    if (index >= 0)
        walk->registers[index].count = -1;
}

static void forget_after_call(struct walk *walk)
{
    static const ZydisRegister SCRATCH[] = {ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RDX,
                                            ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_R8,
                                            ZYDIS_REGISTER_R9,  ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11};
    for (size_t i = 0; i < ARRAY_SIZE(SCRATCH); i++)
        walk->registers[walk_register(SCRATCH[i])].count = -1;
}

int walk_step(struct walk *walk, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op)
{
    bool reads = in->operand_count_visible > 1 && op[1].type == ZYDIS_OPERAND_TYPE_MEMORY;
    int r = 0;
    if (reads && in->mnemonic != ZYDIS_MNEMONIC_LEA)
        r = note(walk, operand_chain(walk, &op[1]), &op[1], ACCESS_LOAD);
    if (in->mnemonic == ZYDIS_MNEMONIC_MOV && op[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
        int to = walk_register(op[0].reg.value);
        struct chain chain = {.count = -1};
        if (reads && in_frame(walk, &op[1]))
            chain = slot_chain(walk, &op[1]);
        else if (reads)
            chain = operand_chain(walk, &op[1]);
        else if (op[1].type == ZYDIS_OPERAND_TYPE_REGISTER && walk_register(op[1].reg.value) >= 0)
            chain = walk->registers[walk_register(op[1].reg.value)];
        if (to >= 0)
            walk->registers[to] = chain;
        if (op[0].reg.value == ZYDIS_REGISTER_RBP)
            walk->framed = op[1].type == ZYDIS_OPERAND_TYPE_REGISTER && op[1].reg.value == ZYDIS_REGISTER_RSP;
    } else if (in->mnemonic == ZYDIS_MNEMONIC_MOV && in_frame(walk, &op[0])) {
        bool whole = op[1].type == ZYDIS_OPERAND_TYPE_REGISTER && op[0].size == 64;
        int from = whole ? walk_register(op[1].reg.value) : -1;
        struct chain unknown = {.count = -1};
        put_slot(walk, &op[0], from >= 0 ? &walk->registers[from] : &unknown);
    } else if (in->mnemonic == ZYDIS_MNEMONIC_MOV && op[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
               op[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op[1].imm.value.u == 0) {
        r = note(walk, operand_chain(walk, &op[0]), &op[0], ACCESS_STORE_ZERO);
    } else if (in->mnemonic == ZYDIS_MNEMONIC_CMP && op[0].type == ZYDIS_OPERAND_TYPE_MEMORY) {
        r = note(walk, operand_chain(walk, &op[0]), &op[0], ACCESS_LOAD);
    } else if (in->mnemonic != ZYDIS_MNEMONIC_CMP && in->mnemonic != ZYDIS_MNEMONIC_TEST &&
               in->mnemonic != ZYDIS_MNEMONIC_PUSH && in->operand_count_visible > 0) {
        forget(walk, &op[0]);
    }
    return r;
}

/* Whether a conditional branch is taken: only the one behind a test of flags in memory, when it leads to
 * where none of them is set. */
static bool takes_branch(const ZydisDecodedInstruction *before, const ZydisDecodedOperand *operand,
                         const ZydisDecodedInstruction *in)
{
    return in->mnemonic == ZYDIS_MNEMONIC_JZ && before->mnemonic == ZYDIS_MNEMONIC_TEST &&
           operand[0].type == ZYDIS_OPERAND_TYPE_MEMORY && operand[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

struct walk walk_begin(void)
{
    struct walk walk = {0};
    for (int i = 0; i < REGISTERS; i++)
        walk.registers[i].count = -1;
    walk.registers[ZYDIS_REGISTER_RDI - ZYDIS_REGISTER_RAX].count = 0;
    return walk;
}

int walk_function(struct target *target, const char *function, bool through_calls, struct walk *ret)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    int r = target_find(target, function, NULL, &symbol, &module);
    if (r < 0)
        return r;
    size_t size;
    const uint8_t *code = elf_bytes(module->elf, symbol.value, 1, &size);
    if (!code)
        return -EFAULT;
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    struct walk walk = walk_begin();
    ZydisDecodedInstruction in = {0}, before;
    ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT], tested[2] = {0};
    for (size_t at = 0, n = 0; n < INSTRUCTIONS_MAX && at < size && r >= 0; n++) {
        before = in;
        if (n)
            memcpy(tested, op, sizeof(tested));
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, &in, op)))
            break;
        at += in.length;
        if (takes_branch(&before, tested, &in)) {
            int64_t to = (int64_t)at + op[0].imm.value.s;
            if (to < (int64_t)at || to >= (int64_t)size)
                break;
            at = (size_t)to;
            continue;
        }
        walk.returned = in.mnemonic == ZYDIS_MNEMONIC_RET;
        if (walk.returned || in.mnemonic == ZYDIS_MNEMONIC_JMP)
            break;
        if (in.mnemonic == ZYDIS_MNEMONIC_CALL) {
            if (!through_calls)
                break;
            forget_after_call(&walk);
            continue;
        }
        r = walk_step(&walk, &in, op);
    }
    if (r < 0)
        array_done(&walk.accesses);
    else
        *ret = walk;
    return r;
}

int32_t walk_returned(struct target *target, const char *function, int count)
{
    struct walk walk;
    if (walk_function(target, function, false, &walk) < 0)
        return SONDE_NO_OFFSET;
    const struct chain *rax = &walk.registers[0];
    int32_t offset = walk.returned && rax->count == count ? rax->offsets[count - 1] : SONDE_NO_OFFSET;
    array_done(&walk.accesses);
    return offset;
}

int32_t walk_access(const struct walk *walk, int kind, int bytes, int count, const int32_t *prefix, int n)
{
    array_foreach (&walk->accesses, a) {
        bool fits = (int)a->kind == kind && a->bytes == bytes && a->chain.count == count;
        for (int i = 0; fits && prefix && i < count - 1; i++)
            fits = a->chain.offsets[i] == prefix[i];
        if (fits && n-- == 0)
            return a->chain.offsets[count - 1];
    }
    return SONDE_NO_OFFSET;
}
