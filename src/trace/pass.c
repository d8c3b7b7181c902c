/* See pass.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event/catalogue.h"

#define FOREIGN_ENTRY SONDE_EVENT_COUNT /* foreign events stand behind the catalogue's */
#define ENTRIES       (SONDE_EVENT_COUNT + 1)

static bool wants(const struct pass *pass, uint16_t id)
{
    if (!pass->wanted)
        return true;
    for (const uint16_t *w = pass->wanted; *w; w++)
        if (*w == id)
            return true;
    return false;
}

int pass_set_init(struct pass_set *set, const struct pass *passes, size_t count)
{
    *set = (struct pass_set){.passes = passes, .count = count};
    set->first = calloc(ENTRIES, sizeof(*set->first));
    set->lists = calloc(ENTRIES * (count + 1), sizeof(*set->lists));
    if (!set->first || !set->lists) {
        pass_set_done(set);
        return -ENOMEM;
    }
    for (uint32_t entry = 0; entry < ENTRIES; entry++) {
        uint32_t at = set->first[entry] = (uint32_t)(entry * (count + 1));
        for (size_t i = 0; i < count; i++)
            if (wants(&passes[i], entry == FOREIGN_ENTRY ? EVENT_FOREIGN : (uint16_t)entry))
                set->lists[at++] = &passes[i];
    }
    return 0;
}

void pass_set_done(struct pass_set *set)
{
    free(set->first);
    free(set->lists);
    memset(set, 0, sizeof(*set));
}

int pass_set_event(const struct pass_set *set, const struct event *event)
{
    uint32_t entry = event->id < SONDE_EVENT_COUNT ? event->id : FOREIGN_ENTRY;
    for (const struct pass **p = &set->lists[set->first[entry]]; *p; p++) {
        int r = (*p)->event((*p)->self, event);
        if (r < 0)
            return r;
    }
    return 0;
}

int pass_set_finish(const struct pass_set *set)
{
    int result = 0;
    for (size_t i = 0; i < set->count; i++) {
        int r = set->passes[i].finish ? set->passes[i].finish(set->passes[i].self) : 0;
        if (r < 0 && result == 0)
            result = r;
    }
    return result;
}

static int report(struct trace *trace, trace_progress_fn progress, void *context)
{
    uint64_t done, total;
    if (!progress)
        return 0;
    trace_progress(trace, &done, &total);
    return progress(context, done, total);
}

int trace_run(struct trace *trace, const struct pass *passes, size_t count, trace_progress_fn progress,
              void *context)
{
    struct pass_set set;
    const struct event *event;
    int r = pass_set_init(&set, passes, count);
    if (r < 0)
        return r;
    for (uint32_t n = 1; (r = trace_next(trace, &event)) > 0; n++) {
        r = pass_set_event(&set, event);
        if (r >= 0 && (n & 0xffff) == 0)
            r = report(trace, progress, context);
        if (r != 0)
            break;
    }
    if (r == 0)
        r = report(trace, progress, context);
    int f = r == 0 ? pass_set_finish(&set) : 0;
    pass_set_done(&set);
    return r ? r : f;
}
