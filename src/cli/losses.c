/* See losses.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/losses.h"

#include <inttypes.h>

#include "cli/cli.h"

static const char *loss_words(const struct trace_loss *l)
{
    static const char *const WORDS[] = {
        [LOSS_DISCARDED_EVENTS] = "events discarded by the tracer",
        [LOSS_DISCARDED_PACKETS] = "packets discarded by the tracer",
        [LOSS_TRUNCATED] = "bytes of an unfinished packet",
        [LOSS_UNREADABLE] = "bytes unreadable",
        [LOSS_METADATA] = "bytes of metadata",
    };
    return WORDS[l->kind];
}

const char *losses_kind(const struct trace_loss *l)
{
    static const char *const KINDS[] = {
        [LOSS_DISCARDED_EVENTS] = "discarded-events", [LOSS_DISCARDED_PACKETS] = "discarded-packets",
        [LOSS_TRUNCATED] = "truncated-bytes",         [LOSS_UNREADABLE] = "unreadable-bytes",
        [LOSS_METADATA] = "metadata-bytes",
    };
    return KINDS[l->kind];
}

void losses_print(const struct trace *trace, FILE *to)
{
    size_t n;
    const struct trace_loss *l = trace_losses(trace, &n);
    for (size_t i = 0; i < n; i++)
        cli_printf(to, "lost: %" PRIu64 " %s: %s, offset %" PRIu64 "%s%s\n", l[i].count, loss_words(&l[i]),
                   l[i].path, l[i].offset, l[i].what[0] ? ": " : "", l[i].what);
}
