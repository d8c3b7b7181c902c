/* See plan_worker.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan_worker.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "attach/copies.h"
#include "attach/loaded.h"
#include "attach/patch.h"
#include "attach/relocate.h"
#include "symbol/demangle.h"

/* ---- files ---- */

/* A file that was opened: a host runs many processes of one build, and indexing its symbols takes a while. */
struct known_file {
    uint64_t key; /* modules_file_key() */
    struct elf *elf;
    struct named_functions unnamed, copies;
    bool searched; /* for both */
};

enum { FILES_MAX = 64 };

struct files {
    ARRAY(struct known_file *) list;
};

static void forget_file(struct known_file *file)
{
    elf_free(file->elf);
    array_done(&file->unnamed.list);
    array_done(&file->copies.list);
    free(file);
}

static void *begin(void)
{
    return calloc(1, sizeof(struct files));
}

static void forget(void *context, pid_t target)
{
    struct files *files = context;
    if (files->list.count <= FILES_MAX)
        return;
    array_foreach (&files->list, f)
        forget_file(*f);
    array_clear(&files->list);
}

/* The file behind a module, whose place in the process is known from then on; NULL when it is none that can
 * be read. */
static struct known_file *open_file(struct files *files, struct modules *modules, struct module *module)
{
    uint64_t key = modules_file_key(modules, module);
    struct known_file *file = NULL;
    array_foreach (&files->list, f)
        if (key && (*f)->key == key)
            file = *f;
    if (!file) {
        file = calloc(1, sizeof(*file));
        if (!file || modules_open(modules, module, &file->elf, NULL) < 0 ||
            array_add(&files->list, file) < 0) {
            if (file)
                forget_file(file);
            return NULL;
        }
        file->key = key;
    }
    if (!module->has_bias)
        modules_place(modules, module, file->elf);
    return module->has_bias ? file : NULL;
}

/* ---- what it is ---- */

static bool begins_with_any(const char *name, const char *const *beginnings)
{
    for (; beginnings && *beginnings; beginnings++)
        if (strncmp(name, *beginnings, strlen(*beginnings)) == 0)
            return true;
    return false;
}

/* Can it hold functions of a target: the program itself, and the libraries that some kind names? */
static bool is_wanted(const struct modules *modules, const struct module *module)
{
    const char *base = strrchr(module->path, '/');
    bool wanted = module == modules_main(modules);
    for (const struct target_kind *const *kind = TARGET_KINDS; base && *kind; kind++)
        wanted |= begins_with_any(base + 1, (*kind)->libraries);
    return wanted && module->executable;
}

static int open_modules(struct target *target, struct files *files)
{
    array_foreach (&target->modules.list, module) {
        struct known_file *file =
            is_wanted(&target->modules, module) ? open_file(files, &target->modules, module) : NULL;
        if (!file)
            continue;
        if (!file->searched &&
            (unnamed_find(file->elf, &file->unnamed) < 0 || copies_find(file->elf, &file->copies) < 0))
            return -ENOMEM;
        file->searched = true;
        if (target->code.count == PLAN_MODULES_MAX)
            break;
        if (array_add(&target->code,
                      (struct target_module){module, file->elf, &file->unnamed, &file->copies}) < 0)
            return -ENOMEM;
    }
    return 0;
}

static uint32_t recognise(struct target *target)
{
    for (uint32_t i = 0; TARGET_KINDS[i]; i++)
        if (TARGET_KINDS[i]->recognise(target)) {
            target->kind = TARGET_KINDS[i];
            return i + 1;
        }
    return 0;
}

/* Functions of the C library and the loader, in whatever module they are. */
static struct plan_library find_library(struct target *target, struct files *files)
{
    static const char *const LIBRARIES[] = {"libc.so", "libc-", "ld-musl", "libdl"};
    struct {
        const char *name;
        uint64_t address;
    } found[] = {{"dlopen"}, {"dlerror"}, {"syscall"}, {"mmap"}, {"munmap"}, {"gnu_get_libc_version"}};
    for (size_t i = 0; i < ARRAY_SIZE(LIBRARIES); i++) {
        const struct module *named = modules_named(&target->modules, LIBRARIES[i]);
        struct module *module = named ? &target->modules.list.at[named - target->modules.list.at] : NULL;
        struct known_file *file = module ? open_file(files, &target->modules, module) : NULL;
        struct elf_symbol symbol;
        for (size_t k = 0; file && k < ARRAY_SIZE(found); k++)
            if (!found[k].address && elf_find(file->elf, found[k].name, &symbol) == 0 &&
                symbol.type == STT_FUNC)
                found[k].address = symbol.value + module->load_bias;
    }
    return (struct plan_library){found[0].address, found[1].address, found[2].address,
                                 found[3].address, found[4].address, found[5].address != 0};
}

/* ---- what is hooked ---- */

/* As much of a text as there is room for, in memory that is zero. */
static void cut(char *to, size_t size, const char *text)
{
    memcpy(to, text, strnlen(text, size - 1));
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

/* Does an alternative serve, or has another hook taken these bytes? */
static const struct patch *taken_by(const struct patch_set *set, const struct hook *hook)
{
    array_foreach (&set->patches, p)
        if (hook_same(p->hook, hook))
            return p;
    return NULL;
}

static bool overlaps(const struct patch_set *set, uint64_t address, size_t length)
{
    array_foreach (&set->patches, p)
        if (p->address < address + length && address < p->address + p->length)
            return true;
    return false;
}

/* Finds the function, as it is in its file; *ret_code: all of it, *ret_size bytes. */
static int find_function(struct target *target, const struct hook *hook, struct plan_hook *planned,
                         const uint8_t **ret_code, size_t *ret_size, struct problem *problem)
{
    struct elf_symbol symbol;
    const struct target_module *module;
    uint64_t address;
    int r = patch_find(target, hook, &address, &symbol, &module);
    if (r < 0) {
        _cleanup_(freep) char *name = demangle_or_copy(hook->symbol, false);
        return problem_set(problem, r, "this build has no symbol %s", name ? name : hook->symbol);
    }
    size_t available;
    const uint8_t *code = elf_bytes(module->elf, symbol.value, 5, &available);
    if (!code)
        return problem_set(problem, -EINVAL, "%s is outside the file", hook->symbol);
    *ret_code = code;
    *ret_size = symbol.size && symbol.size < available ? symbol.size : MIN(available, (size_t)64);
    planned->code_size = (uint8_t)MIN(available, sizeof(planned->code));
    planned->compared = (uint8_t)MIN(*ret_size, (size_t)planned->code_size);
    memcpy(planned->code, code, planned->code_size);
    planned->module = (uint8_t)(module - target->code.at);
    if (!plan_is_code(&target->modules, module->module, address, planned->code_size))
        return problem_set(problem, -EINVAL, "%s does not lie in memory that is mapped from its file",
                           hook->symbol);
    planned->address = address;
    return 0;
}

static int plan_function(struct target *target, const struct hook *hook, const struct patch_set *set,
                         struct plan_hook *planned, struct problem *problem)
{
    const uint8_t *code = NULL;
    size_t size = 0;
    int r = find_function(target, hook, planned, &code, &size, problem);
    if (!version_fits(target, hook))
        return problem_set(problem, -ENOENT, "the signature of %s is not known for this version",
                           hook->symbol);
    if (r < 0)
        return r;
    r = relocate(code, size, planned->address, hook->arguments, &planned->moved, problem);
    if (r < 0)
        return r;
    if (planned->moved.replaced > planned->code_size || planned->compared < 5)
        return problem_set(problem, -EINVAL, "the function is too short");
    if (overlaps(set, planned->address, planned->moved.replaced))
        return problem_set(problem, -EINVAL, "its code is that of another hooked function");
    return 0;
}

static int plan_hooks(struct target *target, struct plan *plan, struct patch_set *set)
{
    int r = 0;
    for (size_t i = 0; i < target->kind->hook_count && i < PLAN_HOOKS_MAX && r >= 0; i++) {
        const struct hook *hook = &target->kind->hooks[i];
        struct plan_hook planned = {.hook = (uint8_t)i, .verdict = PLAN_HOOKED};
        struct problem why = {0};
        bool passed = taken_by(set, hook) || is_gone(target, hook);
        if (plan_function(target, hook, set, &planned, &why) < 0) {
            planned.verdict = PLAN_REFUSED;
            cut(planned.why, sizeof(planned.why), why.what);
        }
        if (passed) {
            planned.verdict = PLAN_PASSED;
            planned.why[0] = '\0';
        }
        if (planned.verdict == PLAN_HOOKED)
            r = array_add(
                &set->patches,
                (struct patch){.hook = hook, .address = planned.address, .length = planned.moved.replaced});
        if (r >= 0)
            r = array_add(&plan->hooks, planned);
    }
    return r;
}

/* Where the file's segments lie. */
static struct plan_module extent_of(const struct target_module *module)
{
    struct elf_segment segment;
    struct plan_module extent = {.start = module->module->start, .image_start = UINT64_MAX};
    for (size_t i = 0; elf_segment_at(module->elf, i, &segment) == 0; i++)
        if (segment.type == PT_LOAD) {
            uint64_t start = segment.address + module->module->load_bias;
            extent.image_start = MIN(extent.image_start, start & ~0xfffull);
            extent.image_end = MAX(extent.image_end, start + segment.memory_size);
        }
    return extent;
}

static void take_missing(const struct target *target, size_t from, bool of_copies, struct plan *plan)
{
    for (size_t i = from; i < target->missing.count; i++) {
        const struct missing *m = &target->missing.at[i];
        struct plan_missing missing = {.of_copies = of_copies};
        cut(missing.what, sizeof(missing.what), m->what);
        cut(missing.why, sizeof(missing.why), m->why);
        cut(missing.remedy, sizeof(missing.remedy), m->remedy);
        (void)array_add(&plan->missing, missing);
    }
}

static struct sonde_config no_layout(enum sonde_context context)
{
    struct sonde_config config = {.context = context};
    sonde_config_forget(&config);
    return config;
}

/* ---- what it is called ---- */

static void find_name(const struct target *target, struct plan_head *head)
{
    enum { ARGUMENTS_MAX = 1 << 20 };
    _cleanup_(freep) char *line = NULL;
    size_t length = 0;
    struct target_names names = {0};
    if (!target->kind->name)
        return;
    (void)proc_read(target->proc, "cmdline", ARGUMENTS_MAX, &line, &length);
    target->kind->name(target, line, length, &names);
    cut(head->name, sizeof(head->name), names.name ? names.name : "");
    cut(head->script, sizeof(head->script), names.script ? names.script : "");
    cut(head->service, sizeof(head->service), names.service ? names.service : "");
    free(names.name);
}

/* ---- the whole ---- */

static int plan_whole(struct target *target, enum sonde_context context, struct plan *plan)
{
    struct patch_set set = {0};
    int r = 0;
    plan->head.config = no_layout(context);
    find_name(target, &plan->head);
    if (target->kind->layout)
        target->kind->layout(target, context, &plan->head.config);
    take_missing(target, 0, false, plan);
    array_foreach (&target->code, module)
        if (r >= 0)
            r = array_add(&plan->modules, extent_of(module));
    if (r >= 0)
        r = plan_hooks(target, plan, &set);
    size_t before = target->missing.count;
    copies_note(target, &set);
    take_missing(target, before, true, plan);
    array_done(&set.patches);
    return r;
}

static int make_plan(struct files *files, struct target *target, const struct plan_work *work,
                     struct plan *plan)
{
    int r = open_modules(target, files);
    if (r < 0)
        return r;
    plan->head.kind = recognise(target);
    memcpy(plan->head.versions, target->versions, sizeof(plan->head.versions));
    if (!target->kind)
        return 0;
    if (target->code.count)
        snprintf(plan->head.build_id, sizeof(plan->head.build_id), "%s",
                 elf_build_id(target->code.at[0].elf));
    plan->head.library = find_library(target, files);
    r = loaded_probes_read(target, plan);
    return r >= 0 && work->whole ? plan_whole(target, work->context, plan) : r;
}

static int work(void *context, pid_t pid, const void *bytes, size_t length, void **ret_result,
                size_t *ret_length, struct problem *problem)
{
    struct target target = {.pid = pid, .memory = -1};
    struct plan plan = {0};
    struct plan_work work;
    if (length < sizeof(work))
        return problem_set(problem, -EPROTO, "no work");
    memcpy(&work, bytes, sizeof(work));
    int r = proc_open(pid, &target.proc);
    if (r >= 0)
        r = modules_parse(target.proc, (const char *)bytes + sizeof(work), length - sizeof(work), false,
                          &target.modules, problem);
    if (r >= 0) {
        target.modules.program = work.program;
        r = make_plan(context, &target, &work, &plan);
    }
    if (r >= 0)
        r = plan_encode(&plan, ret_result, ret_length);
    if (r < 0 && problem && !problem->what[0])
        problem_set(problem, r, "process %d: its files cannot be read: %s", pid, strerror(-r));
    plan_done(&plan);
    array_done(&target.code);
    array_done(&target.missing);
    modules_done(&target.modules);
    arena_done(&target.arena);
    proc_unref(target.proc);
    return r;
}

const struct worker_kind plan_worker = {"sonde:symbols", begin, work, forget};
