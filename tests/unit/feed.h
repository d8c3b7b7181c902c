/* Synthetic events for tests of passes: a record as the probe would write it becomes an event as the reader
 * would hand it out.
 *
 *     struct feed feed;
 *     feed_init(&feed);
 *     FEED_TEXT(&feed, "/users/1");                            the next event's strings, in order
 *     FEED(&feed, http_request, PID, TID, at_ns, 0, .fd = 7);  the time is the event's, a span's end
 *     feed_finish(&feed, &report);
 *     feed_done(&feed);
 *
 * Times are in microseconds through US(). Events must be given in order of time. Between any two of them a
 * report of what was fed so far is made, which must change nothing: every test of the analysis holds that. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FEED_H
#define TESTS_UNIT_FEED_H

#include <stdio.h>
#include <string.h>

#include "targets/node/state.h"

#include "record_event.h"
#include "test.h"

struct feed {
    struct analysis *analysis;
    const char *texts[8];
    unsigned text_count;
    uint64_t last_ns, events;
    struct report report;
};

static inline void feed_init_with(struct feed *feed, struct analyze_options options)
{
    memset(feed, 0, sizeof(*feed));
    assert_int_equal(analysis_new(&options, &feed->analysis), 0);
}

static inline void feed_init(struct feed *feed)
{
    feed_init_with(feed, ANALYZE_DEFAULTS);
}

static inline struct report *feed_finish(struct feed *feed)
{
    assert_int_equal(analysis_finish(feed->analysis), 0);
    assert_int_equal(analysis_report(feed->analysis, &feed->report), 0);
    return &feed->report;
}

static inline void feed_done(struct feed *feed)
{
    report_done(&feed->report);
    analysis_free(feed->analysis);
}

static inline int feed_ignore(void *context, struct analysis *analysis, struct report *report)
{
    return 0;
}

/* After each of the first events and, since it takes longer than an event, some of the others. */
static inline void feed_report_so_far(struct feed *feed)
{
    enum { EACH = 300, THEN = 97 };
    if (feed->events++ < EACH || feed->events % THEN == 0)
        assert_int_equal(analysis_so_far(feed->analysis, OPEN_JUDGED, feed_ignore, NULL), 0);
}

static inline void feed_event(struct feed *feed, enum sonde_event_id id, int64_t pid, int64_t tid,
                              uint64_t time_ns, uint64_t duration_ns, const void *record)
{
    struct value values[RECORD_VALUES] = {0};
    struct event event =
        record_event(id, pid, tid, time_ns, duration_ns, record, feed->texts, feed->text_count, values);
    if (time_ns < feed->last_ns)
        fail_msg("%s at %llu comes after %llu", event_catalogue[id].name, (unsigned long long)time_ns,
                 (unsigned long long)feed->last_ns);
    feed->last_ns = time_ns;
    assert_int_equal(analysis_event(feed->analysis, &event), 0);
    feed_report_so_far(feed);
    feed->text_count = 0;
}

#define FEED_TEXT(feed, string) ((feed)->texts[(feed)->text_count++] = (string))
#define FEED(feed, ident, pid, tid, time_ns, duration_ns, ...)            \
    feed_event(feed, SONDE_EVENT_##ident, pid, tid, time_ns, duration_ns, \
               &(struct record_##ident){__VA_ARGS__})

/* A process of that runtime (1 Node, 2 Redis). */
static inline void feed_process(struct feed *feed, uint32_t pid, uint8_t runtime, const char *name,
                                uint64_t at_ns)
{
    FEED_TEXT(feed, name);
    FEED_TEXT(feed, name);
    FEED(feed, process_start, 1, 1, at_ns, 0, .pid = pid, .runtime = runtime);
}

static inline void feed_name(struct feed *feed, int64_t pid, uint32_t id, const char *text, uint64_t at_ns)
{
    FEED_TEXT(feed, text);
    FEED(feed, probe_name, pid, pid, at_ns, 0, .id = id);
}

/* One end of a connection on loopback. */
static inline void feed_connection(struct feed *feed, int64_t pid, int32_t fd, uint32_t generation,
                                   uint64_t key, uint16_t local, uint16_t peer, uint64_t at_ns)
{
    const uint64_t loopback = 0xffff7f000001ull;
    FEED(feed, net_connection, pid, pid, at_ns, 0, .key = key, .local_low = loopback, .peer_low = loopback,
         .generation = generation, .fd = fd, .local_port = local, .peer_port = peer, .family = 2);
}

/* A request received in a callback of its own, answered with status 200 and body bytes in the same callback:
 * the events of [start, end) on the connection (fd, generation 1). */
static inline void feed_request(struct feed *feed, int64_t pid, int32_t fd, const char *path,
                                uint64_t start_ns, uint64_t end_ns)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, pid, pid, start_ns + US(10), 0, .fd = fd, .generation = 1, .method = 1);
    FEED(feed, http_response, pid, pid, end_ns - US(20), 0, .fd = fd, .generation = 1, .status = 200,
         .header_bytes = 100, .content_length = 50);
    FEED(feed, stream_write, pid, pid, end_ns - US(19), 0, .fd = fd, .generation = 1, .bytes = 150);
    FEED(feed, node_callback, pid, pid, end_ns - US(10), end_ns - US(10) - start_ns - US(5),
         .async_id = 1000);
    FEED(feed, stream_io, pid, pid, end_ns, end_ns - start_ns, .fd = fd, .generation = 1, .events = 1);
}

/* The kept request of that path, or NULL. */
static inline const struct request *feed_kept(struct feed *feed, const char *path)
{
    size_t count;
    const struct request *const *requests = analysis_requests(feed->analysis, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(requests[i]->path, path) == 0)
            return requests[i];
    return NULL;
}

/* The first span of that kind, or NULL. */
static inline const struct vspan *feed_span(const struct request *request, enum vspan_kind kind)
{
    array_foreach (&request->spans, span)
        if (span->kind == kind)
            return span;
    return NULL;
}

static inline const struct finding *feed_finding(struct feed *feed, enum finding_kind kind)
{
    array_foreach (&feed->report.findings, f)
        if ((*f)->kind == kind)
            return *f;
    return NULL;
}

#endif
