/* See convert_requests.h. Slices of a track nest: a span lies in the first row of its request in which all
 * that is still running when it begins contains it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/convert_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/folder.h"
#include "analyze/vertical.h"
#include "base/macro.h"
#include "base/map.h"
#include "base/text.h"

enum { ROWS_MAX = 64, DEPTH_MAX = 64 };

/* What is running in a row: when each slice ends, the outermost first. */
struct row {
    uint64_t end_ns[DEPTH_MAX];
    uint32_t depth;
};

struct writing {
    struct perfetto *writer;
    int (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    struct text words;
    ARRAY(const struct vspan *) spans; /* of a request, in the order of time */
    struct row rows[ROWS_MAX];
    struct map uncalled; /* requests that were written before it was known who called them */
    int failed;          /* a negative errno */
};

static int by_start(const void *a, const void *b)
{
    const struct vspan *x = *(const struct vspan *const *)a, *y = *(const struct vspan *const *)b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns)
        return x->end_ns > y->end_ns ? -1 : 1;
    return (x > y) - (x < y); /* parents come first */
}

static bool fits(struct row *row, const struct vspan *span)
{
    while (row->depth && row->end_ns[row->depth - 1] <= span->start_ns)
        row->depth--;
    return row->depth < DEPTH_MAX && (!row->depth || row->end_ns[row->depth - 1] >= span->end_ns);
}

/* The row that a span goes to; ROWS_MAX when there is no more room. */
static uint32_t find_row(struct writing *w, const struct vspan *span)
{
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        if (fits(&w->rows[i], span)) {
            w->rows[i].end_ns[w->rows[i].depth++] = span->end_ns;
            return i;
        }
    return ROWS_MAX;
}

/* An arrow leads from the call that sent a request to the request. */
static uint64_t flow_of(const struct request *request)
{
    return map_hash(request->name, strlen(request->name)) | 1;
}

/* The track of a row of a request. */
static int find_track(struct writing *w, const struct request *request, uint32_t row, uint64_t *ret_track)
{
    char name[256];
    uint64_t process;
    snprintf(name, sizeof(name), "%s %s", request->method ? request->method : "?",
             request->route ? request->route : "?");
    int r = perfetto_process(w->writer, 0, request->pid, request->service ? request->service : "?", &process);
    return r < 0 ? r : perfetto_row(w->writer, process, name, flow_of(request) + row, ret_track);
}

static int write_slice(struct writing *w, const struct request *request, const struct vspan *span,
                       uint64_t track)
{
    uint64_t flow_id = 0;
    enum perfetto_flow flow = FLOW_NONE;
    if (span->child) {
        flow = FLOW_BEGINS;
        flow_id = flow_of(span->child);
    } else if (span == request->spans.at && request->caller) {
        flow = FLOW_ENDS;
        flow_id = flow_of(request);
    } else if (span == request->spans.at && !map_put(&w->uncalled, flow_of(request), NULL))
        return -ENOMEM;
    text_clear(&w->words);
    vertical_words(&w->words, request, span);
    return w->words.failed ? -ENOMEM
                           : perfetto_slice(w->writer, track, span->start_ns, span->end_ns,
                                            text_get(&w->words), flow, flow_id);
}

/* What it called was written already, without the arrow: it ends in an instant there. */
static int write_late_arrow(struct writing *w, const struct request *caller, const struct request *called)
{
    char name[256];
    uint64_t track;
    int r = find_track(w, called, 0, &track);
    snprintf(name, sizeof(name), "called by %s", caller->service ? caller->service : "?");
    return r < 0 ? r
                 : perfetto_slice(w->writer, track, called->start_ns, called->start_ns, name, FLOW_ENDS,
                                  flow_of(called));
}

static int write_span(struct writing *w, const struct request *request, const struct vspan *span)
{
    uint64_t track;
    uint32_t row = find_row(w, span);
    if (row == ROWS_MAX)
        return 0;
    int r = find_track(w, request, row, &track);
    if (r >= 0)
        r = write_slice(w, request, span, track);
    if (r >= 0 && span->child && map_get(&w->uncalled, flow_of(span->child)))
        r = write_late_arrow(w, request, span->child);
    return r;
}

static int write_request(struct writing *w, const struct request *request)
{
    int r = 0;
    array_clear(&w->spans);
    for (size_t i = 0; i < request->spans.count; i++) {
        const struct vspan *span = &request->spans.at[i];
        bool told = span->end_ns > span->start_ns && (i == 0 || span->known >= KNOWN_INFERRED);
        if (told && array_add(&w->spans, span) < 0)
            return -ENOMEM;
    }
    if (!w->spans.count || w->spans.at[0] != request->spans.at)
        return 0; /* it has not ended */
    qsort(w->spans.at, w->spans.count, sizeof(*w->spans.at), by_start);
    memset(w->rows, 0, sizeof(w->rows));
    for (size_t i = 0; r >= 0 && i < w->spans.count; i++)
        r = write_span(w, request, w->spans.at[i]);
    return r;
}

static int on_request(void *context, const struct request *request)
{
    struct writing *w = context;
    if (w->failed >= 0)
        w->failed = write_request(w, request);
    return w->failed;
}

static int on_progress(void *context, struct analysis *analysis, uint64_t done, uint64_t total)
{
    struct writing *w = context;
    return w->progress(w->context, done, total);
}

/* Also of those that served no request. */
static int write_processes(struct writing *w, const struct analysis *analysis)
{
    json_t *processes = folder_processes(analysis), *process;
    size_t i;
    int r = processes ? 0 : -ENOMEM;
    json_array_foreach (processes, i, process) {
        const char *service = json_string_value(json_object_get(process, "service"));
        uint64_t track;
        if (r >= 0 && service && *service)
            r = perfetto_process(w->writer, 0, json_integer_value(json_object_get(process, "process")),
                                 service, &track);
    }
    json_decref(processes);
    return r;
}

int convert_requests(const char *folder, struct perfetto *writer,
                     int (*progress)(void *context, uint64_t done, uint64_t total), void *context,
                     struct problem *problem)
{
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct report report = {0};
    struct writing *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct writing){.writer = writer, .progress = progress, .context = context};
    struct analyze_options options = ANALYZE_DEFAULTS;
    options.keep_per_endpoint = options.keep_slowest = 0;
    options.on_request = on_request;
    options.on_request_context = w;
    const struct folder_reading reading = {.analyze = &options, .progress = on_progress, .context = w};
    int r = folder_read(folder, &reading, problem, &analysis, &report);
    if (r >= 0)
        r = w->failed;
    if (r >= 0)
        r = write_processes(w, analysis);
    report_done(&report);
    text_done(&w->words);
    array_done(&w->spans);
    map_done(&w->uncalled);
    free(w);
    return r;
}
