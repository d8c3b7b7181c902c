/* Stories of a cluster for the tests of targets/redis/netflow.h: records of two nodes and a client. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NETFLOW_STORY_H
#define TESTS_NETFLOW_STORY_H

#include <stdlib.h>

#include "event/event.h"
#include "targets/redis/netflow.h"

#include "record_event.h"
#include "test.h"

/* Node A, node B and a client that publishes to A and subscribes at B: a host each. */
enum { A, B, CLIENT, HOSTS };
enum { PID_A = 20, PID_B = 21, PID_CLIENT = 30, PUBLISH = 1, EVENTS = 1024, RECORD_BYTES = 128 };

struct story {
    struct {
        uint32_t host;
        enum sonde_event_id id;
        uint64_t time_ns, duration_ns;
        const char *text;
        char record[RECORD_BYTES];
    } events[EVENTS];
    size_t count;
    int64_t shift_ns[HOSTS]; /* of the host's clock */
    bool absent[HOSTS];      /* it was not recorded */
    struct netflow_message messages[EVENTS];
    size_t message_count;
};

static inline void tell(struct story *s, uint32_t host, enum sonde_event_id id, uint64_t time_ns,
                        uint64_t duration_ns, const char *text, const void *record, size_t size)
{
    assert_true(s->count < EVENTS && size <= RECORD_BYTES);
    s->events[s->count].host = host;
    s->events[s->count].id = id;
    s->events[s->count].time_ns = time_ns;
    s->events[s->count].duration_ns = duration_ns;
    s->events[s->count].text = text;
    memcpy(s->events[s->count++].record, record, size);
}

#define TELL(story, host, ident, time_ns, duration_ns, ...)            \
    tell(story, host, SONDE_EVENT_##ident, time_ns, duration_ns, NULL, \
         &(struct record_##ident){__VA_ARGS__}, sizeof(struct record_##ident))

static inline void connects(struct story *s, uint32_t host, int32_t fd, uint16_t local, uint32_t peer_host,
                            uint16_t peer)
{
    const uint64_t net = 0xffff0a000001; /* 10.0.0.1 is A's */
    TELL(s, host, net_connection, MS(5), 0, .key = 1, .generation = 1, .fd = fd, .family = 2,
         .local_low = net + host, .peer_low = net + peer_host, .local_port = local, .peer_port = peer);
}

static inline void begin(struct story *s)
{
    memset(s, 0, sizeof(*s));
    const struct record_probe_name name = {.id = PUBLISH};
    tell(s, A, SONDE_EVENT_probe_name, MS(5), 0, "publish", &name, sizeof(name));
    connects(s, CLIENT, 7, 4000, A, 7000);
    connects(s, A, 9, 7000, CLIENT, 4000);
    connects(s, CLIENT, 8, 4001, B, 7000);
    connects(s, B, 10, 7000, CLIENT, 4001);
    connects(s, A, 11, 5000, B, 17000);
    connects(s, B, 12, 17000, A, 5000);
}

/* A message is published at t, the number-th command of its connection, and its records; arrives: those of B.
 */
static inline void publish(struct story *s, uint64_t t, uint64_t number, uint32_t mark, bool arrives)
{
    TELL(s, CLIENT, stream_write, t, 0, .fd = 7, .first_message = number, .messages = 1);
    TELL(s, A, redis_bus_send, t + US(60), 0, .link = 0x100, .bytes = 2400, .type = 4, .mark = mark);
    TELL(s, A, redis_command, t + US(70), US(20), .client_id = 5, .fd = 9, .name = PUBLISH,
         .sequence = number);
    TELL(s, A, redis_read_query, t + US(75), US(30), .client_id = 5, .fd = 9);
    TELL(s, A, redis_loop_phase, t + US(80), US(40), .phase = SONDE_redis_phase_process_events, .ready = 1);
    TELL(s, A, redis_write_reply, t + US(90), US(5), .client_id = 5, .fd = 9);
    TELL(s, A, redis_bus_write, t + US(100), US(4), .link = 0x100, .fd = 11, .bytes = 2400);
    if (arrives) {
        TELL(s, B, redis_message, t + US(150), 0, .client_id = 6, .fd = 10);
        TELL(s, B, redis_bus_packet, t + US(152), US(6), .link = 0x200, .bytes = 2400, .type = 4,
             .mark = mark);
        TELL(s, B, redis_bus_read, t + US(154), US(10), .link = 0x200, .fd = 12, .bytes = 2400);
        TELL(s, B, redis_loop_phase, t + US(156), US(16), .phase = SONDE_redis_phase_process_events,
             .ready = 1);
        TELL(s, B, redis_write_reply, t + US(170), US(8), .client_id = 6, .fd = 10);
    }
    TELL(s, CLIENT, stream_io, t + US(130), US(10), .fd = 7, .generation = 1, .events = 1);
    if (arrives)
        TELL(s, CLIENT, stream_io, t + US(200), US(10), .fd = 8, .generation = 1, .events = 1);
}

static inline int message(void *context, const struct netflow_message *m)
{
    struct story *s = context;
    s->messages[s->message_count++] = *m;
    return 0;
}

/* Reads the story in the order of the hosts' clocks; more may follow. */
static inline void read_on(struct netflow *n, struct story *s, bool shifted)
{
    bool read[EVENTS] = {false};
    struct pass pass = netflow_pass(n);
    for (;;) {
        size_t next = EVENTS;
        uint64_t least_ns = UINT64_MAX;
        for (size_t i = 0; i < s->count; i++) {
            uint64_t at_ns = s->events[i].time_ns + (shifted ? (uint64_t)s->shift_ns[s->events[i].host] : 0);
            if (!read[i] && !s->absent[s->events[i].host] && at_ns < least_ns)
                next = i, least_ns = at_ns;
        }
        if (next == EVENTS)
            break;
        read[next] = true;
        const int64_t pids[HOSTS] = {PID_A, PID_B, PID_CLIENT};
        struct value values[RECORD_VALUES] = {0};
        int64_t pid = pids[s->events[next].host];
        struct event event =
            record_event(s->events[next].id, pid, pid, least_ns, s->events[next].duration_ns,
                         s->events[next].record, &s->events[next].text, s->events[next].text != NULL, values);
        event.trace = (uint16_t)s->events[next].host;
        assert_int_equal(pass.event(pass.self, &event), 0);
    }
}

static inline void read_into(struct netflow *n, struct story *s, bool shifted)
{
    struct pass pass = netflow_pass(n);
    read_on(n, s, shifted);
    assert_int_equal(pass.finish(pass.self), 0);
}

/* clocks: for what was sent and received when. */
static inline struct netflow *read_as(struct story *s, bool shifted, bool clocks, struct netflow *before)
{
    struct netflow *n;
    assert_int_equal(netflow_new(clocks ? message : NULL, s, NULL, before, &n), 0);
    read_into(n, s, shifted);
    return n;
}

static inline struct netflow *read_story(struct story *s, bool shifted, struct netflow *before)
{
    return read_as(s, shifted, !before, before);
}

/* Of complete lives. */
static inline const struct flow_row *row_of(const struct netflow *n, enum flow_path path)
{
    array_foreach (&n->rows, row)
        if ((*row)->path == path && (*row)->count)
            return *row;
    return NULL;
}

/* Each life is counted in one row, and with one reason. */
static inline void check_counts(const struct netflow *n)
{
    uint64_t complete = 0, incomplete = 0;
    array_foreach (&n->rows, row) {
        complete += (*row)->path == FLOW_REPLY || (*row)->path == FLOW_REDIRECT ? (*row)->count : 0;
        incomplete += (*row)->path == FLOW_REPLY || (*row)->path == FLOW_REDIRECT ? (*row)->incomplete : 0;
    }
    assert_int_equal(complete, n->reasons[FLOW_COMPLETE]);
    assert_int_equal(incomplete, n->flows - n->reasons[FLOW_COMPLETE]);
}

static inline bool told(const struct story *s, uint32_t from, uint32_t to, uint64_t sent_ns,
                        uint64_t received_ns)
{
    for (size_t i = 0; i < s->message_count; i++) {
        const struct netflow_message *m = &s->messages[i];
        if (m->from == from && m->to == to && m->sent_ns == sent_ns + (uint64_t)s->shift_ns[from] &&
            m->received_ns == received_ns + (uint64_t)s->shift_ns[to])
            return true;
    }
    return false;
}

/* Takes records out of the story by chance, one in 12; the losses are told behind it. */
static inline void lose(struct story *s, bool of_client, uint64_t end_ns)
{
    bool lost[HOSTS] = {false};
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        uint32_t host = s->events[i].host;
        bool gone = s->events[i].time_ns > MS(5) && (host != CLIENT || of_client) && rand() % 12 == 0;
        lost[host] |= gone;
        if (!gone)
            s->events[kept++] = s->events[i];
    }
    s->count = kept;
    const uint32_t pids[HOSTS] = {PID_A, PID_B, PID_CLIENT};
    for (uint32_t host = 0; host < HOSTS; host++)
        if (lost[host])
            TELL(s, host, loss, end_ns, 0, .pid = pids[host], .count = 1);
}

/* All of them are that long, as far as a sketch knows. */
static inline void check_sketch(const struct sketch *sketch, uint64_t ns)
{
    const uint64_t least = (uint64_t)sketch_quantile(sketch, 0), most = (uint64_t)sketch_quantile(sketch, 1);
    assert_in_range(least, ns - ns / 50, ns + ns / 50);
    assert_in_range(most, ns - ns / 50, ns + ns / 50);
}

/* Every life of the story takes equally long, stage by stage. */
static inline void check_row(const struct flow_row *row, const struct flow_row *whole)
{
    if (!row)
        return;
    assert_int_equal(row->disordered, 0);
    assert_int_equal(row->worst_ns, whole->worst_ns);
    check_sketch(&row->total, whole->worst_ns);
    for (enum flow_point p = 0; p < FLOW_POINTS; p++) {
        enum flow_point next =
            whole->worst[p] == FLOW_UNKNOWN ? FLOW_POINTS : flow_next_of(row->path, whole->worst, p);
        assert_int_equal(row->stage[p].count, next < FLOW_POINTS ? row->count : 0);
        if (next < FLOW_POINTS)
            check_sketch(&row->stage[p], (uint64_t)(whole->worst[next] - whole->worst[p]));
    }
}

#endif
