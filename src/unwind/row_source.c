/* See row_source.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/row_source.h"

#include "unwind/target_rows.h"

#define T(name) extern const struct row_source row_source_##name;
TARGETS_WITH_ROWS(T)
#undef T

const struct row_source *const ROW_SOURCES[] = {
#define T(name) &row_source_##name,
    TARGETS_WITH_ROWS(T)
#undef T
        NULL};
