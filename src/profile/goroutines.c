/* See goroutines.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/goroutines.h"

#include <Zydis/Zydis.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/macro.h"
#include "unwind/row_source.h"

enum {
    FUNCTION_MAX = 16 << 10, /* bytes; these have less than a thousand */
    RETURNS_MAX = 8,
    NEAR_RETURN = 0xc3,
    STACK_LIMIT = 16, /* behind R14: what the stack pointer is compared with when a function begins */
};

struct decoded {
    uint64_t begin; /* where it has a stack: before that it may begin again, on a larger one */
    size_t returns;
    uint64_t at[RETURNS_MAX];
};

struct code {
    const uint8_t *bytes;
    uint64_t start;
    size_t size;
    bool is_start[FUNCTION_MAX]; /* of an instruction */
    bool is_target[FUNCTION_MAX];
};

static bool compares_with_limit(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *operands)
{
    return in->mnemonic == ZYDIS_MNEMONIC_CMP && operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY &&
           operands[1].mem.base == ZYDIS_REGISTER_R14 && operands[1].mem.index == ZYDIS_REGISTER_NONE &&
           operands[1].mem.disp.value == STACK_LIMIT;
}

/* Jumps stay in the function: one that does not would leave it without a return. */
static bool note_jump(struct code *c, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *operand,
                      uint64_t pc)
{
    bool jumps = in->meta.category == ZYDIS_CATEGORY_COND_BR || in->meta.category == ZYDIS_CATEGORY_UNCOND_BR;
    ZyanU64 to;
    if (!jumps)
        return true;
    if (operand->type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
        !ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(in, operand, pc, &to)) || to < c->start ||
        to - c->start >= c->size)
        return false;
    c->is_target[to - c->start] = true;
    return true;
}

/* -EBADMSG: it is not what Go's compiler makes. */
static int decode(struct code *c, struct decoded *ret)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    bool compared = false;
    size_t count = 0;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t at = 0; at < c->size; at += in.length, count++) {
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, c->bytes + at, c->size - at, &in, operands)) ||
            !note_jump(c, &in, operands, c->start + at))
            return -EBADMSG;
        c->is_start[at] = true;
        if (!ret->begin && count < 4) {
            bool grows = compared && in.meta.category == ZYDIS_CATEGORY_COND_BR;
            compared = compares_with_limit(&in, operands);
            if (grows)
                ret->begin = c->start + at + in.length;
        }
        if (in.meta.category != ZYDIS_CATEGORY_RET)
            continue;
        if (in.length != 1 || in.opcode != NEAR_RETURN || ret->returns == RETURNS_MAX)
            return -EBADMSG;
        ret->at[ret->returns++] = c->start + at;
    }
    for (size_t at = 0; at < c->size; at++)
        if (c->is_target[at] && !c->is_start[at])
            return -EBADMSG;
    return ret->begin && ret->returns ? 0 : -EBADMSG;
}

struct found {
    struct sampler_place *places;
    size_t count, most;
};

static int add(struct found *found, const struct elf *elf, uint64_t address, enum place_function function,
               uint32_t bytes)
{
    struct sampler_place place = {.function = function, .bytes = bytes};
    if (found->count == found->most || elf_address_to_offset(elf, address, &place.offset) < 0)
        return -EBADMSG;
    found->places[found->count++] = place;
    return 0;
}

static int add_function(struct found *found, const struct elf *elf, const struct row_source_lock *lock,
                        uint64_t start, uint64_t end, uint32_t bytes)
{
    struct decoded decoded = {0};
    if (end - start > FUNCTION_MAX)
        return -EBADMSG;
    struct code *code = calloc(1, sizeof(*code));
    if (!code)
        return -ENOMEM;
    code->start = start;
    code->size = end - start;
    code->bytes = elf_bytes(elf, start, code->size, NULL);
    int r = code->bytes ? decode(code, &decoded) : -EBADMSG;
    free(code);
    if (r >= 0)
        r = add(found, elf, decoded.begin, lock->lets_go ? GO_LETS_GO : GO_WAITS, bytes);
    for (size_t i = 0; i < decoded.returns && r >= 0 && !lock->lets_go; i++)
        r = add(found, elf, decoded.at[i], GO_IS_BACK, bytes);
    return r;
}

static int add_source(struct found *found, const struct elf *elf, const struct row_source *source)
{
    uint32_t offset = source->number ? source->number(elf) : 0, index = 0;
    unsigned waits = 0, lets_go = 0;
    for (const struct row_source_lock *lock = source->locks; lock->function; lock++) {
        uint64_t start, end;
        index++;
        if (source->find(elf, lock->function, &start, &end) < 0)
            continue;
        int r = add_function(found, elf, lock, start, end, SAMPLER_GO_BYTES(index, offset));
        if (r < 0)
            return r;
        waits += !lock->lets_go;
        lets_go += lock->lets_go;
    }
    return !waits == !lets_go ? 0 : -EBADMSG; /* one without the other would say what is wrong */
}

int goroutines_places(const struct elf *elf, struct sampler_place *places, size_t most, size_t *ret_count)
{
    struct found found = {.places = places, .most = most};
    int r = 0;
    if (elf_machine(elf) != EM_X86_64)
        r = -ENOENT;
    for (const struct row_source *const *source = ROW_SOURCES; *source && r >= 0; source++)
        if ((*source)->locks)
            r = add_source(&found, elf, *source);
    if (r >= 0)
        *ret_count = found.count;
    return r;
}
