/* Connections to brokers that are joined in the middle. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_in_test.h"

#include "probe/context.h"
#include "probe/delivery.h"

#include "broker_bytes.h"

static struct probe_thread *thread;
static const char LONG[10000] = "a long text";

uint32_t context_current(struct probe_thread *self, int fd)
{
    return 0;
}

uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    return 0;
}

/* Of which wire what was put is proved to be. */
static int wire_of(bool out)
{
    char *copy = malloc(length ? length : 1); /* of its size, so that a byte beyond it is noticed */
    memcpy(copy, bytes, length);
    struct descriptor d = {0};
    int wire = queue_midway_wire(&d, out, &(struct buffer){copy, length}, 1, length);
    free(copy);
    return wire;
}

static void whole_frames_of_amqp_are_proof(void **state)
{
    publish(1, "", "orders", "one", 3);
    assert_int_equal(wire_of(true), SONDE_wire_amqp);
    size_t whole = length, first = 8 + (size_t)bytes[6], second = first + 8 + (size_t)bytes[first + 6];
    for (length = 0; length < whole; length++)
        assert_int_equal(wire_of(true), length == first || length == second ? SONDE_wire_amqp : -1);
    publish(1, "", "orders", LONG, sizeof(LONG));
    length -= 100;
    assert_int_equal(wire_of(true), SONDE_wire_amqp);
    length = 0;
    deliver(3, 1, "", "orders", "one", 3);
    assert_int_equal(wire_of(false), SONDE_wire_amqp);
    bytes[length - 1] = 0;
    assert_int_equal(wire_of(false), -1);
    length = 0;
    settle(3, 80, 1, 0);
    assert_int_equal(wire_of(true), SONDE_wire_amqp);
    PUT("x");
    assert_int_equal(wire_of(true), -1);
    length = 0;
    content(1, "application/json", "one", 3, 3); /* of a method that was not seen */
    assert_int_equal(wire_of(true), -1);
    length = 0;
    frame(1, 1);
    PUT("a text of another protocol");
    frame_end();
    assert_int_equal(wire_of(true), -1);
    length = 0;
}

static void whole_messages_of_nats_are_proof(void **state)
{
    static const struct {
        const char *text;
        int out, in;
    } TEXTS[] = {
        {"PUB prices.list _INBOX.ab.1 5\r\nhel\nl\r\n", SONDE_wire_nats, -1},
        {"PONG\r\nHPUB prices 24 29\r\nNATS/1.0\r\nA: 1234567\r\n\r\nhello\r\n", SONDE_wire_nats, -1},
        {"MSG prices.list 9 5\r\nhello\r\nPING\r\n", -1, SONDE_wire_nats},
        {"SUB _INBOX.ab.* 1\r\nPUB prices 5\r\nhello\r\n", SONDE_wire_nats, -1},
        {"SUB _INBOX.ab.* 1\r\n", -1, -1},
        {"PING\r\n", -1, -1},
        {"PUB prices 5\r\nhell", -1, -1},
        {"PUB prices 4\r\nhello\r\n", -1, -1},
        {"PUB prices\r\nhello\r\n", -1, -1},
        {"MSG a 1 1\r\na\r\nMSG a 1 1\r\na\r\nMSG a 1 9\r\na", -1, -1},
        {"MSG a 1 1\r\na\r\nMSG a 1 1\r\na\r\nMSG a 1 1\r\na\r\nMSG a 1 9\r\na", -1, SONDE_wire_nats},
        {"PUBLISH 5\r\nhello\r\n", -1, -1}};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        put(TEXTS[i].text, strlen(TEXTS[i].text));
        assert_int_equal(wire_of(true), TEXTS[i].out);
        assert_int_equal(wire_of(false), TEXTS[i].in);
        length = 0;
    }
}

/* A connection to a broker, at descriptor 3, that was there before sonde. */
static struct descriptor *older(void)
{
    descriptors[3] = (struct descriptor){
        .key = 1, .generation = descriptors[3].generation + 1, .unnumbered = 1, .queue = READS_MIDWAY};
    return &descriptors[3];
}

static bool reads(struct descriptor *d)
{
    thread->queue_pending = 0;
    const struct buffer buffer = {bytes, length};
    bool looks = queue_midway(thread, 3, d, false, &buffer, 1, length);
    if (looks)
        queue_read(thread, d, bytes, length);
    length = 0;
    return looks;
}

static void writes(struct descriptor *d)
{
    const struct buffer buffer = {bytes, length};
    queue_written(thread, 3, d, &buffer, 1, length, ticks());
    length = 0;
}

static void a_connection_is_joined_in_the_middle(void **state)
{
    struct descriptor *d = older();
    PUT("the rest of a message that began before \xce");
    assert_false(reads(d));
    deliver(1, 7, "", "orders", "one", 3);
    size_t cut = length;
    deliver(1, 8, "", "orders", "two", 3);
    size_t all = length;
    length = cut;
    assert_true(reads(d));
    assert_int_equal(d->protocol, PROTOCOL_COMMANDS);
    assert_int_equal(d->commands.wire, SONDE_wire_amqp);
    assert_int_equal(thread->queue_pending, 1);
    assert_int_equal(thread->queue_taken[0].step, SONDE_queue_step_taken);
    for (size_t at = cut; at < all; at += 10) { /* as it is cut from now on */
        queue_read(thread, d, bytes + at, all - at < 10 ? all - at : 10);
        assert_int_equal(thread->queue_pending, at + 10 >= all);
    }
    PUT("the rest of what was written before");
    writes(d);
    settle(1, 80, 7, 0);
    writes(d);
    assert_int_equal(
        ((const struct record_queue_message *)expect_record(thread, SONDE_EVENT_queue_message))->step,
        SONDE_queue_step_settled);

    d = older();
    PUT("MSG prices.list 9 _INBOX.ab.1 5\r\nhello\r\n");
    assert_true(reads(d));
    assert_int_equal(d->commands.wire, SONDE_wire_nats);
    assert_int_equal(thread->queue_pending, 1);
    PUT("PUB _INBOX.ab.1 2\r\nok\r\n");
    writes(d);
    assert_int_equal(
        ((const struct record_queue_message *)expect_record(thread, SONDE_EVENT_queue_message))->step,
        SONDE_queue_step_settled);
}

/* That a message of it was dealt with could not be seen. */
static void what_is_written_to_a_broker_by_tls_ends_it(void **state)
{
    struct descriptor *d = older();
    PUT("MSG prices.list 9 5\r\nhello\r\n");
    assert_true(reads(d));
    PUT("\x17\3\3\0\x20");
    writes(d);
    PUT("MSG prices.list 9 5\r\nhello\r\n");
    queue_read(thread, d, bytes, length);
    length = 0;
    assert_int_equal(thread->queue_pending, 0);
}

static void other_connections_are_not_looked_at_for_ever(void **state)
{
    struct descriptor *d = older();
    for (int i = 0; i < 1000; i++) {
        PUT("D\0\0\0\x0e\0\1\0\0\0\4abcd");
        assert_false(reads(d));
    }
    assert_int_equal(d->queue, 0);
    d = older();
    d->protocol = PROTOCOL_HTTP_SERVER;
    PUT("PUB a 1\r\na\r\n");
    assert_false(reads(d));
    assert_int_equal(d->queue, 0);
    d = older();
    d->protocol = PROTOCOL_WEBSOCKET;
    assert_true(queue_midway(thread, 3, d, false, &(struct buffer){bytes, 0}, 1, 0));
    assert_int_equal(d->queue, 0);
}

/* As its clients write it: byte by byte almost. */
static enum queue_packets packets_of(size_t cut)
{
    struct buffer buffers[64] = {{0}};
    unsigned count = 0;
    for (size_t at = 0; at < length; at += cut) {
        size_t here = cut < length - at ? cut : length - at;
        char *copy = malloc(here); /* a byte beyond it is noticed */
        memcpy(copy, bytes + at, here);
        buffers[count++] = (struct buffer){copy, here};
    }
    enum queue_packets packets = queue_packets_mqtt(buffers, count, length);
    for (unsigned i = 0; i < count; i++)
        free((void *)(uintptr_t)buffers[i].base);
    return packets;
}

static void packets_of_mqtt_are_told_from_others(void **state)
{
    MQTT(0x40, "\0\7");
    MQTT(0xc0, "");
    assert_int_equal(packets_of(length), PACKETS_OTHER);
    MQTT(0x32, "\0\6orders\0\7{\"id\":2}");
    size_t whole = length;
    for (size_t cut = 1; cut <= whole; cut++)
        assert_int_equal(packets_of(cut), PACKETS_MESSAGE);
    for (length = 1; length < whole; length++)
        assert_int_equal(packets_of(length), length == 4 || length == 6 ? PACKETS_OTHER : PACKETS_NONE);
    static const struct {
        const char *bytes;
        size_t n;
    } OTHERS[] = {{"\x17\3\3\0\4abcd", 9}, {"\x30\5\2\1\1\x60\0", 7}, {"\x36\5\0\3a/b", 7},
                  {"\x30\4\0\2a+", 6},     {"\x41\2\0\7", 4},         {"\xc0\1x", 3},
                  {"\x10\6\0\4MQTT", 8},   {"\x30\1\0", 3},           {"\x30\xff\xff\xff\xff\1", 6}};
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(*OTHERS); i++) {
        length = 0;
        put(OTHERS[i].bytes, OTHERS[i].n);
        assert_int_equal(packets_of(length), PACKETS_NONE);
    }
    length = 0;
}

/* The first two prove nothing yet. */
static void several_packets_of_mqtt_are_proof(void **state)
{
    struct descriptor *d = older();
    MQTT(0xd0, "");
    assert_false(reads(d));
    MQTT(0x30, "\0\6orders{\"id\":1}");
    assert_false(reads(d));
    PUT("\0something else");
    assert_false(reads(d));
    for (int i = 0; i < 3; i++) {
        MQTT(0xd0, "");
        assert_false(reads(d));
    }
    MQTT(0x30, "\0\6orders{\"id\":1}");
    assert_true(reads(d));
    assert_int_equal(d->commands.wire, SONDE_wire_mqtt);
    assert_int_equal(thread->queue_pending, 1);
    MQTT(0x30, "\0\7answers{\"id\":1}");
    writes(d);
    const struct record_queue_message *m = expect_record(thread, SONDE_EVENT_queue_message);
    assert_int_equal(m->step, SONDE_queue_step_sent);
    assert_int_equal(m->bytes, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_frames_of_amqp_are_proof),
        cmocka_unit_test(whole_messages_of_nats_are_proof),
        cmocka_unit_test(a_connection_is_joined_in_the_middle),
        cmocka_unit_test(what_is_written_to_a_broker_by_tls_ends_it),
        cmocka_unit_test(other_connections_are_not_looked_at_for_ever),
        cmocka_unit_test(packets_of_mqtt_are_told_from_others),
        cmocka_unit_test(several_packets_of_mqtt_are_proof),
    };
    thread = make_thread(1 << 16);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(thread);
    return failed;
}
