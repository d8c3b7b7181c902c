/* The process that asks debuginfod servers for one that may not. That it brings a file:
 * tests/system/profile-symbols. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/fetcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/protocol.h"
#include "socket_of.h"
#include "test.h"

static int say(const char *bytes, size_t length)
{
    struct broker_head head = {.verb = BROKER_QUESTION};
    int fd = -1;
    if (broker_send(socket_of_last(), head, bytes, length, -1) < 0 ||
        broker_receive(socket_of_last(), &head, NULL, 0, &fd) < 0)
        return -EPIPE;
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? fd : head.result;
}

static void without_servers_there_is_none(void **state)
{
    unsetenv("DEBUGINFOD_URLS");
    assert_int_equal(fetcher_start(NULL), 0);
    setenv("DEBUGINFOD_URLS", "", 1);
    assert_int_equal(fetcher_start(NULL), 0);
    assert_int_equal(socket_of_last(), -1);
}

static void only_a_build_id_is_a_question(void **state)
{
    char folder[TEST_PATH], command[TEST_PATH + 16], longest[300];
    assert_non_null(mkdtemp(test_path(folder)));
    setenv("DEBUGINFOD_CACHE_PATH", folder, 1);
    setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1); /* nobody is there */
    assert_int_equal(fetcher_start(NULL), 0);
    assert_int_equal(say("../../etc/passwd", 17), -EPERM);
    assert_int_equal(say("0123abcd", 8), -EPERM); /* without its end */
    assert_int_equal(say("", 1), -EPERM);
    assert_int_equal(say(NULL, 0), -EPERM);
    assert_int_equal(say("0123ABCD", 9), -EPERM);
    assert_int_equal(say("0123abcd", 9), -ENOENT);
    memset(longest, 'a', sizeof(longest)); /* longer than any: it ends, and with it what asks so */
    assert_true(say(longest, sizeof(longest)) < 0);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_servers_there_is_none),
                                       cmocka_unit_test(only_a_build_id_is_a_question)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
