/* Headers of HTTP/1, at every place of the 16 bytes that are looked at together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/headers.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

/* In memory that ends where the text does, so that reading on is seen. */
static struct headers read_text(const char *text)
{
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    struct headers headers;
    headers_read(copy, n, &headers);
    free(copy);
    return headers;
}

static void what_is_said(void **state)
{
    (void)state;
    char text[256];
    for (int shift = 0; shift < 40; shift++) {
        snprintf(text, sizeof(text),
                 "HTTP/1.1 200 %.*s\r\nDate: x\r\nCONTENT-Length:  1234\r\nc: 5\r\n\r\nbody\n\r", shift,
                 "0123456789012345678901234567890123456789");
        struct headers h = read_text(text);
        assert_int_equal(h.content_length, 1234);
        assert_int_equal(h.bytes, strlen(text) - 6);
        assert_false(h.chunked || h.websocket);
        snprintf(text, sizeof(text),
                 "HTTP/1.1 101 %.*s\r\nUpgrade: WebSocket\r\nTransfer-Encoding: chunked\r\n\r\n", shift,
                 "0123456789012345678901234567890123456789");
        h = read_text(text);
        assert_true(h.chunked && h.websocket);
        assert_int_equal(h.content_length, -1);
        assert_int_equal(h.bytes, strlen(text));
    }
}

static void what_is_not_said(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"",
                                        "\n",
                                        "\n\n",
                                        "H",
                                        "HTTP/1.1 200 OK\r\n",
                                        "HTTP/1.1 200 OK\r\nContent-Length",
                                        "HTTP/1.1 200 OK\r\nContent-Lengths: 7\r\nx: content-length: 8\r\n",
                                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nUpgrade: h2c\r\n"};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        struct headers h = read_text(TEXTS[i]);
        assert_true(h.content_length == -1 && !h.bytes && !h.chunked && !h.websocket);
    }
}

/* What stands behind the empty line is the body's. */
static void bodies_are_not_read(void **state)
{
    (void)state;
    struct headers h =
        read_text("HTTP/1.1 200 OK\r\n\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    assert_int_equal(h.content_length, -1);
    assert_int_equal(h.bytes, 19);
    assert_false(h.chunked);
}

/* Wherever lines end, and wherever what is read ends. */
static void at_any_place(void **state)
{
    for (int pad = 0; pad < 70; pad++) {
        char text[256];
        int line = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nX: %.*s\r\nContent-Length: 42\r\n", pad,
                            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        int head = line + snprintf(text + line, sizeof(text) - (size_t)line, "\r\n");
        int length =
            head + snprintf(text + head, sizeof(text) - (size_t)head, "\nupgrade: websocket\r\n\r\n");
        for (int n = line; n <= length; n++) {
            char *exact = test_malloc((size_t)n); /* nothing behind it is read */
            memcpy(exact, text, (size_t)n);
            struct headers h;
            headers_read(exact, (uint64_t)n, &h);
            assert_int_equal(h.content_length, 42);
            assert_int_equal(h.bytes, n > line ? head : 0);
            assert_false(h.websocket);
            test_free(exact);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said),
        cmocka_unit_test(what_is_not_said),
        cmocka_unit_test(bodies_are_not_read),
        cmocka_unit_test(at_any_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
