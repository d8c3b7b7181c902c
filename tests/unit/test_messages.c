/* Messages that go through a broker: who sent what a consumer takes, and why it waited. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feed_services.h"

enum { SENDS = 12, TAKES = 13, IDLE = 14, FIRST = 30, REQUESTS = 6, QUEUE = 1, BROKER = 5672 };

static void message(struct feed *feed, int64_t pid, int32_t fd, uint8_t step, uint64_t identity,
                    uint64_t number, uint32_t context, uint64_t at)
{
    FEED(feed, queue_message, pid, pid, at, 0, .identity = identity, .number = number, .bytes = 20,
         .generation = 1, .fd = fd, .queue = QUEUE, .context = context, .wire = SONDE_wire_amqp,
         .step = step);
}

static void takes(struct feed *feed, int32_t fd, uint64_t identity, uint64_t number, uint32_t context,
                  uint64_t at)
{
    message(feed, STOCK, fd, SONDE_queue_step_taken, identity, number, context, at);
    end_turn(feed, STOCK, fd, at - US(20), at + US(50));
}

static void begin_with_queue(struct feed *feed)
{
    start(feed);
    feed_connection(feed, API, SENDS, 1, 4, 50002, BROKER, US(3));
    feed_connection(feed, STOCK, TAKES, 1, 5, 50003, BROKER, US(3));
    feed_connection(feed, STOCK, IDLE, 1, 6, 50004, BROKER, US(3));
    feed_name(feed, API, QUEUE, "orders", US(4));
    feed_name(feed, STOCK, QUEUE, "orders", US(4));
}

/* A request sends a message, which was taken before this was written down when early. */
static void asks(struct feed *feed, int i, uint64_t at, bool early)
{
    uint32_t context = 50 + (uint32_t)i;
    FEED_TEXT(feed, "/order");
    FEED(feed, http_request, API, API, at, 0, .fd = FIRST + i, .generation = 1, .method = 1,
         .context = context);
    if (early)
        message(feed, STOCK, TAKES, SONDE_queue_step_taken, 1000 + (uint64_t)i, 1 + (uint64_t)i, 70,
                at + US(5));
    message(feed, API, SENDS, SONDE_queue_step_sent, 1000 + (uint64_t)i, 0, context, at + US(10));
    end_turn(feed, API, FIRST + i, at - US(50), at + US(20));
    if (early)
        end_turn(feed, STOCK, TAKES, at, at + US(100));
}

/* The message is dealt with, and the request that waited for its answer is answered. */
static void deals_with(struct feed *feed, int i, uint64_t at)
{
    message(feed, STOCK, TAKES, SONDE_queue_step_settled, 0, 1 + (uint64_t)i, 0, at);
    end_turn(feed, STOCK, TAKES, at - US(20), at + US(20));
    answer(feed, API, FIRST + i, at + US(300));
    end_turn(feed, API, SENDS, at + US(250), at + US(400));
}

/* Six requests at once; a consumer that takes a message at a time and needs 100 ms for it. */
static uint64_t gap_ns = MS(0); /* between a message that is dealt with and the next */

static const struct report *orders(struct feed *feed, bool other_idle)
{
    begin_with_queue(feed);
    if (other_idle) {
        takes(feed, IDLE, 1, 900, 80, MS(1));
        message(feed, STOCK, IDLE, SONDE_queue_step_settled, 0, 900, 0, MS(2));
    }
    takes(feed, TAKES, 2, 901, 81, MS(3)); /* of somebody who is not traced */
    message(feed, STOCK, TAKES, SONDE_queue_step_settled, 0, 901, 0, MS(4));
    for (int i = 0; i < REQUESTS; i++)
        asks(feed, i, MS(100) + US(200) * (uint64_t)i, false);
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t at = MS(102) + (MS(100) + gap_ns) * (uint64_t)i;
        takes(feed, TAKES, 1000 + (uint64_t)i, 1 + (uint64_t)i, 60 + (uint32_t)i, at);
        deals_with(feed, i, at + MS(99));
    }
    return feed_finish(feed);
}

static void messages_wait_for_a_busy_consumer(void **state)
{
    struct feed feed;
    (void)orders(&feed, false);
    const struct finding *f = feed_finding(&feed, FINDING_consumers_busy);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_string_equal(finding_get_evidence(f, "queue")->text, "orders");
    assert_string_equal(finding_get_evidence(f, "peer")->text, "127.0.0.1:5672");
    assert_int_equal(finding_get_evidence(f, "consumers_count")->count, 1);
    assert_int_equal(finding_get_evidence(f, "waits_count")->count, REQUESTS - 1);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, MS(1490), MS(1510));
    assert_in_range(finding_get_evidence(f, "delay_ns")->count, MS(1490), MS(1510));
    assert_null(strstr(f->detail, "with the broker"));
    array_foreach (&f->affected, victim)
        assert_string_equal(victim->route, "/order");
    assert_null(feed_finding(&feed, FINDING_unexplained_wait));
    const struct request *request = feed_kept(&feed, "/order");
    const struct vspan *span = request ? feed_span(request, VSPAN_http) : NULL;
    assert_non_null(span);
    assert_string_equal(span->name, "message to orders");
    assert_non_null(span->child);
    assert_string_equal(span->child->service, "stock");
    feed_done(&feed);
}

/* The broker hands the next one out 40 ms after the one before was acknowledged. */
static void what_the_broker_needs_is_said_besides(void **state)
{
    struct feed feed;
    gap_ns = MS(40);
    (void)orders(&feed, false);
    gap_ns = 0;
    const struct finding *f = feed_finding(&feed, FINDING_consumers_busy);
    assert_non_null(f);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, MS(1480), MS(1510));
    assert_in_range(finding_get_evidence(f, "left_ns")->count, MS(590), MS(620));
    assert_non_null(strstr(f->detail, "with the broker or on their way"));
    feed_done(&feed);
}

/* Another one could have taken them: why they waited is not known. */
static void an_idle_consumer_acquits_the_busy_one(void **state)
{
    struct feed feed;
    (void)orders(&feed, true);
    assert_null(feed_finding(&feed, FINDING_consumers_busy));
    feed_done(&feed);
}

static void taken_before_its_sending_was_written_down(void **state)
{
    struct feed feed;
    begin_with_queue(&feed);
    asks(&feed, 0, MS(100), true);
    deals_with(&feed, 0, MS(120));
    (void)feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/order");
    const struct vspan *span = request ? feed_span(request, VSPAN_http) : NULL;
    assert_non_null(span);
    assert_non_null(span->child);
    assert_in_range(span->end_ns - span->start_ns, MS(19), MS(21));
    feed_done(&feed);
}

/* What the consumer sends back is taken before it acknowledges. */
static void the_answer_comes_before_the_acknowledgement(void **state)
{
    struct feed feed;
    begin_with_queue(&feed);
    asks(&feed, 0, MS(100), false);
    takes(&feed, TAKES, 1000, 1, 0, MS(102));
    message(&feed, STOCK, IDLE, SONDE_queue_step_sent, 2000, 0, 0, MS(300));
    end_turn(&feed, STOCK, IDLE, MS(299), MS(301));
    message(&feed, API, SENDS, SONDE_queue_step_taken, 2000, 2, 0, MS(302));
    answer(&feed, API, FIRST, MS(303));
    end_turn(&feed, API, SENDS, MS(302) - US(50), MS(304));
    message(&feed, STOCK, TAKES, SONDE_queue_step_settled, 0, 1, 0, MS(320));
    end_turn(&feed, STOCK, TAKES, MS(320) - US(20), MS(321));
    (void)feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/order");
    const struct vspan *span = request ? feed_span(request, VSPAN_http) : NULL;
    assert_non_null(span);
    assert_in_range(span->end_ns - span->start_ns, MS(201), MS(203));
    assert_null(feed_finding(&feed, FINDING_unexplained_wait));
    feed_done(&feed);
}

/* Nobody waits for a message that is dealt with after the answer. */
static void what_is_not_waited_for_takes_no_time(void **state)
{
    struct feed feed;
    begin_with_queue(&feed);
    asks(&feed, 0, MS(100), false);
    answer(&feed, API, FIRST, MS(101));
    end_turn(&feed, API, SENDS, MS(101) - US(10), MS(101) + US(10));
    takes(&feed, TAKES, 1000, 1, 60, MS(300));
    message(&feed, STOCK, TAKES, SONDE_queue_step_settled, 0, 1, 0, MS(400));
    end_turn(&feed, STOCK, TAKES, MS(400) - US(20), MS(400) + US(20));
    (void)feed_finish(&feed);
    const struct request *request = feed_kept(&feed, "/order"), *job = feed_kept(&feed, "orders");
    assert_non_null(request);
    assert_in_range(request->end_ns - request->start_ns, MS(1) - US(100), MS(1) + US(100));
    assert_non_null(job);
    assert_in_range(job->end_ns - job->start_ns, MS(100), MS(101));
    assert_null(feed_finding(&feed, FINDING_consumers_busy));
    feed_done(&feed);
}

/* ---- jobs, which a worker does two of at a time ---- */

static void begins(struct feed *feed, int i, uint64_t at)
{
    message(feed, STOCK, TAKES, SONDE_queue_step_begun, 1000 + (uint64_t)i, 1 + (uint64_t)i, 0, at);
    end_turn(feed, STOCK, TAKES, at - US(20), at + US(50));
}

static void ends(struct feed *feed, int i, uint64_t at)
{
    FEED(feed, queue_message, STOCK, STOCK, at, 0, .number = 1 + (uint64_t)i, .generation = 1, .fd = TAKES,
         .queue = QUEUE, .wire = SONDE_wire_resp, .step = SONDE_queue_step_settled);
    end_turn(feed, STOCK, TAKES, at - US(20), at + US(20));
    answer(feed, API, FIRST + i, at + US(300));
    end_turn(feed, API, SENDS, at + US(250), at + US(400));
}

/* Six jobs that take 100 ms each, the first two of which are begun at once; late: the others wait for
 * something else, as the worker has at most one. */
static const struct report *work(struct feed *feed, bool late)
{
    begin_with_queue(feed);
    for (int i = 0; i < REQUESTS; i++)
        asks(feed, i, MS(100) + US(200) * (uint64_t)i, false);
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t at = late ? MS(102) + MS(300) * (uint64_t)i
                           : MS(102) + MS(100) * (uint64_t)(i / 2) + MS(2) * (uint64_t)(i % 2);
        if (late && i)
            ends(feed, i - 1, at - MS(200));
        else if (i >= 2)
            ends(feed, i - 2, at - MS(1));
        begins(feed, i, at);
    }
    for (int i = late ? REQUESTS - 1 : REQUESTS - 2; i < REQUESTS; i++)
        ends(feed, i, MS(late ? 1702 : 402) + MS(2) * (uint64_t)i);
    return feed_finish(feed);
}

static void jobs_wait_for_a_place(void **state)
{
    struct feed feed;
    (void)work(&feed, false);
    const struct finding *f = feed_finding(&feed, FINDING_consumers_busy);
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_int_equal(finding_get_evidence(f, "places_count")->count, 2);
    assert_int_equal(finding_get_evidence(f, "consumers_count")->count, 1);
    assert_non_null(strstr(f->title, "2 places of stock"));
    assert_non_null(finding_get_evidence(f, "held_by"));
    /* The third and fourth waited 100 ms, the others 200, but those before the first was over. */
    assert_in_range(finding_get_evidence(f, "waits_count")->count, 3, 4);
    assert_in_range(finding_get_evidence(f, "waited_ns")->count, MS(490), MS(610));
    array_foreach (&f->affected, victim)
        assert_string_equal(victim->route, "/order");
    feed_done(&feed);
}

static void a_worker_with_a_free_place_is_not_waited_for(void **state)
{
    struct feed feed;
    (void)work(&feed, true);
    assert_null(feed_finding(&feed, FINDING_consumers_busy));
    feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_wait_for_a_busy_consumer),
        cmocka_unit_test(what_the_broker_needs_is_said_besides),
        cmocka_unit_test(jobs_wait_for_a_place),
        cmocka_unit_test(a_worker_with_a_free_place_is_not_waited_for),
        cmocka_unit_test(an_idle_consumer_acquits_the_busy_one),
        cmocka_unit_test(taken_before_its_sending_was_written_down),
        cmocka_unit_test(the_answer_comes_before_the_acknowledgement),
        cmocka_unit_test(what_is_not_waited_for_takes_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
