/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { CLIENT = 10, SERVER = 20, PORT = 7000 };

static struct connection *at(struct feed *feed, int64_t pid, int32_t fd, uint32_t generation)
{
    return connection_get(process_get(feed->analysis, pid), fd, generation);
}

static void ends_meet_whoever_is_first(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_connection(&feed, CLIENT, 5, 1, 1, 50000, PORT, US(1));
    feed_connection(&feed, SERVER, 9, 1, 2, PORT, 50000, US(2));
    feed_connection(&feed, SERVER, 10, 1, 3, PORT, 50001, US(3));
    feed_connection(&feed, CLIENT, 6, 1, 4, 50001, PORT, US(4));
    assert_ptr_equal(at(&feed, CLIENT, 5, 1)->mirror, at(&feed, SERVER, 9, 1));
    assert_ptr_equal(at(&feed, SERVER, 10, 1)->mirror, at(&feed, CLIENT, 6, 1));
    assert_string_equal(at(&feed, CLIENT, 5, 1)->peer_name, "127.0.0.1:7000");
    feed_done(&feed);
}

/* The same ports again, while the old ends are still known: each generation meets its own. */
static void ports_are_used_again(void **state)
{
    struct feed feed;
    feed_init(&feed);
    for (uint32_t g = 1; g <= 3; g++) {
        feed_connection(&feed, CLIENT, 5, g, g, 50000, PORT, US(g * 10));
        feed_connection(&feed, SERVER, 9, g, g, PORT, 50000, US(g * 10 + 1));
        assert_ptr_equal(at(&feed, CLIENT, 5, g)->mirror, at(&feed, SERVER, 9, g));
        FEED(&feed, stream_close, CLIENT, CLIENT, US(g * 10 + 2), 0, .fd = 5, .generation = g);
        FEED(&feed, stream_close, SERVER, SERVER, US(g * 10 + 3), 0, .fd = 9, .generation = g);
    }
    feed_done(&feed);
}

/* Told before the connection is established, then again with the peer's address. */
static void address_may_come_later(void **state)
{
    struct feed feed;
    feed_init(&feed);
    feed_connection(&feed, CLIENT, 5, 1, 1, 50000, 0, US(1));
    feed_connection(&feed, SERVER, 9, 1, 2, PORT, 50000, US(2));
    assert_null(at(&feed, CLIENT, 5, 1)->mirror);
    feed_connection(&feed, CLIENT, 5, 1, 1, 50000, PORT, US(3));
    assert_ptr_equal(at(&feed, SERVER, 9, 1)->mirror, at(&feed, CLIENT, 5, 1));
    feed_done(&feed);
}

static void closed_ones_are_forgotten_in_the_end(void **state)
{
    struct feed feed;
    feed_init(&feed);
    for (uint32_t g = 1; g <= 6000; g++) {
        feed_connection(&feed, CLIENT, 5, g, g, (uint16_t)(40000 + g), PORT, US(g * 10));
        FEED(&feed, stream_close, CLIENT, CLIENT, US(g * 10 + 2), 0, .fd = 5, .generation = g);
    }
    assert_true(process_get(feed.analysis, CLIENT)->connections.count <= 4096);
    assert_null(at(&feed, CLIENT, 5, 1));
    assert_non_null(at(&feed, CLIENT, 5, 6000));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_meet_whoever_is_first),
        cmocka_unit_test(ports_are_used_again),
        cmocka_unit_test(address_may_come_later),
        cmocka_unit_test(closed_ones_are_forgotten_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
