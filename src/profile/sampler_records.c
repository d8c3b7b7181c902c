/* What the kernel's half has sent and is still to be dealt with: the buffer that it writes into is emptied
 * also while names are waited for, and what comes next is named together with what comes first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <errno.h>
#include <signal.h>

#include <bpf/bpf.h>

#include "base/clock.h"

void sampler_listen(struct sampler *s)
{
    s->announced_ns = clock_monotonic_ns(); /* what happened until now is in the buffers */
    sideband_read(s->sideband);
}

static bool has_stack(const struct sampler *s, const struct sampler_sample *sample, size_t count)
{
    uint64_t own = (uint64_t)sample->kernel_words + sample->user_words + sample->python_words;
    switch (sample->kind) {
    case SAMPLE_CPU:
        return s->on && own <= count;
    case SAMPLE_ALLOC:
        return s->on && s->options.allocs && own <= count;
    case SAMPLE_OFF:
    case SAMPLE_LOCK:
    case SAMPLE_LOCK_WAKER:
    case SAMPLE_LOCK_RELEASE:
        return s->off && own <= count;
    case SAMPLE_WAKER:
        return s->off && s->wakers && own <= count;
    case SAMPLE_COPY:
        return s->on && sample->weight && sample->user_words > 3 && own - sample->python_words <= count;
    default:
        return false;
    }
}

/* namers_next_fn. Stacks of processes that are read again before, or are not known yet, are none of them. */
static bool next_stack(void *context, size_t *at, struct namers_stack *ret_stack)
{
    enum { FAR = 4096 };
    struct sampler *s = context;
    struct record record;
    while (*at < FAR && records_ahead(&s->records, (*at)++, &record)) {
        const struct sampler_sample *sample = record.data;
        const uint64_t *words = (const uint64_t *)(sample + 1);
        if (record.size < sizeof(*sample) || !sample->user_words || sample->end == END_KERNEL ||
            (s->stopped_ns && sample->time_ns > s->stopped_ns) ||
            !has_stack(s, sample, (record.size - sizeof(*sample)) / 8))
            continue;
        struct subject *process = sampler_known_process(s, (pid_t)sample->pid);
        if (!process || process->mapped)
            continue;
        bool walks = sample->kind == SAMPLE_COPY;
        *ret_stack =
            (struct namers_stack){process, sample, walks ? words : words + sample->kernel_words, walks};
        return true;
    }
    return false;
}

static bool is_among(const struct sampler_newcomer *newcomers, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (newcomers[i].pid == pid)
            return true;
    return false;
}

void sampler_meet_new(struct sampler *s)
{
    struct record record;
    struct sampler_newcomer newcomers[SAMPLER_NEWCOMERS];
    size_t count = 0;
    for (size_t i = 0; records_ahead(&s->records, i, &record); i++) {
        const struct sampler_sample *sample = record.data;
        if (record.size < sizeof(*sample) || sample->kind != SAMPLE_COPY ||
            map_get(&s->processes, sample->pid))
            continue;
        if (is_among(newcomers, count, (pid_t)sample->pid))
            continue;
        if (clock_monotonic_ns() - s->now_ns > SAMPLER_POLL_NS)
            break;
        newcomers[count++] =
            (struct sampler_newcomer){(pid_t)sample->pid, sample->user, sample->time_ns, sample};
        if (count == SAMPLER_NEWCOMERS) {
            sampler_meet(s, newcomers, count);
            count = 0;
        }
    }
    sampler_meet(s, newcomers, count);
}

int sampler_keep_record(void *context, void *data, size_t size)
{
    struct sampler *s = context;
    (void)records_add(&s->records, data, size); /* which counts what it cannot keep */
    return records_full(&s->records) ? -ECANCELED : 0;
}

int sampler_empty_ring(struct sampler *s)
{
    int r = records_full(&s->records) ? 0 : ring_buffer__consume(s->ring);
    return r < 0 && r != -ECANCELED ? r : 0;
}

/* While a namer is waited for, nothing is lost. */
static void meanwhile(void *context)
{
    struct sampler *s = context;
    (void)sampler_empty_ring(s);
    if (s->sideband)
        sampler_listen(s);
}

void sampler_look_ahead(struct sampler *s)
{
    namers_look_ahead(s->namers, next_stack, meanwhile, s);
}
