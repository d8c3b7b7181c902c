/* See target.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void target_cache_done(struct target_cache *cache)
{
    array_foreach (&cache->files, f)
        elf_free(f->elf);
    array_done(&cache->files);
}

static struct elf *open_file(struct target_cache *cache, const struct modules *modules,
                             const struct module *module)
{
    uint64_t key = modules_file_key(modules, module);
    array_foreach (&cache->files, f)
        if (key && f->key == key)
            return f->elf;
    struct elf *elf;
    if (modules_open(modules, module, &elf, NULL) < 0)
        return NULL;
    if (array_add(&cache->files, (struct target_file){key, elf}) < 0) {
        elf_free(elf);
        return NULL;
    }
    return elf;
}

static bool begins_with_any(const char *name, const char *const *beginnings)
{
    for (; beginnings && *beginnings; beginnings++)
        if (strncmp(name, *beginnings, strlen(*beginnings)) == 0)
            return true;
    return false;
}

/* Adds the modules that can hold a target: the program itself, and the libraries that some kind names. */
static int open_modules(struct target *target, struct target_cache *cache)
{
    for (size_t i = 0; i < target->modules.list.count; i++) {
        const struct module *module = &target->modules.list.at[i];
        if (!module->executable || !module->has_bias)
            continue;
        bool wanted = module == modules_main(&target->modules);
        const char *base = strrchr(module->path, '/');
        for (const struct target_kind *const *kind = TARGET_KINDS; base && *kind; kind++)
            wanted |= begins_with_any(base + 1, (*kind)->libraries);
        if (!wanted)
            continue;
        struct elf *elf = open_file(cache, &target->modules, module);
        if (!elf)
            continue;
        struct target_module code = {module, elf, {{0}}};
        if (unnamed_find(elf, &code.unnamed) < 0 || array_add(&target->code, code) < 0) {
            array_done(&code.unnamed.list);
            return -ENOMEM;
        }
    }
    return 0;
}

int target_open(struct proc *proc, struct target_cache *cache, struct target **ret_target,
                struct problem *problem)
{
    _cleanup_(target_freep) struct target *target = calloc(1, sizeof(*target));
    if (!target)
        return -ENOMEM;
    const pid_t pid = proc->pid;
    target->proc = proc_ref(proc);
    target->pid = pid;
    /* First: it stays with the program that all the rest is of, also when the process executes another. */
    target->memory = proc_file_open(proc, "mem", O_RDWR);
    int memory_error = target->memory < 0 ? -target->memory : 0;
    int r = modules_read(proc, &target->modules, problem);
    if (r < 0)
        return r;
    r = open_modules(target, cache);
    if (r < 0)
        return r;
    for (const struct target_kind *const *kind = TARGET_KINDS; *kind && !target->kind; kind++)
        if ((*kind)->recognise(target))
            target->kind = *kind;
    if (target->kind && target->memory < 0) {
        r = problem_set(problem, -memory_error, "process %d: its memory cannot be written: %s", pid,
                        strerror(memory_error));
        problem_remedy(problem, "Run sonde as the same user or as root (needs CAP_SYS_PTRACE).");
        return r;
    }
    *ret_target = target;
    target = NULL;
    return 0;
}

void target_free(struct target *target)
{
    if (!target)
        return;
    array_foreach (&target->code, m)
        array_done(&m->unnamed.list);
    array_done(&target->code);
    array_done(&target->missing);
    modules_done(&target->modules);
    arena_done(&target->arena);
    if (target->memory >= 0)
        close(target->memory);
    proc_unref(target->proc);
    free(target);
}

static int module_find(const struct target_module *module, const char *symbol, struct elf_symbol *ret_symbol)
{
    if (elf_find(module->elf, symbol, ret_symbol) == 0)
        return 0;
    array_foreach (&module->unnamed.list, s)
        if (strcmp(s->name, symbol) == 0) {
            *ret_symbol = *s;
            return 0;
        }
    return -ENOENT;
}

int target_find(struct target *target, const char *symbol, uint64_t *ret_address,
                struct elf_symbol *ret_symbol, const struct target_module **ret_module)
{
    array_foreach (&target->code, m) {
        struct elf_symbol found;
        if (module_find(m, symbol, &found) < 0)
            continue;
        if (ret_address)
            *ret_address = found.value + m->module->load_bias;
        if (ret_symbol)
            *ret_symbol = found;
        if (ret_module)
            *ret_module = m;
        return 0;
    }
    return -ENOENT;
}

int target_read(struct target *target, uint64_t address, void *buffer, size_t size)
{
    ssize_t n = pread(target->memory, buffer, size, (off_t)address);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EFAULT;
}

int target_write(struct target *target, uint64_t address, const void *data, size_t size)
{
    ssize_t n = pwrite(target->memory, data, size, (off_t)address);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EFAULT;
}

void target_miss(struct target *target, const char *what, const char *why, const char *remedy)
{
    struct missing missing = {arena_strdup(&target->arena, what), arena_strdup(&target->arena, why),
                              arena_strdup(&target->arena, remedy ? remedy : "")};
    if (missing.what && missing.why && missing.remedy)
        (void)array_add(&target->missing, missing);
}

uint32_t target_constant(struct target *target, const char *function)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    uint8_t code[16];
    if (target_find(target, function, NULL, &symbol, &module) < 0 ||
        elf_read(module->elf, symbol.value, code, sizeof(code)) < 0)
        return 0;
    static const uint8_t ENDBR64[] = {0xf3, 0x0f, 0x1e, 0xfa}, FRAME[] = {0x55, 0x48, 0x89, 0xe5};
    const uint8_t *p = code;
    if (memcmp(p, ENDBR64, sizeof(ENDBR64)) == 0)
        p += sizeof(ENDBR64);
    if (memcmp(p, FRAME, sizeof(FRAME)) == 0) /* push %rbp; mov %rsp,%rbp */
        p += sizeof(FRAME);
    bool pushed = p[0] == 0x55 && p[1] == 0xb8; /* push %rbp before, mov %rsp,%rbp after it (Node 12) */
    p += pushed;
    if (p[0] != 0xb8) /* mov $imm32, %eax */
        return 0;
    uint32_t value;
    memcpy(&value, p + 1, sizeof(value));
    if (pushed)
        return memcmp(p + 5, FRAME + 1, sizeof(FRAME) - 1) == 0 && p[8] == 0x5d && p[9] == 0xc3 ? value : 0;
    return p[5] == 0xc3 || (p[5] == 0x5d && p[6] == 0xc3) ? value : 0; /* [pop %rbp;] ret */
}

uint64_t target_address(struct target *target, const char *function)
{
    uint64_t address;
    return target_find(target, function, &address, NULL, NULL) == 0 ? address : 0;
}

void target_layout(struct target *target, enum sonde_context context, struct sonde_config *ret_config)
{
    struct sonde_config config = {.version = SONDE_SHARED_VERSION, .size = sizeof(config)};
#define O(name, text) config.redis.name = SONDE_NO_OFFSET;
    SONDE_REDIS_OFFSETS(O)
#undef O
#define O(name, text) config.v8.name = SONDE_NO_OFFSET;
    SONDE_V8_OFFSETS(O)
#undef O
    config.callback_scope_context = config.llhttp_status = config.port_handle = SONDE_NO_OFFSET;
    config.context = context;
    if (target->kind && target->kind->layout)
        target->kind->layout(target, context, &config);
    *ret_config = config;
}
