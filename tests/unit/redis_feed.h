/* Synthetic events for tests of the Redis model; see feed.h for the same of the analysis. Times are in
 * microseconds through US(). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_REDIS_FEED_H
#define TESTS_UNIT_REDIS_FEED_H

#include <string.h>

#include "event/event.h"
#include "targets/redis/model.h"

#include "record_event.h"
#include "test.h"

enum { SERVER = 20, MAIN = 20, IO_1 = 21, IO_2 = 22 };

struct redis_feed {
    struct redis_model *model;
    struct report report;
    const char *texts[4];
    unsigned text_count;
};

static inline void redis_feed_event(struct redis_feed *feed, enum sonde_event_id id, int64_t pid, int64_t tid,
                                    uint64_t time_ns, uint64_t duration_ns, const void *record)
{
    struct value values[RECORD_VALUES] = {0};
    struct event event =
        record_event(id, pid, tid, time_ns, duration_ns, record, feed->texts, feed->text_count, values);
    feed->text_count = 0;
    assert_int_equal(redis_model_event(feed->model, &event), 0);
}

#define REDIS_FEED(feed, ident, pid, tid, time_ns, duration_ns, ...)            \
    redis_feed_event(feed, SONDE_EVENT_##ident, pid, tid, time_ns, duration_ns, \
                     &(struct record_##ident){__VA_ARGS__})

/* A model with one server, "redis:1", which started at 1 us. */
static inline void redis_feed_init(struct redis_feed *feed)
{
    memset(feed, 0, sizeof(*feed));
    assert_int_equal(redis_model_new(&REDIS_DEFAULTS, &feed->model), 0);
    feed->texts[0] = feed->texts[1] = "redis:1";
    feed->text_count = 2;
    REDIS_FEED(feed, process_start, 1, 1, US(1), 0, .pid = SERVER, .runtime = 2);
}

static inline void redis_feed_name(struct redis_feed *feed, uint32_t id, const char *name)
{
    feed->texts[0] = name;
    feed->text_count = 1;
    REDIS_FEED(feed, probe_name, SERVER, MAIN, US(2), 0, .id = id);
}

static inline struct report *redis_feed_finish(struct redis_feed *feed)
{
    assert_int_equal(redis_model_finish(feed->model), 0);
    assert_int_equal(redis_model_report(feed->model, &feed->report), 0);
    assert_int_equal(redis_model_report_slow(feed->model, &feed->report), 0);
    return &feed->report;
}

static inline struct redis_server *redis_feed_server(struct redis_feed *feed)
{
    return feed->model->list.at[0];
}

static inline void redis_feed_done(struct redis_feed *feed)
{
    report_done(&feed->report);
    redis_model_free(feed->model);
}

#endif
