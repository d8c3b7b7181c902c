/* See hooks.h and kind.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hooks.h"

#include <string.h>

#include "attach/kind.h"
#include "base/choice.h"
#include "base/macro.h"

#define T(name) extern const struct target_kind target_kind_##name;
SONDE_TARGETS_WITH_ATTACH(T)
#undef T

const struct target_kind *const TARGET_KINDS[] = {
#define T(name) &target_kind_##name,
    SONDE_TARGETS_WITH_ATTACH(T)
#undef T
        NULL};

void target_kinds_say(char *buffer, size_t size)
{
    const char *names[ARRAY_SIZE(TARGET_KINDS)];
    size_t count = 0;
    for (const struct target_kind *const *kind = TARGET_KINDS; *kind; kind++)
        if ((*kind)->called)
            names[count++] = (*kind)->called;
    choice_say(names, count, buffer, size);
}

static size_t family(const char *wrapper)
{
    const char *variant = strstr(wrapper, "__");
    return variant ? (size_t)(variant - wrapper) : strlen(wrapper);
}

bool hook_same(const struct hook *a, const struct hook *b)
{
    size_t length = family(a->wrapper);
    return length == family(b->wrapper) && strncmp(a->wrapper, b->wrapper, length) == 0;
}

const char *hook_gives(const struct hook *hook)
{
    for (const struct target_kind *const *kind = TARGET_KINDS; *kind; kind++)
        for (const struct hook *other = (*kind)->hooks; other < (*kind)->hooks + (*kind)->hook_count; other++)
            if (other->gives && hook_same(other, hook))
                return other->gives;
    return "";
}
