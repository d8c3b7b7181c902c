/* See live.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/live.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "trace/manifest.h"

/* How old what was recorded must be to be read, where the recorder does not say how often it writes; else how
 * many times that. */
static const uint64_t SETTLED_NS = 1500 * NS_PER_MS;
enum { SETTLED_TIMES = 3 };

struct live {
    struct growing recording;
    struct analyze_options options;
    struct readers *readers;
    struct pass passes[READERS_MAX];
    struct pass_set set;
    uint64_t took_ns;
};

/* What the recorder says in its manifest: whether the recording is complete; *ret_settled_ns: what ended
 * longer ago has been written. */
static bool is_complete(const char *folder, uint64_t *ret_settled_ns)
{
    json_t *manifest = NULL;
    int r = manifest_read(folder, &manifest);
    *ret_settled_ns = SETTLED_NS;
    if (r < 0 && r != -EBADMSG)
        return false;
    bool complete = !json_is_false(json_object_get(manifest, "complete"));
    json_int_t written_ms = json_integer_value(json_object_get(manifest, "written_every_ms"));
    if (written_ms > 0 && written_ms < 60000)
        *ret_settled_ns = SETTLED_TIMES * (uint64_t)written_ms * NS_PER_MS;
    json_decref(manifest);
    return complete;
}

/* ---- events ---- */

static int look_for_more(struct growing *g, struct problem *problem)
{
    if (g->trace)
        return (int)MIN(trace_refresh(g->trace), (int64_t)0);
    int r = trace_open(g->folder, NULL, problem, &g->trace);
    return r == -ENOENT && !g->complete ? 0 : r;
}

int growing_look(struct growing *g, struct problem *problem)
{
    uint64_t settled_ns, now_ns = clock_monotonic_ns();
    g->complete = is_complete(g->folder, &settled_ns);
    g->until_ns = g->complete ? UINT64_MAX : now_ns - MIN(settled_ns, now_ns);
    int r = look_for_more(g, problem);
    return r < 0 && !(problem && problem->what[0])
               ? problem_set(problem, r, "%s: %s", g->folder, strerror(-r))
               : r;
}

int growing_next(struct growing *g, const struct event **ret_event)
{
    const struct event *event;
    int r = 0;
    while (g->trace && (r = trace_next_until(g->trace, g->until_ns, &event)) > 0) {
        if (event->time_ns < g->newest_ns) {
            g->late++;
            continue;
        }
        g->newest_ns = event->time_ns;
        *ret_event = event;
        return 1;
    }
    return r;
}

void growing_done(struct growing *g)
{
    trace_close(g->trace);
    g->trace = NULL;
}

/* ---- an analysis of them ---- */

int live_new(const char *folder, const struct analyze_options *options, struct live **ret_live,
             struct problem *problem)
{
    struct live *live = calloc(1, sizeof(*live));
    int r = live ? 0 : -ENOMEM;
    if (r >= 0) {
        live->recording.folder = folder;
        live->options = *options;
        live->options.folder = folder;
        r = readers_new(&live->options, &live->readers);
    }
    if (r >= 0)
        r = pass_set_init(&live->set, live->passes, readers_passes(live->readers, live->passes));
    if (r < 0) {
        live_free(live);
        return problem_set(problem, r, "%s: %s", folder, strerror(-r));
    }
    *ret_live = live;
    return 0;
}

void live_free(struct live *live)
{
    if (!live)
        return;
    pass_set_done(&live->set);
    readers_free(live->readers);
    growing_done(&live->recording);
    free(live);
}

static int read_all(struct live *live)
{
    const struct event *event = NULL;
    int r = 0;
    while (r >= 0 && (r = growing_next(&live->recording, &event)) > 0)
        r = pass_set_event(&live->set, event);
    return r;
}

int live_read(struct live *live, struct problem *problem)
{
    uint64_t started_ns = clock_monotonic_ns();
    int r = growing_look(&live->recording, problem);
    if (r >= 0)
        r = read_all(live);
    live->took_ns += clock_monotonic_ns() - started_ns;
    return r < 0 && !(problem && problem->what[0])
               ? problem_set(problem, r, "%s: %s", live->recording.folder, strerror(-r))
               : r;
}

bool live_is_complete(const struct live *live)
{
    return live->recording.complete;
}

uint64_t live_read_ns(const struct live *live)
{
    return live->recording.newest_ns;
}

const struct analysis_counts *live_counts(const struct live *live)
{
    return analysis_counts(readers_analysis(live->readers));
}

int live_so_far(struct live *live, analysis_so_far_fn *use, void *context)
{
    return analysis_so_far(readers_analysis(live->readers), OPEN_JUDGED, use, context);
}

/* Whether it was read as it would be now. */
static bool read_in_order(const struct growing *g)
{
    size_t losses = 0;
    if (g->trace)
        (void)trace_losses(g->trace, &losses);
    return g->trace && !g->late && !losses;
}

int live_finish(struct live *live, const struct folder_reading *reading, struct problem *problem,
                struct analysis **ret_analysis, struct report *ret_report)
{
    uint64_t started_ns = clock_monotonic_ns();
    struct growing *g = &live->recording;
    int r = 0;
    if (!g->complete) { /* given up: what is there now, settled or not */
        r = growing_look(g, problem);
        g->until_ns = UINT64_MAX;
        if (r >= 0)
            r = read_all(live);
    }
    if (r >= 0 && !read_in_order(g)) {
        struct folder_reading again = reading ? *reading : (struct folder_reading){0};
        again.analyze = &live->options;
        again.states = NULL;
        return folder_read(g->folder, &again, problem, ret_analysis, ret_report);
    }
    if (r >= 0)
        r = pass_set_finish(&live->set);
    live->took_ns += clock_monotonic_ns() - started_ns;
    if (r >= 0)
        r = readers_report(live->readers, g->folder, g->trace, live->took_ns, ret_report);
    if (r < 0)
        return problem && problem->what[0] ? r : problem_set(problem, r, "%s: %s", g->folder, strerror(-r));
    *ret_analysis = readers_take_analysis(live->readers);
    return 0;
}
