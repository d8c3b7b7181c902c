/* See profile_event.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_event.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/cli.h"
#include "cli/profile_hits.h"

#define NO_COUNTER                                                                                  \
    "the CPU counted none of it where this ran; a virtual machine often has no such counters. Try " \
    "--event cpu"

#define NO_BLOCK                                                                                          \
    "what was watched made no request to a disk in this time. What is read from memory (the page cache) " \
    "makes none, and what is written with buffers is written back later, by threads of the kernel"
#define NO_CONNECT                                                                                       \
    "what was watched opened no TCP connection in this time. Connections that it accepts, and those of " \
    "Unix "                                                                                              \
    "sockets, are not counted"

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config, period;
    const char *unit;
    const char *nothing;   /* what was watched did (or had) no such thing */
    const char *elsewhere; /* added unless the whole machine was watched; may be NULL */
} EVENTS[] = {
    {"cpu", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, "nanoseconds",
     "what was watched did not run on a CPU in this time. `--event off-cpu` shows where it waits; a longer "
     "--duration or a higher --frequency catches rare work"},
    {"wall", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, "nanoseconds",
     "what was watched neither ran on a CPU nor ended a wait in this time: a wait is known when it ends. A "
     "longer "
     "--duration may see it"},
    {"off-cpu", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, "nanoseconds",
     "no wait of what was watched ended in this time that was as long as --off-cpu-min. `--event cpu` shows "
     "what "
     "runs; a longer --duration sees waits that have not ended yet"},
    {"lock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, "nanoseconds",
     "what was watched waited for no lock in this time. A wait that began before is not seen: `--event "
     "off-cpu` and "
     "`sonde stack` show where threads are"},
    {"alloc", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, "bytes",
     "what was watched allocated nothing with malloc() in this time that was sampled. Processes that it "
     "starts are watched a few milliseconds after they have begun; --alloc-interval says how many bytes one "
     "sample stands for"},
    {"alloc-live", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0, "bytes",
     "of what was watched and sampled, all that was allocated with malloc() was freed again. `--event alloc` "
     "shows what was allocated"},
    {"block", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1, "bytes", NO_BLOCK, ": --all shows those"},
    {"block-time", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1, "nanoseconds", NO_BLOCK,
     ": --all shows those"},
    {"connect", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1, "count", NO_CONNECT},
    {"connect-time", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1, "nanoseconds", NO_CONNECT},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1, "count",
     "what was watched had no page fault in this time: all memory that it used was there"},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1, "count",
     "no page fault of what was watched had to read from a disk in this time"},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 1, "count",
     "what was watched did not leave a CPU in this time: it ran all the time, or not at all"},
    {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 1, "count",
     "what was watched did not move to another CPU in this time"},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, "count", NO_COUNTER},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 0, "count", NO_COUNTER},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 0, "count", NO_COUNTER},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 0, "count", NO_COUNTER},
};

bool profile_event_set(const char *name, struct sampler_options *o, const char **ret_unit)
{
    unsigned long long config;
    if (profile_hits_is_event(name)) {
        o->hits = true;
        o->on_cpu = false;
        o->event_period = 1;
        *ret_unit = "count";
        return true;
    }
    o->locks = strcmp(name, "lock") == 0;
    o->allocs = strcmp(name, "alloc") == 0 || strcmp(name, "alloc-live") == 0;
    o->io = strncmp(name, "block", 5) == 0     ? IO_BLOCK
            : strncmp(name, "connect", 7) == 0 ? IO_CONNECT
                                               : IO_NONE;
    o->hits = o->io != IO_NONE;
    o->on_cpu = strcmp(name, "off-cpu") != 0 && !o->locks && !o->allocs && !o->io;
    o->off_cpu |= strcmp(name, "off-cpu") == 0 || strcmp(name, "wall") == 0;
    if (sscanf(name, "r%llx", &config) == 1) { /* as perf: a raw event of the CPU */
        o->event_type = PERF_TYPE_RAW;
        o->event_config = config;
        *ret_unit = "count";
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(EVENTS); i++)
        if (strcmp(EVENTS[i].name, name) == 0) {
            o->event_type = EVENTS[i].type;
            o->event_config = EVENTS[i].config;
            o->event_period = EVENTS[i].period;
            *ret_unit = EVENTS[i].unit;
            return true;
        }
    return false;
}

void profile_event_say_nothing(const char *name, const struct sampler_options *o, struct text *out)
{
    const char *nothing = NO_COUNTER, *elsewhere = NULL;
    if (o->hits && !o->io)
        nothing = "what is watched did not get there in this time";
    if (o->hits && (strncmp(name, "uprobe:", 7) == 0 || strncmp(name, "usdt:", 5) == 0))
        elsewhere = ". Processes that it starts are watched a few milliseconds after they have begun; --all "
                    "watches from their first instruction on";
    for (size_t i = 0; i < ARRAY_SIZE(EVENTS); i++)
        if (strcmp(EVENTS[i].name, name) == 0) {
            nothing = EVENTS[i].nothing;
            elsewhere = EVENTS[i].elsewhere;
        }
    text_addf(out, "%s%s.", nothing, elsewhere && !o->whole_machine ? elsewhere : "");
}

void profile_event_explain_nothing(const char *name, const struct sampler_options *o,
                                   const struct sampler_counts *c)
{
    _cleanup_(text_done) struct text words = {0};
    profile_event_say_nothing(name, o, &words);
    if (o->cgroup && !c->processes)
        cli_printf(stderr, "sonde: no samples: no process was in a cgroup whose path contains '%s'\n",
                   o->cgroup);
    else if (c->idle_waits)
        fprintf(stderr,
                "sonde: nothing but idle waits: all %llu were of threads that waited for work; --idle shows "
                "them\n",
                (unsigned long long)c->idle_waits);
    else
        fprintf(stderr, "sonde: no samples: %s\n", text_get(&words));
}
