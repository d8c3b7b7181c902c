/* What servers are told by their arguments. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/arguments.h"

#include <stdlib.h>

#include "test.h"

static const char *said(const char *line, size_t length)
{
    static const char *const OPTIONS[] = {"-p", "--port", NULL};
    return argument_value(line, length, OPTIONS);
}

#define SAID(line) said(line, sizeof(line))

static void the_last_one_counts(void **state)
{
    assert_string_equal(SAID("memcached\0-t\0002\0-p\00011311"), "11311");
    assert_string_equal(SAID("memcached\0-p11311"), "11311");
    assert_string_equal(SAID("memcached\0--port=11311\0-v"), "11311");
    assert_string_equal(SAID("redis-server\0--port\00070000\0--PORT\000700"), "700");
    assert_null(SAID("memcached\0-P\0pidfile\0--portable"));
    assert_null(said("memcached\0-p", sizeof("memcached\0-p")));
    assert_null(said("", 0));
    assert_null(said(NULL, 0));
}

static void numbers_of_ports(void **state)
{
    assert_int_equal(argument_port("11311"), 11311);
    assert_int_equal(argument_port("0"), 0);
    assert_int_equal(argument_port("70000"), -1);
    assert_int_equal(argument_port("11x"), -1);
    assert_int_equal(argument_port("-1"), -1);
    assert_int_equal(argument_port(""), -1);
    assert_int_equal(argument_port("99999999999999999999999"), -1);
    assert_int_equal(argument_port(NULL), -1);
}

static void assert_called(const char *expected, int port, const char *path)
{
    char *name = argument_service("redis", port, path, 6379);
    assert_string_equal(name, expected);
    free(name);
}

static void what_it_is_called(void **state)
{
    assert_called("redis:6380", 6380, "/run/redis.sock");
    assert_called("redis:/run/redis.sock", 0, "/run/redis.sock");
    assert_called("redis:/run/redis.sock", -1, "/run/redis.sock");
    assert_called("redis:6379", -1, NULL);
    assert_called("redis:6379", 0, "");
    assert_called("redis:x.sock", 0, "/a/folder/whose/name/takes/more/than/a/name/may/take/x.sock");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_one_counts),
                                       cmocka_unit_test(numbers_of_ports),
                                       cmocka_unit_test(what_it_is_called)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
