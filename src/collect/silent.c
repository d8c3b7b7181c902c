/* See silent.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/silent.h"

#include <stdio.h>
#include <string.h>

#include "event/event.h"

/* Where one event came so often, another must have come too. What may be absent from a healthy program has no
 * rule: synchronous file operations run and are never done, a request that comes in one piece has no end. */
struct rule {
    enum sonde_event_id seen;
    uint64_t times;
    enum sonde_event_id expected;
    const char *wrapper; /* of the hook that records the expected event */
};

static const struct rule RULES[] = {
    {SONDE_EVENT_redis_command, 200, SONDE_EVENT_redis_read_query, "redis_read_query"},
    {SONDE_EVENT_redis_command, 200, SONDE_EVENT_redis_write_reply, "redis_write_reply"},
    {SONDE_EVENT_redis_read_query, 200, SONDE_EVENT_redis_command, "redis_command"},
    {SONDE_EVENT_redis_bus_packet, 200, SONDE_EVENT_redis_bus_read, "redis_bus_read"},
    {SONDE_EVENT_redis_bus_read, 200, SONDE_EVENT_redis_bus_packet, "redis_bus_packet"},
    {SONDE_EVENT_uv_submit, 100, SONDE_EVENT_uv_run, "uv_fs_work"},
    {SONDE_EVENT_uv_submit, 100, SONDE_EVENT_uv_done, "uv_fs_done"},
    {SONDE_EVENT_uv_done, 100, SONDE_EVENT_uv_submit, "uv_submit"},
    {SONDE_EVENT_uv_io, 500, SONDE_EVENT_uv_phase, "uv_poll"},
    {SONDE_EVENT_uv_io, 500, SONDE_EVENT_node_callback, "node_scope_close"},
    {SONDE_EVENT_node_callback, 500, SONDE_EVENT_uv_phase, "uv_poll"},
};

static const struct patch *hook_of(const struct program *program, const char *wrapper)
{
    array_foreach (&program->patches.patches, p)
        if (strcmp(p->hook->wrapper, wrapper) == 0)
            return p;
    return NULL;
}

static bool is_silent(const struct program *program, const struct rule *rule)
{
    return program->seen[rule->seen] >= rule->times && !program->seen[rule->expected];
}

bool silent_hook(const struct program *program, unsigned n, const char **ret_what,
                 char ret_why[static SILENT_WORDS])
{
    for (size_t i = 0; i < ARRAY_SIZE(RULES); i++) {
        const struct rule *rule = &RULES[i];
        const struct patch *hook = hook_of(program, rule->wrapper);
        bool told = false;
        for (size_t k = 0; k < i; k++)
            told |= RULES[k].expected == rule->expected && is_silent(program, &RULES[k]);
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
