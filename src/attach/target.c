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

void target_layout(struct target *target, enum sonde_context context, struct sonde_config *ret_config)
{
    struct sonde_config config = {.version = SONDE_SHARED_VERSION, .size = sizeof(config)};
#define O(target, name, text) config.target.name = SONDE_NO_OFFSET;
    SONDE_TARGET_OFFSETS(O)
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
