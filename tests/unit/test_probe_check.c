/* SPDX-License-Identifier: Apache-2.0 */
#include "targets/redis/probe.h"

#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "probe_in_test.h"

/* Objects like Redis', with the checks' view of them. */
struct command {
    uint64_t flags;
    const char *name;
};
struct db {
    char other[20];
    int id;
};
struct client;
struct connection {
    struct client *client;
    int fd;
    char rest[128];
};
struct client {
    uint64_t id;
    uint64_t garbage; /* looks like a pointer and is none */
    struct connection *connection;
    struct db *db;
    struct command *command;
    const char *query_buffer;
    int count;
    uint64_t bytes;
    char rest[128];
};

static char sds[] = "\x18get"; /* type 0, length 3 */
static struct db db = {.id = 3};
static struct command get = {.flags = 2, .name = sds + 1};
static struct connection connection;
static struct client client;

static int set_up(void **state)
{
    static int fd = -1;
    if (fd < 0)
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
    client = (struct client){.id = 9,
                             .garbage = 0x4141414141414141,
                             .connection = &connection,
                             .db = &db,
                             .command = &get,
                             .query_buffer = sds + 1,
                             .count = 2,
                             .bytes = 10};
    connection = (struct connection){.client = &client, .fd = fd};
#define O(target, name, text) sonde_config.redis.name = SONDE_NO_OFFSET;
    SONDE_OFFSETS_redis(O)
#undef O
        sonde_config.redis.conn_fd = offsetof(struct connection, fd);
    sonde_config.redis.conn_private = offsetof(struct connection, client);
    sonde_config.redis.client_id = offsetof(struct client, id);
    sonde_config.redis.client_db = offsetof(struct client, db);
    sonde_config.redis.db_id = offsetof(struct db, id);
    sonde_config.redis.client_cmd = offsetof(struct client, command);
    sonde_config.redis.command_name = offsetof(struct command, name);
    sonde_config.redis.command_flags = offsetof(struct command, flags);
    sonde_config.redis.client_querybuf = offsetof(struct client, query_buffer);
    sonde_config.redis.client_argc = offsetof(struct client, count);
    sonde_config.redis.client_argv_bytes = offsetof(struct client, bytes);
    shared_page.fields_dropped = shared_page.fields_found = 0;
    probe_again_redis();
    redis_checks_left = 100;
    return fd < 0;
}

static void right_offsets_pass(void **state)
{
    for (int i = 0; i < 10; i++) {
        assert_ptr_equal(redis_check_client(&connection, &client), &client);
        redis_check_command(&client);
    }
    assert_int_equal(shared_page.fields_dropped, 0);
    assert_int_equal(shared_page.fields_found, 1u << SONDE_OFFSET_redis_client_conn);
    assert_int_equal(sonde_config.redis.client_conn, offsetof(struct client, connection));
    assert_int_equal(redis_checks_left, 80);
}

/* The named field points somewhere else: it alone is dropped, and nothing crashes. */
#define WRONG(field, offset)                                                            \
    do {                                                                                \
        set_up(state);                                                                  \
        sonde_config.redis.field = (offset);                                            \
        redis_check_client(&connection, &client);                                       \
        redis_check_command(&client);                                                   \
        assert_int_equal(shared_page.fields_dropped, 1u << SONDE_OFFSET_redis_##field); \
        assert_int_equal(sonde_config.redis.field, SONDE_NO_OFFSET);                    \
    } while (0)

static void wrong_offsets_are_dropped(void **state)
{
    WRONG(conn_fd, 0);
    WRONG(client_id, offsetof(struct client, garbage));
    WRONG(client_db, offsetof(struct client, garbage));
    WRONG(client_cmd, offsetof(struct client, garbage));
    WRONG(command_name, offsetof(struct command, flags));
    WRONG(client_querybuf, offsetof(struct client, garbage));
    WRONG(client_argc, offsetof(struct client, garbage));
    WRONG(client_argv_bytes, offsetof(struct client, garbage));
    get.flags = 1; /* "get" that writes: the flags are something else */
    WRONG(command_flags, offsetof(struct command, flags));
    get.flags = 2;
}

/* What is zero in all clients of the first calls may be anything: its flags, which are a pointer to nowhere
 * as soon as one of them subscribes. */
static void a_query_buffer_is_believed_once_it_was_seen(void **state)
{
    client.garbage = 0;
    sonde_config.redis.client_querybuf = offsetof(struct client, garbage);
    for (int i = 0; i < 50; i++) {
        redis_check_client(&connection, &client);
        redis_check_command(&client);
        assert_int_equal(redis_query_buffer, SONDE_NO_OFFSET);
    }
    assert_int_equal(shared_page.fields_dropped, 0);
    redis_know_fields();
    assert_int_equal(shared_page.fields_dropped, 1u << SONDE_OFFSET_redis_client_querybuf);
    set_up(state);
    for (int i = 0; i < 10; i++)
        redis_check_command(&client);
    assert_int_equal(redis_query_buffer, offsetof(struct client, query_buffer));
    static const char unended[] = "\x10get"; /* of length 2 */
    client.query_buffer = unended + 1;
    redis_check_command(&client);
    assert_int_equal(redis_query_buffer, SONDE_NO_OFFSET);
    assert_int_equal(shared_page.fields_dropped, 1u << SONDE_OFFSET_redis_client_querybuf);
}

/* Of each kind: its length, its room, its type, and itself. */
static void a_query_buffer_may_be_long(void **state)
{
    static char small[] = "\x03\x08\x01get", middle[] = "\x03\x00\x08\x00\x02get",
                large[] = "\x03\x00\x00\x00\x08\x00\x00\x00\x03get",
                fuller[] = "\x09\x08\x01get\0\0\0\0\0\0\0";
    const char *const good[] = {small + 3, middle + 5, large + 9};
    for (size_t i = 0; i < 3; i++) {
        set_up(state);
        client.query_buffer = good[i];
        for (int n = 0; n < 10; n++)
            redis_check_command(&client);
        assert_int_equal(redis_query_buffer, offsetof(struct client, query_buffer));
    }
    client.query_buffer = fuller + 3; /* longer than its room */
    redis_check_command(&client);
    assert_int_equal(redis_query_buffer, SONDE_NO_OFFSET);
}

static void a_client_that_does_not_point_back_is_not_believed(void **state)
{
    sonde_config.redis.client_conn = offsetof(struct client, db);
    assert_null(redis_check_client(&connection, &client));
    assert_true(shared_page.fields_dropped & 1u << SONDE_OFFSET_redis_conn_private);
    set_up(state);
    client.connection = NULL;
    assert_null(redis_check_client(&connection, &client));
    set_up(state);
    assert_null(redis_check_client(&connection, (const void *)(uintptr_t)0x4141414141414140));
}

static void names_of_commands_are_c_strings_before_7(void **state)
{
    static char plain[64] = "xyget";
    assert_false(redis_plain_names);
    get.name = plain + 2;
    redis_check_client(&connection, &client);
    redis_check_command(&client);
    assert_int_equal(shared_page.fields_dropped, 0);
    assert_true(redis_plain_names);
    plain[3] = '\1'; /* no name */
    redis_check_command(&client);
    assert_int_equal(shared_page.fields_dropped, 1u << SONDE_OFFSET_redis_command_name);
    get.name = sds + 1;
}

static void a_connections_client_is_found_where_both_point_at_each_other(void **state)
{
    sonde_config.redis.conn_private = SONDE_NO_OFFSET;
    assert_ptr_equal(redis_check_client(&connection, NULL), &client);
    assert_int_equal(sonde_config.redis.conn_private, offsetof(struct connection, client));
    assert_int_equal(sonde_config.redis.client_conn, offsetof(struct client, connection));
    set_up(state);
    sonde_config.redis.conn_private = SONDE_NO_OFFSET;
    *(void **)(connection.rest + 4) = &client; /* two places: which one cannot be known */
    assert_null(redis_check_client(&connection, NULL));
    set_up(state);
    sonde_config.redis.conn_private = SONDE_NO_OFFSET;
    client.connection = NULL;
    assert_null(redis_check_client(&connection, NULL));
    assert_int_equal(sonde_config.redis.conn_private, SONDE_NO_OFFSET);
}

static void what_a_copied_function_is_called_with_must_be_a_client(void **state)
{
    assert_false(redis_is_client(&client)); /* nothing is known yet */
    redis_check_client(&connection, &client);
    for (int i = 0; i < 10; i++)
        assert_true(redis_is_client(&client));
    assert_false(redis_is_client(&db));
    assert_false(redis_is_client((const void *)(uintptr_t)0x4141414141414140));
}

/* Fields are read without asking only when the checks are over and all are known; sonde that comes again
 * brings offsets again. */
static void fields_are_trusted_after_the_checks(void **state)
{
    redis_know_fields();
    assert_false(redis_fields_known);
    for (redis_checks_left = 2; redis_checks_left;)
        redis_check_client(&connection, &client);
    redis_check_client(&connection, &client); /* one that another thread had begun */
    assert_int_equal(redis_checks_left, 0);
    redis_know_fields();
    assert_true(redis_fields_known);
    sonde_config.redis.client_db = offsetof(struct client, garbage);
    probe_again_redis();
    assert_false(redis_fields_known);
    assert_true(redis_checks_left > 0);
    redis_check_command(&client);
    assert_int_equal(sonde_config.redis.client_db, SONDE_NO_OFFSET);
    redis_checks_left = 0;
    redis_know_fields();
    assert_false(redis_fields_known);
}

static void a_bus_links_buffer_is_found_by_its_message(void **state)
{
    static const unsigned char MESSAGE[] = "RCmb\0\0\0\x10";
    struct {
        uint64_t time, garbage;
        const void *other;
        const unsigned char *received;
        char rest[64];
    } link = {1, 0x4141414141414141, sds, MESSAGE, {0}};
    redis_find_receive_buffer(&link);
    assert_int_equal(sonde_config.redis.link_rcvbuf, 24);
    assert_int_equal(shared_page.fields_found, 1u << SONDE_OFFSET_redis_link_rcvbuf);
}

/* A loop like Redis': what is watched by descriptor, what is ready, timers. */
static struct {
    int mask, unused;
    const void *handlers[3];
} watched[16];
static struct redis_fired ready[16];
static struct {
    long long id;
    const void *next;
} timer;
static struct {
    int greatest, size;
    long long next_timer;
    const void *watched, *ready, *timers;
    int stop;
    const void *rest[8];
} event_loop;

static void set_up_loop(int timer_id)
{
    event_loop =
        (typeof(event_loop)){.greatest = 9, .size = 16, .watched = watched, .ready = ready, .timers = &timer};
    event_loop.rest[7] = (const void *)(uintptr_t)0x4141414141414140;
    timer.id = timer_id;
    for (int i = 0; i < 16; i++)
        watched[i].mask = 1;
    probe_again_redis();
    shared_page.fields_found = 0;
}

/* The clients of these descriptors are read, one after the other. */
static void read_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        ready[i] = (struct redis_fired){.fd = fds[i], .mask = 1};
    for (unsigned i = 0; i < count; i++)
        redis_find_fired(&event_loop, i, fds[i]);
}

static void what_is_ready_is_found_in_the_loop_by_many_reads(void **state)
{
    static const int FDS[] = {8, 7, 11};
    set_up_loop(1);
    for (int i = 0; i < 5; i++)
        read_all(FDS, ARRAY_SIZE(FDS));
    assert_int_equal(sonde_config.redis.loop_fired, SONDE_NO_OFFSET);
    ready[0] = (struct redis_fired){.fd = 5, .mask = 1}; /* not a client, which comes second */
    ready[1] = (struct redis_fired){.fd = 8, .mask = 1};
    redis_find_fired(&event_loop, 0, 8);
    assert_int_equal(sonde_config.redis.loop_fired, SONDE_NO_OFFSET);
    read_all(FDS, 1);
    assert_int_equal(sonde_config.redis.loop_fired, offsetof(typeof(event_loop), ready));
    assert_int_equal(shared_page.fields_found, 1u << SONDE_OFFSET_redis_loop_fired);
}

/* A timer has the number of the only client's descriptor, and another field looks readable. */
static void a_field_that_agrees_by_chance_is_told_apart(void **state)
{
    static const int ONLY[] = {8}, OTHER[] = {9};
    set_up_loop(8);
    timer.next = NULL;
    timer.id |= 1ll << 32;
    for (int i = 0; i < 40; i++)
        read_all(ONLY, 1);
    assert_int_equal(sonde_config.redis.loop_fired, SONDE_NO_OFFSET);
    read_all(OTHER, 1);
    assert_int_equal(sonde_config.redis.loop_fired, offsetof(typeof(event_loop), ready));
}

/* No loop like that: reads of 100 clients, nothing is believed, nothing crashes. */
static void a_loop_without_such_a_field_is_left_alone(void **state)
{
    set_up_loop(1);
    event_loop.ready = (const void *)(uintptr_t)0x4141414141414140;
    for (int i = 0; i < 100; i++)
        redis_find_fired(&event_loop, (uint32_t)i % 3, 8 + i % 3);
    redis_find_fired((const void *)(uintptr_t)0x4141414141414140, 0, 8);
    assert_int_equal(sonde_config.redis.loop_fired, SONDE_NO_OFFSET);
    assert_int_equal(shared_page.fields_found, 0);
}

int main(void)
{
    make_thread(4096);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(right_offsets_pass, set_up),
        cmocka_unit_test_setup(wrong_offsets_are_dropped, set_up),
        cmocka_unit_test_setup(a_query_buffer_is_believed_once_it_was_seen, set_up),
        cmocka_unit_test_setup(a_query_buffer_may_be_long, set_up),
        cmocka_unit_test_setup(a_client_that_does_not_point_back_is_not_believed, set_up),
        cmocka_unit_test_setup(names_of_commands_are_c_strings_before_7, set_up),
        cmocka_unit_test_setup(a_connections_client_is_found_where_both_point_at_each_other, set_up),
        cmocka_unit_test_setup(what_a_copied_function_is_called_with_must_be_a_client, set_up),
        cmocka_unit_test_setup(fields_are_trusted_after_the_checks, set_up),
        cmocka_unit_test_setup(a_bus_links_buffer_is_found_by_its_message, set_up),
        cmocka_unit_test_setup(what_is_ready_is_found_in_the_loop_by_many_reads, set_up),
        cmocka_unit_test_setup(a_field_that_agrees_by_chance_is_told_apart, set_up),
        cmocka_unit_test_setup(a_loop_without_such_a_field_is_left_alone, set_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
