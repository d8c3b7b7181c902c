/* See profile_trace.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/formats.h"

static int by_time(const void *a, const void *b)
{
    const struct profile_sample *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static void write_sample(const struct profile *p, const struct profile_sample *sample,
                         struct ctf_stream *stream, struct text *strings)
{
    const char *function = profile_text(p, p->frames.at[p->nodes.at[sample->node].frame].name);
    size_t length = MIN(strlen(function), (size_t)UINT16_MAX);
    text_clear(strings);
    text_add_bytes(strings, function, length);
    folded_stack(p, sample->node, strings);
    struct record_profile_sample record = {.weight = sample->weight,
                                           .pid = sample->pid,
                                           .tid = sample->tid,
                                           .function_length = (uint16_t)length,
                                           .stack_length =
                                               (uint16_t)MIN(strings->length - length, (size_t)UINT16_MAX)};
    ctf_stream_write(stream, SONDE_EVENT_profile_sample, sample->time_ns, 0, &record, text_get(strings));
}

int profile_into_trace(struct profile *p, uint64_t lost, struct ctf_writer *trace, struct problem *problem)
{
    struct ctf_stream *stream;
    struct text strings = {0};
    uint64_t all = 0;
    int r = ctf_stream_open(trace, (uint32_t)getpid(), (uint32_t)gettid(), &stream);
    if (r < 0)
        return problem_set(problem, r, "out of memory");
    array_foreach (&p->nodes, node)
        all += node->count;
    ctf_stream_discarded(stream, lost + all - MIN(all, (uint64_t)p->samples.count));
    if (p->samples.count)
        qsort(p->samples.at, p->samples.count, sizeof(*p->samples.at), by_time);
    array_foreach (&p->samples, sample)
        if (sample->node)
            write_sample(p, sample, stream, &strings);
    ctf_stream_free(stream);
    struct ctf_totals totals;
    ctf_writer_totals(trace, &totals);
    if (strings.failed)
        r = problem_set(problem, -ENOMEM, "out of memory");
    else if (totals.write_error)
        r = problem_set(problem, totals.write_error, "%s: %llu samples could not be written: %s",
                        ctf_writer_folder(trace), (unsigned long long)totals.lost_events,
                        strerror(-totals.write_error));
    text_done(&strings);
    return r;
}
