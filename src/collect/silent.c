/* See silent.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/silent.h"

#include <stdio.h>
#include <string.h>

#include "event/event.h"

static const struct patch *hook_of(const struct program *program, const char *wrapper)
{
    array_foreach (&program->patches.patches, p)
        if (strcmp(p->hook->wrapper, wrapper) == 0)
            return p;
    return NULL;
}

static bool is_silent(const struct program *program, const struct silent_rule *rule)
{
    return program->seen[rule->seen] >= rule->times && !program->seen[rule->expected];
}

bool silent_hook(const struct program *program, unsigned n, const char **ret_what,
                 char ret_why[static SILENT_WORDS])
{
    const struct target_kind *kind = program->target->kind;
    for (size_t i = 0; kind && i < kind->silent_count; i++) {
        const struct silent_rule *rule = &kind->silent[i];
        const struct patch *hook = hook_of(program, rule->wrapper);
        bool told = false;
        for (size_t k = 0; k < i; k++)
            told |= kind->silent[k].expected == rule->expected && is_silent(program, &kind->silent[k]);
        if (!hook || told || !is_silent(program, rule) || n--)
            continue;
        *ret_what = hook->hook->gives ? hook->hook->gives : event_catalogue[rule->expected].name;
        snprintf(ret_why, SILENT_WORDS,
                 "%s is hooked and gave no %s in more than %llu events %s: the compiler has inlined or "
                 "cloned it, or a field that the hook needs is not known in this build",
                 hook->hook->symbol, event_catalogue[rule->expected].name,
                 (unsigned long long)rule->times - 1, event_catalogue[rule->seen].name);
        return true;
    }
    return false;
}
