/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/commands.h"
#include "protocols/protocols.h"

#include "feed.h"

enum { API = 10, SELECT = 1, STORE_PORT = 5432, OF_A_LATER_VERSION = 200 };

/* A request in whose callback that is written to a store. */
static void request_that_writes(struct feed *feed, const struct record_stream_write *write)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_name(feed, API, SELECT, "SELECT", US(1));
    feed_connection(feed, API, 7, 1, 1, 50000, STORE_PORT, US(2));
    FEED_TEXT(feed, "/a");
    FEED(feed, http_request, API, API, MS(1) + US(1), 0, .fd = 30, .generation = 1, .method = 1);
    feed_event(feed, SONDE_EVENT_stream_write, API, API, MS(1) + US(5), 0, write);
    FEED(feed, node_callback, API, API, MS(1) + US(8), US(8), .async_id = 5);
    FEED(feed, stream_io, API, API, MS(1) + US(9), US(10), .fd = 30, .generation = 1, .events = 1);
    FEED(feed, stream_io, API, API, MS(4), US(100), .fd = 7, .generation = 1, .events = 1);
}

/* What the probe can tell of a command's name is that of the first one. */
static void the_first_has_the_name_that_is_told(void **state)
{
    struct feed feed;
    request_that_writes(
        &feed,
        &(struct record_stream_write){
            .fd = 7, .generation = 1, .bytes = 60, .messages = 2, .first_message = 1, .operation = SELECT});
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a");
    const struct vspan *second = &a->spans.at[a->spans.count - 1], *first = second - 1;
    assert_int_equal(first->kind, VSPAN_command);
    assert_string_equal(first->name, "SELECT");
    assert_string_equal(second->name, "command");
    assert_int_equal(second->sequence, 2);
    assert_string_equal(layer_name(first), "redis");
    feed_done(&feed);
}

/* An answer that comes in parts: a server that is not traced says nothing of them, and the command lasts
 * until the last one. */
static void an_answer_in_parts_lasts_until_the_last(void **state)
{
    struct feed feed;
    request_that_writes(
        &feed,
        &(struct record_stream_write){
            .fd = 7, .generation = 1, .bytes = 60, .messages = 1, .first_message = 1, .operation = SELECT});
    FEED(&feed, stream_io, API, API, MS(40), US(100), .fd = 7, .generation = 1, .events = 1);
    FEED(&feed, stream_io, API, API, MS(90), US(100), .fd = 7, .generation = 1, .events = 1);
    feed_finish(&feed);
    const struct vspan *span = feed_span(feed_kept(&feed, "/a"), VSPAN_command);
    assert_int_equal(span->start_ns, MS(1) + US(5));
    assert_int_equal(span->end_ns, MS(90) - US(100));
    feed_done(&feed);
}

/* No command is shorter than the wire's shortest: more of them in so few bytes is damage. */
static void more_than_the_bytes_hold_are_none(void **state)
{
    struct feed feed;
    request_that_writes(&feed,
                        &(struct record_stream_write){
                            .fd = 7, .generation = 1, .bytes = 60, .messages = 1000000, .first_message = 1});
    feed_finish(&feed);
    const struct request *a = feed_kept(&feed, "/a");
    array_foreach (&a->spans, span)
        assert_int_not_equal(span->kind, VSPAN_command);
    feed_done(&feed);
}

/* A recording of a version that knows more stores. */
static void an_unknown_wire_is_an_exchange(void **state)
{
    struct feed feed;
    request_that_writes(&feed, &(struct record_stream_write){.fd = 7,
                                                             .generation = 1,
                                                             .bytes = 60,
                                                             .messages = 1,
                                                             .first_message = 1,
                                                             .wire = OF_A_LATER_VERSION});
    feed_finish(&feed);
    const struct vspan *span = feed_span(feed_kept(&feed, "/a"), VSPAN_other);
    assert_int_equal(span->start_ns, MS(1) + US(5));
    assert_int_equal(span->end_ns, MS(4) - US(100));
    feed_done(&feed);
}

/* Every number of the catalogue has its protocol, and one only. */
static void every_wire_has_one_protocol(void **state)
{
    for (unsigned wire = 0; wire < OF_A_LATER_VERSION; wire++) {
        unsigned count = 0;
        for (const struct protocol *const *p = PROTOCOLS; *p; p++)
            count += (*p)->command && (*p)->wire == wire;
        assert_int_equal(count, event_label(SONDE_MEANING_wire, wire) != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_has_the_name_that_is_told),
        cmocka_unit_test(an_answer_in_parts_lasts_until_the_last),
        cmocka_unit_test(more_than_the_bytes_hold_are_none),
        cmocka_unit_test(an_unknown_wire_is_an_exchange),
        cmocka_unit_test(every_wire_has_one_protocol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
