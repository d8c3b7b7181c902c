/* SPDX-License-Identifier: Apache-2.0 */
#include "redis_feed.h"

enum { BLPOP = 1, RPUSH = 2, WAITING = 7, PUSHING = 8 };

static void start(struct redis_feed *feed)
{
    redis_feed_init(feed);
    redis_feed_name(feed, BLPOP, "blpop");
    redis_feed_name(feed, RPUSH, "rpush");
}

static void command(struct redis_feed *feed, uint64_t client, uint32_t name, uint64_t end_ns)
{
    REDIS_FEED(feed, redis_command, SERVER, MAIN, end_ns, US(5), .client_id = client, .fd = (int32_t)client,
               .name = name);
}

static void block(struct redis_feed *feed, uint64_t at_ns, uint8_t begins)
{
    REDIS_FEED(feed, redis_block, SERVER, MAIN, at_ns, 0, .client_id = WAITING, .fd = WAITING, .name = BLPOP,
               .begins = begins);
}

static void phase(struct redis_feed *feed, uint64_t end_ns, uint8_t which)
{
    REDIS_FEED(feed, redis_loop_phase, SERVER, MAIN, end_ns, US(20), .phase = which, .ready = 1);
}

static void expect(struct redis_feed *feed, uint64_t calls, uint64_t executions)
{
    redis_feed_finish(feed);
    const struct redis_server *server = redis_feed_server(feed);
    array_foreach (&server->commands, c)
        if (strcmp((*c)->name, "blpop") == 0) {
            assert_int_equal((*c)->calls, calls);
            assert_int_equal((*c)->time_ns, executions * US(5));
            assert_int_equal((*c)->blocked.count, 1);
        }
    redis_feed_done(feed);
}

static void blocks(struct redis_feed *feed)
{
    start(feed);
    block(feed, MS(1) - US(1), 1);
    command(feed, WAITING, BLPOP, MS(1));
    phase(feed, MS(1) + US(2), 2);
}

/* Redis 7.2 and Valkey execute it again at once when somebody pushes: one call. */
static void again_is_one_call(void **state)
{
    struct redis_feed feed;
    blocks(&feed);
    command(&feed, PUSHING, RPUSH, MS(2));
    block(&feed, MS(2) + US(1), 0);
    command(&feed, WAITING, BLPOP, MS(2) + US(10));
    expect(&feed, 1, 2);
}

/* Redis 7.0 answers; a second one that the client has sent is executed later. */
static void pipelined_is_another_call(void **state)
{
    struct redis_feed feed;
    blocks(&feed);
    command(&feed, PUSHING, RPUSH, MS(2));
    block(&feed, MS(2) + US(1), 0);
    phase(&feed, MS(2) + US(5), 2);
    command(&feed, WAITING, BLPOP, MS(2) + US(15));
    expect(&feed, 2, 2);
}

static void read_in_between_is_another_call(void **state)
{
    struct redis_feed feed;
    blocks(&feed);
    command(&feed, PUSHING, RPUSH, MS(2));
    block(&feed, MS(2) + US(1), 0);
    REDIS_FEED(&feed, redis_read_query, SERVER, MAIN, MS(2) + US(5), US(1), .client_id = WAITING,
               .fd = WAITING, .bytes = 30);
    command(&feed, WAITING, BLPOP, MS(2) + US(15));
    expect(&feed, 2, 2);
}

/* Nobody's command woke it: what follows was sent behind it. */
static void after_its_time_is_another_call(void **state)
{
    struct redis_feed feed;
    blocks(&feed);
    block(&feed, MS(9), 0);
    command(&feed, WAITING, BLPOP, MS(9) + US(10));
    expect(&feed, 2, 2);
}

/* What a client takes of a large reply after it has sent another command is no reply to that one. */
static void the_rest_of_a_reply_is_no_other_commands(void **state)
{
    struct redis_feed feed;
    start(&feed);
    for (uint64_t n = 0; n < 3; n++) {
        uint64_t t = MS(10 + 10 * n);
        command(&feed, WAITING, BLPOP, t);
        REDIS_FEED(&feed, redis_write_reply, SERVER, MAIN, t + US(100), US(50), .client_id = WAITING,
                   .bytes = 65536);
        command(&feed, WAITING, RPUSH, t + US(200));
        for (unsigned part = 1; part < 20; part++)
            REDIS_FEED(&feed, redis_write_reply, SERVER, MAIN, t + US(200 + 100 * part), US(50),
                       .client_id = WAITING, .bytes = 65536, .waited = 1);
    }
    redis_feed_finish(&feed);
    array_foreach (&redis_feed_server(&feed)->commands, place) {
        const struct redis_command *c = *place;
        assert_int_equal(c->largest_reply_bytes, strcmp(c->name, "blpop") == 0 ? 20 * 65536 : 0);
        assert_int_equal(c->reply_bytes, strcmp(c->name, "blpop") == 0 ? 3 * 20 * 65536 : 0);
    }
    redis_feed_done(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(again_is_one_call),
        cmocka_unit_test(pipelined_is_another_call),
        cmocka_unit_test(read_in_between_is_another_call),
        cmocka_unit_test(after_its_time_is_another_call),
        cmocka_unit_test(the_rest_of_a_reply_is_no_other_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
