/* SPDX-License-Identifier: Apache-2.0 */
#include "http/guard.h"
#include "base/macro.h"
#include "test.h"

static const char *const NAMES[] = {"sonde.example", NULL};
static const struct http_guard LOOPBACK = {.address = "127.0.0.1"};
static const struct http_guard EVERYWHERE = {.address = "0.0.0.0", .any_address = true, .names = NAMES};

static enum http_verdict host(const struct http_guard *guard, const char *text)
{
    const struct http_asker asker = {.host = text, .origin = "", .fetch_site = "", .fetch_mode = ""};
    return http_guard_check(guard, &asker);
}

static enum http_verdict origin(const char *text, bool open)
{
    const struct http_asker asker = {
        .host = "127.0.0.1:4318", .origin = text, .fetch_site = "", .fetch_mode = "", .open = open};
    return http_guard_check(&LOOPBACK, &asker);
}

static enum http_verdict fetch(const char *site, const char *mode)
{
    const struct http_asker asker = {
        .host = "localhost:4318", .origin = "", .fetch_site = site, .fetch_mode = mode};
    return http_guard_check(&LOOPBACK, &asker);
}

static void hosts(void **state)
{
    static const char *const OURS[] = {"127.0.0.1:4318", "127.0.0.1", "localhost:9000", "LOCALHOST",
                                       "[::1]:4318",     "[::1]",     "127.0.0.2:1",    "localhost:"};
    static const char *const FOREIGN[] = {"",
                                          "evil.example",
                                          "evil.example:4318",
                                          "localhost.evil.example",
                                          "127.0.0.1.evil.example",
                                          "127.1",
                                          "2130706433",
                                          "10.0.0.1",
                                          "[fe80::1]",
                                          "[::1",
                                          "[::1]x",
                                          ":4318",
                                          "localhost:123456",
                                          "localhost:1x",
                                          "a@localhost",
                                          "localhost ",
                                          "localhost.",
                                          "[]"};
    for (size_t i = 0; i < ARRAY_SIZE(OURS); i++)
        assert_int_equal(host(&LOOPBACK, OURS[i]), HTTP_ALLOWED);
    for (size_t i = 0; i < ARRAY_SIZE(FOREIGN); i++)
        if (host(&LOOPBACK, FOREIGN[i]) != HTTP_FOREIGN_HOST)
            fail_msg("'%s' is answered", FOREIGN[i]);
}

static void addresses_and_configured_names(void **state)
{
    assert_int_equal(host(&EVERYWHERE, "10.0.0.1:4318"), HTTP_ALLOWED);
    assert_int_equal(host(&EVERYWHERE, "[fe80::1]:4318"), HTTP_ALLOWED);
    assert_int_equal(host(&EVERYWHERE, "Sonde.Example:4318"), HTTP_ALLOWED);
    assert_int_equal(host(&EVERYWHERE, "evil.example"), HTTP_FOREIGN_HOST);
    const struct http_guard one = {.address = "10.0.0.1"};
    assert_int_equal(host(&one, "10.0.0.1:80"), HTTP_ALLOWED);
    assert_int_equal(host(&one, "10.0.0.2:80"), HTTP_FOREIGN_HOST);
}

static void origins(void **state)
{
    assert_int_equal(origin("http://127.0.0.1:4318", false), HTTP_ALLOWED);
    assert_int_equal(origin("https://127.0.0.1:4318", false), HTTP_ALLOWED);
    static const char *const FOREIGN[] = {"http://evil.example",
                                          "null",
                                          "http://127.0.0.1:9999",
                                          "http://localhost:4318",
                                          "file://",
                                          "vscode-webview://abc",
                                          "http://127.0.0.1:4318.evil.example"};
    for (size_t i = 0; i < ARRAY_SIZE(FOREIGN); i++)
        assert_int_equal(origin(FOREIGN[i], false), HTTP_FOREIGN_ORIGIN);
    assert_int_equal(origin("http://localhost:3000", true), HTTP_ALLOWED);
    assert_int_equal(origin("vscode-webview://abc", true), HTTP_ALLOWED);
    assert_int_equal(origin("null", true), HTTP_FOREIGN_ORIGIN);
    assert_int_equal(origin("http://localhost.evil.example", true), HTTP_FOREIGN_ORIGIN);
    assert_int_equal(origin("http://evil.example", true), HTTP_FOREIGN_ORIGIN);
}

static void parts_of_other_sites(void **state)
{
    assert_int_equal(fetch("cross-site", "no-cors"), HTTP_FOREIGN_ORIGIN);
    assert_int_equal(fetch("same-site", "no-cors"), HTTP_FOREIGN_ORIGIN);
    assert_int_equal(fetch("cross-site", "navigate"), HTTP_ALLOWED);
    assert_int_equal(fetch("same-origin", "cors"), HTTP_ALLOWED);
    assert_int_equal(fetch("none", "navigate"), HTTP_ALLOWED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hosts),
                                       cmocka_unit_test(addresses_and_configured_names),
                                       cmocka_unit_test(origins), cmocka_unit_test(parts_of_other_sites)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
