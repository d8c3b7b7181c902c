/* pprof: whatever is read can be written, and reads back with the same sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "profile/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum(const struct profile *p)
{
    uint64_t *totals = profile_totals(p), all = totals ? totals[0] : 0;
    free(totals);
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct profile *p = NULL, *q = NULL;
    struct text text = {0};
    if (size > 2 && data[0] == 0x1f)
        return 0; /* compressed bombs are bounded, but slow */
    if (profile_new(&p) < 0 || profile_new(&q) < 0)
        return 0;
    if (pprof_read(p, data, size, NULL) == 0 && pprof_write(p, &text) == 0) {
        if (pprof_read(q, text.at, text.length, NULL) < 0 ||
            sum(p) - p->nodes.at[0].weight != sum(q) - q->nodes.at[0].weight)
            abort();
    }
    text_done(&text);
    profile_free(p);
    profile_free(q);
    return 0;
}
