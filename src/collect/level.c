/* See level.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/level.h"

#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "event/event.h"
#include "event/kernel.h"

static const enum sonde_level KERNEL[] = {
#define F(ident, name, level, text) SONDE_level_##level,
    SONDE_FAMILIES(F)
#undef F
};

static const enum sonde_level PROBE[] = {
#define F(ident, level, needed, price, name) SONDE_level_##level,
    SONDE_PROBE_FAMILIES(F)
#undef F
};

const char *level_name(enum sonde_level level)
{
    return event_label(SONDE_MEANING_level, level);
}

int level_parse(const char *name, enum sonde_level *ret_level, struct problem *problem)
{
    for (int i = 0; i < SONDE_LEVELS; i++)
        if (strcmp(name, level_name((enum sonde_level)i)) == 0) {
            *ret_level = (enum sonde_level)i;
            return 0;
        }
    return problem_set(problem, -EINVAL, "'%s' is no level; they are requests, usual and everything", name);
}

uint32_t level_kernel_families(enum sonde_level level)
{
    uint32_t families = 0;
    for (size_t i = 0; i < ARRAY_SIZE(KERNEL); i++)
        families |= (uint32_t)(KERNEL[i] <= level) << i;
    return families;
}

uint32_t level_families_off(enum sonde_level level)
{
    uint32_t families = 0;
    for (size_t i = 0; i < ARRAY_SIZE(PROBE); i++)
        families |= (uint32_t)(PROBE[i] > level) << i;
    return families;
}
