/* What the sampler makes of waits for futexes: stacks with names, for the accounts of locks (locks.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/proc_text.h"

/* In the program's own PID namespace threads may have other numbers: then this one is none of it. */
static bool thread_name(void *context, uint32_t pid, uint32_t tid, char ret_name[16])
{
    char path[64];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
    if (file_read(path, 64, &text, NULL) < 0)
        return false;
    text[strcspn(text, "\n")] = '\0';
    proc_make_printable(text);
    snprintf(ret_name, 16, "%.15s", text);
    return true;
}

static bool ready(struct sampler *s)
{
    if (s->locks)
        return true;
    if (!s->off || locks_new(s->off, s->options.off_cpu_min_ns, thread_name, s, &s->locks) < 0)
        return false;
    array_foreach (&s->go_pids, pid)
        locks_see(s->locks, (uint32_t)*pid);
    return true;
}

const struct locks *sampler_locks(struct sampler *s)
{
    if (s->locks)
        locks_finish(s->locks, clock_monotonic_ns());
    return s->locks;
}

static bool name_stack(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                       uint32_t groups[SAMPLER_GROUPS], struct lock_stack *ret_stack)
{
    struct subject *process;
    if (!ready(s) || !sampler_name(s, s->off, sample, words, &process))
        return false;
    enum sampler_end end = sampler_end_of(s, sample, (enum sampler_end)sample->end);
    *ret_stack = (struct lock_stack){.groups = groups,
                                     .frames = s->stack->frames,
                                     .group_count = sampler_groups(s, s->off, process, sample, end, groups),
                                     .count = s->stack->count};
    if (sample->kind == SAMPLE_LOCK) {
        ret_stack->idle = !s->options.idle && idle_wait(&s->idle, s->off, s->stack->frames, s->stack->count);
        sampler_count_stack(s, s->off, sample, end);
    }
    return true;
}

void sampler_on_lock(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                     size_t count)
{
    uint64_t own = (uint64_t)sample->kernel_words + sample->user_words + sample->python_words;
    uint32_t groups[SAMPLER_GROUPS];
    struct lock_stack stack;
    if (!s->options.locks || own > count)
        return;
    size_t behind = (count - own) * sizeof(*words);
    if (sample->kind == SAMPLE_LOCK_END) {
        if (behind >= sizeof(struct sampler_lock_end) && ready(s))
            locks_ended(s->locks, sample, (const struct sampler_lock_end *)(words + own));
    } else if (sample->kind == SAMPLE_LOCK_WAKER || sample->kind == SAMPLE_LOCK_RELEASE) {
        if (!name_stack(s, sample, words, groups, &stack))
            return;
        if (sample->kind == SAMPLE_LOCK_WAKER)
            locks_woke(s->locks, sample, &stack);
        else
            locks_released(s->locks, sample, &stack);
    } else if (behind >= sizeof(struct sampler_lock) && name_stack(s, sample, words, groups, &stack)) {
        locks_began(s->locks, sample, (const struct sampler_lock *)(words + own), &stack);
    }
}
