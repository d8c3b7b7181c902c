/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

enum { API = 10, BEGIN = 1, UPDATE, COMMIT, POSTGRESQL = 1, POOLED = 7 };

static void received(struct feed *feed, int32_t fd, uint32_t context, const char *path, uint64_t at_ns)
{
    FEED_TEXT(feed, path);
    FEED(feed, http_request, API, API, at_ns, 0, .fd = fd, .generation = 1, .method = 1, .context = context);
}

static void sent(struct feed *feed, uint32_t operation, uint32_t context, uint64_t at_ns)
{
    FEED(feed, stream_write, API, API, at_ns, 0, .fd = POOLED, .generation = 1, .bytes = 30, .messages = 1,
         .wire = POSTGRESQL, .operation = operation, .context = context);
}

static void end_turn(struct feed *feed, int32_t fd, uint64_t start_ns, uint64_t end_ns)
{
    FEED(feed, node_callback, API, API, end_ns - US(1), end_ns - US(2) - start_ns, .async_id = 400);
    FEED(feed, stream_io, API, API, end_ns, end_ns - start_ns, .fd = fd, .generation = 1, .events = 1);
}

/* Requests 2 and 3 are being served. Request 2 begins a transaction, and an UPDATE without an owner follows.
 * Then the statement `between` is sent with the number `other` (0: none is sent), and the transaction is
 * ended with the number `ending`. */
static void transaction(struct feed *feed, uint32_t between, uint32_t other, uint32_t ending)
{
    feed_init(feed);
    feed_process(feed, API, 1, "api", US(1));
    feed_name(feed, API, BEGIN, "BEGIN", US(1));
    feed_name(feed, API, UPDATE, "UPDATE", US(1));
    feed_name(feed, API, COMMIT, "COMMIT", US(1));
    feed_connection(feed, API, POOLED, 1, 1, 50000, 5432, US(2));
    received(feed, 31, 3, "/other", MS(1));
    end_turn(feed, 31, MS(1) - US(5), MS(1) + US(5));
    received(feed, 30, 2, "/own", MS(2));
    sent(feed, BEGIN, 2, MS(2) + US(1));
    end_turn(feed, 30, MS(2) - US(5), MS(2) + US(9));
    sent(feed, UPDATE, SONDE_CONTEXT_LOST, MS(3));
    end_turn(feed, POOLED, MS(3) - US(5), MS(3) + US(9));
    if (other)
        sent(feed, between, other, MS(90));
    end_turn(feed, POOLED, MS(90) - US(5), MS(90) + US(9));
    sent(feed, UPDATE, SONDE_CONTEXT_LOST, MS(91));
    FEED(feed, node_callback, API, API, MS(91) + US(5), US(6), .async_id = 9);
    FEED(feed, uv_phase, API, API, MS(91) + US(6), US(8), .phase = 1);
    sent(feed, COMMIT, ending, MS(95));
    end_turn(feed, POOLED, MS(95) - US(5), MS(95) + US(9));
    end_turn(feed, POOLED, MS(97), MS(98));
    feed_finish(feed);
}

static const struct vspan *update_of(struct feed *feed, const char *path, unsigned which)
{
    array_foreach (&feed_kept(feed, path)->spans, span)
        if (span->name && strcmp(span->name, "UPDATE") == 0 && !which--)
            return span;
    return NULL;
}

static void a_transaction_is_whose_it_was_begun_and_ended(void **state)
{
    struct feed feed;
    transaction(&feed, 0, 0, 2);
    const struct vspan *first = update_of(&feed, "/own", 0), *second = update_of(&feed, "/own", 1);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal(first->known, KNOWN_INFERRED);
    assert_int_equal(first->start_ns, MS(3));
    assert_int_equal(first->end_ns, MS(90) - US(5));
    assert_int_equal(second->known, KNOWN_INFERRED);
    assert_int_equal(second->start_ns, MS(91));
    assert_int_equal(second->end_ns, MS(95) - US(5));
    assert_null(update_of(&feed, "/other", 0));
    assert_int_equal(analysis_counts(feed.analysis)->ambiguous, 0);
    feed_done(&feed);
}

static void with_what_may_be_anothers_in_it_nothing_is_concluded(void **state)
{
    const struct {
        uint32_t between, other, ending;
    } CASES[] = {{UPDATE, 3, 2}, {0, 0, 3}, {COMMIT, SONDE_CONTEXT_LOST, 2}, {0, SONDE_CONTEXT_LOST, 2}};
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        struct feed feed;
        transaction(&feed, CASES[i].between, CASES[i].other, CASES[i].ending);
        assert_null(update_of(&feed, "/own", 0));
        assert_in_range(analysis_counts(feed.analysis)->ambiguous, 2, 3);
        feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transaction_is_whose_it_was_begun_and_ended),
        cmocka_unit_test(with_what_may_be_anothers_in_it_nothing_is_concluded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
