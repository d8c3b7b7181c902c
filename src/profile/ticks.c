/* See ticks.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/ticks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/macro.h"

#define REDRAW_NS     (100 * NS_PER_MS)
#define REDRAW_TICKS  16
#define FIRST_TICK_NS NS_PER_MS

uint64_t ticks_period(const struct sampler_options *o)
{
    bool clock = o->event_type == PERF_TYPE_SOFTWARE &&
                 (o->event_config == PERF_COUNT_SW_CPU_CLOCK || o->event_config == PERF_COUNT_SW_TASK_CLOCK);
    return clock && !o->event_period ? NS_PER_S / MAX(o->frequency, 1u) : 0;
}

/* Between three and five quarters of it. */
static uint64_t draw_period(uint64_t period_ns)
{
    uint32_t random = UINT32_MAX / 2;
    (void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
    return period_ns * 3 / 4 + (period_ns / 2 * random >> 32);
}

static int open_event(const struct sampler_options *o, int cpu)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr), .type = o->event_type, .config = o->event_config, .disabled = 1};
    if (o->event_period) {
        attr.sample_period = o->event_period;
    } else if (ticks_period(o)) {
        attr.sample_period = MIN(draw_period(ticks_period(o)), FIRST_TICK_NS);
    } else {
        attr.freq = 1;
        attr.sample_freq = MAX(o->frequency, 1u);
    }
    return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int ticks_open(struct ticks *t, const struct sampler_options *o, const struct bpf_program *program,
               const char **ret_what)
{
    int cpus = libbpf_num_possible_cpus();
    t->period_ns = ticks_period(o);
    t->events = calloc((size_t)MAX(cpus, 1), sizeof(*t->events));
    *ret_what = "cannot open the event";
    if (!t->events)
        return -ENOMEM;
    for (int cpu = 0; cpu < cpus; cpu++) {
        int fd = open_event(o, cpu);
        if (fd < 0 && (errno == ENODEV || errno == ENXIO)) /* this CPU is off */
            continue;
        if (fd < 0)
            return -errno;
        t->events[t->count++] = fd;
        *ret_what = "cannot attach to the event";
        if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(program)) < 0)
            return -errno;
        *ret_what = "cannot open the event";
    }
    return 0;
}

void ticks_start(struct ticks *t, uint64_t now_ns)
{
    t->started_ns = t->redrawn_ns = now_ns;
    for (size_t i = 0; i < t->count; i++)
        (void)ioctl(t->events[i], PERF_EVENT_IOC_ENABLE, 0);
}

/* A clock with a fixed period sees the same part of a program that keeps step with it, again and again. So
 * each CPU's gets another period now and then. That restarts it, hence not too often; a tick's weight
 * is the time that it stands for, whatever the period. */
static void redraw(struct ticks *t, uint64_t now_ns)
{
    t->redrawn_ns = now_ns;
    for (size_t i = 0; i < t->count; i++) {
        uint64_t drawn = draw_period(t->period_ns);
        ioctl(t->events[i], PERF_EVENT_IOC_PERIOD, &drawn);
    }
}

uint64_t ticks_limit(uint64_t period_ns)
{
    return 3 * period_ns;
}

/* The time that passed of the old period is forgotten, so that the next tick comes after at most one long
 * period of each. */
void ticks_set_period(struct ticks *t, uint64_t period_ns, uint64_t now_ns)
{
    t->settled_ns = now_ns + ticks_limit(MAX(t->period_ns, period_ns));
    t->period_ns = period_ns;
    redraw(t, now_ns);
}

bool ticks_redraw(struct ticks *t, uint64_t now_ns)
{
    bool settled = t->settled_ns && now_ns > t->settled_ns;
    bool early = t->redrawn_ns == t->started_ns && now_ns - t->started_ns > FIRST_TICK_NS;
    if (settled)
        t->settled_ns = 0;
    if (t->period_ns && (early || now_ns - t->redrawn_ns >= MAX(REDRAW_NS, REDRAW_TICKS * t->period_ns)))
        redraw(t, now_ns);
    return settled;
}

void ticks_close(struct ticks *t)
{
    while (t->count > 0)
        close(t->events[--t->count]);
    free(t->events);
    t->events = NULL;
}
