/* See patch.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/patch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    JUMP_BYTES = 5,            /* jmp rel32 */
    REACH = 0x70000000,        /* how far a rel32 may go, with room to spare */
    POOL_DISTANCE = 0x60000000 /* pools lie far from the code, out of the heap's way */
};

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

int moved_place(const struct moved *moved, uint64_t place, uint8_t out[static MOVED_BYTES_MAX],
                struct problem *problem)
{
    memcpy(out, moved->code, moved->size);
    for (size_t i = 0; i < moved->field_count; i++) {
        const struct moved_field *field = &moved->fields[i];
        if (!in_reach(place, field->to))
            return problem_set(problem, -EINVAL, "what its first instructions refer to is out of reach");
        int32_t distance = (int32_t)(field->to - (place + field->from));
        memcpy(out + field->at, &distance, sizeof(distance));
    }
    return 0;
}

/* ---- pools ---- */

struct patch_pool {
    uint8_t module; /* whose functions it serves: number in plan.modules */
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

/* A free place within reach of the whole module, as far from it as reach allows: of its file's segments,
 * since V8 maps its code a second time, elsewhere. */
static int make_pool(struct target *target, uint8_t number, patch_map_fn *map, void *context,
                     struct patch_pool *pool, struct problem *problem)
{
    const struct plan_module *module = &target->plan.modules.at[number];
    const struct module *mapped = modules_at(&target->modules, module->start, NULL);
    const char *path = mapped ? mapped->path : "?";
    uint64_t start = module->image_start, end = module->image_end;
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
                pool->module = number;
                pool->address = at;
                pool->used = 0;
                return 0;
            }
            if (r != -EEXIST && r != -EPERM)
                return problem_set(problem, r, "process %d: no executable memory can be had near %s: %s",
                                   target->pid, path, strerror(-r));
        }
    }
    return problem_set(problem, r, "process %d: no free memory within reach of %s", target->pid, path);
}

struct planner {
    struct target *target;
    struct sonde_pool
        known[SONDE_POOLS]; /* of earlier patches, and what is added; kept in the probe's memory */
    const struct probe *probe;
    patch_map_fn *map;
    void *context;
    struct patch_set *set;
};

/* The pool that an earlier attachment left for the module, or a new one. Used again it is filled with the
 * same code in the same order, so that a thread that still runs in it comes to no harm. */
static int find_pool(struct planner *planner, uint8_t module, struct patch_pool *pool,
                     struct problem *problem)
{
    const uint64_t near = planner->target->plan.modules.at[module].start;
    for (size_t i = 0; i < SONDE_POOLS; i++) {
        struct sonde_pool *known = &planner->known[i];
        if (known->near == near && known->size == PATCH_POOL_BYTES) {
            pool->module = module;
            pool->address = known->address;
            return 0;
        }
        if (known->address)
            continue;
        int r = make_pool(planner->target, module, planner->map, planner->context, pool, problem);
        if (r == 0)
            *known = (struct sonde_pool){near, pool->address, PATCH_POOL_BYTES};
        return r;
    }
    return problem_set(problem, -ENOSPC, "process %d: more than %d modules to patch", planner->target->pid,
                       SONDE_POOLS);
}

static bool is_needed(const struct plan *plan, size_t module)
{
    array_foreach (&plan->hooks, h)
        if (h->verdict == PLAN_HOOKED && h->module == module)
            return true;
    return false;
}

int patch_map_pools(struct target *target, const struct probe *probe, patch_map_fn *map, void *context)
{
    struct planner planner = {.target = target, .probe = probe, .map = map, .context = context};
    int r = target_read(target, probe->pools, planner.known, sizeof(planner.known));
    if (r < 0)
        return r;
    for (size_t i = 0; i < target->plan.modules.count; i++) {
        struct patch_pool *pool = is_needed(&target->plan, i) ? calloc(1, sizeof(*pool)) : NULL;
        int s = pool ? find_pool(&planner, (uint8_t)i, pool, NULL) : 0;
        r = r < 0 ? r : s;
        free(pool);
    }
    int written = target_write(target, probe->pools, planner.known, sizeof(planner.known));
    return r < 0 ? r : written;
}

static struct patch_pool *pool_for(struct planner *planner, uint8_t module, struct problem *problem)
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

static int find_in_probe(const struct probe *probe, const char *prefix, const char *name,
                         uint64_t *ret_address)
{
    char symbol[128];
    struct elf_symbol found;
    snprintf(symbol, sizeof(symbol), "%s%s", prefix, name);
    int r = elf_find(probe->file, symbol, &found);
    if (r == 0)
        *ret_address = found.value + probe->bias;
    return r;
}

/* Does the function stand in the process as the worker says it does in its file? */
static int examine(struct target *target, const struct plan_hook *planned, const char *symbol,
                   struct problem *problem)
{
    uint8_t now[PATCH_BYTES_MAX];
    if (target_read(target, planned->address, now, planned->compared) == 0 &&
        memcmp(now, planned->code, planned->compared) == 0)
        return 0;
    return problem_set(problem, -EBUSY, "%s is not as in the file: another tool has patched it", symbol);
}

/* lea undone(%rsp), %rsp; jmp *0(%rip); .quad wrapper: the bytes of it. */
static size_t emit_thunk(uint8_t *at, uint32_t undone, uint64_t wrapper)
{
    static const uint8_t GIVE_BACK[] = {0x48, 0x8d, 0xa4, 0x24}, JUMP_INDIRECT[] = {0xff, 0x25, 0, 0, 0, 0};
    size_t size = 0;
    if (undone) {
        memcpy(at, GIVE_BACK, sizeof(GIVE_BACK));
        memcpy(at + sizeof(GIVE_BACK), &undone, sizeof(undone));
        size = sizeof(GIVE_BACK) + sizeof(undone);
    }
    memcpy(at + size, JUMP_INDIRECT, sizeof(JUMP_INDIRECT));
    memcpy(at + size + sizeof(JUMP_INDIRECT), &wrapper, sizeof(wrapper));
    return size + sizeof(JUMP_INDIRECT) + sizeof(wrapper);
}

/* Takes one hook of the plan and writes its thunk and trampoline into the pool's copy; the function itself is
 * patched once everything else is in place. */
static int prepare(struct planner *planner, const struct hook *hook, const struct plan_hook *planned,
                   struct patch *patch, struct problem *problem)
{
    uint64_t wrapper = 0, original = 0;
    int r = examine(planner->target, planned, hook->symbol, problem);
    if (r < 0)
        return r;
    if (find_in_probe(planner->probe, "sonde_wrap_", hook->wrapper, &wrapper) < 0 ||
        find_in_probe(planner->probe, "sonde_orig_", hook->wrapper, &original) < 0)
        return problem_set(problem, -ENOENT, "the probe has no hook %s (is it of this version?)",
                           hook->wrapper);

    struct patch_pool *pool = pool_for(planner, planned->module, problem);
    if (!pool)
        return -ENOMEM;
    if (pool->used + 256 > PATCH_POOL_BYTES)
        return problem_set(problem, -ENOSPC, "no room for more hooks");
    const struct moved *moved = &planned->moved;
    uint8_t *at = pool->code + pool->used;
    size_t thunk_bytes = (emit_thunk(at, moved->undone, wrapper) + 15) & ~(size_t)15;
    uint64_t thunk = pool->address + pool->used, trampoline = thunk + thunk_bytes;
    r = moved_place(moved, trampoline, at + thunk_bytes, problem);
    if (r < 0)
        return r;
    if (!in_reach(planned->address, thunk))
        return problem_set(problem, -EINVAL, "the function is out of reach");
    pool->used = (pool->used + thunk_bytes + moved->size + 15) & ~(size_t)15;

    *patch = (struct patch){.hook = hook,
                            .address = planned->address + moved->kept,
                            .length = (uint8_t)(moved->replaced - moved->kept)};
    memcpy(patch->before, planned->code + moved->kept, patch->length);
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

static void explain(struct target *target, const struct hook *hook, const char *why)
{
    if (hook->gives)
        target_miss(target, hook->gives, why, NULL);
}

/* What the worker has to say of copies that compilers have made. */
static void note_copies(struct target *target)
{
    array_foreach (&target->plan.missing, m)
        if (m->of_copies)
            target_miss(target, m->what, m->why, m->remedy);
}

int patch_plan(struct target *target, const struct probe *probe, patch_map_fn *map, void *context,
               struct patch_set *ret_set, struct problem *problem)
{
    struct patch_set set = {0};
    struct planner planner = {.target = target, .probe = probe, .map = map, .context = context, .set = &set};
    int r = target_read(target, probe->pools, planner.known, sizeof(planner.known));
    array_foreach (&target->plan.hooks, planned) {
        const struct hook *hook = &target->kind->hooks[planned->hook];
        struct problem why = {0};
        struct patch patch;
        if (r < 0 || planned->verdict == PLAN_PASSED)
            continue;
        if (planned->verdict == PLAN_REFUSED)
            explain(target, hook, planned->why);
        else if (prepare(&planner, hook, planned, &patch, &why) < 0)
            explain(target, hook, why.what);
        else
            r = array_add(&set.patches, patch);
    }
    if (r >= 0) /* what is mapped is used again, however this ends */
        r = target_write(target, probe->pools, planner.known, sizeof(planner.known));
    if (r >= 0)
        note_copies(target);
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
    array_foreach (&target->plan.hooks, planned) {
        const struct hook *hook = &target->kind->hooks[planned->hook];
        struct problem why = {0};
        uint8_t moved[MOVED_BYTES_MAX];
        if (planned->verdict == PLAN_PASSED)
            continue;
        bool good = planned->verdict == PLAN_HOOKED && examine(target, planned, hook->symbol, &why) == 0 &&
                    moved_place(&planned->moved, planned->address + POOL_DISTANCE, moved, &why) == 0;
        if (good)
            verdict(context, hook, NULL);
        else if (hook->gives)
            verdict(context, hook, why.what[0] ? why.what : planned->why);
    }
    note_copies(target);
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

/* How many bytes of ours stand in the file's code, beginning here: 0 when they are not ours. */
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

/* The same of a function, of which the first instruction may have been kept; another tool may have a
 * breakpoint there. */
static size_t own_bytes_of(const struct sonde_pool *pools, const struct plan_hook *found, const uint8_t *now,
                           size_t *ret_kept)
{
    const uint8_t BREAKPOINT = 0xcc;
    size_t size = found->code_size;
    for (size_t kept = 0; kept <= KEPT_BYTES_MAX && kept < size; kept++) {
        size_t own = own_bytes(pools, found->address + kept, now + kept, found->code + kept, size - kept);
        *ret_kept = kept;
        if (own)
            return own;
        if (now[kept] != found->code[kept] && (kept || now[kept] != BREAKPOINT))
            return 0;
    }
    return 0;
}

int patch_leftover(struct target *target, const struct probe *probe, struct patch_set *ret_set)
{
    struct sonde_pool pools[SONDE_POOLS];
    int r = probe->pools ? target_read(target, probe->pools, pools, sizeof(pools)) : -ENOENT;
    array_foreach (&target->plan.hooks, found) {
        struct patch patch = {.hook = &target->kind->hooks[found->hook]};
        uint8_t now[PATCH_BYTES_MAX];
        size_t size = found->code_size, kept;
        if (r < 0 || !found->address || target_read(target, found->address, now, size) < 0 ||
            memcmp(now, found->code, size) == 0)
            continue;
        patch.length = (uint8_t)own_bytes_of(pools, found, now, &kept);
        patch.address = found->address + kept;
        memcpy(patch.before, found->code + kept, patch.length);
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
