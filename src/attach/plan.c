/* See plan.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/kind.h"
#include "base/proc_text.h"
#include "base/text.h"
#include "broker/protocol.h"

enum { IMAGE_MAX = 1 << 30 }; /* of a module's segments: what one jump can reach */

_Static_assert(sizeof(struct plan_head) + PLAN_HOOKS_MAX * sizeof(struct plan_hook) +
                       PLAN_MODULES_MAX * sizeof(struct plan_module) +
                       PLAN_PROBES_MAX * sizeof(struct plan_probe) +
                       PLAN_MISSING_MAX * sizeof(struct plan_missing) <=
                   BROKER_BYTES_MAX,
               "a plan fits into a message");

void plan_done(struct plan *plan)
{
    array_done(&plan->modules);
    array_done(&plan->hooks);
    array_done(&plan->probes);
    array_done(&plan->missing);
}

int plan_encode(const struct plan *plan, void **ret_bytes, size_t *ret_length)
{
    struct plan_head head = plan->head;
    head.modules = (uint32_t)MIN(plan->modules.count, (size_t)PLAN_MODULES_MAX);
    head.hooks = (uint32_t)MIN(plan->hooks.count, (size_t)PLAN_HOOKS_MAX);
    head.probes = (uint32_t)MIN(plan->probes.count, (size_t)PLAN_PROBES_MAX);
    head.missing = (uint32_t)MIN(plan->missing.count, (size_t)PLAN_MISSING_MAX);
    struct text out = {0};
    text_add_bytes(&out, (const char *)&head, sizeof(head));
    text_add_bytes(&out, (const char *)plan->modules.at, head.modules * sizeof(*plan->modules.at));
    text_add_bytes(&out, (const char *)plan->hooks.at, head.hooks * sizeof(*plan->hooks.at));
    text_add_bytes(&out, (const char *)plan->probes.at, head.probes * sizeof(*plan->probes.at));
    text_add_bytes(&out, (const char *)plan->missing.at, head.missing * sizeof(*plan->missing.at));
    size_t length = out.length;
    void *bytes = text_take(&out);
    text_done(&out);
    if (!bytes)
        return -ENOMEM;
    *ret_bytes = bytes;
    *ret_length = length;
    return 0;
}

/* ---- reading it with suspicion ---- */

/* Rows of a fixed size from what is left of the bytes. */
struct rest {
    const char *at;
    size_t left;
    int error;
};

static void take(struct rest *rest, void **at, size_t *count, size_t *capacity, size_t size, size_t rows,
                 size_t most)
{
    if (!rest->error && (rows > most || rows * size > rest->left))
        rest->error = -EPROTO;
    if (!rest->error && rows)
        rest->error = array_grow_(at, capacity, size, rows);
    if (rest->error || !rows)
        return;
    memcpy(*at, rest->at, rows * size);
    *count = rows;
    rest->at += rows * size;
    rest->left -= rows * size;
}

#define TAKE(rest, array, rows, most) \
    take(rest, (void **)&(array)->at, &(array)->count, &(array)->capacity, sizeof(*(array)->at), rows, most)

static void end_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    proc_make_printable(text);
}

static bool moved_makes_sense(const struct moved *moved)
{
    bool good = moved->size <= MOVED_BYTES_MAX && moved->field_count <= MOVED_FIELDS_MAX &&
                moved->replaced <= PATCH_BYTES_MAX && moved->kept <= KEPT_BYTES_MAX &&
                moved->replaced >= moved->kept + 5 && moved->undone <= UNDONE_BYTES_MAX &&
                (moved->kept || !moved->undone);
    for (size_t i = 0; good && i < moved->field_count; i++)
        good = moved->fields[i].at + 4 <= moved->fields[i].from && moved->fields[i].from <= moved->size;
    return good;
}

/* In the order of the kind's hooks, each at most once. */
static bool hooks_make_sense(struct plan *plan)
{
    const size_t hooks = plan->head.kind ? TARGET_KINDS[plan->head.kind - 1]->hook_count : 0;
    int before = -1;
    array_foreach (&plan->hooks, h) {
        end_text(h->why, sizeof(h->why));
        if (h->hook <= before || h->hook >= hooks || h->verdict >= PLAN_VERDICTS ||
            h->code_size > sizeof(h->code) || h->compared > h->code_size)
            return false;
        if (h->address && h->module >= plan->modules.count)
            return false;
        if (h->verdict == PLAN_HOOKED && (!h->address || !moved_makes_sense(&h->moved) ||
                                          h->moved.replaced > h->code_size || h->compared < 5))
            return false;
        if (h->verdict == PLAN_REFUSED && !h->why[0])
            return false;
        before = h->hook;
    }
    return true;
}

static bool makes_sense(struct plan *plan)
{
    size_t kinds = 0;
    while (TARGET_KINDS[kinds])
        kinds++;
    if (plan->head.kind > kinds)
        return false;
    end_text(plan->head.build_id, sizeof(plan->head.build_id));
    end_text(plan->head.name, sizeof(plan->head.name));
    end_text(plan->head.script, sizeof(plan->head.script));
    end_text(plan->head.service, sizeof(plan->head.service));
    array_foreach (&plan->probes, p)
        end_text(p->build_id, sizeof(p->build_id));
    array_foreach (&plan->missing, m) {
        end_text(m->what, sizeof(m->what));
        end_text(m->why, sizeof(m->why));
        end_text(m->remedy, sizeof(m->remedy));
    }
    return hooks_make_sense(plan);
}

int plan_decode(const void *bytes, size_t length, struct plan *ret_plan)
{
    struct plan plan = {0};
    struct rest rest = {bytes, length, 0};
    if (length < sizeof(plan.head))
        return -EPROTO;
    memcpy(&plan.head, bytes, sizeof(plan.head));
    rest.at += sizeof(plan.head);
    rest.left -= sizeof(plan.head);
    TAKE(&rest, &plan.modules, plan.head.modules, PLAN_MODULES_MAX);
    TAKE(&rest, &plan.hooks, plan.head.hooks, PLAN_HOOKS_MAX);
    TAKE(&rest, &plan.probes, plan.head.probes, PLAN_PROBES_MAX);
    TAKE(&rest, &plan.missing, plan.head.missing, PLAN_MISSING_MAX);
    if (!rest.error && (rest.left || !makes_sense(&plan)))
        rest.error = -EPROTO;
    if (rest.error < 0) {
        plan_done(&plan);
        return rest.error;
    }
    /* What is ours to say. */
    plan.head.config.version = SONDE_SHARED_VERSION;
    plan.head.config.size = sizeof(plan.head.config);
    plan.head.config.statements = 0;
    memset(plan.head.config.functions, 0, sizeof(plan.head.config.functions));
    *ret_plan = plan;
    return 0;
}

/* ---- does it lie where it says? ---- */

static const struct module *module_at(const struct modules *modules, uint64_t start)
{
    array_foreach (&modules->list, m)
        if (m->start == start)
            return m;
    return NULL;
}

bool plan_is_code(const struct modules *modules, const struct module *module, uint64_t address, size_t size)
{
    const struct mapping *m = modules_mapping_at(modules, address);
    return m && m->executable && m->module != UINT32_MAX && size <= m->end - address &&
           (!module || module == &modules->list.at[m->module]);
}

/* What a loader leaves zeroed (.bss) is anonymous memory behind the file's. */
bool plan_is_data(const struct modules *modules, const struct module *module, uint64_t address, size_t size)
{
    const struct mapping *m = modules_mapping_at(modules, address);
    if (!m || !m->writable || m->executable || size > m->end - address)
        return false;
    while (m->module == UINT32_MAX && m > modules->mappings.at && m[-1].end == m->start)
        m--;
    return m->module != UINT32_MAX && module == &modules->list.at[m->module];
}

static bool may_be_called(const struct modules *modules, uint64_t address)
{
    return !address || plan_is_code(modules, NULL, address, 1);
}

static const char *check_settings(const struct sonde_config *config, const struct modules *modules)
{
    const uint64_t functions[] = {
#define A(target, name, text) config->target.name,
        SONDE_TARGET_FUNCTIONS(A)
#undef A
    };
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
        if (!may_be_called(modules, functions[i]))
            return "a function to be called is no code of a file";
    return config->context <= SONDE_CONTEXT_AUTO ? NULL : "there is no such way to distinguish requests";
}

static const char *check_library(const struct plan_library *library, const struct modules *modules)
{
    const uint64_t functions[] = {library->open, library->error, library->system_call, library->map,
                                  library->unmap};
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
        if (!may_be_called(modules, functions[i]))
            return "a function of the C library is no code of a file";
    return NULL;
}

static const char *check_modules(const struct plan *plan, const struct modules *modules)
{
    array_foreach (&plan->modules, m) {
        const struct module *module = module_at(modules, m->start);
        if (!module || !module->executable)
            return "it has no such module";
        if (m->image_start >= m->image_end || m->image_end - m->image_start > IMAGE_MAX)
            return "no module's segments lie so";
    }
    return NULL;
}

static const char *check_hooks(const struct plan *plan, const struct modules *modules)
{
    array_foreach (&plan->hooks, h) {
        if (!h->address)
            continue;
        const struct plan_module *claimed = &plan->modules.at[h->module];
        if (h->address < claimed->image_start || h->address >= claimed->image_end ||
            !plan_is_code(modules, module_at(modules, claimed->start), h->address, h->code_size))
            return "a function to be hooked is no code of its module";
        array_foreach (&plan->hooks, other)
            if (other != h && h->verdict == PLAN_HOOKED && other->verdict == PLAN_HOOKED &&
                other->address < h->address + h->moved.replaced &&
                h->address < other->address + other->moved.replaced)
                return "two functions to be hooked overlap";
    }
    return NULL;
}

static const char *check_probes(const struct plan *plan, const struct modules *modules)
{
    array_foreach (&plan->probes, p) {
        const struct module *module = module_at(modules, p->start);
        if (!module)
            return "it has no such module";
        if ((p->owner && !plan_is_data(modules, module, p->owner, sizeof(struct sonde_owner))) ||
            (p->pools && !plan_is_data(modules, module, p->pools, SONDE_POOLS * sizeof(struct sonde_pool))))
            return "what a probe notes is no data of the probe";
    }
    return NULL;
}

static int refuse(const struct modules *modules, int error, const char *wrong, struct problem *problem)
{
    problem_set(problem, error,
                "process %d is not attached to: what the worker says that reads its files cannot be true: %s",
                modules->pid, wrong);
    problem_remedy(problem,
                   "A file that it maps may have been made to mislead sonde: see which ones it has "
                   "mapped (/proc/%d/maps), or try again.",
                   modules->pid);
    return error;
}

int plan_check(const struct plan *plan, const struct modules *modules, struct problem *problem)
{
    const char *wrong = check_modules(plan, modules);
    if (!wrong)
        wrong = check_hooks(plan, modules);
    if (!wrong)
        wrong = check_library(&plan->head.library, modules);
    if (!wrong)
        wrong = check_settings(&plan->head.config, modules);
    if (wrong)
        return refuse(modules, -EPROTO, wrong, problem);
    /* A probe whose mappings are not all there may be one that another sonde is loading right now. */
    wrong = check_probes(plan, modules);
    return wrong ? refuse(modules, -ESTALE, wrong, problem) : 0;
}
