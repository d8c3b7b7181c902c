/* See emit.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "states/emit.h"

#include "base/macro.h"

int emit_attribute(struct emit *emit, uint32_t parent, const char *name, uint32_t *ret_quark)
{
    *ret_quark = EMIT_NONE;
    return emit->states ? history_add(emit->states, parent, name, ret_quark, &emit->problem) : 0;
}

int emit_state(struct emit *emit, uint64_t time_ns, uint32_t quark, struct history_value value)
{
    struct history_interval latest;
    if (!emit->states || quark == EMIT_NONE)
        return 0;
    int r = history_ongoing(emit->states, quark, &latest);
    if (r < 0)
        return r;
    return history_modify(emit->states, MAX(time_ns, latest.start_ns), quark, value, &emit->problem);
}

int emit_interval(struct emit *emit, uint64_t start_ns, uint64_t end_ns, uint32_t quark,
                  struct history_value value)
{
    int r = emit_state(emit, start_ns, quark, value);
    return r < 0 ? r : emit_state(emit, end_ns, quark, history_null());
}

int emit_span(struct emit *emit, const struct span *span)
{
    return emit->span ? emit->span(emit->span_context, span) : 0;
}
