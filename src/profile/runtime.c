/* See runtime.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"
#include "profile/sampler.h"

#define T(name) extern const struct runtime runtime_##name;
TARGETS_WITH_RUNTIME(T)
#undef T

const struct runtime *const RUNTIMES[] = {
#define T(name) &runtime_##name,
    TARGETS_WITH_RUNTIME(T)
#undef T
        NULL};
_Static_assert(ARRAY_SIZE(RUNTIMES) == PROCESS_RUNTIMES + 1, "a state for each");

const char *const *sampler_marks(void)
{
    static const char *marks[PROCESS_RUNTIMES + 1];
    size_t count = 0;
    for (size_t i = 0; RUNTIMES[i]; i++)
        if (RUNTIMES[i]->mark)
            marks[count++] = RUNTIMES[i]->mark;
    marks[count] = NULL;
    return marks;
}
