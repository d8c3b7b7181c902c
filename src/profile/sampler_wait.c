/* How the user's half waits for samples. At high rates something is there whenever it looks; at low ones most
 * of what the sampler takes would be looking, so that it sleeps until the half in the kernel has something
 * that cannot wait, half a buffer of announcements, or a while has passed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define SLOW_HZ     50
#define PATIENCE_MS 200
#define PAUSE_NS    (20 * NS_PER_MS) /* between two looks at high rates */
/* The same at low ones: what cannot wait is still there then, as a rule, and the caches of a busy machine are
 * others' after each look. */
#define SLOW_PAUSE_NS (100 * NS_PER_MS)

bool sampler_has_ticks_alone(const struct sampler_options *o)
{
    return o->on_cpu && !o->off_cpu && !o->locks && !o->allocs && !o->hits && !o->io;
}

bool sampler_is_slow(const struct sampler_options *o)
{
    return sampler_has_ticks_alone(o) && ticks_period(o) >= NS_PER_S / SLOW_HZ;
}

void sampler_wait_open(struct sampler *s)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    s->epoll = sampler_is_slow(&s->options) ? epoll_create1(EPOLL_CLOEXEC) : -1;
    if (s->epoll < 0)
        return;
    int r = epoll_ctl(s->epoll, EPOLL_CTL_ADD, bpf_map__fd(s->bpf->maps.samples), &event);
    if (r == 0 && s->sideband)
        r = sideband_watch(s->sideband, s->epoll);
    if (r < 0)
        sampler_wait_close(s);
    sampler_wait_set(s);
}

void sampler_wait_set(struct sampler *s)
{
    s->waits = s->epoll >= 0 && sampler_is_slow(&s->options);
    s->bpf->bss->can_wake = s->waits;
}

void sampler_wait_close(struct sampler *s)
{
    if (s->epoll >= 0)
        close(s->epoll);
    s->epoll = -1;
}

int sampler_patience_ms(const struct sampler *s)
{
    return s->waits ? PATIENCE_MS : (int)(PAUSE_NS / NS_PER_MS);
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec pause = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
    nanosleep(&pause, NULL);
}

void sampler_wait(struct sampler *s, int timeout_ms)
{
    struct epoll_event events[4];
    if (timeout_ms <= 0)
        return;
    uint64_t most_ns = (uint64_t)timeout_ms * NS_PER_MS;
    if (!s->waits) {
        sleep_ns(most_ns);
        return;
    }
    if (epoll_wait(s->epoll, events, ARRAY_SIZE(events), timeout_ms) <= 0)
        return;
    uint64_t since_ns = clock_monotonic_ns() - s->now_ns; /* others may have come by then */
    if (since_ns < MIN(most_ns, SLOW_PAUSE_NS))
        sleep_ns(MIN(most_ns, SLOW_PAUSE_NS) - since_ns);
}
