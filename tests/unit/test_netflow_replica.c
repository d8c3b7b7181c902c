/* SPDX-License-Identifier: Apache-2.0 */
#include "netflow_story.h"

static struct story story;

/* B is a replica of A; the connection and its clients. */
enum {
    SET = 2,
    WAIT,
    REPLCONF,
    PSYNC,
    PRIMARY_FD = 14,
    REPLICA_FD = 13,
    REPLICA = 9,
    OF_PRIMARY = 11,
    WRITTEN = 30
};

static void replicates(struct story *s)
{
    static const struct {
        uint32_t id;
        const char *text;
    } NAMES[] = {{SET, "set"}, {WAIT, "wait"}, {REPLCONF, "replconf"}, {PSYNC, "psync"}};
    for (uint32_t host = A; host <= B; host++)
        for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
            const struct record_probe_name name = {.id = NAMES[i].id};
            tell(s, host, SONDE_EVENT_probe_name, MS(5), 0, NAMES[i].text, &name, sizeof(name));
        }
    connects(s, A, PRIMARY_FD, 7000, B, 6000);
    connects(s, B, REPLICA_FD, 6000, A, 7000);
    TELL(s, A, redis_command, MS(6), US(3), .client_id = REPLICA, .fd = PRIMARY_FD, .name = PSYNC);
    TELL(s, A, redis_read_query, MS(6) + 1, US(4), .client_id = REPLICA, .fd = PRIMARY_FD, .bytes = 50);
}

/* B executes what ends at that place of the stream, t being when it has read it. */
static void applies(struct story *s, uint64_t t, uint32_t name, uint64_t offset, uint32_t bytes)
{
    TELL(s, B, redis_command, t + US(10), US(6), .client_id = OF_PRIMARY, .fd = REPLICA_FD, .name = name,
         .sequence = offset);
    TELL(s, B, redis_replicated, t + US(11), 0, .offset = offset, .bytes = bytes, .applied = 1);
    TELL(s, B, redis_read_query, t + US(12), US(10), .client_id = OF_PRIMARY, .fd = REPLICA_FD);
    TELL(s, B, redis_loop_phase, t + US(14), US(16), .phase = SONDE_redis_phase_process_events, .ready = 1);
}

static void set(struct story *s, uint64_t t, uint64_t number, uint64_t offset, bool arrives)
{
    TELL(s, CLIENT, stream_write, t, 0, .fd = 7, .first_message = number, .messages = 1);
    TELL(s, A, redis_replicated, t + US(60), 0, .offset = offset, .bytes = WRITTEN);
    TELL(s, A, redis_command, t + US(70), US(20), .client_id = 5, .fd = 9, .name = SET, .sequence = number);
    TELL(s, A, redis_read_query, t + US(75), US(30), .client_id = 5, .fd = 9);
    TELL(s, A, redis_loop_phase, t + US(80), US(40), .phase = SONDE_redis_phase_process_events, .ready = 1);
    TELL(s, A, redis_write_reply, t + US(90), US(5), .client_id = 5, .fd = 9, .bytes = 5);
    TELL(s, A, redis_write_reply, t + US(100), US(4), .client_id = REPLICA, .fd = PRIMARY_FD,
         .bytes = WRITTEN);
    if (arrives)
        applies(s, t + US(140), SET, offset, WRITTEN);
    TELL(s, CLIENT, stream_io, t + US(130), US(10), .fd = 7, .generation = 1, .events = 1);
}

/* A WAIT that A asks its replica for, in so many bytes behind offset. */
static void wait_for(struct story *s, uint64_t t, uint64_t number, uint64_t offset)
{
    enum { ASKED = 37 };
    TELL(s, CLIENT, stream_write, t, 0, .fd = 7, .first_message = number, .messages = 1);
    TELL(s, A, redis_block, t + US(55), 0, .client_id = 5, .fd = 9, .name = WAIT, .begins = 1);
    TELL(s, A, redis_command, t + US(60), US(10), .client_id = 5, .fd = 9, .name = WAIT, .sequence = number);
    TELL(s, A, redis_read_query, t + US(65), US(25), .client_id = 5, .fd = 9);
    TELL(s, A, redis_loop_phase, t + US(70), US(30), .phase = SONDE_redis_phase_process_events, .ready = 1);
    TELL(s, A, redis_replicated, t + US(75), 0, .offset = offset + ASKED, .bytes = ASKED);
    TELL(s, A, redis_write_reply, t + US(80), US(3), .client_id = REPLICA, .fd = PRIMARY_FD, .bytes = ASKED);
    applies(s, t + US(90), REPLCONF, offset + ASKED, ASKED);
    TELL(s, B, redis_write_reply, t + US(110), US(4), .client_id = OF_PRIMARY, .fd = REPLICA_FD, .bytes = 40);
    TELL(s, A, redis_command, t + US(130), US(3), .client_id = REPLICA, .fd = PRIMARY_FD, .name = REPLCONF);
    TELL(s, A, redis_read_query, t + US(131), US(6), .client_id = REPLICA, .fd = PRIMARY_FD, .bytes = 40);
    TELL(s, A, redis_loop_phase, t + US(132), US(10), .phase = SONDE_redis_phase_process_events, .ready = 1);
    TELL(s, A, redis_block, t + US(135), 0, .client_id = 5, .fd = 9, .name = WAIT, .begins = 0);
    TELL(s, A, redis_write_reply, t + US(140), US(3), .client_id = 5, .fd = 9, .bytes = 4);
    TELL(s, CLIENT, stream_io, t + US(160), US(10), .fd = 7, .generation = 1, .events = 1);
}

/* Whatever is behind what does not belong to the path is unknown. */
static void check_points(const struct flow_row *row, const uint64_t *us, uint64_t t)
{
    assert_non_null(row);
    assert_int_equal(row->disordered, 0);
    for (enum flow_point p = FLOW_SENT; p < FLOW_POINTS; p++)
        assert_int_equal(row->worst[p], p && !us[p] ? (uint64_t)FLOW_UNKNOWN : t + US(us[p]));
}

static void writes_and_replicas(void **state)
{
    const uint64_t t = MS(10), w = MS(12), behind = 3 * WRITTEN;
    begin(&story);
    replicates(&story);
    set(&story, t, 1, WRITTEN, true); /* in the first pass it is not known yet that B is a replica */
    set(&story, t + MS(1), 2, (uint64_t)2 * WRITTEN, true);
    set(&story, t + MS(1) + US(500), 3, behind, true);
    wait_for(&story, w, 4, behind);
    story.shift_ns[B] = -(int64_t)MS(2);
    struct netflow *first = read_story(&story, true, NULL);
    assert_true(told(&story, A, B, t + MS(1) + US(96), t + MS(1) + US(144)));
    assert_true(told(&story, A, B, w + US(77), w + US(94)));
    assert_true(told(&story, B, A, w + US(106), w + US(131)));

    struct netflow *n = read_story(&story, false, first);
    assert_int_equal(n->flows, 4);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 4);
    assert_int_equal(n->copies[FLOW_COMPLETE], 3);
    const struct flow_row *replica = row_of(n, FLOW_REPLICA), *waited = row_of(n, FLOW_WAIT);
    check_points(replica,
                 (const uint64_t[FLOW_POINTS]){0, 40, 45, 50, 60, 96, 100, 138, 144, [FLOW_ENDED] = 150},
                 replica ? (uint64_t)replica->worst[FLOW_SENT] : 0);
    assert_string_equal(replica->command, "set");
    assert_int_equal(replica->count, 3);
    assert_int_equal(replica->worst_ns, US(150));
    check_points(waited,
                 (const uint64_t[FLOW_POINTS]){
                     0, 40, 40, 50, 75, 77, 80, 88,
                     94, [FLOW_ACK_WRITE] = 106, [FLOW_ACK_READ] = 127, [FLOW_ENDED] = 135, 137, 140, 150},
                 w);
    assert_int_equal(waited->worst_ns, US(150));
    assert_string_equal(flow_node_name(waited->worst_node), flow_node_name(replica->worst_node));
    check_counts(n);
    netflow_free(n);
    netflow_free(first);
}

/* What the replica executed is known by its place alone: a write whose record is missing there is not joined
 * with another's. */
static void a_replica_with_a_gap(void **state)
{
    begin(&story);
    replicates(&story);
    for (uint64_t i = 0; i < 6; i++)
        set(&story, MS(10 + i), i + 1, (i + 1) * WRITTEN, i != 3);
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 6);
    assert_int_equal(n->copies[FLOW_COMPLETE], 5);
    assert_int_equal(n->copies[FLOW_NO_PACKET], 1);
    assert_int_equal(row_of(n, FLOW_REPLICA)->count, 5);
    assert_int_equal(row_of(n, FLOW_REPLICA)->incomplete, 1);
    assert_int_equal(row_of(n, FLOW_REPLICA)->worst_ns, US(150));
    netflow_free(n);
    netflow_free(first);
}

/* The node's record that it replicates the fourth write is lost: its replica has it all the same, and it is
 * counted. Where no event of the node was lost, it is something else. */
static void a_write_whose_record_was_lost(void **state)
{
    enum { WRITES = 6, WITHOUT = 4 };
    for (int lost = 0; lost < 2; lost++) {
        size_t kept = 0;
        begin(&story);
        replicates(&story);
        for (uint64_t i = 0; i < WRITES; i++)
            set(&story, MS(10 + i), i + 1, (i + 1) * WRITTEN, true);
        for (size_t i = 0, seen = 0; i < story.count; i++) {
            bool replicated = story.events[i].host == A && story.events[i].id == SONDE_EVENT_redis_replicated;
            if (!replicated || ++seen != WITHOUT)
                story.events[kept++] = story.events[i];
        }
        story.count = kept;
        if (lost)
            TELL(&story, A, loss, MS(20), 0, .pid = PID_A, .count = 1);
        struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
        const struct flow_row *row = row_of(n, FLOW_REPLICA);
        assert_int_equal(n->copies[FLOW_LOST], lost);
        assert_int_equal(n->copies[FLOW_COMPLETE], WRITES - 1);
        assert_int_equal(row->count, WRITES - 1);
        assert_int_equal(row->incomplete, lost);
        assert_string_equal(row->command, "set");
        assert_int_equal(row->worst_ns, US(150));
        netflow_free(n);
        netflow_free(first);
    }
}

static void a_replica_that_was_not_recorded(void **state)
{
    begin(&story);
    replicates(&story);
    set(&story, MS(10), 1, WRITTEN, true);
    story.absent[B] = true;
    struct netflow *first = read_story(&story, false, NULL), *n = read_story(&story, false, first);
    assert_int_equal(n->reasons[FLOW_COMPLETE], 1);
    assert_null(row_of(n, FLOW_REPLICA));
    assert_int_equal(n->copies[FLOW_COMPLETE], 0);
    netflow_free(n);
    netflow_free(first);
}

/* As what_is_left_is_true(). */
static void what_is_left_of_writes_is_true(void **state)
{
    enum { WRITES = 40, ROUNDS = 48 };
    static struct story whole;
    begin(&whole);
    replicates(&whole);
    set(&whole, MS(10), 1, WRITTEN, true);
    wait_for(&whole, MS(11), 2, WRITTEN);
    struct netflow *all_first = read_story(&whole, false, NULL), *all = read_story(&whole, false, all_first);
    uint64_t copies = 0, incomplete_copies = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t offset = 0;
        srand(round + 1);
        begin(&story);
        replicates(&story);
        for (uint32_t i = 0; i < WRITES; i++) {
            const uint64_t t = MS(10) + i * US(215);
            if (i % 4 == 3) {
                wait_for(&story, t, i + 1, offset);
                offset += 37;
            } else {
                set(&story, t, i + 1, offset += WRITTEN, true);
            }
        }
        lose(&story, round & 1, MS(12) + WRITES * US(215));
        struct netflow *first = read_story(&story, false, NULL);
        story.message_count = 0;
        struct netflow *again = read_as(&story, false, true, first);
        for (size_t i = 0; i < story.message_count; i++)
            assert_true(story.messages[i].sent_ns <= story.messages[i].received_ns);
        struct netflow *n = read_story(&story, false, again);
        uint64_t counted = 0;
        for (enum flow_reason reason = 0; reason < FLOW_REASONS; reason++)
            counted += n->copies[reason];
        assert_true(counted <= WRITES - WRITES / 4); /* every fourth is a WAIT */
        check_counts(n);
        array_foreach (&n->rows, place) {
            const struct flow_row *row = *place, *known = row_of(all, row->path);
            incomplete_copies += row->path == FLOW_REPLICA ? row->incomplete : 0;
            copies += row->path == FLOW_REPLICA ? row->count : 0;
            if (row->count && row->path != FLOW_REPLY && known)
                check_row(row, known);
            assert_int_equal(row->disordered, 0);
        }
        netflow_free(n);
        netflow_free(again);
        netflow_free(first);
    }
    assert_true(copies > WRITES * ROUNDS / 10 && incomplete_copies > WRITES * ROUNDS / 50);
    netflow_free(all);
    netflow_free(all_first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_replicas),
        cmocka_unit_test(a_replica_with_a_gap),
        cmocka_unit_test(a_write_whose_record_was_lost),
        cmocka_unit_test(a_replica_that_was_not_recorded),
        cmocka_unit_test(what_is_left_of_writes_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
