/* What clients write to PostgreSQL, MySQL and Memcached: commands that begin, and their names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_in_test.h"

#include "probe/context.h"
#include "probe/statement.h"

static struct probe_thread *thread;
static int next_handle = 1;
static const char *names[256];

uint32_t context_current(struct probe_thread *self, int fd)
{
    return 0;
}

uint32_t context_new_shared(struct probe_thread *self, uint64_t stream)
{
    return 0;
}

/* Bytes with their length, of a literal that may hold zeros. */
struct bytes {
    const char *at;
    size_t length;
};
#define BYTES(literal) ((struct bytes){literal, sizeof(literal) - 1})

/* What is told of one write of these bytes, in three buffers; names that come with it are noted. */
static struct record_stream_write send(int handle, struct bytes bytes)
{
    size_t third = bytes.length / 3;
    const struct buffer buffers[] = {
        {bytes.at, third}, {bytes.at, 0}, {bytes.at + third, bytes.length - third}};
    write_seen(thread, 3, (uint64_t)handle, buffers, 3, bytes.length, (int64_t)bytes.length, ticks());
    const void *payload;
    for (const struct sonde_record *r; (r = take_record(thread, &payload));) {
        if ((r->meta & 0xff) == SONDE_EVENT_probe_name) {
            const struct record_probe_name *name = payload;
            free((void *)(uintptr_t)names[name->id % 256]);
            names[name->id % 256] = strndup((const char *)(name + 1), name->text_length);
        }
        if ((r->meta & 0xff) == SONDE_EVENT_stream_write)
            return *(const struct record_stream_write *)payload;
    }
    fail_msg("no write was recorded");
    return (struct record_stream_write){0};
}

static void expect(int handle, struct bytes bytes, uint8_t wire, uint32_t messages, const char *name)
{
    struct record_stream_write w = send(handle, bytes);
    assert_int_equal(w.messages, messages);
    if (messages)
        assert_int_equal(w.wire, wire);
    if (name)
        assert_string_equal(w.operation ? names[w.operation % 256] : "", name);
    else
        assert_int_equal(w.operation, 0);
}

/* The same bytes, cut anywhere, begin as many commands. */
static void expect_however_cut(struct bytes first, struct bytes bytes, uint32_t messages)
{
    for (size_t cut = 1; cut < bytes.length; cut++) {
        int handle = next_handle++;
        send(handle, first);
        uint32_t count = send(handle, (struct bytes){bytes.at, cut}).messages;
        count += send(handle, (struct bytes){bytes.at + cut, bytes.length - cut}).messages;
        assert_int_equal(count, messages);
    }
}

#define PG_CONNECT "\0\0\0\x13\0\3\0\0user\0anna\0\0"
static void postgresql(void **state)
{
    enum { WIRE = SONDE_wire_postgresql };
    int c = next_handle++;
    expect(c, BYTES(PG_CONNECT), WIRE, 1, "connect");
    expect(c, BYTES("p\0\0\0\x0bsecret\0"), WIRE, 1, "authenticate");
    expect(c, BYTES("Q\0\0\0\x0dselect 1\0"), WIRE, 1, "SELECT");
    expect(c, BYTES("Q\0\0\0\x25/* trace=1 */ -- x\ninsert into t\0"), WIRE, 1, "INSERT");
    expect(c, BYTES("Q\0\0\0\x0dwhatever\0"), WIRE, 1, NULL);
    expect(c, BYTES("Q\0\0\0\x10'select 'xx\0"), WIRE, 1, NULL);
    expect(c,
           BYTES("Q\0\0\0\x0a"
                 "BEGIN\0"
                 "Q\0\0\0\x0b"
                 "COMMIT\0"),
           WIRE, 2, "BEGIN");
    expect(c,
           BYTES("P\0\0\0\x12"
                 "s1\0update t\0\0\0"),
           WIRE, 1, "UPDATE");
    expect(c, BYTES("S\0\0\0\4"), WIRE, 0, NULL);
    expect(c,
           BYTES("B\0\0\0\x0e\0s1\0\0\0\0\0\0\0"
                 "E\0\0\0\x09\0\0\0\0\0"
                 "S\0\0\0\4"),
           WIRE, 1, "EXECUTE");
    expect(c, BYTES("X\0\0\0\4"), WIRE, 0, NULL);
    expect(c, BYTES("nothing known"), WIRE, 0, NULL);
    expect(c, BYTES("Q\0\0\0\x0dselect 1\0"), WIRE, 0, NULL);
}

static void postgresql_however_cut(void **state)
{
    expect_however_cut(BYTES(PG_CONNECT),
                       BYTES("Q\0\0\0\x0dselect 1\0Q\0\0\0\x0a"
                             "BEGIN\0P\0\0\0\x12s1\0update t\0\0\0S\0\0\0\4"),
                       3);
}

/* Asked for encryption: refused, it goes on in clear; granted, nothing more is known of it. */
static void postgresql_encrypted(void **state)
{
    static const char PLEASE[] = "\0\0\0\x08\x04\xd2\x16\x2f";
    int c = next_handle++;
    expect(c, (struct bytes){PLEASE, 8}, SONDE_wire_postgresql, 0, NULL);
    expect(c, BYTES(PG_CONNECT), SONDE_wire_postgresql, 1, "connect");
    c = next_handle++;
    expect(c, (struct bytes){PLEASE, 8}, SONDE_wire_postgresql, 0, NULL);
    expect(c, BYTES("\x16\3\1\2\0\1\0\1\xfc\3\3random"), SONDE_wire_postgresql, 0, NULL);
}

#define ZEROS_19 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define MYSQL_CONNECT                                          \
    "\x26\0\0\1\x0f\xa2\x3a\0\0\0\0\1\x21" ZEROS_19 "\0\0\0\0" \
    "anna\0\0"

static void mysql(void **state)
{
    enum { WIRE = SONDE_wire_mysql };
    int c = next_handle++;
    expect(c, BYTES(MYSQL_CONNECT), WIRE, 1, "connect");
    expect(c, BYTES("\x04\0\0\3hash"), WIRE, 1, "authenticate");
    expect(c, BYTES("\x09\0\0\0\3select 1"), WIRE, 1, "SELECT");
    expect(c, BYTES("\x07\0\0\0\3COMMIT"), WIRE, 1, "COMMIT");
    expect(c, BYTES("\x01\0\0\0\x0e"), WIRE, 1, "PING");
    expect(c, BYTES("\x09\0\0\0\x16select ?"), WIRE, 1, "PREPARE");
    expect(c, BYTES("\x05\0\0\0\x17\1\0\0\0"), WIRE, 1, "EXECUTE");
    expect(c, BYTES("\x05\0\0\0\x19\1\0\0\0"), WIRE, 0, NULL); /* is not answered */
    expect(c, BYTES("\x04\0\0\2file\0\0\0\3"), WIRE, 0, NULL); /* what a LOAD DATA LOCAL has asked for */
    expect(c, BYTES("\x01\0\0\0\1"), WIRE, 0, NULL);
    expect_however_cut(BYTES(MYSQL_CONNECT), BYTES("\x09\0\0\0\3select 1\x01\0\0\0\x0e\x07\0\0\0\3COMMIT"),
                       3);
}

static void mysql_that_cannot_be_read(void **state)
{
    int c = next_handle++; /* compressed */
    expect(c,
           BYTES("\x26\0\0\1\x2f\xa2\x3a\0\0\0\0\1\x21" ZEROS_19 "\0\0\0\0"
                 "anna\0\0"),
           SONDE_wire_mysql, 0, NULL);
    expect(c, BYTES("\x09\0\0\0\3select 1"), SONDE_wire_mysql, 0, NULL);
    c = next_handle++; /* TLS follows */
    expect(c, BYTES("\x20\0\0\1\x0f\xaa\x3a\0\0\0\0\1\x21" ZEROS_19 "\0\0\0\0"), SONDE_wire_mysql, 0, NULL);
    expect(c, BYTES("\x16\3\1\2\0\1\0\1\xfc\3\3random"), SONDE_wire_mysql, 0, NULL);
}

static void memcached(void **state)
{
    enum { WIRE = SONDE_wire_memcached };
    int c = next_handle++;
    expect(c, BYTES("get a b\r\n"), WIRE, 1, "get");
    expect(c, BYTES("set a 0 60 5\r\nget a\r\n"), WIRE, 1, "set"); /* five bytes of data */
    expect(c, BYTES("set a 0 60 5\r\nhello\r\nincr n 1\r\n"), WIRE, 2, "set");
    expect(c, BYTES("delete a noreply\r\n"), WIRE, 0, NULL);
    expect(c, BYTES("ms a 2 T0\r\nhi\r\nmg a v\r\n"), WIRE, 2, "ms");
    expect(c, BYTES("mn\r\n"), WIRE, 1, "mn");
    expect(c, BYTES("nonsense\r\n"), WIRE, 0, NULL);
    expect(c, BYTES("get a\r\n"), WIRE, 0, NULL);
    expect_however_cut(BYTES("get a\r\n"),
                       BYTES("set a 0 60 5\r\nhello\r\nget a\r\ndelete a noreply\r\nmn\r\n"), 3);
}

static void memcached_binary(void **state)
{
    static const char GET[] = "\x80\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0"
                              "a";
    static const char QUIETLY[] = "\x80\x09\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0"
                                  "a";
    int c = next_handle++;
    expect(c, BYTES(GET), SONDE_wire_memcached, 1, "get");
    expect(c, BYTES(QUIETLY), SONDE_wire_memcached, 0, NULL);
    expect(c, BYTES(GET), SONDE_wire_memcached, 1, "get");
    expect_however_cut(BYTES(GET), BYTES(QUIETLY), 0);
    expect_however_cut(BYTES(GET), BYTES(GET), 1);
}

static void what_looks_like_them_is_not_taken_for_them(void **state)
{
    static const struct bytes OTHERS[] = {
        BYTES("\0\0\0\x13\0\2\0\0user\0anna\0\0"),
        BYTES("\x26\0\0\0\x0f\xa2\x3a\0\0\0\0\1\x21" ZEROS_19 "\0\0\0\0"),
        BYTES("getting\r\n"),
        BYTES("put 0 0 60 5\r\nhello\r\n"),
        BYTES("get"),
        BYTES("\x80"),
        BYTES("\0"),
        BYTES("HELO a\r\n"),
    };
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++)
        expect(next_handle++, OTHERS[i], 0, 0, NULL);
}

static int set_up(void **state)
{
    thread = make_thread(1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        free((void *)(uintptr_t)names[i]);
    free(thread);
    return 0;
}

/* ---- statements ---- */

/* What is recorded of statements in one write, "number text" each, in lines. */
static const char *statements_of(int handle, struct bytes bytes)
{
    static char list[4096];
    const struct buffer buffer = {bytes.at, bytes.length};
    list[0] = '\0';
    sonde_config.statements = 1;
    write_seen(thread, 3, (uint64_t)handle, &buffer, 1, bytes.length, (int64_t)bytes.length, ticks());
    sonde_config.statements = 0;
    const void *payload;
    for (const struct sonde_record *r; (r = take_record(thread, &payload));) {
        if ((r->meta & 0xff) == SONDE_EVENT_probe_name) {
            const struct record_probe_name *name = payload;
            free((void *)(uintptr_t)names[name->id % 256]);
            names[name->id % 256] = strndup((const char *)(name + 1), name->text_length);
        } else if ((r->meta & 0xff) == SONDE_EVENT_sql_statement) {
            const struct record_sql_statement *s = payload;
            assert_int_equal(s->fd, 3);
            size_t length = strlen(list);
            snprintf(list + length, sizeof(list) - length, "%s%llu %s", length ? "\n" : "",
                     (unsigned long long)s->number, names[s->statement % 256]);
        }
    }
    return list;
}

static void statements_of_postgresql(void **state)
{
    static const char BIND[] = "B\0\0\0\x13p\0s1\0\0\0\0\1\0\0\0\0\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\4";
    enum { HALF = 8 };
    int c = next_handle++;
    assert_string_equal(statements_of(c, BYTES(PG_CONNECT)), "");
    assert_string_equal(statements_of(c, BYTES("Q\0\0\0\x18select 'secret', 42\0")), "2 select ?");
    /* Two queries in one write. */
    assert_string_equal(statements_of(c, BYTES("Q\0\0\0\x0dselect 1\0Q\0\0\0\x0dselect a\0")),
                        "3 select ?\n4 select a");
    /* A statement that is prepared, and executed later by its name: Parse, Sync, and Bind, Execute, Sync. */
    assert_string_equal(statements_of(c, BYTES("P\0\0\0\x1cs1\0select a+$1 from t\0\0\0S\0\0\0\4")),
                        "5 select a+? from t");
    assert_string_equal(statements_of(c, BYTES(BIND)), "6 select a+? from t");
    /* Half of a name is another name. */
    assert_string_equal(statements_of(c, (struct bytes){BIND, HALF}), "");
    assert_string_equal(statements_of(c, (struct bytes){BIND + HALF, sizeof(BIND) - 1 - HALF}), "");
    /* A text that ends in another write is cut. */
    assert_string_equal(statements_of(c, BYTES("Q\0\0\0\x18select 'sec")), "8 select ?...");
    assert_string_equal(statements_of(c, BYTES("ret', 42\0")), "");
    assert_string_equal(statements_of(c, BYTES("Q\0\0\0\x0dselect 1\0")), "9 select ?");
    /* Another connection knows nothing of what this one has prepared. */
    c = next_handle++;
    statements_of(c, BYTES(PG_CONNECT));
    assert_string_equal(statements_of(c, BYTES(BIND)), "");
}

static void statements_of_mysql(void **state)
{
    int c = next_handle++;
    assert_string_equal(statements_of(c, BYTES(MYSQL_CONNECT)), "");
    assert_string_equal(statements_of(c, BYTES("\x14\0\0\0\3select \"secret\", 42")), "2 select ?");
    /* Prepared: by the number that the answer gave it, and MariaDB's for the newest. */
    assert_string_equal(statements_of(c, BYTES("\x13\0\0\0\x16select a+? from tt")), "3 select a+? from tt");
    struct descriptor *d = descriptor_get(3);
    assert_int_equal(d->queue, READS_PREPARED);
    statement_answered((uint64_t)3 << 32 | d->generation, "\x0c\0\0\1\0\7\0\0\0\1\0\2\0\0\0\0", 16);
    assert_string_equal(statements_of(c, BYTES("\x0a\0\0\0\x17\7\0\0\0\0\1\0\0\0")), "4 select a+? from tt");
    assert_string_equal(statements_of(c, BYTES("\x0a\0\0\0\x17\xff\xff\xff\xff\0\1\0\0\0")),
                        "5 select a+? from tt");
    assert_string_equal(statements_of(c, BYTES("\x0a\0\0\0\x17\6\0\0\0\0\1\0\0\0")), "");
}

/* Attributes of a query stand before its text: where there are any, nothing is recorded. */
static void statements_with_attributes(void **state)
{
    int c = next_handle++;
    char connect[] = MYSQL_CONNECT;
    connect[7] |= 0x08;
    assert_string_equal(statements_of(c, BYTES(connect)), "");
    assert_string_equal(statements_of(c, BYTES("\x0b\0\0\0\3\0\1select 1")), "2 select ?");
    assert_string_equal(statements_of(c, BYTES("\x12\0\0\0\3\1\1secret select 1")), "");
}

static void statements_are_off_by_default(void **state)
{
    int c = next_handle++;
    send(c, BYTES(PG_CONNECT));
    const struct buffer buffer = {"Q\0\0\0\x0dselect 1\0", 14};
    write_seen(thread, 3, (uint64_t)c, &buffer, 1, 14, 14, ticks());
    const void *payload;
    for (const struct sonde_record *r; (r = take_record(thread, &payload));)
        assert_int_not_equal(r->meta & 0xff, SONDE_EVENT_sql_statement);
}

static void mqtt(void **state)
{
    static const char *const NAMES[] = {"\0\4MQTT\4", "\0\6MQIsdp\3", "\0\4MQTT\5"};
    for (size_t i = 0; i < 3; i++) {
        int c = next_handle++;
        char connect[200] = {0x10, (char)0x88, 1}; /* 136 bytes follow */
        memcpy(connect + 3, NAMES[i], NAMES[i][1] + 3);
        expect(c, (struct bytes){connect, 139}, SONDE_wire_mqtt, 1, NULL);
        expect(c, BYTES("\x30\6\0\1ayes"), SONDE_wire_mqtt, 0, NULL); /* nothing answers it */
    }
    static const struct bytes NONE[] = {BYTES("\x10\xff\xff\xff\xff\1\0\4MQTT\4"),
                                        BYTES("\x10\x0c\0\5MQTT\4\2"),
                                        BYTES("\x10\x0c\0\4MQTx\4\2"),
                                        BYTES("\x10\x0c\0\4MQ"),
                                        BYTES("\x10\x80"),
                                        BYTES("\x20\x0c\0\4MQTT\4\2")};
    for (size_t i = 0; i < 6; i++)
        expect(next_handle++, NONE[i], 0, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(postgresql),
        cmocka_unit_test(postgresql_however_cut),
        cmocka_unit_test(postgresql_encrypted),
        cmocka_unit_test(mysql),
        cmocka_unit_test(mysql_that_cannot_be_read),
        cmocka_unit_test(statements_of_postgresql),
        cmocka_unit_test(statements_of_mysql),
        cmocka_unit_test(statements_with_attributes),
        cmocka_unit_test(statements_are_off_by_default),
        cmocka_unit_test(memcached),
        cmocka_unit_test(memcached_binary),
        cmocka_unit_test(mqtt),
        cmocka_unit_test(what_looks_like_them_is_not_taken_for_them),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
