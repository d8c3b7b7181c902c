/* See patch.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/patch.h"

#include <Zydis/Zydis.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "attach/copies.h"
#include "symbol/demangle.h"
#include "symbol/stripped.h"

enum {
    JUMP_BYTES = 5,      /* jmp rel32 */
    RELOCATED_MAX = 128, /* of one prologue */
    FUNCTION_SCAN_MAX = 1 << 16,
    REACH = 0x70000000,        /* how far a rel32 may go, with room to spare */
    POOL_DISTANCE = 0x60000000 /* pools lie far from the code, out of the heap's way */
};

/* ---- relocation ---- */

static uint8_t *emit_jump(uint8_t *at, uint64_t at_address, uint64_t to)
{
    int32_t distance = (int32_t)(to - (at_address + JUMP_BYTES));
    *at = 0xe9;
    memcpy(at + 1, &distance, sizeof(distance));
    return at + JUMP_BYTES;
}

static bool in_reach(uint64_t from, uint64_t to)
{
    int64_t distance = (int64_t)(to - from);
    return distance > -(int64_t)REACH && distance < (int64_t)REACH;
}

/* Rewrites one instruction for its new place. *ret_ends: control does not fall through it. */
static int relocate_one(const ZydisDecodedInstruction *in, const uint8_t *code, uint64_t address,
                        uint8_t *out, uint64_t out_address, bool *ret_ends, struct problem *problem)
{
    *ret_ends = in->mnemonic == ZYDIS_MNEMONIC_RET;
    memcpy(out, code, in->length);
    if (!(in->attributes & ZYDIS_ATTRIB_IS_RELATIVE))
        return in->length;

    if (in->raw.disp.size == 32 && in->raw.modrm.mod == 0 && in->raw.modrm.rm == 5) { /* disp32(%rip) */
        uint64_t to = address + in->length + (uint64_t)in->raw.disp.value;
        if (!in_reach(out_address, to))
            return problem_set(problem, -EINVAL, "an operand relative to the instruction is out of reach");
        int32_t moved = (int32_t)(to - (out_address + in->length));
        memcpy(out + in->raw.disp.offset, &moved, sizeof(moved));
        return in->length;
    }
    if (!in->raw.imm[0].is_relative)
        return problem_set(problem, -EINVAL, "an instruction that cannot be moved");

    uint64_t to = address + in->length + (uint64_t)in->raw.imm[0].value.s;
    if (!in_reach(out_address, to))
        return problem_set(problem, -EINVAL, "a branch that is out of reach");
    uint8_t *end = out;
    switch (in->mnemonic) {
    case ZYDIS_MNEMONIC_CALL: /* a thread may be in there, with a return address into our bytes */
        return problem_set(problem, -EINVAL, "a call at the function's start");
    case ZYDIS_MNEMONIC_JMP:
        end = emit_jump(out, out_address, to);
        *ret_ends = true;
        break;
    case ZYDIS_MNEMONIC_JCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
        return problem_set(problem, -EINVAL, "a short branch that has no long form");
    default: { /* jcc: 0f 8x rel32 */
        int32_t distance = (int32_t)(to - (out_address + 6));
        out[0] = 0x0f;
        out[1] = (uint8_t)(0x80 | (in->opcode & 0x0f));
        memcpy(out + 2, &distance, sizeof(distance));
        end = out + 6;
    }
    }
    return (int)(end - out);
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

int patch_relocate(const uint8_t *code, size_t size, uint64_t address, uint8_t *out, uint64_t out_address,
                   size_t *ret_out_length, struct problem *problem)
{
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    size_t length = 0, written = 0;
    bool ended = false;
    while (length < JUMP_BYTES) {
        if (ended)
            return problem_set(problem, -EINVAL, "the function ends within its first %d bytes", JUMP_BYTES);
        ZydisDecodedInstruction in;
        if (length >= size ||
            !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code + length, size - length, &in)))
            return problem_set(problem, -EINVAL, "an instruction at its start cannot be decoded");
        int n = relocate_one(&in, code + length, address + length, out + written, out_address + written,
                             &ended, problem);
        if (n < 0)
            return n;
        length += in.length;
        written += (size_t)n;
    }
    if (branches_back(&decoder, code, size, length))
        return problem_set(problem, -EINVAL, "the function branches back into its first bytes");
    if (!ended) {
        if (!in_reach(out_address, address))
            return problem_set(problem, -EINVAL, "the function is out of reach");
        written = (size_t)(emit_jump(out + written, out_address + written, address + length) - out);
    }
    *ret_out_length = written;
    return (int)length;
}

/* ---- pools ---- */

struct patch_pool {
    const struct target_module *module; /* whose functions it serves */
    uint64_t address;
    size_t used;
    uint8_t code[PATCH_POOL_BYTES];
};

static bool is_free(const struct modules *modules, uint64_t address, uint64_t size)
{
    array_foreach (&modules->mappings, m)
        if (address < m->end && address + size > m->start)
            return false;
    return true;
}

/* Where the file's segments lie. The module's own extent will not do: V8 maps its code a second time,
 * elsewhere. */
static void extent_of(const struct target_module *module, uint64_t *ret_start, uint64_t *ret_end)
{
    struct elf_segment segment;
    *ret_start = UINT64_MAX;
    *ret_end = 0;
    for (size_t i = 0; elf_segment_at(module->elf, i, &segment) == 0; i++)
        if (segment.type == PT_LOAD) {
            uint64_t start = segment.address + module->module->load_bias;
            *ret_start = MIN(*ret_start, start);
            *ret_end = MAX(*ret_end, start + segment.memory_size);
        }
}

/* A free place within reach of the whole module, as far from it as reach allows. */
static int make_pool(struct target *target, const struct target_module *module, patch_map_fn *map,
                     void *context, struct patch_pool *pool, struct problem *problem)
{
    uint64_t start, end;
    extent_of(module, &start, &end);
    int r = -ENOMEM;
    for (uint64_t distance = POOL_DISTANCE; distance >= 0x1000000; distance -= 0x100000) {
        uint64_t places[] = {start > distance ? start - distance : 0, end + distance};
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
            uint64_t at = places[i] & ~0xfffull;
            if (at < 0x10000 || !in_reach(at, start) || !in_reach(at, end) ||
                !is_free(&target->modules, at, PATCH_POOL_BYTES))
                continue;
            r = map(context, at, PATCH_POOL_BYTES);
            if (r == 0) {
                pool->module = module;
                pool->address = at;
                pool->used = 0;
                return 0;
            }
            if (r != -EEXIST && r != -EPERM)
                return problem_set(problem, r, "process %d: no executable memory can be had near %s: %s",
                                   target->pid, module->module->path, strerror(-r));
        }
    }
    return problem_set(problem, r, "process %d: no free memory within reach of %s", target->pid,
                       module->module->path);
}

struct planner {
    struct target *target;
    struct sonde_pool
        known[SONDE_POOLS]; /* of earlier patches, and what is added; kept in the probe's memory */
    const struct target_module *probe;
    patch_map_fn *map;
    void *context;
    struct patch_set *set;
};

/* The pool that an earlier attachment left for the module, or a new one. Used again it is filled with the
 * same code in the same order, so that a thread that still runs in it comes to no harm. */
static int find_pool(struct planner *planner, const struct target_module *module, struct patch_pool *pool,
                     struct problem *problem)
{
    for (size_t i = 0; i < SONDE_POOLS; i++) {
        struct sonde_pool *known = &planner->known[i];
        if (known->near == module->module->start && known->size == PATCH_POOL_BYTES) {
            pool->module = module;
            pool->address = known->address;
            return 0;
        }
        if (known->address)
            continue;
        int r = make_pool(planner->target, module, planner->map, planner->context, pool, problem);
        if (r == 0)
            *known = (struct sonde_pool){module->module->start, pool->address, PATCH_POOL_BYTES};
        return r;
    }
    return problem_set(problem, -ENOSPC, "process %d: more than %d modules to patch", planner->target->pid,
                       SONDE_POOLS);
}

static struct patch_pool *pool_for(struct planner *planner, const struct target_module *module,
                                   struct problem *problem)
{
    array_foreach (&planner->set->pools, p)
        if ((*p)->module == module)
            return *p;
    struct patch_pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return NULL;
    if (find_pool(planner, module, pool, problem) < 0 || array_add(&planner->set->pools, pool) < 0) {
        free(pool);
        return NULL;
    }
    return pool;
}

/* ---- one hook ---- */

static int find_in_probe(const struct target_module *probe, const char *prefix, const char *name,
                         uint64_t *ret_address)
{
    char symbol[128];
    struct elf_symbol found;
    snprintf(symbol, sizeof(symbol), "%s%s", prefix, name);
    int r = elf_find(probe->elf, symbol, &found);
    if (r == 0)
        *ret_address = found.value + probe->module->load_bias;
    return r;
}

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

/* A function that stands in the process as in its file. */
struct function {
    const struct target_module *module;
    uint64_t address;
    const uint8_t *code; /* of the file, size bytes */
    size_t size;
};

static int examine(struct target *target, const struct hook *hook, struct function *ret,
                   struct problem *problem)
{
    struct elf_symbol symbol;
    struct function f;
    int r = patch_find(target, hook, &f.address, &symbol, &f.module);
    if (r < 0) {
        _cleanup_(freep) char *name = demangle_or_copy(hook->symbol, false);
        return problem_set(problem, r, "this build has no symbol %s", name ? name : hook->symbol);
    }
    size_t available;
    f.code = elf_bytes(f.module->elf, symbol.value, JUMP_BYTES, &available);
    if (!f.code)
        return problem_set(problem, -EINVAL, "%s is outside the file", hook->symbol);
    f.size = symbol.size && symbol.size < available ? symbol.size : MIN(available, (size_t)64);
    uint8_t now[PATCH_BYTES_MAX];
    size_t check = MIN(f.size, sizeof(now));
    if (target_read(target, f.address, now, check) < 0 || memcmp(now, f.code, check) != 0)
        return problem_set(problem, -EBUSY, "%s is not as in the file: another tool has patched it",
                           hook->symbol);
    *ret = f;
    return 0;
}

/* Plans one hook and writes its thunk and trampoline into the pool's copy; the function itself is patched
 * once everything else is in place. */
static int plan(struct planner *planner, const struct hook *hook, struct patch *patch,
                struct problem *problem)
{
    struct target *target = planner->target;
    struct function f;
    uint64_t wrapper = 0, original = 0;
    int r = examine(target, hook, &f, problem);
    if (r < 0)
        return r;
    if (find_in_probe(planner->probe, "sonde_wrap_", hook->wrapper, &wrapper) < 0 ||
        find_in_probe(planner->probe, "sonde_orig_", hook->wrapper, &original) < 0)
        return problem_set(problem, -ENOENT, "the probe has no hook %s (is it of this version?)",
                           hook->wrapper);

    struct patch_pool *pool = pool_for(planner, f.module, problem);
    if (!pool)
        return -ENOMEM;
    if (pool->used + 256 > PATCH_POOL_BYTES)
        return problem_set(problem, -ENOSPC, "no room for more hooks");
    /* thunk: jmp *0(%rip); .quad wrapper -- then the trampoline */
    uint64_t thunk = pool->address + pool->used, trampoline = thunk + 16;
    uint8_t *at = pool->code + pool->used;
    size_t written;
    r = patch_relocate(f.code, f.size, f.address, at + 16, trampoline, &written, problem);
    if (r < 0)
        return r;
    if (r > PATCH_BYTES_MAX || !in_reach(f.address, thunk))
        return problem_set(problem, -EINVAL, "the function is out of reach");
    static const uint8_t JUMP_INDIRECT[] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(at, JUMP_INDIRECT, sizeof(JUMP_INDIRECT));
    memcpy(at + sizeof(JUMP_INDIRECT), &wrapper, sizeof(wrapper));
    pool->used = (pool->used + 16 + written + 15) & ~(size_t)15;

    *patch = (struct patch){.hook = hook, .address = f.address, .length = (uint8_t)r};
    memcpy(patch->before, f.code, (size_t)r);
    patch->thunk = thunk;
    patch->original = original;
    patch->trampoline = trampoline;
    return 0;
}

static int write_jump(struct target *target, const struct patch *patch)
{
    uint8_t code[PATCH_BYTES_MAX];
    memset(code, 0x90, sizeof(code)); /* nop behind the jump */
    emit_jump(code, patch->address, patch->thunk);
    return target_write(target, patch->address, code, patch->length);
}

static size_t hook_count(const struct target *target)
{
    return target->kind ? target->kind->hook_count : 0;
}

static uint32_t hook_version(const struct target *target, const struct hook *hook)
{
    return target->kind->version ? target->kind->version(target, hook) : target->versions[0];
}

static bool version_fits(const struct target *target, const struct hook *hook)
{
    uint32_t version = hook_version(target, hook);
    return version >= hook->version_min && (!hook->version_max || version < hook->version_max);
}

/* Later versions do in another way what it did: nothing of theirs is missed without it. */
static bool is_gone(const struct target *target, const struct hook *hook)
{
    return target->kind->superseded && hook->version_max && hook_version(target, hook) >= hook->version_max;
}

static bool hooked(const struct patch_set *set, const struct hook *hook)
{
    array_foreach (&set->patches, p)
        if (hook_same(p->hook, hook))
            return true;
    return false;
}

static void explain(struct target *target, const struct hook *hook, const struct problem *problem)
{
    if (hook->gives)
        target_miss(target, hook->gives, problem->what, problem->remedy);
}

int patch_plan(struct target *target, const struct target_module *probe, patch_map_fn *map, void *context,
               struct patch_set *ret_set, struct problem *problem)
{
    struct patch_set set = {0};
    struct planner planner = {.target = target, .probe = probe, .map = map, .context = context, .set = &set};
    uint64_t pools = 0;
    int r = find_in_probe(probe, "sonde_", "pools", &pools);
    if (r >= 0)
        r = target_read(target, pools, planner.known, sizeof(planner.known));
    for (size_t i = 0; i < hook_count(target) && r >= 0; i++) {
        const struct hook *hook = &target->kind->hooks[i];
        struct problem why = {0};
        struct patch patch;
        if (hooked(&set, hook) || is_gone(target, hook))
            continue;
        if (!version_fits(target, hook)) {
            problem_set(&why, 0, "the signature of %s is not known for this version", hook->symbol);
            explain(target, hook, &why);
        } else if (plan(&planner, hook, &patch, &why) < 0) {
            explain(target, hook, &why);
        } else {
            r = array_add(&set.patches, patch);
        }
    }
    if (r >= 0) /* what is mapped is used again, however this ends */
        r = target_write(target, pools, planner.known, sizeof(planner.known));
    if (r >= 0)
        copies_note(target, &set);
    if (r < 0)
        problem_set(problem, r, "process %d: patching failed: %s", target->pid, strerror(-r));
    else if (!set.patches.count)
        r = problem_set(problem, -ENOENT, "process %d: none of its functions could be hooked: %s",
                        target->pid,
                        target->missing.count ? target->missing.at[0].why : "it has none that we know");
    if (r < 0) {
        patch_set_done(&set);
        return r;
    }
    *ret_set = set;
    return 0;
}

void patch_survey(struct target *target, patch_verdict_fn *verdict, void *context)
{
    struct patch_set set = {0};
    for (size_t i = 0; i < hook_count(target); i++) {
        const struct hook *hook = &target->kind->hooks[i];
        struct problem why = {0};
        struct function f;
        uint8_t moved[RELOCATED_MAX];
        size_t written;
        if (hooked(&set, hook) || is_gone(target, hook))
            continue;
        int r = version_fits(target, hook)
                    ? examine(target, hook, &f, &why)
                    : problem_set(&why, -ENOENT, "the signature of %s is not known for this version",
                                  hook->symbol);
        if (r == 0)
            r = patch_relocate(f.code, f.size, f.address, moved, f.address + POOL_DISTANCE, &written, &why);
        struct patch patch = {.hook = hook, .address = r < 0 ? 0 : f.address};
        if (r >= 0 && array_add(&set.patches, patch) == 0)
            verdict(context, hook, NULL);
        else if (hook->gives)
            verdict(context, hook, why.what);
    }
    copies_note(target, &set);
    patch_set_done(&set);
}

static void forget_pools(struct patch_set *set)
{
    array_foreach (&set->pools, p)
        free(*p);
    array_done(&set->pools);
}

/* What the jumps will lead to. */
static int write_ground(struct target *target, const struct patch_set *set)
{
    int r = 0;
    array_foreach (&set->pools, p)
        if (r >= 0)
            r = target_write(target, (*p)->address, (*p)->code, (*p)->used);
    array_foreach (&set->patches, p)
        if (r >= 0)
            r = target_write(target, p->original, &p->trampoline, sizeof(p->trampoline));
    return r;
}

int patch_apply(struct target *target, struct patch_set *set, struct problem *problem)
{
    int r = write_ground(target, set);
    array_foreach (&set->patches, p)
        if (r >= 0)
            r = write_jump(target, p);
    if (r < 0) {
        patch_remove(target, set);
        return problem_set(problem, r, "process %d: its code cannot be written: %s", target->pid,
                           strerror(-r));
    }
    forget_pools(set);
    return 0;
}

int patch_remove(struct target *target, const struct patch_set *set)
{
    int result = 0;
    array_foreach (&set->patches, p) {
        int r = target_write(target, p->address, p->before, p->length);
        if (r < 0)
            result = r;
    }
    return result;
}

/* ---- what a killed sonde left ---- */

static bool in_pools(const struct sonde_pool *pools, uint64_t address)
{
    for (size_t i = 0; i < SONDE_POOLS; i++)
        if (address >= pools[i].address && address < pools[i].address + pools[i].size)
            return true;
    return false;
}

/* How many bytes of ours stand in front of the file's code: 0 when they are not ours. */
static size_t own_bytes(const struct sonde_pool *pools, uint64_t address, const uint8_t *now,
                        const uint8_t *code, size_t size)
{
    int32_t distance;
    size_t own = JUMP_BYTES;
    if (size < JUMP_BYTES || now[0] != 0xe9)
        return 0;
    memcpy(&distance, now + 1, sizeof(distance));
    if (!in_pools(pools, address + JUMP_BYTES + (uint64_t)(int64_t)distance))
        return 0;
    for (size_t i = JUMP_BYTES; i < size; i++)
        if (now[i] != code[i]) {
            if (now[i] != 0x90)
                return 0;
            own = i + 1;
        }
    return own;
}

int patch_leftover(struct target *target, const struct target_module *probe, struct patch_set *ret_set)
{
    struct sonde_pool pools[SONDE_POOLS];
    uint64_t known = 0;
    int r = find_in_probe(probe, "sonde_", "pools", &known);
    if (r >= 0)
        r = target_read(target, known, pools, sizeof(pools));
    for (size_t i = 0; i < hook_count(target) && r >= 0; i++) {
        const struct target_module *module;
        struct elf_symbol symbol;
        struct patch patch = {.hook = &target->kind->hooks[i]};
        uint8_t now[PATCH_BYTES_MAX];
        size_t available = 0;
        if (patch_find(target, patch.hook, &patch.address, &symbol, &module) < 0)
            continue;
        const uint8_t *code = elf_bytes(module->elf, symbol.value, JUMP_BYTES, &available);
        size_t size = MIN(available, sizeof(now));
        if (!code || target_read(target, patch.address, now, size) < 0 || memcmp(now, code, size) == 0)
            continue;
        patch.length = (uint8_t)own_bytes(pools, patch.address, now, code, size);
        memcpy(patch.before, code, patch.length);
        if (patch.length)
            r = array_add(&ret_set->patches, patch);
    }
    return r;
}

void patch_set_done(struct patch_set *set)
{
    forget_pools(set);
    array_done(&set->patches);
}
