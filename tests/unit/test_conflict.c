/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "redis_feed.h"

enum { CLIENT = 69, FD = 74 };

/* Redis postpones a read: the client goes on the list, and the read that put it there ends. */
static void postpone(struct redis_feed *feed, uint64_t client, uint64_t at_ns)
{
    REDIS_FEED(feed, redis_pending_io, SERVER, MAIN, at_ns, 0, .client_id = client, .fd = FD, .added = 1);
    REDIS_FEED(feed, redis_read_query, SERVER, MAIN, at_ns + 50, 100, .client_id = client, .fd = FD);
}

static void read_it(struct redis_feed *feed, uint64_t client, int64_t tid, uint64_t start_ns, uint64_t end_ns)
{
    REDIS_FEED(feed, redis_read_query, SERVER, tid, end_ns, end_ns - start_ns, .client_id = client, .fd = FD);
}

static void free_it(struct redis_feed *feed, uint64_t client, int32_t fd, uint64_t at_ns)
{
    REDIS_FEED(feed, redis_free_client, SERVER, MAIN, at_ns, 0, .client_id = client, .fd = fd);
}

static const struct finding *conflict_in(const struct report *report)
{
    array_foreach (&report->findings, f)
        if ((*f)->kind == FINDING_redis_connection_conflict)
            return *f;
    return NULL;
}

static uint64_t evidence(const struct finding *f, const char *name)
{
    const struct finding_evidence *e = finding_get_evidence(f, name);
    assert_non_null(e);
    return e->count;
}

/* As stock 7.0.15 does it: twice on the list, read by two threads one after the other, freed twice. */
static void twice_on_the_list_and_freed_twice(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    postpone(&feed, CLIENT, MS(1));
    REDIS_FEED(&feed, redis_ssl_read, SERVER, IO_1, MS(2), US(10), .asked = 3649, .read = 3649, .left = 9967,
               .fd = FD);
    read_it(&feed, CLIENT, IO_1, MS(2) - US(20), MS(2) + US(5));
    postpone(&feed, CLIENT, MS(3));
    postpone(&feed, CLIENT, MS(4));
    read_it(&feed, CLIENT, IO_2, MS(5), MS(5) + US(80));
    read_it(&feed, CLIENT, IO_1, MS(6), MS(6) + US(30));
    free_it(&feed, CLIENT, FD, MS(7));
    free_it(&feed, CLIENT, -1, MS(8));
    const struct finding *f = conflict_in(redis_feed_finish(&feed));
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_CRITICAL);
    assert_int_equal(evidence(f, "client_id"), CLIENT);
    assert_int_equal(evidence(f, "first_added_ns"), MS(3));
    assert_int_equal(evidence(f, "second_added_ns"), MS(4));
    assert_int_equal(evidence(f, "added_by_thread"), MAIN);
    assert_int_equal(evidence(f, "first_thread"), IO_2);
    assert_int_equal(evidence(f, "second_thread"), IO_1);
    assert_int_equal(evidence(f, "tls_left_bytes"), 9967);
    assert_int_equal(evidence(f, "freed_ns"), MS(7));
    assert_int_equal(evidence(f, "freed_again_ns"), MS(8));
    assert_null(finding_get_evidence(f, "overlap_ns"));
    redis_feed_done(&feed);
}

static void two_threads_at_once(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    read_it(&feed, CLIENT, IO_1, MS(1), MS(2));
    read_it(&feed, CLIENT, IO_2, MS(1) + US(400), MS(2) + US(1));
    const struct finding *f = conflict_in(redis_feed_finish(&feed));
    assert_non_null(f);
    assert_int_equal(evidence(f, "first_thread"), IO_1);
    assert_int_equal(evidence(f, "second_thread"), IO_2);
    assert_int_equal(evidence(f, "overlap_ns"), US(600));
    redis_feed_done(&feed);
}

static void used_after_free_by_an_io_thread(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    read_it(&feed, CLIENT, MAIN, MS(1), MS(2));
    free_it(&feed, CLIENT, FD, MS(3));
    read_it(&feed, CLIENT, IO_1, MS(4), MS(5));
    assert_non_null(conflict_in(redis_feed_finish(&feed)));
    redis_feed_done(&feed);
}

/* A busy server comes into the same conflict again and again: that is one fault. */
static void many_of_one_fault(void **state)
{
    enum { MANY = 42, WORST = 107, OVERLAPPED = 111 };
    struct redis_feed feed;
    redis_feed_init(&feed);
    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t client = 100 + i, t = MS(10 * (i + 1));
        postpone(&feed, client, t);
        postpone(&feed, client, t + MS(1));
        read_it(&feed, client, IO_1, t + MS(2), t + MS(2) + US(30));
        read_it(&feed, client, IO_2, t + MS(2) + US(client == OVERLAPPED ? 10 : 40), t + MS(2) + US(60));
        free_it(&feed, client, FD, t + MS(3));
        if (client == WORST)
            free_it(&feed, client, -1, t + MS(4));
    }
    read_it(&feed, 500, IO_1, MS(600), MS(602)); /* another fault */
    read_it(&feed, 500, IO_2, MS(601), MS(603));
    const struct report *report = redis_feed_finish(&feed);
    assert_int_equal(report->findings.count, 2);
    const struct finding *f = report->findings.at[0], *other = report->findings.at[1];
    assert_int_equal(evidence(f, "conflicts_count"), MANY);
    assert_int_equal(evidence(f, "client_id"), WORST);
    assert_int_equal(evidence(f, "first_client_id"), 100);
    assert_int_equal(evidence(f, "used_at_once_count"), 1);
    assert_int_equal(evidence(f, "freed_twice_count"), 1);
    assert_int_equal(evidence(f, "used_after_free_count"), 0);
    assert_int_equal(f->from_ns, MS(10));
    assert_int_equal(f->to_ns, MS(10 * MANY + 3));
    assert_string_equal(f->title,
                        "redis:1 queued connections twice for its I/O threads, 42 times; worst: client 107");
    assert_non_null(strstr(f->detail, "First client 100: Thread 20 put it on the list"));
    assert_non_null(strstr(f->detail, "Worst client 107: Thread 20 put it on the list"));
    assert_non_null(strstr(
        f->detail, "42 connections in total: 1 was used by two threads at the same time, 1 was freed"));
    assert_string_equal(finding_get_evidence(f, "operation")->text, "queued twice");
    assert_string_equal(finding_get_evidence(other, "operation")->text, "read at once");
    assert_int_equal(evidence(other, "conflicts_count"), 1);
    assert_int_equal(evidence(other, "client_id"), 500);
    assert_null(finding_get_evidence(other, "first_client_id"));
    redis_feed_done(&feed);
}

/* What correct servers do: hand-overs one after the other, frees that are deferred, a cached primary that is
 * freed twice or used again. */
static void legal_sequences(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    for (uint64_t i = 1; i < 200; i++) {
        uint64_t t = MS(i);
        postpone(&feed, CLIENT, t);
        read_it(&feed, CLIENT, i % 2 ? IO_1 : IO_2, t + US(100), t + US(200));
        REDIS_FEED(&feed, redis_write_reply, SERVER, i % 3 ? IO_1 : IO_2, t + US(300), US(100),
                   .client_id = CLIENT);
    }
    read_it(&feed, 7, IO_1, MS(201), MS(202)); /* another connection at the same time */
    read_it(&feed, 8, IO_2, MS(201), MS(203));
    free_it(&feed, 9, FD, MS(210)); /* protected: freed later */
    read_it(&feed, 9, MAIN, MS(211), MS(212));
    free_it(&feed, 9, FD, MS(213));
    free_it(&feed, 10, FD, MS(214)); /* a replica's primary, cached and freed in the end */
    free_it(&feed, 10, -1, MS(215));
    assert_int_equal(redis_feed_finish(&feed)->findings.count, 0);
    redis_feed_done(&feed);
}

/* Two threads that follow each other, by counters that are read out of order on two CPUs. */
static void handed_over_at_the_same_time(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    read_it(&feed, CLIENT, MAIN, MS(1), MS(2));
    read_it(&feed, CLIENT, IO_1, MS(2) - 10, MS(3));
    read_it(&feed, CLIENT, MAIN, MS(3) - 30, MS(4));
    free_it(&feed, CLIENT, FD, MS(5));
    read_it(&feed, CLIENT, IO_1, MS(5) + 10, MS(6)); /* begun before it was freed */
    assert_null(conflict_in(redis_feed_finish(&feed)));
    redis_feed_done(&feed);
}

/* A read that was lost looks like none: with losses, two additions prove nothing. */
static void losses_prove_nothing(void **state)
{
    struct redis_feed feed;
    redis_feed_init(&feed);
    postpone(&feed, CLIENT, MS(1));
    REDIS_FEED(&feed, loss, 1, 1, MS(2), 0, .pid = SERVER, .count = 1);
    postpone(&feed, CLIENT, MS(3));
    postpone(&feed, 70, MS(4));
    postpone(&feed, 70, MS(5));
    REDIS_FEED(&feed, loss, 1, 1, MS(900), 0, .pid = SERVER, .count = 3);
    assert_null(conflict_in(redis_feed_finish(&feed)));
    assert_int_equal(redis_feed_server(&feed)->lost, 4);
    redis_feed_done(&feed);
}

/* Generated sequences: a random legal life of connections, into which one fault is planted or not. */
static unsigned play(unsigned seed, unsigned fault)
{
    enum { CLIENTS = 5, STEPS = 60 };
    struct redis_feed feed;
    uint64_t t = MS(1), client[CLIENTS];
    bool listed[CLIENTS] = {0};
    uint64_t next = 1;
    srand(seed);
    redis_feed_init(&feed);
    for (int i = 0; i < CLIENTS; i++)
        client[i] = next++;
    for (int step = 0; step < STEPS; step++) {
        int i = rand() % CLIENTS;
        int64_t tid = rand() % 2 ? IO_1 : IO_2;
        t += US(10 + rand() % 50);
        bool plant = fault && step == STEPS / 2;
        if (plant && fault == 1) {
            if (!listed[i])
                postpone(&feed, client[i], t);
            postpone(&feed, client[i], t + US(5));
            listed[i] = true;
        } else if (plant && fault == 2) {
            read_it(&feed, client[i], IO_1, t, t + US(5));
            read_it(&feed, client[i], IO_2, t + US(2), t + US(8));
            listed[i] = false;
        } else if (plant) {
            free_it(&feed, client[i], FD, t);
            read_it(&feed, client[i], tid, t + US(2), t + US(8));
            client[i] = next++;
            listed[i] = false;
        } else if (rand() % 10 == 0) {
            free_it(&feed, client[i], FD, t);
            client[i] = next++;
            listed[i] = false;
        } else if (listed[i]) {
            read_it(&feed, client[i], tid, t, t + US(5));
            listed[i] = false;
        } else {
            postpone(&feed, client[i], t);
            listed[i] = true;
        }
        t += US(10);
    }
    unsigned found = conflict_in(redis_feed_finish(&feed)) != NULL;
    redis_feed_done(&feed);
    return found;
}

static void generated_sequences(void **state)
{
    for (unsigned seed = 1; seed <= 20000; seed++) { /* half of them legal */
        unsigned fault = seed % 2 ? 0 : 1 + seed / 2 % 3;
        if (play(seed, fault) != (fault != 0))
            fail_msg("seed %u, fault %u", seed, fault);
    }
}

static void ended_by_a_signal(void **state)
{
    for (int signal = 1; signal < 16; signal++) {
        struct redis_feed feed;
        redis_feed_init(&feed);
        REDIS_FEED(&feed, process_exit, 1, 1, MS(5), 0, .pid = SERVER, .status = signal);
        const struct report *report = redis_feed_finish(&feed);
        bool told = report->findings.count && report->findings.at[0]->kind == FINDING_server_killed;
        assert_int_equal(told, signal == 4 || (signal >= 6 && signal <= 9) || signal == 11);
        redis_feed_done(&feed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_on_the_list_and_freed_twice),
        cmocka_unit_test(two_threads_at_once),
        cmocka_unit_test(used_after_free_by_an_io_thread),
        cmocka_unit_test(many_of_one_fault),
        cmocka_unit_test(legal_sequences),
        cmocka_unit_test(handed_over_at_the_same_time),
        cmocka_unit_test(losses_prove_nothing),
        cmocka_unit_test(generated_sequences),
        cmocka_unit_test(ended_by_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
