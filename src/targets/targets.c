/* See targets.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/targets.h"

#include <stddef.h>

#include "event/catalogue.h"

#define T(name) extern const struct analyzer analyzer_##name;
SONDE_TARGETS_WITH_ANALYSIS(T)
#undef T

const struct analyzer *const TARGETS[] = {
#define T(name) &analyzer_##name,
    SONDE_TARGETS_WITH_ANALYSIS(T)
#undef T
        NULL};

const struct analyzer *target_analyzer(uint64_t runtime)
{
    for (const struct analyzer *const *target = TARGETS; *target; target++)
        if (runtime && (*target)->runtime == runtime)
            return *target;
    return NULL;
}
