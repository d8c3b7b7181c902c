/* Two Node services and a peer without a probe, for tests of what takes a request's time across processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FEED_SERVICES_H
#define TESTS_UNIT_FEED_SERVICES_H

#include "feed.h"

enum { API = 10, STOCK = 11 };

static inline void start(struct feed *feed)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_process(feed, STOCK, 1, "stock", US(1));
    feed_connection(feed, API, 7, 1, 1, 50000, 8080, US(2));
    feed_connection(feed, STOCK, 9, 1, 3, 8080, 50000, US(2));
    feed_connection(feed, API, 8, 1, 1, 50001, 3306, US(2));
}

static inline void begin(struct feed *feed, int64_t pid, int32_t fd, const char *path, uint64_t at)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, pid, pid, at, 0, .fd = fd, .generation = 1, .method = 1);
}

static inline void answer(struct feed *feed, int64_t pid, int32_t fd, uint64_t at)
{
    FEED(feed, http_response, pid, pid, at, 0, .fd = fd, .generation = 1, .status = 200, .header_bytes = 100,
         .content_length = 50);
    FEED(feed, stream_write, pid, pid, at, 0, .fd = fd, .generation = 1, .bytes = 150);
}

static inline void end_turn(struct feed *feed, int64_t pid, int32_t fd, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, node_callback, pid, pid, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = 9999);
    FEED(feed, stream_io, pid, pid, end_ns, end_ns - start_ns, .fd = fd, .generation = 1, .events = 1);
}

#endif
