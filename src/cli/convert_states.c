/* See convert_states.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/convert_states.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

struct writing {
    struct history *states;
    const struct trace *trace;
    struct perfetto *writer;
    struct problem *problem;
    struct history_info info;
    uint32_t host;
    char prefix[256]; /* of the host's attributes: "" or "NAME/" */
};

/* Which intervals go where, and how. */
struct lane {
    struct writing *w;
    uint64_t track;
    int64_t tid;  /* whose states these are; -1: nobody's */
    bool threads; /* values are threads' numbers */
    bool wakes;   /* values are who woke it */
};

/* ---- threads ---- */

static bool value_at_end(struct writing *w, int64_t tid, const char *what, struct history_interval *ret)
{
    char path[320];
    uint32_t quark;
    snprintf(path, sizeof(path), "%sThreads/%" PRId64 "/%s", w->prefix, tid, what);
    return history_find_path(w->states, path, &quark) >= 0 &&
           history_query(w->states, quark, w->info.end_ns - 1, ret, NULL) >= 0;
}

static void name_thread(struct writing *w, int64_t tid, char *ret_name, size_t size)
{
    struct history_interval name;
    if (value_at_end(w, tid, "Name", &name) && name.value.type == HISTORY_STRING)
        snprintf(ret_name, size, "%s", name.value.string);
    else
        snprintf(ret_name, size, "thread %" PRId64, tid);
}

static int thread_track(struct writing *w, int64_t tid, uint64_t *ret_track)
{
    char name[128], process_name[128];
    struct history_interval process;
    bool known = value_at_end(w, tid, "Process", &process) && process.value.type == HISTORY_INT;
    int64_t pid = known ? process.value.integer : tid;
    name_thread(w, tid, name, sizeof(name));
    name_thread(w, pid, process_name, sizeof(process_name)); /* it is called as its first thread is */
    return perfetto_thread(w->writer, w->host, pid, process_name, tid, name, ret_track);
}

static int state_lane(struct writing *w, int64_t tid, uint64_t *ret_track)
{
    uint64_t thread;
    int r = thread_track(w, tid, &thread);
    return r < 0 ? r : perfetto_lane(w->writer, w->host, thread, "state", false, ret_track);
}

/* The arrow to a thread that becomes runnable then. */
static uint64_t flow_of(const struct writing *w, int64_t tid, uint64_t time_ns)
{
    uint64_t words[3] = {w->host, (uint64_t)tid, time_ns};
    return map_hash(words, sizeof(words));
}

/* ---- intervals ---- */

static int write_wake(const struct lane *l, const struct history_interval *s)
{
    char name[128], text[144], *end;
    uint64_t track;
    int64_t waker = strtoll(s->value.string, &end, 10);
    if (*end || end == s->value.string || waker <= 0) /* an interrupt, or the idle thread */
        return 0;
    int r = state_lane(l->w, waker, &track);
    name_thread(l->w, l->tid, name, sizeof(name));
    snprintf(text, sizeof(text), "wakes %s", name);
    return r < 0 ? r
                 : perfetto_slice(l->w->writer, track, s->start_ns, s->start_ns, text, FLOW_BEGINS,
                                  flow_of(l->w, l->tid, s->start_ns));
}

static int write_interval(void *context, const struct history_interval *s)
{
    const struct lane *l = context;
    char name[128], text[160];
    if (s->value.type == HISTORY_NULL)
        return 0;
    if (l->wakes)
        return s->value.type == HISTORY_STRING ? write_wake(l, s) : 0;
    if (l->threads) {
        if (s->value.type != HISTORY_INT || s->value.integer <= 0)
            return 0;
        name_thread(l->w, s->value.integer, name, sizeof(name));
        snprintf(text, sizeof(text), "%s (%" PRId64 ")", name, s->value.integer);
        return perfetto_slice(l->w->writer, l->track, s->start_ns, s->end_ns, text, FLOW_NONE, 0);
    }
    if (s->value.type == HISTORY_INT)
        return perfetto_count(l->w->writer, l->track, s->start_ns, s->value.integer);
    if (s->value.type != HISTORY_STRING || strcmp(s->value.string, "ended") == 0)
        return 0;
    bool woken = l->tid >= 0 && strcmp(s->value.string, "runnable") == 0;
    return perfetto_slice(l->w->writer, l->track, s->start_ns, s->end_ns, s->value.string,
                          woken ? FLOW_ENDS : FLOW_NONE, woken ? flow_of(l->w, l->tid, s->start_ns) : 0);
}

static int write_attribute(struct lane *lane, uint32_t quark)
{
    struct writing *w = lane->w;
    return history_query_range(w->states, quark, w->info.start_ns, w->info.end_ns, write_interval, lane,
                               w->problem);
}

/* ---- attributes ---- */

/* The name between the first folder and the attribute: "Processors/3/Thread" -> "3". */
static void middle_of(const struct writing *w, uint32_t quark, char *ret_name, size_t size)
{
    struct text path = {0};
    history_path(w->states, quark, &path);
    const char *at = strchr(text_get(&path) + MIN(strlen(w->prefix), path.length), '/');
    const char *end = at ? strrchr(at + 1, '/') : NULL;
    snprintf(ret_name, size, "%.*s", end ? (int)(end - at - 1) : 0, at ? at + 1 : "");
    text_done(&path);
}

static int write_thread_attribute(struct writing *w, const char *name, const char *what)
{
    struct lane lane = {.w = w, .tid = strtoll(name, NULL, 10), .wakes = strcmp(what, "Waker") == 0};
    char path[320];
    uint32_t quark;
    snprintf(path, sizeof(path), "%sThreads/%s/%s", w->prefix, name, what);
    if (history_find_path(w->states, path, &quark) < 0)
        return 0;
    int r = strcmp(what, "State") == 0 ? state_lane(w, lane.tid, &lane.track)
                                       : thread_track(w, lane.tid, &lane.track);
    return r < 0 ? r : write_attribute(&lane, quark);
}

static int write_thread(struct writing *w, uint32_t quark)
{
    static const char *const WHAT[] = {"Waker", "State", "System call"}; /* arrows begin before they end */
    char name[32];
    int r = 0;
    middle_of(w, quark, name, sizeof(name));
    for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(WHAT); i++)
        r = write_thread_attribute(w, name, WHAT[i]);
    return r;
}

/* What is not a thread's: a lane of its own below one for its kind. */
struct kind {
    const char *pattern; /* of the attributes */
    const char *folder;  /* the lane that all of them lie below */
    const char *lane;    /* of one: its name comes behind */
    bool threads, counts;
};

static const struct kind KINDS[] = {
    {"Processors/*/Thread", "CPUs", "CPU ", true, false},
    {"Processors/*/IRQ", "CPUs", "IRQ on CPU ", false, false},
    {"Processors/*/Softirq", "CPUs", "softirq on CPU ", false, false},
    {"Processors/*/Frequency", "CPUs", "frequency (kHz) of CPU ", false, true},
    {"Disks/*/Waiting", "Disks", "requests waiting for ", false, true},
    {"Disks/*/In flight", "Disks", "requests at ", false, true},
};

static int write_other(struct writing *w, const struct kind *kind, uint32_t quark)
{
    struct lane lane = {.w = w, .tid = -1, .threads = kind->threads};
    char name[64], text[128];
    uint64_t folder;
    middle_of(w, quark, name, sizeof(name));
    snprintf(text, sizeof(text), "%s%s", kind->lane, name);
    int r = perfetto_lane(w->writer, w->host, 0, kind->folder, false, &folder);
    if (r >= 0)
        r = perfetto_lane(w->writer, w->host, folder, text, kind->counts, &lane.track);
    return r < 0 ? r : write_attribute(&lane, quark);
}

/* kind: NULL for threads. */
static int write_kind(struct writing *w, const struct kind *kind)
{
    char pattern[320];
    uint32_t *quarks = NULL;
    size_t count = 0;
    snprintf(pattern, sizeof(pattern), "%s%s", w->prefix, kind ? kind->pattern : "Threads/*/State");
    int r = history_list(w->states, pattern, &quarks, &count);
    for (size_t i = 0; r >= 0 && i < count; i++)
        r = kind ? write_other(w, kind, quarks[i]) : write_thread(w, quarks[i]);
    free(quarks);
    return r;
}

int convert_states(struct history *states, const struct trace *trace, struct perfetto *writer,
                   struct problem *problem)
{
    struct writing w = {.states = states, .trace = trace, .writer = writer, .problem = problem};
    uint32_t hosts = trace_host_count(trace);
    int r = 0;
    history_get_info(states, &w.info);
    for (w.host = 0; r >= 0 && w.host < hosts; w.host++) {
        const struct trace_host *host = trace_host_at(trace, w.host);
        if (host->own)
            continue;
        if (hosts > 1)
            snprintf(w.prefix, sizeof(w.prefix), "%s/", host->name);
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(KINDS); i++)
            r = write_kind(&w, &KINDS[i]);
        if (r >= 0)
            r = write_kind(&w, NULL);
    }
    return r;
}
