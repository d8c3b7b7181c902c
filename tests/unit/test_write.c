/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_in_test.h"

#include <unistd.h>

#include "probe/context.h"

static struct probe_thread *thread;
static int next_handle = 1;

static uint32_t context_now;
static int asked_for;

uint32_t context_current(struct probe_thread *self, int fd)
{
    asked_for = fd;
    return context_now;
}

uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    return 0;
}

/* Writes the text in pieces of `step` bytes over two buffers each, as a new connection's. */
static int new_connection(void)
{
    return next_handle++;
}

static void send_text(int handle, const char *text, size_t length)
{
    const struct buffer buffers[] = {
        {text, length / 3}, {text + length / 3, 0}, {text + length / 3, length - length / 3}};
    write_seen(thread, 3, (uint64_t)handle, buffers, 3, length, (int64_t)length, ticks());
}

static const struct record_stream_write *sent(int handle, const char *text)
{
    send_text(handle, text, strlen(text));
    return expect_record(thread, SONDE_EVENT_stream_write);
}

static void commands_are_counted(void **state)
{
    int c = new_connection();
    const struct record_stream_write *w = sent(c, "*2\r\n$3\r\nGET\r\n$3\r\n*1\r\r\n");
    assert_int_equal(w->messages, 1);
    assert_int_equal(w->first_message, 1);
    w = sent(c, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n");
    assert_int_equal(w->messages, 2);
    assert_int_equal(w->first_message, 2);
    /* begun here, ended there */
    w = sent(c, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$10\r\n012");
    assert_int_equal(w->messages, 1);
    assert_int_equal(w->first_message, 4);
    w = sent(c, "3456789\r\n*1\r\n$4\r\nPING\r\n");
    assert_int_equal(w->messages, 1);
    assert_int_equal(w->first_message, 5);
}

/* Any cut of a pipeline gives the same count. */
static void commands_are_counted_however_cut(void **state)
{
    static const char PIPELINE[] =
        "*3\r\n$3\r\nSET\r\n$5\r\nhello\r\n$13\r\n*3\r\n$1\r\nxxx\r\n\r\n*1\r\n$4\r\nPING\r\n"
        "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n";
    size_t length = sizeof(PIPELINE) - 1;
    for (size_t cut = 4; cut < length; cut++) {
        int c = new_connection();
        send_text(c, PIPELINE, cut);
        uint32_t count =
            ((const struct record_stream_write *)expect_record(thread, SONDE_EVENT_stream_write))->messages;
        send_text(c, PIPELINE + cut, length - cut);
        count +=
            ((const struct record_stream_write *)expect_record(thread, SONDE_EVENT_stream_write))->messages;
        assert_int_equal(count, 3);
    }
}

/* What is sent for a request carries its context; a response needs none, and nobody is asked. */
static void what_is_sent_has_a_context(void **state)
{
    context_now = 77;
    int c = new_connection();
    assert_int_equal(sent(c, "*1\r\n$4\r\nPING\r\n")->context, 77);
    assert_int_equal(asked_for, 3);
    static const char GET[] = "GET / HTTP/1.1\r\n\r\n";
    send_text(new_connection(), GET, 0);
    expect_record(thread, SONDE_EVENT_stream_write);
    const struct buffer one = {GET, sizeof(GET) - 1};
    write_seen(thread, 3, (uint64_t)new_connection(), &one, 1, one.length, (int64_t)one.length, ticks());
    assert_int_equal(
        ((const struct record_http_request *)expect_record(thread, SONDE_EVENT_http_request))->context, 77);
    expect_record(thread, SONDE_EVENT_stream_write);
    asked_for = -1;
    static const char ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const struct buffer answer = {ANSWER, sizeof(ANSWER) - 1};
    write_seen(thread, 3, (uint64_t)new_connection(), &answer, 1, answer.length, (int64_t)answer.length,
               ticks());
    expect_record(thread, SONDE_EVENT_http_response);
    assert_int_equal(
        ((const struct record_stream_write *)expect_record(thread, SONDE_EVENT_stream_write))->context, 0);
    assert_int_equal(asked_for, -1);
    context_now = 0;
}

/* After something that is not RESP the number of a command cannot be proved: none is given. */
static void an_inline_command_ends_the_numbering(void **state)
{
    int c = new_connection();
    assert_int_equal(sent(c, "*1\r\n$4\r\nPING\r\n")->first_message, 1);
    assert_int_equal(sent(c, "PING\r\n")->first_message, 0);
    assert_int_equal(sent(c, "*1\r\n$4\r\nPING\r\n")->first_message, 0);
}

static void responses_are_recognised(void **state)
{
    int c = new_connection();
    static const char TEXT[] =
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\ncontent-LENGTH: 12\r\n\r\nhello, world";
    const struct buffer one = {TEXT, sizeof(TEXT) - 1};
    write_seen(thread, 3, (uint64_t)c, &one, 1, one.length, (int64_t)one.length, ticks());
    const struct record_http_response *r = expect_record(thread, SONDE_EVENT_http_response);
    assert_int_equal(r->status, 404);
    assert_int_equal(r->content_length, 12);
    assert_int_equal(r->header_bytes, sizeof(TEXT) - 1 - 12);
    assert_int_equal(r->side, 0);

    static const char CHUNKED[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const struct buffer parts[] = {{CHUNKED, sizeof(CHUNKED) - 1}, {"5\r\nhello\r\n", 10}};
    write_seen(thread, 3, (uint64_t)c, parts, 2, sizeof(CHUNKED) - 1 + 10, 0, ticks());
    r = expect_record(thread, SONDE_EVENT_http_response);
    assert_int_equal(r->content_length, -1);
    assert_int_equal(
        ((const struct record_stream_write *)expect_record(thread, SONDE_EVENT_stream_write))->last_chunk, 0);
    const struct buffer end[] = {{"0\r\n", 3}, {"\r\n", 2}};
    write_seen(thread, 3, (uint64_t)c, end, 2, 5, 5, ticks());
    assert_int_equal(
        ((const struct record_stream_write *)expect_record(thread, SONDE_EVENT_stream_write))->last_chunk, 1);
}

static void requests_leave_their_query_behind(void **state)
{
    int c = new_connection();
    static const char TEXT[] = "POST /pay/42?card=4111 HTTP/1.1\r\nHost: x\r\n\r\n";
    const struct buffer one = {TEXT, sizeof(TEXT) - 1};
    write_seen(thread, 3, (uint64_t)c, &one, 1, one.length, (int64_t)one.length, ticks());
    const struct record_http_request *r = expect_record(thread, SONDE_EVENT_http_request);
    assert_int_equal(r->method, 3);
    assert_int_equal(r->side, 1);
    assert_int_equal(r->path_length, strlen("/pay/42"));
    assert_memory_equal(r + 1, "/pay/42", r->path_length);
    /* nothing of the query anywhere in the ring */
    for (uint32_t i = 0; i + 4 <= thread->shared.ring_mask; i++)
        assert_memory_not_equal((const char *)thread->shared.ring + i, "4111", 4);
}

static void a_reused_descriptor_is_a_new_generation(void **state)
{
    int a = new_connection(), b = new_connection();
    uint32_t first = sent(a, "*1\r\n$4\r\nPING\r\n")->generation;
    const struct record_stream_write *w = sent(b, "*1\r\n$4\r\nPING\r\n");
    assert_int_equal(w->generation, first + 1);
    assert_int_equal(w->first_message, 1);
}

/* The connection at descriptor 3 is older than sonde. */
static int older_connection(void)
{
    const void *payload;
    while (take_record(thread, &payload))
        ;
    assert_int_equal(dup2(0, 3), 3);
    descriptors_begin_midway(4);
    return new_connection();
}

/* Of a connection that is older than sonde: a PING alone tells nothing, a message does. */
static void a_broker_is_recognised_in_the_middle(void **state)
{
    int c = older_connection();
    const struct record_stream_write *w = sent(c, "PING\r\n");
    assert_int_equal(w->messages, 0);
    static const char MESSAGE[] = "PUB prices.list 5\r\nhello\r\n";
    const struct buffer buffers[] = {{MESSAGE, 0}, {MESSAGE, sizeof(MESSAGE) - 1}};
    write_seen(thread, 3, (uint64_t)c, buffers, 2, sizeof(MESSAGE) - 1, 0, ticks());
    const struct record_queue_message *m = expect_record(thread, SONDE_EVENT_queue_message);
    assert_int_equal(m->step, SONDE_queue_step_sent);
    assert_int_equal(m->bytes, 5);
    w = expect_record(thread, SONDE_EVENT_stream_write);
    assert_int_equal(w->wire, SONDE_wire_nats);
    assert_int_equal(w->messages, 1);
    assert_int_equal(w->first_message, 0);
    /* A newer one is recognised by its first bytes only. */
    w = sent(new_connection(), MESSAGE);
    assert_int_equal(w->messages, 0);
    close(3);
}

/* Commands that stand at the beginning of a write are followed wherever the connection is. */
static void redis_is_followed_in_the_middle(void **state)
{
    int c = older_connection();
    const struct record_stream_write *w = sent(c, "*1\r\n$4\r\nPING\r\n");
    assert_int_equal(w->messages, 1);
    assert_int_equal(w->first_message, 0);
    assert_int_equal(descriptors[3].queue, 0);
    close(3);
}

/* Random bytes never crash it and never read past a buffer (the sanitizers watch). */
static void random_bytes(void **state)
{
    srand(7);
    for (int i = 0; i < 20000; i++) {
        size_t n = (size_t)rand() % 80;
        char *bytes = malloc(n + 1);
        assert_non_null(bytes);
        static const char ALPHABET[] = "*$\r\n0123456789HTTP/1. GETPOST :contentlength-";
        for (size_t k = 0; k < n; k++)
            bytes[k] = ALPHABET[(size_t)rand() % (sizeof(ALPHABET) - 1)];
        struct buffer one = {realloc(bytes, n ? n : 1), n};
        const void *payload;
        write_seen(thread, 3, (uint64_t)(i / 50 + 100000), &one, 1, n, (int64_t)n, ticks());
        while (take_record(thread, &payload))
            ;
        free((void *)(uintptr_t)one.base);
    }
    assert_int_equal(thread->shared.lost_full, 0);
}

static void full_rings_drop_and_count(void **state)
{
    struct probe_thread *small = make_thread(4096);
    for (int i = 0; i < 1000; i++)
        RECORD(small, redis_bus_read, 0, (uint64_t)i, .fd = i);
    assert_int_equal(small->shared.written + small->shared.lost_full, 1000);
    assert_true(small->shared.lost_full > 0);
    assert_int_equal(small->shared.busy, 0);
    const void *payload;
    int expected = 0;
    while (take_record(small, &payload))
        assert_int_equal(((const struct record_redis_bus_read *)payload)->fd, expected++);
    assert_int_equal((uint64_t)expected, small->shared.written);
    /* room again */
    RECORD(small, redis_bus_read, 0, 1, .fd = 4711);
    assert_non_null(take_record(small, &payload));
    free(small);
    probe_self.thread = thread;
}

static void a_signal_handler_cannot_tear_a_record(void **state)
{
    uint64_t end;
    const void *payload;
    while (take_record(thread, &payload))
        ;
    assert_non_null(record_begin(thread, 8, 0, &end)); /* interrupted here */
    uint64_t written = thread->shared.written;
    RECORD(thread, redis_bus_read, 0, 1, .fd = 1); /* the handler's */
    assert_int_equal(thread->shared.written, written);
    assert_int_equal(thread->shared.lost_signal, 1);
    record_commit(thread, thread->shared.head); /* nothing of ours either */
}

static const struct record_node_async_init *taken_init(const struct sonde_record **ret_record)
{
    const void *payload = NULL;
    *ret_record = take_record(thread, &payload);
    assert_non_null(*ret_record);
    assert_int_equal((*ret_record)->meta & 0xff, SONDE_EVENT_node_async_init);
    return payload;
}

static void a_record_that_is_held_back_has_the_time_of_the_next(void **state)
{
    const struct sonde_record *record;
    const void *payload;
    while (take_record(thread, &payload))
        ;
    uint64_t written = thread->shared.written, lost = thread->shared.lost_signal;
    record_short_later(thread, SONDE_SHORT_node_async_init, short_resource_word(5, 4), 3);
    assert_null(take_record(thread, &payload));
    RECORD(thread, redis_bus_read, 0, 1234, .fd = 1); /* a signal handler's too */
    const struct record_node_async_init *init = taken_init(&record);
    assert_int_equal(record->end_tsc, 1234);
    assert_int_equal(init->async_id, 5);
    assert_int_equal(init->trigger_id, 4);
    assert_int_equal(init->type, 3);
    assert_int_equal(
        ((const struct record_redis_bus_read *)expect_record(thread, SONDE_EVENT_redis_bus_read))->fd, 1);
    /* Or that of whoever knows the time. */
    record_short_later(thread, SONDE_SHORT_node_async_init, short_resource_word(6, 0), 0);
    record_release(thread, 2345);
    assert_int_equal(taken_init(&record)->async_id, 6);
    assert_int_equal(record->end_tsc, 2345);
    assert_null(take_record(thread, &payload));
    assert_int_equal(thread->shared.written, written + 3);
    assert_int_equal(thread->shared.lost_signal, lost);
    assert_int_equal(thread->shared.busy, 0);
}

/* At every place of a small ring, and where its end is too near. */
static void records_are_held_back_anywhere(void **state)
{
    struct probe_thread *outer = thread;
    const struct sonde_record *record;
    const void *payload;
    thread = make_thread(1 << 12);
    for (uint64_t i = 1; i < 2000; i++) {
        record_short_later(thread, SONDE_SHORT_node_async_init, short_resource_word(i, 0), 0);
        RECORD(thread, redis_bus_read, 0, i, .fd = (int)i);
        assert_int_equal(taken_init(&record)->async_id, i);
        assert_int_equal(record->end_tsc, i);
        assert_non_null(take_record(thread, &payload));
        assert_null(take_record(thread, &payload));
        for (uint64_t k = 0; k < i % 3; k++)
            RECORD(thread, redis_bus_read, 0, i, .fd = 1);
        while (take_record(thread, &payload))
            ;
    }
    assert_int_equal(thread->shared.lost_full, 0);
    free(thread);
    thread = outer;
    probe_self.thread = outer;
}

static int set_up(void **state)
{
    thread = make_thread(1 << 16);
    return 0;
}

static int tear_down(void **state)
{
    free(thread);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_counted),
        cmocka_unit_test(commands_are_counted_however_cut),
        cmocka_unit_test(what_is_sent_has_a_context),
        cmocka_unit_test(an_inline_command_ends_the_numbering),
        cmocka_unit_test(responses_are_recognised),
        cmocka_unit_test(requests_leave_their_query_behind),
        cmocka_unit_test(a_reused_descriptor_is_a_new_generation),
        cmocka_unit_test(a_broker_is_recognised_in_the_middle),
        cmocka_unit_test(redis_is_followed_in_the_middle),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(full_rings_drop_and_count),
        cmocka_unit_test(a_signal_handler_cannot_tear_a_record),
        cmocka_unit_test(a_record_that_is_held_back_has_the_time_of_the_next),
        cmocka_unit_test(records_are_held_back_anywhere),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
