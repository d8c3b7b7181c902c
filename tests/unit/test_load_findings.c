/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_feed.h"

enum { GET = 1, KEYS = 2, PUBLISH = 3, BUS_PUBLISH = 4 };

static void start(struct redis_feed *feed)
{
    redis_feed_init(feed);
    redis_feed_name(feed, GET, "get");
    redis_feed_name(feed, KEYS, "keys");
    redis_feed_name(feed, PUBLISH, "publish");
    REDIS_FEED(feed, redis_loop_phase, SERVER, MAIN, US(50), US(10), .phase = 1, .ready = 1);
}

static const struct finding *found(struct redis_feed *feed, enum finding_kind kind)
{
    const struct report *report = redis_feed_finish(feed);
    array_foreach (&report->findings, f)
        if ((*f)->kind == kind)
            return *f;
    return NULL;
}

static uint64_t count(const struct finding *f, const char *name)
{
    const struct finding_evidence *e = finding_get_evidence(f, name);
    assert_non_null(e);
    return e->count;
}

/* Iterations of 20 ms in which so many requests are read evenly; slow: one command takes half of each. */
static const struct finding *queueing(struct redis_feed *feed, unsigned requests, bool slow)
{
    start(feed);
    for (uint64_t turn = 0; turn < 20; turn++) {
        uint64_t begin_ns = MS(100) + turn * MS(30), step_ns = MS(20) / requests;
        for (unsigned n = 0; n < requests; n++) {
            uint64_t at_ns = begin_ns + n * step_ns;
            REDIS_FEED(feed, redis_read_query, SERVER, MAIN, at_ns + 100, 100, .client_id = 3 + n, .fd = 9);
            REDIS_FEED(feed, redis_command, SERVER, MAIN, at_ns + step_ns - 1, slow && !n ? MS(10) : 100,
                       .client_id = 3 + n, .fd = 9, .name = GET);
        }
        REDIS_FEED(feed, redis_loop_phase, SERVER, MAIN, begin_ns + MS(20), MS(20), .phase = 1,
                   .ready = (int32_t)requests);
    }
    return found(feed, FINDING_redis_queueing);
}

static void quick_commands_queue(void **state)
{
    struct redis_feed feed;
    const struct finding *f = queueing(&feed, 100, false);
    assert_non_null(f);
    assert_int_equal(count(f, "requests_count"), 2000);
    assert_int_equal(count(f, "mean_wait_ns") / 10000, 990); /* 0, 0.2, ... 19.8 ms */
    assert_int_equal(count(f, "longest_wait_ns"), US(19800));
    redis_feed_done(&feed);
}

static void one_slow_command_is_not_queueing(void **state)
{
    struct redis_feed feed;
    assert_null(queueing(&feed, 100, true));
    redis_feed_done(&feed);
}

static void few_requests_say_little(void **state)
{
    struct redis_feed feed;
    assert_null(queueing(&feed, 20, false));
    redis_feed_done(&feed);
}

/* A message of 93 bytes ("publish" is not one of them) to five nodes. */
static void publish(struct redis_feed *feed, unsigned messages, uint32_t envelope_bytes)
{
    start(feed);
    for (unsigned n = 0; n < messages; n++) {
        for (unsigned node = 0; node < 5; node++)
            REDIS_FEED(feed, redis_bus_send, SERVER, MAIN, MS(1) + n * US(10), US(1), .type = BUS_PUBLISH,
                       .bytes = envelope_bytes + 93);
        REDIS_FEED(feed, redis_command, SERVER, MAIN, MS(1) + n * US(10), US(5), .client_id = 3, .fd = 9,
                   .name = PUBLISH, .bytes = 100);
    }
}

static void amplification_has_two_causes(void **state)
{
    struct redis_feed feed;
    publish(&feed, 1000, 2264);
    const struct finding *f = found(&feed, FINDING_redis_publish_amplification);
    assert_non_null(f);
    assert_int_equal(count(f, "messages_count"), 1000);
    assert_int_equal(count(f, "published_bytes"), 93000);
    assert_int_equal(count(f, "bus_bytes"), 5 * 2357 * 1000);
    assert_int_equal(count(f, "envelope_bytes"), 2264);
    assert_int_equal((int)(finding_get_evidence(f, "copies")->real), 5);
    assert_int_equal((int)(finding_get_evidence(f, "amplification")->real), 126);
    redis_feed_done(&feed);
}

static void light_envelopes_are_no_finding(void **state)
{
    struct redis_feed feed;
    publish(&feed, 10000, 16); /* as Valkey sends them */
    assert_null(found(&feed, FINDING_redis_publish_amplification));
    redis_feed_done(&feed);
}

/* The bus is read for so many ms of each 100. */
static const struct finding *bus(struct redis_feed *feed, uint64_t busy_ms, int64_t client_bytes)
{
    start(feed);
    for (uint64_t n = 1; n <= 10; n++) {
        REDIS_FEED(feed, redis_bus_read, SERVER, MAIN, MS(100) * n, MS(busy_ms), .bytes = 1000);
        REDIS_FEED(feed, redis_bus_packet, SERVER, MAIN, MS(100) * n, US(1), .type = BUS_PUBLISH,
                   .bytes = 1000);
        REDIS_FEED(feed, redis_read_query, SERVER, MAIN, MS(100) * n + 100, 100, .client_id = 3, .fd = 9,
                   .bytes = client_bytes, .wire_bytes = client_bytes);
    }
    return found(feed, FINDING_redis_bus_overload);
}

static void bus_takes_the_loop(void **state)
{
    struct redis_feed feed;
    const struct finding *f = bus(&feed, 40, 100);
    assert_non_null(f);
    assert_int_equal(count(f, "bus_bytes"), 10000);
    assert_int_equal(count(f, "client_bytes"), 1000);
    assert_int_equal(count(f, "took_ns"), MS(400));
    assert_non_null(strstr(f->remedy, "SPUBLISH"));
    redis_feed_done(&feed);
    assert_null(bus(&feed, 10, 100));
    redis_feed_done(&feed);
    assert_null(bus(&feed, 40, 5000));
    redis_feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_commands_queue),           cmocka_unit_test(one_slow_command_is_not_queueing),
        cmocka_unit_test(few_requests_say_little),        cmocka_unit_test(amplification_has_two_causes),
        cmocka_unit_test(light_envelopes_are_no_finding), cmocka_unit_test(bus_takes_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
