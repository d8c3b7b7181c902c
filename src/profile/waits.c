/* See waits.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/waits.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "profile/windows.h"

#define SHORT_READY_NS (100 * NS_PER_US)

void waits_count_at(struct profile *profile, const struct sampler_sample *sample, uint32_t node,
                    uint64_t count, uint64_t weight)
{
    struct profile_sample kept = {sample->time_ns, weight, sample->pid, sample->tid, node};
    profile_count(profile, node, count, weight);
    profile_windows_add(profile, node, weight, sample->time_ns);
    profile_keep(profile, &kept);
}

/* Whether frames of the kernel are those of an interrupt: then what it interrupted woke nobody. "": no */
static const char *interrupt_of(struct kernel_names *names, const struct sampler_waker *waker)
{
    const char *found = waker->tid ? "" : "an interrupt"; /* the idle thread wakes nobody by itself */
    for (int i = 0; i < SAMPLER_WAKER && waker->frames[i]; i++) {
        const char *name = kernel_names_at(names, waker->frames[i] - 1);
        if (name && (strcmp(name, "hrtimer_wakeup") == 0 || strcmp(name, "process_timeout") == 0))
            return "a timer";
        if (name && (strncmp(name, "sysvec_", 7) == 0 || strncmp(name, "asm_sysvec_", 11) == 0 ||
                     strncmp(name, "common_interrupt", 16) == 0 || strcmp(name, "handle_softirqs") == 0 ||
                     strcmp(name, "__do_softirq") == 0))
            found = "an interrupt";
    }
    return found;
}

uint32_t waits_waker_frame(struct kernel_names *names, struct profile *profile,
                           const struct sampler_waker *waker, uint32_t *ret_thread)
{
    char text[64];
    const char *interrupt = interrupt_of(names, waker);
    *ret_thread = *interrupt ? 0 : waker->tid;
    if (*interrupt)
        snprintf(text, sizeof(text), "[woken by %s]", interrupt);
    else
        snprintf(text, sizeof(text), "[woken by %.16s (%u)]", waker->name, waker->pid);
    return profile_named_frame(profile, text, FRAME_KERNEL);
}

uint64_t waits_ready(const struct sampler_sample *sample)
{
    uint64_t ready = MIN(sample->ready_ns, sample->weight);
    return ready < SHORT_READY_NS && ready < sample->weight / 20 ? 0 : ready;
}

uint64_t waits_count_ready(struct profile *profile, const struct sampler_sample *sample, uint32_t node,
                           bool idle)
{
    uint64_t ready = waits_ready(sample), blocked = idle ? 0 : sample->weight - ready;
    if (ready)
        waits_count_at(profile, sample,
                       profile_child(profile, node, profile_named_frame(profile, WAITS_READY, FRAME_KERNEL)),
                       !blocked, ready);
    return blocked;
}

void waits_count(struct profile *profile, const struct sampler_sample *sample, uint32_t node, bool idle,
                 const struct sampler_waker *waker, struct kernel_names *names)
{
    uint32_t thread;
    uint64_t blocked = waits_count_ready(profile, sample, node, idle);
    if (!blocked)
        return;
    if (waker && names)
        node = profile_child(profile, node, waits_waker_frame(names, profile, waker, &thread));
    waits_count_at(profile, sample, node, 1, blocked);
}
