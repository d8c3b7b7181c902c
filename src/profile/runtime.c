/* See runtime.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtime.h"

#define T(name) extern const struct runtime runtime_##name;
TARGETS_WITH_RUNTIME(T)
#undef T

const struct runtime *const RUNTIMES[] = {
#define T(name) &runtime_##name,
    TARGETS_WITH_RUNTIME(T)
#undef T
        NULL};
_Static_assert(ARRAY_SIZE(RUNTIMES) == PROCESS_RUNTIMES + 1, "a state for each");
