/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_in_test.h"

#include "probe/websocket.h"

enum { SERVER_IN = 0x80 };

/* A frame as RFC 6455 lays it out; returns its bytes. */
static size_t add_frame(char *to, uint8_t first, bool masked, uint64_t payload)
{
    size_t n = 0;
    int bytes = payload < 126 ? 0 : payload < 65536 ? 2 : 8;
    to[n++] = (char)first;
    to[n++] = (char)((masked ? 0x80 : 0) | (bytes == 0 ? (int)payload : bytes == 2 ? 126 : 127));
    for (int i = bytes - 1; i >= 0; i--)
        to[n++] = (char)(payload >> (8 * i));
    for (int i = 0; masked && i < 4; i++)
        to[n++] = (char)(i * 77);
    memset(to + n, 0x81, payload); /* looks like frames */
    return n + payload;
}

static void messages_are_counted_however_their_bytes_come(void **state)
{
    static char bytes[400000];
    const uint64_t sizes[] = {0, 1, 125, 126, 65535, 65536, 7};
    size_t length = 0, seed = 1;
    uint64_t payload = 0;
    for (size_t i = 0; i < 7; i++) {
        length += add_frame(bytes + length, 0x82, true, sizes[i]);
        length += add_frame(bytes + length, 0x89, true, 5); /* a ping is no message */
        payload += sizes[i];
    }
    length += add_frame(bytes + length, 0x01, true, 10); /* a message in two frames with a pong between */
    length += add_frame(bytes + length, 0x8a, true, 0);
    length += add_frame(bytes + length, 0x80, true, 20);
    for (int round = 0; round < 50; round++) {
        struct websocket w = {.masked = SERVER_IN};
        struct websocket_seen sum = {0};
        for (size_t at = 0; at < length;) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            size_t piece = 1 + (seed >> 33) % (round % 2 ? 9 : 30000);
            piece = piece < length - at ? piece : length - at;
            struct websocket_seen seen = {0};
            websocket_bytes(&w, bytes + at, piece, &seen);
            if (seen.messages)
                assert_int_equal(seen.first, sum.messages + 1);
            sum.messages += seen.messages;
            sum.bytes += seen.bytes;
            at += piece;
        }
        assert_false(w.lost);
        assert_int_equal(sum.messages, 8);
        assert_int_equal(sum.bytes, payload + 30);
    }
}

static void what_is_no_frame_ends_it(void **state)
{
    const char *const not_frames[] = {"GET / HTTP/1.1\r\n", "\x82\x01x", "\x83\x81mmmm.",
                                      "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xffmmmmpayload"};
    for (size_t i = 0; i < 4; i++) {
        struct websocket w = {.masked = SERVER_IN};
        struct websocket_seen seen = {0};
        char more[64] = {0};
        add_frame(more, 0x82, true, 3);
        websocket_bytes(&w, not_frames[i], strlen(not_frames[i]), &seen);
        websocket_bytes(&w, more, 9, &seen);
        assert_true(w.lost);
        assert_int_equal(seen.messages, 0);
        assert_int_equal(seen.bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_counted_however_their_bytes_come),
        cmocka_unit_test(what_is_no_frame_ends_it),
    };
    struct probe_thread *thread = make_thread(4096); /* nothing is recorded */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(thread);
    return failed;
}
