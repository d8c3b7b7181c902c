/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/netflow_internal.h"

#include "netflow_story.h"

static struct story story;

static void stages_of_a_published_message(void **state)
{
    const uint64_t t = MS(10);
    begin(&story);
    publish(&story, t, 1, 77, true);
    story.shift_ns[B] = -(int64_t)MS(2); /* it has the message before it was sent */
    story.shift_ns[CLIENT] = (int64_t)MS(3);
    struct netflow *first = read_story(&story, true, NULL);
    assert_int_equal(story.message_count, 3);
    assert_true(told(&story, CLIENT, A, t, t + US(45)));
    assert_true(told(&story, A, CLIENT, t + US(85), t + US(120)));
    assert_true(told(&story, A, B, t + US(96), t + US(146)));

    struct netflow *n = read_story(&story, false, first);
    assert_int_equal(n->flows, 1);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 1);
    assert_int_equal(n->messages, 1);
    const struct flow_row *reply = row_of(n, FLOW_REPLY), *bus = row_of(n, FLOW_BUS);
    const uint64_t us[FLOW_POINTS] = {0,   40,  45, 50, 60, 96, 100, 140, 146, [FLOW_ENDED] = 150,
                                      162, 170, 190};
    assert_non_null(reply);
    assert_non_null(bus);
    assert_string_equal(bus->command, "publish");
    assert_int_equal(reply->worst_ns, US(120));
    assert_int_equal(bus->worst_ns, US(190));
    assert_int_equal(bus->disordered, 0);
    for (enum flow_point p = 0; p < FLOW_POINTS; p++)
        assert_int_equal(bus->worst[p],
                         p == FLOW_BLOCKED || p > FLOW_GOT ? (uint64_t)FLOW_UNKNOWN : t + US(us[p]));
    assert_int_equal(reply->worst[FLOW_ENDED], t + US(70));
    assert_int_equal(reply->worst[FLOW_WRITTEN], t + US(90));
    assert_null(row_of(n, FLOW_LOCAL));
    netflow_free(n);
    netflow_free(first);
}

static uint64_t incomplete(const struct netflow *n, enum flow_reason reason)
{
    assert_int_equal(n->flows, n->reasons[FLOW_COMPLETE] + n->reasons[reason]);
    return n->reasons[reason];
}

/* Messages that look alike: where records were lost, and that is known only later, their order proves
 * nothing. */
static void lost_records_join_nothing_wrong(void **state)
{
    begin(&story);
    publish(&story, MS(10), 1, 77, true);
    TELL(&story, B, loss, MS(11), 0, .pid = PID_B, .count = 5);
    publish(&story, MS(12), 2, 77, false);
    publish(&story, MS(13), 3, 77, true);
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 0);
    assert_int_equal(incomplete(n, FLOW_LOST), 3);
    assert_null(row_of(n, FLOW_BUS));
    check_counts(n);
    netflow_free(n);
    netflow_free(first);
}

/* Whatever is missing: nothing that is told was received before it was sent, and no life is longer or shorter
 * than it was. */
static void what_is_left_is_true(void **state)
{
    enum { MESSAGES = 40, ROUNDS = 96 };
    static struct story whole;
    begin(&whole);
    publish(&whole, MS(10), 1, 77, true);
    struct netflow *all_first = read_story(&whole, false, NULL), *all = read_story(&whole, false, all_first);
    const struct flow_row *reply = row_of(all, FLOW_REPLY), *bus = row_of(all, FLOW_BUS);
    uint64_t replies[2] = {0}, messages[2] = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint64_t gap = round & 1 ? MS(1) : US(215);
        bool of_client = round & 2, alike = round & 4;
        srand(round + 1);
        begin(&story);
        for (uint32_t i = 0; i < MESSAGES; i++)
            publish(&story, MS(10) + i * gap, i + 1, alike ? 100 + i % 5 : 100 + i, true);
        lose(&story, of_client, MS(12) + MESSAGES * gap);
        struct netflow *first = read_story(&story, false, NULL);
        assert_true(netflow_lost(first));
        story.message_count = 0;
        struct netflow *again = read_as(&story, false, true, first);
        for (size_t i = 0; i < story.message_count; i++)
            assert_true(story.messages[i].sent_ns <= story.messages[i].received_ns);
        struct netflow *n = read_story(&story, false, again);
        check_counts(n);
        check_row(row_of(n, FLOW_REPLY), reply);
        check_row(row_of(n, FLOW_BUS), bus);
        replies[of_client] += row_of(n, FLOW_REPLY) ? row_of(n, FLOW_REPLY)->count : 0;
        messages[of_client] += row_of(n, FLOW_BUS) ? row_of(n, FLOW_BUS)->count : 0;
        netflow_free(n);
        netflow_free(again);
        netflow_free(first);
    }
    /* Of a command with its message 14 records have to be there, and what a client reads is not numbered. */
    assert_true(replies[0] > MESSAGES * ROUNDS / 10 && messages[0] > MESSAGES * ROUNDS / 15 &&
                replies[1] > 0);
    netflow_free(all);
    netflow_free(all_first);
}

/* A client with two requests in flight: what there is to read when the third has been sent is the second
 * one's reply. */
static void calls_in_flight(void **state)
{
    const uint64_t t = MS(10);
    begin(&story);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t sent = i < 2 ? t + US(i) : t + US(131), done = t + US(85 + 60 * i);
        TELL(&story, CLIENT, stream_write, sent, 0, .fd = 7, .first_message = i + 1, .messages = 1);
        TELL(&story, A, redis_command, done - US(10), US(5), .client_id = 5, .fd = 9, .name = PUBLISH,
             .sequence = i + 1);
        TELL(&story, A, redis_read_query, done - US(5), US(12), .client_id = 5, .fd = 9);
        TELL(&story, A, redis_loop_phase, done - US(4), US(14), .phase = SONDE_redis_phase_process_events,
             .ready = 1);
        TELL(&story, A, redis_write_reply, done, US(2), .client_id = 5, .fd = 9);
        TELL(&story, CLIENT, stream_io, done + US(50), US(5), .fd = 7, .generation = 1, .events = 1);
    }
    struct netflow *first = read_story(&story, false, NULL);
    assert_true(told(&story, A, CLIENT, t + US(203), t + US(190))); /* that is what it seems to be */
    size_t certain = 0;
    for (size_t i = 0; i < story.message_count; i++) {
        certain += story.messages[i].certain;
        assert_true(!story.messages[i].certain || story.messages[i].sent_ns <= story.messages[i].received_ns);
    }
    assert_int_equal(certain, 3);
    /* Once the clocks are known, each reply is what was there to read after it had been written. */
    struct netflow *n = read_story(&story, false, first);
    const struct flow_row *reply = row_of(n, FLOW_REPLY);
    assert_int_equal(reply->count, 3);
    assert_int_equal(reply->disordered, 0);
    assert_int_equal(reply->worst_ns, US(189)); /* the second one's: sent at 1, there to read at 190 */
    assert_int_equal(reply->worst[FLOW_GOT], t + US(190));
    const uint64_t shortest = US(250 - 131); /* the third one's */
    assert_in_range((uint64_t)sketch_quantile(&reply->total, 0), shortest - shortest / 50, shortest + US(14));
    netflow_free(n);
    netflow_free(first);
}

/* Others tell each message apart: once there are enough of them, what comes behind a gap is joined again. */
static void joins_again_behind_a_gap(void **state)
{
    enum { MESSAGES = 24 };
    begin(&story);
    for (uint32_t i = 0; i < MESSAGES; i++)
        publish(&story, MS(10 + i), i + 1, 100 + i, i != 4);
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], MESSAGES - 1);
    assert_int_equal(incomplete(n, FLOW_NO_PACKET), 1);
    assert_int_equal(row_of(n, FLOW_BUS)->count, MESSAGES - 1);
    assert_int_equal(row_of(n, FLOW_BUS)->worst_ns, US(190));
    netflow_free(n);
    netflow_free(first);
}

static void joins_again_after_a_loss(void **state)
{
    enum { MESSAGES = 48, MISSING = 3 };
    begin(&story);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (i == MISSING)
            TELL(&story, B, loss, MS(10 + i), 0, .pid = PID_B, .count = 5);
        publish(&story, MS(10 + i), i + 1, 100 + i, i != MISSING);
    }
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], MESSAGES - 1);
    assert_int_equal(n->reasons[FLOW_NO_PACKET] + n->reasons[FLOW_LOST], 1);
    assert_int_equal(row_of(n, FLOW_BUS)->worst_ns, US(190));
    netflow_free(n);
    netflow_free(first);
}

static void a_node_that_was_not_recorded(void **state)
{
    begin(&story);
    publish(&story, MS(10), 1, 77, true);
    story.absent[B] = true;
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(incomplete(n, FLOW_NO_NODE), 1);
    netflow_free(n);
    netflow_free(first);
}

static void a_client_that_was_not_recorded(void **state)
{
    begin(&story);
    publish(&story, MS(10), 1, 77, true);
    story.absent[CLIENT] = true;
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 1);
    const struct flow_row *bus = row_of(n, FLOW_BUS);
    assert_int_equal(bus->from_traced, 0);
    assert_int_equal(bus->worst_ns, US(130)); /* from the node's waking up to the message's last byte */
    netflow_free(n);
    netflow_free(first);
}

/* As long as nothing was seen of a client, few of its commands are kept; once it is known, all of them are.
 */
static void commands_of_a_client_that_may_be_unrecorded(void **state)
{
    enum { COMMANDS = 12, KEPT = 3 };
    for (int absent = 0; absent < 2; absent++) {
        begin(&story);
        for (uint32_t i = 0; i < COMMANDS; i++)
            publish(&story, MS(10 + i), i + 1, 100 + i, true);
        story.absent[CLIENT] = absent;
        story.absent[B] = true;
        struct netflow *n;
        assert_int_equal(netflow_new(message, &story, NULL, NULL, &n), 0);
        n->unknown_max = KEPT;
        read_into(n, &story, false);
        assert_int_equal(n->reasons[FLOW_TOO_MANY], absent ? COMMANDS - KEPT : 0);
        assert_int_equal(n->unknown_count, 0);
        assert_int_equal(n->open_count, 0);
        netflow_free(n);
    }
}

/* What a connection remembers. */
static size_t kept(const struct netflow *n)
{
    size_t most = 0;
    map_foreach (&n->pairs, slot) {
        const struct flow_pair *pair = (const struct flow_pair *)(uintptr_t)slot->value;
        for (const struct flow_end *end = pair->ends; end < pair->ends + 2; end++) {
            const size_t of[] = {end->calls.list.capacity,      end->readable.list.capacity,
                                 end->flows.list.capacity,      end->sent.list.capacity,
                                 end->deliveries.list.capacity, end->arrived.list.capacity};
            for (size_t i = 0; i < ARRAY_SIZE(of); i++)
                most = MAX(most, of[i]);
        }
    }
    return most;
}

/* There are tens of thousands of connections: what is over must not take memory until they end. */
static void what_is_over_is_forgotten(void **state)
{
    enum { COMMANDS = 3000, KEPT = 16 };
    struct netflow *first = NULL, *n;
    for (int second = 0; second < 2; second++) {
        assert_int_equal(netflow_new(NULL, NULL, NULL, second ? first : NULL, &n), 0);
        begin(&story);
        for (uint32_t i = 0; i < COMMANDS; i++) {
            publish(&story, MS(10 + i), i + 1, 100 + i, true);
            read_on(n, &story, false);
            story.count = 0;
            assert_in_range(kept(n), 0, KEPT);
        }
        read_into(n, &story, false);
        assert_int_equal(n->reasons[FLOW_COMPLETE], COMMANDS);
        assert_int_equal(n->pairs.count, 0);
        assert_int_equal(n->known.count, 3);
        first = second ? first : n;
    }
    netflow_free(n);
    netflow_free(first);
}

/* A client that asks a server which is not recorded. */
static void calls_that_nobody_executes(void **state)
{
    enum { CALLS = 5000, KEPT = 3 * FLOW_UNSEEN_MAX };
    struct netflow *n;
    assert_int_equal(netflow_new(NULL, NULL, NULL, NULL, &n), 0);
    begin(&story);
    story.absent[A] = story.absent[B] = true;
    for (uint32_t i = 0; i < CALLS; i++) {
        publish(&story, MS(10 + i), i + 1, 100 + i, true);
        read_on(n, &story, false);
        story.count = 0;
    }
    assert_in_range(kept(n), 1, KEPT);
    read_into(n, &story, false);
    assert_int_equal(n->flows, 0);
    netflow_free(n);
}

/* Two commands in one write, answered by one read. */
static void a_pipeline(void **state)
{
    const uint64_t t = MS(10);
    begin(&story);
    TELL(&story, CLIENT, stream_write, t, 0, .fd = 7, .first_message = 1, .messages = 2);
    TELL(&story, A, redis_command, t + US(60), US(5), .client_id = 5, .fd = 9, .name = PUBLISH,
         .sequence = 1);
    TELL(&story, A, redis_command, t + US(70), US(10), .client_id = 5, .fd = 9, .name = PUBLISH,
         .sequence = 2);
    TELL(&story, A, redis_read_query, t + US(70), US(20), .client_id = 5, .fd = 9);
    TELL(&story, A, redis_loop_phase, t + US(71), US(31), .phase = SONDE_redis_phase_process_events,
         .ready = 1);
    TELL(&story, A, redis_write_reply, t + US(90), US(5), .client_id = 5, .fd = 9);
    TELL(&story, CLIENT, stream_io, t + US(130), US(10), .fd = 7, .generation = 1, .events = 1);
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    const struct flow_row *reply = row_of(n, FLOW_REPLY);
    assert_int_equal(reply->count, 2);
    assert_int_equal(reply->from_traced, 2);
    assert_int_equal(reply->worst_ns, US(120));
    assert_int_equal(story.message_count, 2); /* sent to A; which reply came when is not certain */
    netflow_free(n);
    netflow_free(first);
}

/* By a clock that runs fast by 10 ppm, whose times are stretched and whose durations are not. */
static void a_message_at_the_beginning_of_a_long_command(void **state)
{
    const uint64_t t = MS(10), fast_ns = MS(50) / 100000;
    begin(&story);
    TELL(&story, CLIENT, stream_write, t, 0, .fd = 7, .first_message = 1, .messages = 1);
    TELL(&story, A, redis_message, t + US(60) + 100, 0, .client_id = 6, .fd = 20);
    TELL(&story, A, redis_command, t + US(60) + MS(50) + fast_ns, MS(50), .client_id = 5, .fd = 9,
         .name = PUBLISH, .sequence = 1);
    TELL(&story, A, redis_read_query, t + US(120) + MS(50), US(90) + MS(50), .client_id = 5, .fd = 9);
    TELL(&story, A, redis_loop_phase, t + US(130) + MS(50), US(110) + MS(50),
         .phase = SONDE_redis_phase_process_events, .ready = 1);
    TELL(&story, A, redis_write_reply, t + US(140) + MS(50), US(5), .client_id = 6, .fd = 20);
    TELL(&story, A, redis_write_reply, t + US(150) + MS(50), US(5), .client_id = 5, .fd = 9);
    TELL(&story, CLIENT, stream_io, t + US(200) + MS(50), US(10), .fd = 7, .generation = 1, .events = 1);
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 1);
    assert_non_null(row_of(n, FLOW_LOCAL));
    assert_int_equal(row_of(n, FLOW_LOCAL)->count, 1);
    netflow_free(n);
    netflow_free(first);
}

/* How long its client was blocked is a stage of its own, as in WAIT and BLPOP. */
static void a_blocked_command(void **state)
{
    const uint64_t t = MS(10), woken = t + MS(50);
    begin(&story);
    TELL(&story, CLIENT, stream_write, t, 0, .fd = 7, .first_message = 1, .messages = 1);
    TELL(&story, A, redis_block, t + US(64), 0, .client_id = 5, .fd = 9, .name = PUBLISH, .begins = 1);
    TELL(&story, A, redis_command, t + US(65), US(10), .client_id = 5, .fd = 9, .name = PUBLISH,
         .sequence = 1);
    TELL(&story, A, redis_read_query, t + US(75), US(30), .client_id = 5, .fd = 9);
    TELL(&story, A, redis_loop_phase, t + US(80), US(40), .phase = SONDE_redis_phase_process_events,
         .ready = 1);
    TELL(&story, A, redis_block, woken, 0, .client_id = 5, .fd = 9, .name = PUBLISH, .begins = 0);
    TELL(&story, A, redis_write_reply, woken + US(20), US(5), .client_id = 5, .fd = 9);
    TELL(&story, CLIENT, stream_io, woken + US(60), US(10), .fd = 7, .generation = 1, .events = 1);
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    const struct flow_row *reply = row_of(n, FLOW_REPLY);
    assert_non_null(reply);
    assert_int_equal(reply->stage[FLOW_STARTED].count, 1);
    assert_int_equal(reply->stage[FLOW_BLOCKED].count, 1);
    assert_int_equal(reply->worst[FLOW_BLOCKED], t + US(65));
    assert_int_equal(reply->worst[FLOW_ENDED], woken);
    assert_int_equal(flow_next_of(FLOW_REPLY, reply->worst, FLOW_BLOCKED), FLOW_ENDED);
    assert_string_equal(flow_stage_name(FLOW_REPLY, FLOW_BLOCKED), "blocked");
    assert_int_equal(reply->disordered, 0);
    netflow_free(n);
    netflow_free(first);
}

static void an_answer_that_sends_to_another_node(void **state)
{
    const uint64_t t = MS(10);
    begin(&story);
    TELL(&story, CLIENT, stream_write, t, 0, .fd = 7, .first_message = 1, .messages = 1);
    TELL(&story, A, redis_answered, t + US(60), 0, .client_id = 5, .fd = 9, .name = PUBLISH, .sequence = 1,
         .answer = SONDE_redis_answer_moved);
    TELL(&story, A, redis_read_query, t + US(75), US(30), .client_id = 5, .fd = 9);
    TELL(&story, A, redis_loop_phase, t + US(80), US(40), .phase = SONDE_redis_phase_process_events,
         .ready = 1);
    TELL(&story, A, redis_write_reply, t + US(95), US(5), .client_id = 5, .fd = 9);
    TELL(&story, CLIENT, stream_io, t + US(130), US(10), .fd = 7, .generation = 1, .events = 1);
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 1);
    assert_null(row_of(n, FLOW_REPLY));
    assert_int_equal(row_of(n, FLOW_REDIRECT)->count, 1);
    assert_int_equal(row_of(n, FLOW_REDIRECT)->worst_ns, US(120));
    netflow_free(n);
    netflow_free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_of_a_published_message),
        cmocka_unit_test(lost_records_join_nothing_wrong),
        cmocka_unit_test(what_is_left_is_true),
        cmocka_unit_test(calls_in_flight),
        cmocka_unit_test(joins_again_behind_a_gap),
        cmocka_unit_test(joins_again_after_a_loss),
        cmocka_unit_test(a_node_that_was_not_recorded),
        cmocka_unit_test(a_client_that_was_not_recorded),
        cmocka_unit_test(commands_of_a_client_that_may_be_unrecorded),
        cmocka_unit_test(what_is_over_is_forgotten),
        cmocka_unit_test(calls_that_nobody_executes),
        cmocka_unit_test(a_pipeline),
        cmocka_unit_test(a_message_at_the_beginning_of_a_long_command),
        cmocka_unit_test(a_blocked_command),
        cmocka_unit_test(an_answer_that_sends_to_another_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
